/**
 * A client of a Remory service, for Node 20 or newer and for browsers, without dependencies.
 *
 * Options are written in camelCase, times in options are milliseconds unless their name says seconds. Answers are the
 * service's JSON with its own field names; what a method takes out of it, it says. Integers beyond 2^53 in an answer
 * lose their last digits, as everywhere in JavaScript. Every method takes `signal`, whose abort hangs up and rejects
 * with the signal's reason, and `timeout`; every other failure is a RemoryError. No request is ever repeated, except by
 * `waitReady`, `Scope.update`, `ChangeFeed` and `Lease.hold`.
 *
 * @typedef {{signal?: AbortSignal, timeout?: number}} RequestOptions
 * @typedef {ArrayLike<number>} Numbers an array or a typed array
 * @typedef {"user_created" | "user_requested" | "completed_discussion" | "made_decision" | "solved_problem" |
 *   "natural_break" | "topic_change" | "autosave"} Reason
 * @typedef {{role: string, text?: string, parts?: object[], metadata?: object, files?: object[]}} Message
 */

export const DEFAULT_URL = "http://127.0.0.1:8421";
const DEFAULT_TIMEOUT = 300_000;
const LONGEST_TIMER = 2 ** 31 - 1;
const LARGEST_PAGE = 1_000;
const POLL = 250;
const FIRST_WAIT = 100;
const LONGEST_WAIT = 5_000;
const UPDATE_ATTEMPTS = 30;
const FIRST_UPDATE_WAIT = 5;
const LONGEST_UPDATE_WAIT = 500;
// A renewal that fails has two thirds of the lease left to be tried again.
const RENEWALS_PER_TTL = 3;
const SHORTEST_RENEWAL_TIMEOUT = 1_000;

/**
 * The service answered with an error, or not at all.
 *
 * `status`: HTTP status, null without an answer. `code`: the service's name for this kind of error, null where a group
 * of routes has none. `detail`: the service's own words, or a list of places in a body that does not fit. `fields`:
 * what it says beside code and message. `requestId`: what the service's log has for this request, or null.
 */
export class RemoryError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number | null, code?: string | null, detail?: any, requestId?: string | null,
   *   fields?: Record<string, any>, cause?: any}} [more]
   */
  constructor(message, { status = null, code = null, detail = null, requestId = null, fields = {}, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.requestId = requestId;
    this.fields = fields;
  }
}

/** No answer came. The request may still have taken effect if it had been sent. */
export class ConnectionFailed extends RemoryError {}

/** 400, 413, 422, or (`status` null) seen before sending: the request cannot be used. Nothing was changed. */
export class InvalidRequest extends RemoryError {}

/** 401: the key is missing, unknown or revoked. */
export class Unauthorized extends RemoryError {}

/** 403: who asks is known and may not do this. `code` tells a lease that is lacking or over. */
export class Forbidden extends Unauthorized {}

/** 404: no such thing for this caller, or no such route. */
export class NotFound extends RemoryError {}

/** 409: the entry is not at the expected revision. `revision`: the live one, 0 when none lives. */
export class RevisionConflict extends RemoryError {
  /** @returns {number} */
  get revision() {
    return this.fields.revision;
  }
}

/** 409: changes after this cursor were pruned. `oldestSequence`: the oldest change that is still there. */
export class CursorExpired extends RemoryError {
  /** @returns {number} */
  get oldestSequence() {
    return this.fields.oldest_sequence;
  }
}

/** 503: starting, stopping or too busy. `retryAfter`: seconds, or null. */
export class ServerBusy extends RemoryError {
  /** @type {number | null} */
  retryAfter = null;
}

/** Any other 5xx: a model (502) or the service failed. What was stored is as it was. */
export class ServerFailed extends RemoryError {}

const ERRORS = {
  RemoryError,
  ConnectionFailed,
  InvalidRequest,
  Unauthorized,
  Forbidden,
  NotFound,
  RevisionConflict,
  CursorExpired,
  ServerBusy,
  ServerFailed,
};
// As text, because a minifier changes the names of classes.
for (const [name, kind] of Object.entries(ERRORS)) {
  Object.defineProperty(kind.prototype, "name", { value: name, configurable: true, writable: true });
}

const BY_CODE = new Map([
  ["revision_conflict", RevisionConflict],
  ["cursor_expired", CursorExpired],
]);
const BY_STATUS = new Map([
  [400, InvalidRequest],
  [401, Unauthorized],
  [403, Forbidden],
  [404, NotFound],
  [413, InvalidRequest],
  [422, InvalidRequest],
  [503, ServerBusy],
]);

/** Talks to one Remory service. */
export class Client {
  #headers;
  #timeout;

  /**
   * @param {string} [url] without a path of its own unless a proxy adds one
   * @param {object} [options]
   * @param {string} [options.session] groups handles; needed for everything that makes or uses one
   * @param {string} [options.key] an API key
   * @param {string} [options.user] who asks, on a server without keys
   * @param {number} [options.timeout] how long to wait for the next bytes of an answer. A long generation needs a long
   *   one unless it is streamed; Node's fetch itself never waits longer than 300,000 ms.
   */
  constructor(url = DEFAULT_URL, { session, key, user, timeout = DEFAULT_TIMEOUT } = {}) {
    this.url = String(url).replace(/\/+$/, "");
    this.session = session ?? null;
    this.#timeout = checkedTimeout(timeout);
    this.#headers = new Headers({ Accept: "application/json" });
    this.#setHeader("session", "X-Remory-Session", session);
    this.#setHeader("key", "Authorization", key ? `Bearer ${key}` : undefined);
    this.#setHeader("user", "X-Remory-User", user);
    this.chats = new Chats(this);
    this.notes = new Notes(this);
  }

  #setHeader(option, name, value) {
    if (!value) return;
    try {
      this.#headers.set(name, value);
    } catch {
      // The platform's own error shows the value, and this may be a key.
      throw new InvalidRequest(`${option} has characters that an HTTP header cannot carry`);
    }
  }

  /**
   * `POST /generate`: SGLang's answer, {text, output_ids, meta_info}; a list of them for a list.
   *
   * With `handle`, `inputIds` are only the tokens after the memory. Other options go into the body (`returnLogprob`,
   * `rid`, …).
   * @param {string | string[] | null} text
   * @param {{inputIds?: Numbers | Numbers[], samplingParams?: object, handle?: string, recall?: object} & RequestOptions} [options]
   *   `samplingParams` and `recall` as the service names their fields: {max_new_tokens, temperature, …}
   */
  async generate(text, options = {}) {
    const [request, body] = generation(text, options);
    return this.call("POST", "/generate", body, request);
  }

  /**
   * `POST /generate` with `stream: true`: the events, as `generate` answers them, text and ids cumulative. Leaving the
   * loop hangs up, which stops the generation on the server.
   * @param {string | null} text
   * @param {{inputIds?: Numbers, samplingParams?: object, handle?: string} & RequestOptions} [options]
   */
  async *stream(text, options = {}) {
    const [request, body] = generation(text, options);
    const exchange = this.#begin("POST", "/generate", { ...body, stream: true }, request);
    try {
      const response = await exchange.response();
      if (!response.ok) throw httpError(response, await exchange.text(response));
      for await (const data of eventData(exchange.chunks(response))) {
        if (data === "[DONE]") return;
        yield event(data, response, this.url);
      }
      throw new ConnectionFailed(`${this.url} ended the stream before it was complete`);
    } finally {
      exchange.end();
    }
  }

  /**
   * `POST /v1/compact`: {handle, summary_ids, receipt}. Keep the history until this has resolved.
   * @param {Numbers} prefixIds
   * @param {Numbers} historyIds
   * @param {Numbers} summaryIds
   * @param {{previous?: string, branches?: string[]} & RequestOptions} [options] other options go into the body
   */
  async compact(prefixIds, historyIds, summaryIds, options = {}) {
    const [request, fields] = split(options);
    return this.call("POST", "/v1/compact", inSnakeCase({ prefixIds, historyIds, summaryIds, ...fields }), request);
  }

  /**
   * `POST /v1/compact/text`: the service renders, summarises and compacts by itself.
   *
   * For a second compaction `messages` are the prefix and what came after the removed history, `previous` and `bridge`
   * what the first answered.
   * @param {object[]} messages
   * @param {{tools?: object[], keepLast?: number, previous?: string, bridge?: object[], maxSummaryTokens?: number} &
   *   RequestOptions} [options] other options go into the body
   */
  async compactText(messages, options = {}) {
    const [request, fields] = split(options);
    return this.call("POST", "/v1/compact/text", { messages, ...inSnakeCase(fields) }, request);
  }

  /** `GET /v1/remory/info`: actor, checkpoint, tokenizer, summary contract, context length. */
  async info(options = {}) {
    return this.call("GET", "/v1/remory/info", null, options);
  }

  /** `GET /v1/memories`: a list of this session's handles with their receipts, newest first. */
  async memories(options = {}) {
    return (await this.call("GET", "/v1/memories", null, options)).memories;
  }

  /** `GET /v1/memories/{handle}`. */
  async memory(handle, options = {}) {
    return this.call("GET", `/v1/memories/${segment(handle)}`, null, options);
  }

  /** `DELETE /v1/memories/{handle}`. */
  async deleteMemory(handle, options = {}) {
    await this.call("DELETE", `/v1/memories/${segment(handle)}`, null, options);
  }

  /**
   * `POST /tokenize`: the ids of a prompt (a list of them for a list), or of messages in the chat template.
   * @param {string | string[] | null} prompt
   * @param {{messages?: object[], tools?: object[], addGenerationPrompt?: boolean, addSpecialTokens?: boolean} &
   *   RequestOptions} [options]
   */
  async tokenize(prompt, options = {}) {
    const names = ["messages", "tools", "addGenerationPrompt", "addSpecialTokens"];
    const [request, fields] = split(options, names);
    return (await this.call("POST", "/tokenize", given({ prompt, ...inSnakeCase(fields) }), request)).tokens;
  }

  /**
   * `POST /detokenize`: the text of ids, or a list of texts for a list of lists.
   * @param {Numbers | Numbers[]} tokens
   * @param {{skipSpecialTokens?: boolean} & RequestOptions} [options]
   */
  async detokenize(tokens, options = {}) {
    const [request, fields] = split({ skipSpecialTokens: true, ...options }, ["skipSpecialTokens"]);
    return (await this.call("POST", "/detokenize", { tokens, ...inSnakeCase(fields) }, request)).text;
  }

  /** `GET /health`: answers as soon as the service is alive. */
  async health(options = {}) {
    return this.call("GET", "/health", null, options);
  }

  /** `GET /ready`: resolves when the actor answers, and rejects with ServerBusy as long as it does not. */
  async ready(options = {}) {
    return this.call("GET", "/ready", null, options);
  }

  /**
   * Wait until `ready` resolves. After `timeout` ms it rejects with the last error.
   * @param {{timeout?: number, progress?: (waited: number) => void, signal?: AbortSignal}} [options] `progress` is
   *   called with the ms waited at every look, and may throw to give up
   */
  async waitReady({ timeout = 120_000, progress, signal } = {}) {
    const start = performance.now();
    for (;;) {
      try {
        await this.ready({ signal });
        return;
      } catch (error) {
        const passes = error instanceof ConnectionFailed || error instanceof ServerBusy;
        if (!passes || performance.now() - start >= timeout) throw error;
      }
      progress?.(performance.now() - start);
      await pause(POLL, signal);
    }
  }

  /**
   * The scoped memory of this service. A worker's key needs a `lease`.
   * @param {{lease?: Lease}} [options]
   */
  scoped({ lease } = {}) {
    return new ScopedMemory(this, lease ?? null);
  }

  /**
   * Any route: its JSON answer, null for an empty one. For routes that have no method here.
   * @param {string} method
   * @param {string} path
   * @param {object | null} [body]
   * @param {{headers?: Record<string, string>} & RequestOptions} [options]
   */
  async call(method, path, body = null, options = {}) {
    const [request, { headers }] = split(options, ["headers"]);
    const exchange = this.#begin(method, path, body, request, headers);
    try {
      const response = await exchange.response();
      const text = await exchange.text(response);
      if (!response.ok) throw httpError(response, text);
      return text ? parsed(text, response, this.url) : null;
    } finally {
      exchange.end();
    }
  }

  #begin(method, path, body, { signal, timeout = this.#timeout }, more = {}) {
    const headers = new Headers(this.#headers);
    for (const [name, value] of Object.entries(more)) headers.set(name, value);
    const init = { method, headers, redirect: "error" };
    if (body !== null && body !== undefined) {
      init.body = inJSON(body);
      headers.set("Content-Type", "application/json");
    }
    return new Exchange(this.url, path, init, signal, checkedTimeout(timeout));
  }
}

/** One request and what comes back, with the two ways in which it can be ended early. */
class Exchange {
  #controller = new AbortController();
  #where;
  #path;
  #init;
  #signal;
  #timeout;
  #timedOut = false;
  #abort = () => this.#controller.abort(this.#signal.reason);

  constructor(where, path, init, signal, timeout) {
    this.#where = where;
    this.#path = path;
    this.#init = { ...init, signal: this.#controller.signal };
    this.#signal = signal;
    this.#timeout = timeout;
    signal?.throwIfAborted();
    signal?.addEventListener("abort", this.#abort);
  }

  async response() {
    return this.#awaited(() => fetch(this.#where + this.#path, this.#init));
  }

  async text(response) {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of this.chunks(response)) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  }

  async *chunks(response) {
    if (response.body === null) return;
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await this.#awaited(() => reader.read());
      if (done) return;
      yield value;
    }
  }

  /** Hang up, unless everything has arrived. */
  end() {
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  async #awaited(begin) {
    const timer = this.#timeout > LONGEST_TIMER ? undefined : setTimeout(() => this.#giveUp(), this.#timeout);
    try {
      return await begin();
    } catch (error) {
      if (this.#signal?.aborted) throw this.#signal.reason;
      throw new ConnectionFailed(this.#failure(error), { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  #giveUp() {
    this.#timedOut = true;
    this.#controller.abort();
  }

  #failure(error) {
    const reason = error?.cause?.code ?? error?.code;
    if (this.#timedOut || /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/.test(reason)) {
      return `${this.#where} sent nothing for too long; give a longer timeout, or stream`;
    }
    if (["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(reason)) {
      return `no Remory service answers at ${this.#where}; start one with "remory serve", or give the URL of one`;
    }
    return `the connection to ${this.#where} failed: ${error?.cause?.message || error?.message || error}`;
  }
}

/**
 * Values and vectors on a Remory service, in four kinds of scopes. Made by `client.scoped()`.
 *
 *     const notes = client.scoped().session("build-7");
 *     await notes.write("goal", {text: "green build"});
 */
export class ScopedMemory {
  #client;
  #lease;

  constructor(client, lease = null) {
    this.#client = client;
    this.#lease = lease;
  }

  /** The global scope: every user of the service reads and writes it. */
  get shared() {
    return new Scope(this.#client, this.#lease, { scope: "global" });
  }

  /** A session's memory; without an id the lease's session, else the client's own. */
  session(sessionId) {
    return this.#scope("session", "session_id", sessionId ?? (this.#lease ? null : this.#client.session));
  }

  /** An actor's memory, over all its sessions; without an id the lease's actor. */
  actor(actorId) {
    return this.#scope("actor", "actor_id", actorId);
  }

  /** The memory of a workflow, named by its root; without an id the lease's workflow. */
  workflow(rootId) {
    return this.#scope("workflow", "root_id", rootId);
  }

  /** All changes that the caller may see, in every scope. Options as of `ChangeFeed`. */
  changes(options = {}) {
    return new ChangeFeed(this.#client, () => leaseContext(this.#lease), options);
  }

  /**
   * `POST /api/v2/leases`: a lease on these scopes for a worker. The key needs the role `invoke`.
   * @param {{taskId: string, stepId: string, rootId: string, sessionId: string, actorId?: string,
   *   ttlSeconds?: number} & RequestOptions} options
   */
  async lease(options) {
    const names = ["taskId", "stepId", "rootId", "sessionId", "actorId", "ttlSeconds"];
    const [request, fields] = split({ ttlSeconds: 300, ...options }, names);
    const { lease_token: token, expires_at: expiresAt } = await this.#client.call(
      "POST",
      "/api/v2/leases",
      inSnakeCase(fields),
      request,
    );
    const { taskId, stepId, ttlSeconds } = fields;
    return new Lease(this.#client, { token, taskId, stepId, ttlSeconds, expiresAt });
  }

  #scope(kind, field, name) {
    if ((name ?? null) === null && this.#lease === null) {
      const message = `the scope ${kind} needs its ${field}, or a lease that brings it`;
      throw new InvalidRequest(message, { code: "invalid_scope" });
    }
    return new Scope(this.#client, this.#lease, given({ scope: kind, [field]: name }));
  }
}

/**
 * One scope of a ScopedMemory. Keys are 1 to 512 bytes of UTF-8 without control characters.
 *
 * A value and a vector under the same key are two entries with a revision each. `expectedRevision` makes a write
 * conditional: it rejects with RevisionConflict unless the entry's live revision is this one, 0 for one that does not
 * live. Times in answers are epoch milliseconds by the server's clock.
 */
export class Scope {
  #client;
  #lease;
  #context;

  constructor(client, lease, context) {
    this.#client = client;
    this.#lease = lease;
    this.#context = context;
  }

  /** {found, value, revision}. A key that is missing, deleted or expired: found false, value null, revision 0. */
  async read(key, options = {}) {
    return this.#post("read", { key }, options);
  }

  /**
   * Set any JSON value of at most 1 MiB: {revision, expires_at}. Without `ttlSeconds` it stays.
   * @param {string} key
   * @param {any} value
   * @param {{ttlSeconds?: number, expectedRevision?: number} & RequestOptions} [options]
   */
  async write(key, value, options = {}) {
    return this.#post("write", { key, value }, options, ["ttlSeconds", "expectedRevision"]);
  }

  /**
   * False when there was nothing to delete.
   * @param {string} key
   * @param {{expectedRevision?: number} & RequestOptions} [options]
   */
  async delete(key, options = {}) {
    return (await this.#post("delete", { key }, options, ["expectedRevision"])).deleted;
  }

  /**
   * Replace a value by what `change(value)` gives without losing what others write meanwhile: {value, revision}.
   *
   * A missing key gives `initial` to the function. When somebody was faster it is called again with the value they
   * wrote, so it should do nothing but compute. After `attempts` the last RevisionConflict is the answer.
   * @param {string} key
   * @param {(value: any) => any} change
   * @param {{initial?: any, ttlSeconds?: number, attempts?: number} & RequestOptions} [options]
   */
  async update(key, change, { initial = null, attempts = UPDATE_ATTEMPTS, ttlSeconds, ...request } = {}) {
    for (let attempt = 1; ; attempt++) {
      const before = await this.read(key, request);
      const value = await change(before.found ? before.value : initial);
      try {
        const options = { ...request, ttlSeconds, expectedRevision: before.revision };
        return { value, revision: (await this.write(key, value, options)).revision };
      } catch (error) {
        if (!(error instanceof RevisionConflict) || attempt >= attempts) throw error;
      }
      // Those who met once should not come back at the same moment.
      const longest = Math.min(LONGEST_UPDATE_WAIT, FIRST_UPDATE_WAIT * 2 ** (attempt - 1));
      await pause(Math.random() * longest, request.signal);
    }
  }

  /**
   * All live keys of a kind in ascending order of their UTF-8 bytes: {key, revision, updated_at} with `expires_at` for
   * values, `dimension` for vectors. Asks for a page when the one before is used up.
   * @param {{kind?: "value" | "vector", prefix?: string, pageSize?: number} & RequestOptions} [options]
   */
  async *list({ kind = "value", prefix, pageSize: limit = 1000, ...request } = {}) {
    let cursor;
    do {
      const page = await this.#post("list", given({ kind, prefix, limit, cursor }), request);
      yield* page.items;
      cursor = page.next_cursor;
    } while (cursor !== null);
  }

  /**
   * Store a vector, searchable as soon as this resolves: {revision, dimension}.
   * @param {string} key
   * @param {Iterable<number>} embedding finite numbers
   * @param {{metadata?: object, expectedRevision?: number} & RequestOptions} [options]
   */
  async setVector(key, embedding, options = {}) {
    const fields = { key, embedding: numbers(embedding) };
    return this.#post("vector/set", fields, options, ["metadata", "expectedRevision"]);
  }

  /** {found, key, revision, dimension, embedding, metadata}; the last two are null for a missing key. */
  async getVector(key, options = {}) {
    return this.#post("vector/get", { key }, options);
  }

  /**
   * False when there was nothing to delete.
   * @param {string} key
   * @param {{expectedRevision?: number} & RequestOptions} [options]
   */
  async deleteVector(key, options = {}) {
    return (await this.#post("vector/delete", { key }, options, ["expectedRevision"])).deleted;
  }

  /**
   * The closest vectors by cosine among those of the query's dimension: {items, scanned, strategy, dimension}, each
   * item {key, revision, metadata, score}, by score descending.
   * @param {Iterable<number>} query
   * @param {{topK?: number, filters?: object, strategy?: "linear" | "hnsw"} & RequestOptions} [options] `filters`: what
   *   top-level metadata must equal, all of it; applied before the `topK` are chosen
   */
  async search(query, options = {}) {
    const fields = { query_embedding: numbers(query) };
    return this.#post("vector/search", fields, options, ["topK", "filters", "strategy"]);
  }

  /** The changes of this scope. Options as of `ChangeFeed`. */
  changes(options = {}) {
    return new ChangeFeed(this.#client, () => ({ ...this.#context, ...leaseContext(this.#lease) }), options);
  }

  async #post(operation, fields, options, names = []) {
    const [request, more] = split(options, names);
    const body = { ...this.#context, ...leaseContext(this.#lease), ...fields, ...inSnakeCase(more) };
    return this.#client.call("POST", `/api/v2/memory/${operation}`, body, request);
  }
}

/**
 * Changes after `cursor`, oldest first: {sequence, kind, action, scope, scope_id, key, revision, principal, created_at,
 * value, value_omitted}. Made by `changes()` of a scope or of the whole memory.
 *
 * Iterating ends when everything has been handed out, or with `follow` never; iterating again goes on from `cursor`.
 * `cursor` is the sequence of the last change handed out: keep it once that change is dealt with, and start another
 * feed from it. `oldestSequence`: the oldest change that the service still has, null before the first request.
 */
export class ChangeFeed {
  #client;
  #context;
  #options;

  /**
   * @param {Client} client
   * @param {() => object} context
   * @param {object} options
   * @param {number} [options.after] 0 for all that are kept, which are those of the last 30 days
   * @param {string} [options.prefix]
   * @param {number} [options.pageSize]
   * @param {boolean} [options.follow] wait for further changes
   * @param {number} [options.poll] how often to look for them
   * @param {number} [options.patience] how long a server that is away is asked again
   * @param {() => any} [options.resnapshot] called when the changes after the cursor are gone: read the state anew
   *   there, and the feed goes on with the oldest change there is. Without it CursorExpired is thrown.
   */
  constructor(client, context, options) {
    const names = ["after", "prefix", "pageSize", "follow", "poll", "patience", "resnapshot"];
    const [request, { after = 0, ...chosen }] = split(options, names);
    this.cursor = after;
    this.oldestSequence = null;
    this.#client = client;
    this.#context = context;
    this.#options = { pageSize: 1000, follow: false, poll: 1_000, patience: 60_000, ...chosen, request };
  }

  async *[Symbol.asyncIterator]() {
    const { follow, poll, request } = this.#options;
    for (;;) {
      const before = this.cursor;
      const page = await this.#nextPage();
      if (page === null) continue;
      for (const change of page.items) {
        this.cursor = change.sequence;
        yield change;
      }
      this.cursor = page.next_cursor;
      if (this.cursor > before) continue;
      if (!follow) return;
      await pause(poll, request.signal);
    }
  }

  /** The page after the cursor, or null when the cursor had expired and begins anew. */
  async #nextPage() {
    let page;
    try {
      page = await this.#askPatiently();
    } catch (error) {
      if (!(error instanceof CursorExpired)) throw error;
      return this.#beginAnew(error.message, error);
    }
    this.oldestSequence = page.oldest_sequence;
    if (page.next_cursor >= this.cursor) return page;
    // What was read after the backup is gone, and its numbers are given to other changes.
    const places = `the changes end at ${page.next_cursor}, before the cursor ${this.cursor}`;
    const fields = { oldest_sequence: page.oldest_sequence };
    return this.#beginAnew(`${places}: an older store was restored`, { fields });
  }

  async #beginAnew(reason, { status, detail, requestId, fields }) {
    const { resnapshot } = this.#options;
    if (resnapshot === undefined) {
      const message = `${reason}; read what you follow anew and start with after: 0, or give a resnapshot function`;
      throw new CursorExpired(message, { status, code: "cursor_expired", detail, requestId, fields });
    }
    await resnapshot();
    this.cursor = 0;
    return null;
  }

  async #askPatiently() {
    const { prefix, pageSize, patience, request } = this.#options;
    let deadline = null;
    for (let wait = FIRST_WAIT; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
      const body = { ...this.#context(), ...given({ prefix, limit: pageSize, after: this.cursor }) };
      try {
        return await this.#client.call("POST", "/api/v2/memory/changes", body, request);
      } catch (error) {
        if (!(error instanceof ConnectionFailed || error instanceof ServerBusy)) throw error;
        deadline ??= performance.now() + patience;
        if (performance.now() + wait > deadline) throw error;
      }
      await pause(wait, request.signal);
    }
  }
}

/**
 * Lends one step of a task the memory of a session, a workflow and, if given, an actor, for a limited time. Made by
 * `client.scoped().lease(…)`; a worker elsewhere takes it over with `Lease.load(client, state)`, and uses it with
 * `client.scoped({lease})`. `expiresAt` is in epoch milliseconds by the server's clock.
 */
export class Lease {
  #client;
  #token;
  // When it must be over, by this machine's clock: the server's may be another. `renew` sets it.
  #deadline = 0;

  constructor(client, { token, taskId, stepId, ttlSeconds, expiresAt }) {
    this.#client = client;
    this.#token = token;
    this.taskId = taskId;
    this.stepId = stepId;
    this.ttlSeconds = ttlSeconds;
    this.expiresAt = expiresAt;
  }

  /** The lease as JSON values, for `load` here or in Python. Holds the token: keep it as secret as a key. */
  dump() {
    return {
      token: this.#token,
      task_id: this.taskId,
      step_id: this.stepId,
      ttl_seconds: this.ttlSeconds,
      expires_at: this.expiresAt,
    };
  }

  /** Go on with a dumped lease, with the key that `client` has. */
  static load(client, { token, task_id, step_id, ttl_seconds, expires_at }) {
    const fields = { token, taskId: task_id, stepId: step_id, ttlSeconds: ttl_seconds, expiresAt: expires_at };
    return new Lease(client, fields);
  }

  /** What a request under this lease carries. */
  context() {
    return { lease_token: this.#token, task_id: this.taskId, step_id: this.stepId };
  }

  /**
   * Let it last `ttlSeconds` from now, by default as long as at first. Rejects with Forbidden when it is over.
   * @param {{ttlSeconds?: number} & RequestOptions} [options]
   */
  async renew({ ttlSeconds = this.ttlSeconds, ...options } = {}) {
    const askedAt = performance.now();
    // A server that hangs must leave time to try again.
    const timeout = Math.max((ttlSeconds * 1000) / RENEWALS_PER_TTL, SHORTEST_RENEWAL_TIMEOUT);
    const body = { ...this.context(), ttl_seconds: ttlSeconds };
    const answer = await this.#client.call("POST", "/api/v2/leases/renew", body, { timeout, ...options });
    this.#deadline = askedAt + ttlSeconds * 1000;
    this.#token = answer.lease_token;
    this.ttlSeconds = ttlSeconds;
    this.expiresAt = answer.expires_at;
  }

  /** End it now; false when it was over already. */
  async release(options = {}) {
    return (await this.#client.call("POST", "/api/v2/leases/release", this.context(), options)).released;
  }

  /**
   * Run `work(signal)` while the lease is renewed in the background, then release it; gives what `work` gives. A server
   * that is away is asked again until the lease must be over. When the lease is lost `signal` is aborted, with the
   * error as its reason; what to do then is up to `work`.
   * @template T
   * @param {(signal: AbortSignal) => T | Promise<T>} work
   * @returns {Promise<T>}
   */
  async hold(work) {
    await this.renew();
    const stop = new AbortController();
    const lost = new AbortController();
    const renewing = this.#keep(stop.signal, lost);
    try {
      return await work(lost.signal);
    } finally {
      stop.abort();
      await renewing;
      // What cannot be released ends by itself, and must not hide an error of the work.
      await this.release().catch(() => {});
    }
  }

  async #keep(stop, lost) {
    try {
      for (;;) {
        await pause((this.ttlSeconds * 1000) / RENEWALS_PER_TTL, stop);
        await this.#renewPatiently(stop);
      }
    } catch (error) {
      if (!stop.aborted) lost.abort(error);
    }
  }

  async #renewPatiently(stop) {
    for (let wait = FIRST_WAIT; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
      let left;
      try {
        return await this.renew({ signal: stop });
      } catch (error) {
        left = this.#deadline - performance.now();
        const passes = [ConnectionFailed, ServerBusy, ServerFailed].some((kind) => error instanceof kind);
        if (!passes || left <= 0) throw error;
      }
      await pause(Math.min(wait, left), stop);
    }
  }
}

/** Chats, and the memories that the service makes of their messages. Made by `client.chats`. Times are ISO-8601. */
export class Chats {
  #client;

  constructor(client) {
    this.#client = client;
  }

  /**
   * `POST /api/chats`: the new chat, or the one that the caller already has under this id.
   * @param {{id?: string, title?: string} & RequestOptions} [options]
   */
  async create(options = {}) {
    const [request, body] = split(options, ["id", "title"]);
    return this.#client.call("POST", "/api/chats", body, request);
  }

  /**
   * `GET /api/chats`: a list of the caller's chats, those that changed last first.
   * @param {{limit?: number, offset?: number} & RequestOptions} [options] `limit`: at most so many, all without it.
   *   `offset`: how many to leave out before
   */
  async list(options = {}) {
    return this.#collected("/api/chats", "inf:chat", options);
  }

  /** `GET /api/chats/{id}`. */
  async get(chatId, options = {}) {
    return this.#client.call("GET", `/api/chats/${segment(chatId)}`, null, options);
  }

  /** `DELETE /api/chats/{id}`: with its messages and memories. */
  async delete(chatId, options = {}) {
    await this.#client.call("DELETE", `/api/chats/${segment(chatId)}`, null, options);
  }

  /**
   * `POST /api/chats/{id}/messages`: the stored message, or a list of them for a list.
   * @param {string} chatId
   * @param {Message | Message[]} messages
   * @param {RequestOptions} [options]
   */
  async addMessages(chatId, messages, options = {}) {
    return this.#client.call("POST", `/api/chats/${segment(chatId)}/messages`, messages, options);
  }

  /**
   * `GET /api/chats/{id}/messages`: a list of the chat's messages, oldest first.
   * @param {string} chatId
   * @param {{limit?: number, offset?: number} & RequestOptions} [options] as for `list`
   */
  async messages(chatId, options = {}) {
    return this.#collected(`/api/chats/${segment(chatId)}/messages`, "inf:message", options);
  }

  /**
   * `PUT /api/messages/{id}`: the changed message.
   * @param {string} messageId
   * @param {Partial<Message>} changes
   * @param {RequestOptions} [options]
   */
  async updateMessage(messageId, changes, options = {}) {
    return this.#client.call("PUT", `/api/messages/${segment(messageId)}`, changes, options);
  }

  /** `DELETE /api/messages/{id}`. */
  async deleteMessage(messageId, options = {}) {
    await this.#client.call("DELETE", `/api/messages/${segment(messageId)}`, null, options);
  }

  /**
   * `POST /api/chats/{id}/memories`: let the service sum up the messages that no memory has yet; the new memory.
   * Rejects with InvalidRequest unless there are messages of both user and assistant among them.
   * @param {string} chatId
   * @param {{reason?: Reason, messageId?: string, asOf?: Date | string} & RequestOptions} [options] only messages up to
   *   and including `messageId`, or up to the time `asOf`
   */
  async remember(chatId, options = {}) {
    const [request, body] = split(options, ["reason", "messageId", "asOf"]);
    return this.#client.call("POST", `/api/chats/${segment(chatId)}/memories`, body, request);
  }

  /**
   * `GET /api/chats/{id}/memories`: a list of the chat's memories, oldest first.
   * @param {string} chatId
   * @param {{limit?: number, offset?: number} & RequestOptions} [options] as for `list`
   */
  async memories(chatId, options = {}) {
    return this.#collected(`/api/chats/${segment(chatId)}/memories`, "inf:memory", options);
  }

  /** `GET /api/memories/{id}`: the memory with its messages. */
  async memory(memoryId, options = {}) {
    const path = `/api/memories/${segment(memoryId)}`;
    const memory = await this.#client.call("GET", path, null, options);
    let query = further(memory);
    while (query) {
      const page = await this.#client.call("GET", path + query, null, options);
      memory.messages.push(...page.messages);
      query = further(page);
    }
    delete memory._links.next;
    return memory;
  }

  /** `PUT /api/memories/{id}`: sum up the memory's messages again; {id, l1, l2, topics, …} as they are now. */
  async regenerate(memoryId, options = {}) {
    const path = `/api/memories/${segment(memoryId)}`;
    return (await this.#client.call("PUT", path, { action: "regenerate" }, options)).memory;
  }

  /** `DELETE /api/memories/{id}`. Its messages stay, and are of no memory again. */
  async deleteMemory(memoryId, options = {}) {
    await this.#client.call("DELETE", `/api/memories/${segment(memoryId)}`, null, options);
  }

  /**
   * `POST /api/chats/{id}/memories/search`: a list of the chat's memories closest to the query by meaning, {id, rank,
   * summary, details, topics, decisions, actions, entities, messageId, createdAt, relevance}.
   * @param {string} chatId
   * @param {string} query 1 to 500 characters
   * @param {number} [limit] 1 to 20, by default 5
   * @param {{mode?: "hybrid"} & RequestOptions} [options] `hybrid` also ranks by the words themselves
   */
  async search(chatId, query, limit, options = {}) {
    const [request, { mode }] = split(options, ["mode"]);
    const body = given({ query, limit, mode });
    return (await this.#client.call("POST", `/api/chats/${segment(chatId)}/memories/search`, body, request)).results;
  }

  /** What a collection has, over all of its pages: the service may end one before it has as many as were asked for. */
  async #collected(path, name, options) {
    const [request, { limit = Infinity, offset = 0 }] = split(options, ["limit", "offset"]);
    const headers = { Accept: "application/hal+json" };
    const items = [];
    let query = `?limit=${Math.min(limit, LARGEST_PAGE)}&offset=${offset}`;
    do {
      const page = await this.#client.call("GET", path + query, null, { ...request, headers });
      items.push(...page._embedded[name]);
      query = further(page);
    } while (query && items.length < limit);
    return items.slice(0, limit);
  }
}

/** The query that asks for what follows a page; undefined at the end. The service may name its host otherwise. */
function further(page) {
  return page._links.next && new URL(page._links.next.href).search;
}

/**
 * Notes: short texts that are found again by their meaning, kept for one user (`scope: "user"`, the default) or for
 * everybody ("global"). Made by `client.notes`. A key with the role agent or admin may work for another user,
 * `targetUserId`; a key with only the role agent must name one.
 */
export class Notes {
  #client;

  constructor(client) {
    this.#client = client;
  }

  /**
   * The id of the stored note, which is found as soon as this resolves.
   * @param {string} content
   * @param {{id?: string, metadata?: object, scope?: "user" | "global", targetUserId?: string} & RequestOptions}
   *   [options] `id`: a UUID; a note of this scope that has it is replaced
   */
  async save(content, { id, metadata, ...options } = {}) {
    return (await this.#post("saveMemory", { memory: given({ id, content, metadata }) }, options)).memoryId;
  }

  /**
   * A list of the notes closest to the query by meaning, the closest first: {id, content, metadata, score}.
   * @param {string} query
   * @param {{topK?: number, filter?: object, mode?: "hybrid", scope?: "user" | "global", targetUserId?: string} &
   *   RequestOptions} [options] `filter`: what metadata must equal, all of it; a dotted name reaches into nested
   *   objects, a list means any of its values; applied before the `topK` (3) are chosen. `hybrid` also ranks by the
   *   words themselves
   */
  async recall(query, { topK, filter, mode, ...options } = {}) {
    const params = given({ queryText: query, topK, filter, mode });
    return (await this.#post("recallMemories", params, options)).memories;
  }

  /**
   * One page of notes, oldest first: {memories, next_page_offset}; null there is the end.
   * @param {{limit?: number, offset?: string | number, scope?: "user" | "global", targetUserId?: string} &
   *   RequestOptions} [options] `limit`: 1 to 100, by default 10. `offset`: the id of the note that begins the page, or
   *   how many to leave out
   */
  async list({ limit, offset, ...options } = {}) {
    const { memories, next_page_offset } = await this.#post("listMemories", given({ limit, offset }), options);
    return { memories, next_page_offset };
  }

  /**
   * All notes, oldest first. Asks for a page when the one before is used up.
   * @param {{pageSize?: number, scope?: "user" | "global", targetUserId?: string} & RequestOptions} [options]
   */
  async *all(options = {}) {
    const [request, { pageSize: limit = 100, ...context }] = split(options, ["pageSize", "scope", "targetUserId"]);
    let offset;
    do {
      const page = await this.list({ ...request, ...context, limit, offset });
      yield* page.memories;
      offset = page.next_page_offset;
    } while (offset !== null);
  }

  /**
   * Rejects with NotFound for an id that this scope does not have.
   * @param {string} id
   * @param {{scope?: "user" | "global", targetUserId?: string} & RequestOptions} [options]
   */
  async delete(id, options = {}) {
    await this.#post("deleteMemory", { memoryId: id }, options);
  }

  async #post(operation, params, options) {
    const [request, context] = split({ scope: "user", ...options }, ["scope", "targetUserId"]);
    const body = { method: `MemoryRpc.${operation}`, params: { ...context, ...params } };
    return (await this.#client.call("POST", "/api/rpc", body, request)).data;
  }
}

/**
 * Options as those of the request and the fields among them that are given; `names` are all that there may be.
 * @param {Record<string, any>} options
 * @param {string[] | null} [names]
 * @returns {[RequestOptions, Record<string, any>]}
 */
function split({ signal, timeout, ...fields }, names = null) {
  const unknown = names && Object.keys(fields).find((name) => !names.includes(name));
  if (unknown) {
    throw new InvalidRequest(`there is no option ${unknown}; there are ${[...names, "signal", "timeout"].join(", ")}`);
  }
  return [given({ signal, timeout }), given(fields)];
}

/** @returns {Record<string, any>} */
function given(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));
}

/** @returns {Record<string, any>} */
function inSnakeCase(fields) {
  const renamed = ([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value];
  return Object.fromEntries(Object.entries(fields).map(renamed));
}

function generation(text, options) {
  const [request, { handle, ...fields }] = split(options);
  return [request, given({ text, ...inSnakeCase(fields), remory: handle === undefined ? fields.remory : { handle } })];
}

function leaseContext(lease) {
  return lease === null ? {} : lease.context();
}

/** An id as one step of a path. Raises InvalidRequest for what would lead to another route. */
function segment(id) {
  if (typeof id !== "string" || ["", ".", ".."].includes(id)) {
    throw new InvalidRequest(`an id must be a text that names something, got ${JSON.stringify(id) ?? typeof id}`);
  }
  try {
    return encodeURIComponent(id);
  } catch (error) {
    throw new InvalidRequest("an id must be valid Unicode", { cause: error });
  }
}

function checkedTimeout(timeout) {
  if (!(timeout > 0)) throw new InvalidRequest(`timeout must be a number of milliseconds above 0, got ${timeout}`);
  return timeout;
}

/** [D] finite numbers. The service judges the rest. */
function numbers(embedding) {
  if (typeof embedding === "string" || typeof embedding?.[Symbol.iterator] !== "function") {
    throw new InvalidRequest("an embedding must be a list of numbers", { code: "invalid_vector" });
  }
  const listed = Array.from(embedding);
  const place = listed.findIndex((element) => !Number.isFinite(element));
  if (place < 0) return listed;
  const got = typeof listed[place] === "number" ? listed[place] : typeof listed[place];
  const message = `element ${place} of the embedding must be a finite number, got ${got}`;
  throw new InvalidRequest(message, { code: "invalid_vector" });
}

/** The body as text. Raises InvalidRequest for what JSON would silently change. */
function inJSON(body) {
  try {
    return JSON.stringify(body, sendable);
  } catch (error) {
    throw new InvalidRequest(`this cannot be sent as JSON: ${error.message}`, { cause: error });
  }
}

/** What JSON.stringify writes for a value, which lies in `this`. */
function sendable(name, value) {
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return Array.from(value);
  const isLost =
    (typeof value === "number" && !Number.isFinite(value)) ||
    ["function", "symbol"].includes(typeof value) ||
    (value === undefined && Array.isArray(this)) ||
    [Map, Set, WeakMap, WeakSet, Promise, ArrayBuffer, DataView].some((kind) => value instanceof kind);
  if (isLost) throw new TypeError(`${name} is ${typeof value === "object" ? value.constructor.name : String(value)}`);
  return value;
}

function parsed(text, response, where) {
  try {
    return JSON.parse(text);
  } catch (error) {
    const message = `${where} answered no JSON: is it a Remory service?`;
    throw new ServerFailed(message, { status: response.status, requestId: requestId(response), cause: error });
  }
}

/** The data of server-sent events. */
async function* eventData(chunks) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice("data:".length).trim() : "";
      if (data) yield data;
    }
  }
}

/** One event of a stream; a failure after the headers were sent can only arrive as one. */
function event(text, response, where) {
  const data = parsed(text, response, where);
  if (!("error" in data) && !("detail" in data)) return data;
  const detail = detailOf(data);
  const message = `generation failed: ${shown(detail)}`;
  throw new ServerFailed(message, { status: 502, detail, requestId: requestId(response) });
}

/** The error that a response with an error status stands for. */
function httpError(response, text) {
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // Of something between here and the service.
  }
  const status = response.status;
  const detail = body === null ? response.statusText : detailOf(body);
  const { code: sent, message: _, ...fields } = isObject(body?.error) ? body.error : {};
  const code = typeof sent === "string" ? sent : null;
  const kind = BY_CODE.get(code) ?? BY_STATUS.get(status) ?? (status >= 500 ? ServerFailed : RemoryError);
  const error = new kind(`${status}: ${shown(detail)}`, {
    status,
    code,
    detail,
    fields,
    requestId: requestId(response),
  });
  const wait = response.headers.get("Retry-After") ?? "";
  if (error instanceof ServerBusy && /^\d+$/.test(wait)) error.retryAfter = Number(wait);
  return error;
}

/** The service's own words in the body of an error, whichever group of routes it comes from. */
function detailOf(body) {
  if (!isObject(body)) return body;
  return body.detail ?? (isObject(body.error) ? body.error.message : null) ?? body.message ?? body;
}

function shown(detail) {
  return typeof detail === "string" ? detail : JSON.stringify(detail);
}

function requestId(response) {
  return response.headers.get("X-Request-Id");
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Resolves after `milliseconds`; rejects with the signal's reason when it is aborted. */
async function pause(milliseconds, signal) {
  signal?.throwIfAborted();
  let timer;
  let abort;
  try {
    await new Promise((resolve, reject) => {
      timer = setTimeout(resolve, Math.min(milliseconds, LONGEST_TIMER));
      abort = () => reject(signal.reason);
      signal?.addEventListener("abort", abort);
    });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

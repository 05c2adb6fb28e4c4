/** Generation, compaction and their handles against the real server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, ConnectionFailed, InvalidRequest, NotFound, ServerBusy, ServerFailed } from "../client.mjs";
import {
  URL_OPEN,
  collect,
  figure,
  forwarded,
  newClient,
  startGateway,
  startLine,
  unansweredURL,
  waitForRunning,
  waitUntil,
} from "./server.mjs";

const GREEDY = { temperature: 0, max_new_tokens: 8, ignore_eos: true };
// So many tokens that their end is far away when somebody hangs up.
const LONG = { ...GREEDY, max_new_tokens: 1500, n: 32 };
const LONG_TOKENS = 32 * 1500;

test("text, ids, typed arrays and lists are generated from", async () => {
  const client = newClient();
  const ids = await client.tokenize("The build takes 41 seconds");
  const byText = await client.generate("The build takes 41 seconds", { samplingParams: GREEDY });
  const byIds = await client.generate(null, { inputIds: Int32Array.from(ids), samplingParams: GREEDY });
  assert.deepEqual(byText.output_ids, byIds.output_ids);
  assert.equal(byText.meta_info.prompt_tokens, ids.length);
  const both = await client.generate(null, { inputIds: [ids, ids.slice(0, 5)], samplingParams: GREEDY });
  assert.deepEqual(
    both.map((one) => one.output_ids.length),
    [8, 8],
  );
  assert.deepEqual(both[0].output_ids, byIds.output_ids);
});

test("other options go into the body", async () => {
  const answer = await newClient().generate("ls", { samplingParams: GREEDY, returnLogprob: true, rid: "mine" });
  assert.equal(answer.meta_info.id, "mine");
  assert.equal(answer.meta_info.output_token_logprobs.length, 8);
});

test("a stream is cumulative and ends as the plain answer", async () => {
  const client = newClient();
  const events = await collect(client.stream("The build", { samplingParams: GREEDY }));
  const counts = events.map((event) => event.meta_info.completion_tokens);
  assert.deepEqual(
    counts,
    counts.toSorted((one, other) => one - other),
  );
  assert.equal(counts.at(-1), 8);
  const plain = await client.generate("The build", { samplingParams: GREEDY });
  assert.deepEqual(events.at(-1).output_ids, plain.output_ids);
  assert.deepEqual(events.at(-1).meta_info.finish_reason, { type: "length", length: 8 });
});

test("answers that arrive in pieces of lines and letters are the same", async (t) => {
  const url = await startGateway(t, async (request, response) => {
    const answer = Buffer.from(await (await forwarded(URL_OPEN, request)).arrayBuffer());
    for (let start = 0, stop = 1; start < answer.length; stop++) {
      if (stop < answer.length && answer[stop - 1] < 0x80) continue;
      response.write(answer.subarray(start, stop));
      start = stop;
      await sleep(1);
    }
    response.end();
  });
  const client = new Client(url);
  const prompt = { samplingParams: { ...GREEDY, max_new_tokens: 12 } };
  const plain = await newClient().generate("é 漢字 😀", prompt);
  assert.match(plain.text, /[^\x00-\x7f]/);
  assert.equal((await collect(client.stream("é 漢字 😀", prompt))).at(-1).text, plain.text);
  assert.equal((await client.generate("é 漢字 😀", prompt)).text, plain.text);
});

test("breaking out of a stream stops the generation on the server", async () => {
  const client = newClient();
  const before = await figure("generated_tokens_total");
  for await (const event of client.stream("The build", { samplingParams: LONG })) {
    if (event.meta_info.completion_tokens < 3) continue;
    assert.ok((await figure("requests_running")) > 0);
    break;
  }
  await waitForRunning(0);
  const generated = (await figure("generated_tokens_total")) - before;
  assert.ok(generated >= 3 && generated < LONG_TOKENS, `${generated} tokens were generated`);
  assert.equal((await client.generate("ls", { samplingParams: GREEDY })).output_ids.length, 8);
});

test("an abort ends a stream and a plain generation, on the server too", async () => {
  const client = newClient();
  for (const begin of [
    (options) => collect(client.stream("The build", options)),
    (options) => client.generate("The build", options),
  ]) {
    const before = await figure("generated_tokens_total");
    const controller = new AbortController();
    const ending = assert.rejects(begin({ samplingParams: LONG, signal: controller.signal }), { name: "AbortError" });
    await waitUntil(async () => (await figure("requests_running")) > 0);
    controller.abort();
    await ending;
    await waitForRunning(0);
    assert.ok((await figure("generated_tokens_total")) - before < LONG_TOKENS);
  }
  const reason = new Error("changed my mind");
  await assert.rejects(client.health({ signal: AbortSignal.abort(reason) }), reason);
  await assert.rejects(client.stream("a", { signal: AbortSignal.abort(reason) }).next(), reason);
});

test("a stream that is cut off is no complete answer", async (t) => {
  const url = await startLine(t, (bytes, near) => {
    near.write(bytes);
    if (bytes.includes("data: ")) near.destroy();
  });
  await assert.rejects(collect(new Client(url).stream("The build", { samplingParams: LONG })), ConnectionFailed);
  await waitForRunning(0);
  const ended = await startGateway(t, (_, response) => response.end('data: {"text": "a"}\n\n'));
  await assert.rejects(collect(new Client(ended).stream("a")), { name: "ConnectionFailed", message: /before it was/ });
});

test("errors of a streamed request come with the first event", async () => {
  const stream = newClient().stream(null, { inputIds: [10 ** 6] });
  await assert.rejects(stream.next(), { name: "InvalidRequest", status: 400 });
});

test("compact, list, show, generate, delete", async () => {
  const client = newClient();
  const texts = ["the task", "some history ".repeat(20), "in short", "go on"];
  const [prefix, history, summary, more] = await client.tokenize(texts);
  const made = await client.compact(prefix, Uint32Array.from(history), summary);
  assert.deepEqual(made.summary_ids, summary);
  assert.equal(made.receipt.history_tokens, history.length);
  assert.deepEqual(
    (await client.memories()).map((memory) => memory.handle),
    [made.handle],
  );
  assert.deepEqual((await client.memory(made.handle)).receipt, made.receipt);

  const again = await client.compact(prefix, history, summary, { previous: made.handle });
  assert.equal(again.receipt.previous, made.handle);
  const branched = await client.compact(prefix, [], summary, { branches: [made.handle] });
  assert.deepEqual(branched.receipt.branches, [made.handle]);
  const options = { inputIds: more, handle: made.handle, samplingParams: GREEDY };
  const answer = await client.generate(null, options);
  const least = prefix.length + summary.length + made.receipt.soft_tokens;
  assert.ok(answer.meta_info.prompt_tokens > least);
  assert.deepEqual((await collect(client.stream(null, options))).at(-1).output_ids, answer.output_ids);

  assert.equal(await client.deleteMemory(made.handle), undefined);
  await assert.rejects(client.memory(made.handle), { name: "NotFound", status: 404 });
  assert.ok(!(await client.memories()).some((memory) => memory.handle === made.handle));
});

test("another session and another user see nothing", async () => {
  const client = newClient();
  const ids = await client.tokenize("some history ".repeat(20));
  const { handle } = await client.compact(ids.slice(0, 4), ids, ids.slice(0, 3));
  for (const other of [newClient(), newClient({ session: client.session, user: "other" })]) {
    await assert.rejects(other.generate(null, { inputIds: ids.slice(0, 2), handle }), NotFound);
  }
  await assert.rejects(new Client(URL_OPEN).memories(), { name: "InvalidRequest", message: /X-Remory-Session/ });
});

test("compact text twice", async () => {
  const client = newClient();
  const messages = [{ role: "user", content: "count" }];
  for (let number = 0; number < 4; number++) {
    messages.push({ role: "assistant", content: `${number} files` }, { role: "user", content: "more" });
  }
  const made = await client.compactText(messages, { keepLast: 2, maxSummaryTokens: 8 });
  assert.deepEqual(made.messages, messages.slice(-2));
  const more = [messages[0], ...made.messages, { role: "assistant", content: "9" }, { role: "user", content: "?" }];
  const options = { keepLast: 1, previous: made.handle, bridge: made.bridge, maxSummaryTokens: 8 };
  assert.equal((await client.compactText(more, options)).receipt.previous, made.handle);
});

test("tokenize and detokenize", async () => {
  const client = newClient();
  const ids = await client.tokenize("port 8421");
  assert.equal(await client.detokenize(ids), "port 8421");
  assert.deepEqual((await client.tokenize(["port 8421", "ls"]))[0], ids);
  assert.deepEqual(await client.detokenize([ids, ids]), ["port 8421", "port 8421"]);
  const messages = [{ role: "user", content: "ls" }];
  const plain = await client.tokenize(null, { messages, addGenerationPrompt: false });
  const longer = await client.tokenize(null, { messages, addGenerationPrompt: true });
  assert.deepEqual(longer.slice(0, plain.length), plain);
  assert.ok(longer.length > plain.length);
  assert.equal(await client.detokenize([2]), "");
  assert.equal(await client.detokenize([2], { skipSpecialTokens: false }), "<|im_end|>");
});

test("info, health, ready", async () => {
  const client = newClient();
  assert.equal((await client.info()).summary_contract.prompt, "Summarise the conversation.");
  assert.ok(await client.health());
  assert.ok(await client.ready());
  assert.equal(await client.waitReady({ timeout: 1 }), undefined);
  assert.ok((await client.call("GET", "/openapi.json")).paths);
});

test("a gateway that is busy is waited for, and says when to come back", async (t) => {
  let left = 2;
  const url = await startGateway(t, async (request, response) => {
    if (left-- > 0) return response.writeHead(503, { "Retry-After": "2" }).end("<html>");
    return response.end(await (await forwarded(URL_OPEN, request)).text());
  });
  const client = new Client(url);
  await assert.rejects(client.ready(), (error) => {
    assert.ok(error instanceof ServerBusy);
    assert.deepEqual([error.status, error.retryAfter, error.detail], [503, 2, "Service Unavailable"]);
    return true;
  });
  const looks = [];
  await client.waitReady({ progress: (waited) => looks.push(waited) });
  assert.equal(looks.length, 1);
});

test("nothing listens", async () => {
  const free = await unansweredURL();
  await assert.rejects(new Client(free).health(), { name: "ConnectionFailed", status: null, message: /remory serve/ });
  const looks = [];
  const options = { timeout: 300, progress: (waited) => looks.push(waited) };
  await assert.rejects(new Client(free).waitReady(options), ConnectionFailed);
  assert.ok(looks.length > 0);
  const controller = new AbortController();
  const waiting = new Client(free).waitReady({ signal: controller.signal, progress: () => controller.abort() });
  await assert.rejects(waiting, { name: "AbortError" });
});

test("a server that says nothing is not waited for longer than the timeout", async (t) => {
  const url = await startGateway(t, () => {});
  await assert.rejects(new Client(url, { timeout: 50 }).health(), { name: "ConnectionFailed", message: /too long/ });
  await assert.rejects(new Client(url).health({ timeout: 50 }), { name: "ConnectionFailed", message: /too long/ });
  await assert.rejects(new Client(url).stream("a", { timeout: 50 }).next(), { name: "ConnectionFailed" });
});

test("a timeout counts from the last bytes", async (t) => {
  const url = await startGateway(t, async (_, response) => {
    for (const text of ["{", '"alive"', ":", "true", "}"]) {
      response.write(text);
      await sleep(400);
    }
    response.end();
  });
  assert.deepEqual(await new Client(url, { timeout: 1500 }).health(), { alive: true });
});

test("what is no Remory service is told", async (t) => {
  const url = await startGateway(t, (_, response) => response.end("<a/>"));
  await assert.rejects(new Client(url).health(), { name: "ServerFailed", message: /is it a Remory service/ });
  const elsewhere = await startGateway(t, (_, response) => response.writeHead(302, { Location: URL_OPEN }).end());
  await assert.rejects(new Client(elsewhere).health(), ConnectionFailed);
  const failing = await startGateway(t, (_, response) => response.end('data: {"error": {"message": "it broke"}}\n\n'));
  await assert.rejects(collect(new Client(failing).stream("a")), (error) => {
    assert.ok(error instanceof ServerFailed);
    assert.deepEqual([error.status, error.detail], [502, "it broke"]);
    return true;
  });
});

test("requests that cannot be used keep the service's words", async () => {
  const client = newClient();
  for (const [send, status] of [
    [() => client.generate(null, { inputIds: [-1] }), 400],
    [() => client.generate("a", { samplingParams: { nonsense: 1 } }), 422],
    [() => client.generate("a", { nonsense: 1 }), 422],
    [() => client.generate(null, { inputIds: Array(5000).fill(1) }), 400],
    [() => client.compact([1], [], [2]), 400],
  ]) {
    await assert.rejects(send, (error) => {
      assert.ok(error instanceof InvalidRequest, error.stack);
      assert.equal(error.status, status);
      assert.equal(error.code, null);
      assert.ok(error.detail.length > 0);
      assert.match(error.requestId, /^[0-9a-f]{16}$/);
      return true;
    });
  }
});

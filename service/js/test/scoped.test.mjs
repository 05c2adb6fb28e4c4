/** Scoped memory, its changes and leases against the real server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";

import {
  Client,
  ConnectionFailed,
  CursorExpired,
  Forbidden,
  InvalidRequest,
  Lease,
  RevisionConflict,
} from "../client.mjs";
import {
  KEYS,
  URL_KEYED,
  URL_OPEN,
  collect,
  forwarded,
  newClient,
  startGateway,
  unique,
  waitUntil,
} from "./server.mjs";

const DAY = 24 * 3600 * 1000;

function newScope() {
  return newClient().scoped().session();
}

function keyed(role, lease) {
  const client = new Client(URL_KEYED, { key: KEYS[role] });
  return client.scoped({ lease: lease && Lease.load(client, JSON.parse(JSON.stringify(lease.dump()))) });
}

function newStep(more = {}) {
  return { taskId: "task", stepId: "step", rootId: unique("root"), sessionId: unique("session"), ...more };
}

test("read, write, delete", async () => {
  const scope = newScope();
  const value = { text: "grün 😀", steps: [1, 2.5, null, true] };
  assert.deepEqual(await scope.read("goal"), { found: false, value: null, revision: 0 });
  assert.deepEqual(await scope.write("goal", value), { revision: 1, expires_at: null });
  assert.deepEqual(await scope.read("goal"), { found: true, value, revision: 1 });
  assert.equal(await scope.delete("goal"), true);
  assert.equal(await scope.delete("goal"), false);
  assert.equal((await scope.read("goal")).found, false);
  assert.equal((await scope.write("goal", null)).revision, 2);
  assert.deepEqual(await scope.read("goal"), { found: true, value: null, revision: 2 });
  await scope.write("typed", Float32Array.of(0.5, 2));
  assert.deepEqual((await scope.read("typed")).value, [0.5, 2]);
  await scope.write("date", new Date(0));
  assert.equal((await scope.read("date")).value, "1970-01-01T00:00:00.000Z");
  await assert.rejects(scope.write("none", undefined), { name: "InvalidRequest", status: 400 });
});

test("a value ends with its ttl", async () => {
  const scope = newScope();
  const before = Date.now();
  const { expires_at } = await scope.write("short", 1, { ttlSeconds: 1 });
  assert.ok(before < expires_at && expires_at < before + DAY);
  await waitUntil(async () => !(await scope.read("short")).found);
  assert.deepEqual(await collect(scope.list()), []);
});

test("expected revisions", async () => {
  const scope = newScope();
  assert.equal((await scope.write("k", "a", { expectedRevision: 0 })).revision, 1);
  assert.equal((await scope.write("k", "b", { expectedRevision: 1 })).revision, 2);
  for (const act of [
    () => scope.write("k", "c", { expectedRevision: 1 }),
    () => scope.write("k", "c", { expectedRevision: 0 }),
    () => scope.delete("k", { expectedRevision: 1 }),
  ]) {
    await assert.rejects(act, (error) => {
      assert.ok(error instanceof RevisionConflict, error.stack);
      assert.deepEqual([error.revision, error.code, error.status], [2, "revision_conflict", 409]);
      return true;
    });
  }
  assert.equal(await scope.delete("k", { expectedRevision: 2 }), true);
});

test("list goes over all pages", async () => {
  const scope = newScope();
  const names = [...Array(7).keys()].map((number) => `a/${number}`).concat("b", "é", "\uffee", "\u{1f600}");
  for (const name of names) await scope.write(name, 0);
  const keys = async (options) => (await collect(scope.list(options))).map((entry) => entry.key);
  assert.deepEqual(await keys({ pageSize: 2 }), names);
  assert.deepEqual(await keys({ pageSize: names.length }), names);
  assert.deepEqual(await keys({ prefix: "a/", pageSize: 3 }), names.slice(0, 7));
  const [first] = await collect(scope.list());
  assert.deepEqual(first, { key: "a/0", revision: 1, updated_at: first.updated_at, expires_at: null });
  assert.ok(Math.abs(first.updated_at - Date.now()) < DAY);
});

test("scopes are apart", async () => {
  const name = unique();
  const memory = newClient().scoped();
  const scopes = [memory.session(name), memory.actor(name), memory.workflow(name), memory.shared];
  for (const [number, scope] of scopes.entries()) await scope.write(name, number);
  for (const [number, scope] of scopes.entries()) assert.equal((await scope.read(name)).value, number);
  assert.equal((await memory.session(`${name}2`).read(name)).found, false);
  const sessionless = new Client(URL_OPEN).scoped();
  for (const act of [() => sessionless.session(), () => memory.actor(), () => memory.workflow(null)]) {
    assert.throws(act, { name: "InvalidRequest", code: "invalid_scope", status: null, message: /needs its/ });
  }
  await assert.rejects(memory.session("").read("k"), { name: "InvalidRequest", code: "invalid_scope", status: 400 });
});

test("update loses nothing under contention", async () => {
  const scope = newScope();
  const count = async () => {
    for (let turn = 0; turn < 10; turn++) await scope.update("count", (value) => value + 1, { initial: 0 });
  };
  await Promise.all(Array.from({ length: 6 }, count));
  assert.deepEqual(await scope.read("count"), { found: true, value: 60, revision: 60 });
  assert.deepEqual(await scope.update("count", async (value) => [value]), { value: [60], revision: 61 });
});

test("update gives up after its attempts", async () => {
  const scope = newScope();
  const calls = [];
  const disturb = async (value) => {
    calls.push(value);
    await scope.write("k", calls.length);
    return "mine";
  };
  await assert.rejects(scope.update("k", disturb, { attempts: 3 }), RevisionConflict);
  assert.deepEqual(calls, [null, 1, 2]);
  assert.equal((await scope.read("k")).value, 3);
});

test("vectors of all kinds of arrays", async () => {
  for (const embedding of [
    [1, 0.5, -2],
    Float32Array.of(1, 0.5, -2),
    Float64Array.of(1, 0.5, -2),
    new Set([1, 0.5, -2]),
  ]) {
    const scope = newScope();
    assert.deepEqual(await scope.setVector("k", embedding, { metadata: { a: 1 } }), { revision: 1, dimension: 3 });
    const stored = { found: true, key: "k", revision: 1, dimension: 3, embedding: [1, 0.5, -2], metadata: { a: 1 } };
    assert.deepEqual(await scope.getVector("k"), stored);
    const { items, ...answer } = await scope.search(embedding);
    assert.deepEqual(answer, { dimension: 3, scanned: 1, strategy: "linear" });
    assert.deepEqual(
      items.map(({ score, ...match }) => [match, Math.round(score * 1e6) / 1e6]),
      [[{ key: "k", revision: 1, metadata: { a: 1 } }, 1]],
    );
  }
});

test("vectors that are never sent, and vectors that the service refuses", async () => {
  const scope = newScope();
  for (const bad of [[NaN], [1, Infinity], [true], ["1"], [[1]], "12", 3, null, undefined, { 0: 1 }, [1n], Array(2)]) {
    for (const act of [() => scope.setVector("k", bad), () => scope.search(bad)]) {
      await assert.rejects(act, { name: "InvalidRequest", code: "invalid_vector", status: null });
    }
  }
  for (const bad of [[], [0, 0], [1e200, 1]]) {
    await assert.rejects(scope.setVector("k", bad), { name: "InvalidRequest", code: "invalid_vector", status: 400 });
  }
  await assert.rejects(scope.setVector("k", [1], { metadata: { text: "x".repeat(17000) } }), {
    code: "invalid_metadata",
  });
  await assert.rejects(scope.write("k", "x".repeat(1 << 20)), { name: "InvalidRequest", code: "value_too_large" });
});

test("delete, list and search vectors", async () => {
  const scope = newScope();
  for (const [name, angle, kind] of [
    ["a", 0.1, 1],
    ["b", 0.2, 2],
    ["c", 0.3, 1],
    ["d", 0.3, 1],
  ]) {
    await scope.setVector(name, [Math.cos(angle), Math.sin(angle)], { metadata: { kind } });
  }
  await scope.setVector("another dimension", [1, 0, 0]);
  const keys = async (options) => (await scope.search([1, 0], options)).items.map((match) => match.key);
  assert.deepEqual(await keys({ topK: 3 }), ["a", "b", "c"]);
  assert.deepEqual(await keys({ filters: { kind: 1 }, strategy: "linear" }), ["a", "c", "d"]);
  assert.deepEqual(await keys({ filters: { kind: true } }), []);
  assert.equal(await scope.deleteVector("a"), true);
  assert.equal(await scope.deleteVector("a"), false);
  assert.deepEqual(await keys({ topK: 1 }), ["b"]);
  await assert.rejects(scope.deleteVector("b", { expectedRevision: 2 }), RevisionConflict);
  await assert.rejects(scope.setVector("b", [1], { expectedRevision: 0 }), RevisionConflict);
  const entries = await collect(scope.list({ kind: "vector" }));
  assert.deepEqual(
    entries.map((entry) => [entry.key, entry.dimension]),
    [
      ["another dimension", 3],
      ["b", 2],
      ["c", 2],
      ["d", 2],
    ],
  );
  assert.deepEqual((await scope.getVector("a")).embedding, null);
  await assert.rejects(keys({ strategy: "fastest" }), { name: "InvalidRequest", code: "invalid_request" });
});

test("every change is in the feed, which goes on from its cursor", async () => {
  const memory = newClient().scoped();
  const scope = memory.session();
  await scope.write("a", { n: 1 });
  await scope.write("b", "x".repeat(70_000));
  await scope.setVector("a", [1]);
  await scope.delete("a");
  await scope.deleteVector("a");
  const feed = scope.changes({ pageSize: 2 });
  const seen = await collect(feed);
  assert.deepEqual(
    seen.map((one) => [one.kind, one.action, one.key, one.revision, one.value, one.value_omitted]),
    [
      ["value", "set", "a", 1, { n: 1 }, false],
      ["value", "set", "b", 1, null, true],
      ["vector", "set", "a", 1, null, false],
      ["value", "delete", "a", 1, null, false],
      ["vector", "delete", "a", 1, null, false],
    ],
  );
  assert.equal(feed.oldestSequence, 1);

  const another = scope.changes({ after: seen[0].sequence, prefix: "a" });
  for await (const change of another) {
    assert.equal(another.cursor, change.sequence);
    break;
  }
  assert.deepEqual(
    (await collect(another)).map((one) => one.action),
    ["delete", "delete"],
  );
  const all = memory.changes({ after: feed.cursor });
  await scope.write("mine", 1);
  await memory.shared.write(unique("shared"), 2);
  assert.deepEqual(
    (await collect(all)).map((one) => one.scope),
    ["session", "global"],
  );
});

test("following waits for changes until it is aborted", async () => {
  const scope = newScope();
  const controller = new AbortController();
  const seen = [];
  const following = (async () => {
    const options = { follow: true, poll: 20, signal: controller.signal };
    for await (const change of scope.changes(options)) seen.push(change.value);
  })();
  await scope.write("a", 1);
  await waitUntil(() => seen.length === 1);
  await scope.write("b", 2);
  await waitUntil(() => seen.length === 2);
  assert.deepEqual(seen, [1, 2]);
  controller.abort();
  await assert.rejects(following, { name: "AbortError" });
});

test("a feed is patient with a server that is away", async (t) => {
  let isAway = true;
  const url = await startGateway(t, async (request, response) => {
    if (isAway) return request.socket.destroy();
    const answer = await forwarded(URL_OPEN, request);
    return response.writeHead(answer.status).end(await answer.text());
  });
  const name = unique();
  await newClient().scoped().session(name).write("a", 1);
  const scope = new Client(url).scoped().session(name);
  await assert.rejects(collect(scope.changes({ patience: 200 })), ConnectionFailed);
  const reading = collect(scope.changes());
  await sleep(50);
  isAway = false;
  assert.equal((await reading).length, 1);
});

test("a cursor beyond the end means that the state is read anew", async () => {
  const scope = newScope();
  await scope.write("a", 1);
  const after = Number.MAX_SAFE_INTEGER;
  await assert.rejects(collect(scope.changes({ after })), (error) => {
    assert.ok(error instanceof CursorExpired, error.stack);
    assert.equal(error.code, "cursor_expired");
    assert.equal(error.oldestSequence, 1);
    assert.match(error.message, /older store was restored; .* resnapshot/);
    return true;
  });
  let snapshots = 0;
  const feed = scope.changes({ after, resnapshot: async () => void snapshots++ });
  assert.deepEqual(
    (await collect(feed)).map((one) => one.key),
    ["a"],
  );
  assert.equal(snapshots, 1);
});

test("ownership and roles", async () => {
  const name = unique();
  await keyed("invoke").session(name).write("k", 1);
  await assert.rejects(keyed("other").session(name).read("k"), { name: "Forbidden", status: 403, code: "forbidden" });
  assert.equal((await keyed("admin").session(name).read("k")).value, 1);
  await assert.rejects(keyed("none").shared.read("k"), { name: "Unauthorized", status: 401, code: "unauthenticated" });
  await assert.rejects(keyed("worker").shared.read("k"), { name: "Forbidden", code: "lease_required" });
  await assert.rejects(keyed("worker").lease(newStep()), Forbidden);
});

test("a worker under a lease", async () => {
  const step = newStep({ actorId: unique("actor"), ttlSeconds: 60 });
  const planner = keyed("invoke");
  await planner.session(step.sessionId).write("goal", "green");
  const lease = await planner.lease(step);
  const worker = keyed("worker", lease);
  const key = unique("result");
  assert.equal((await worker.session().read("goal")).value, "green");
  for (const [number, scope] of [worker.session(), worker.workflow(), worker.actor(), worker.shared].entries()) {
    await scope.write(key, number);
  }
  await assert.rejects(worker.session("elsewhere").read("goal"), { name: "Forbidden", code: "forbidden" });
  const seen = await collect(worker.changes());
  assert.deepEqual(
    seen.filter((one) => one.key === key).map((one) => one.value),
    [0, 1, 2, 3],
  );
  assert.deepEqual(
    (await collect(worker.session().changes())).map((one) => one.value),
    ["green", 0],
  );
  assert.equal((await planner.actor(step.actorId).read(key)).value, 2);
  assert.equal(await lease.release(), true);
  assert.equal(await lease.release(), false);
  await assert.rejects(worker.session().read("goal"), { name: "Forbidden", code: "lease_expired" });
  await assert.rejects(lease.renew(), { name: "Forbidden", code: "lease_expired" });
});

test("a lease is kept while work is done, and released after it", async () => {
  const lease = await keyed("invoke").lease(newStep({ ttlSeconds: 1 }));
  const client = new Client(URL_KEYED, { key: KEYS.worker });
  const held = Lease.load(client, lease.dump());
  const first = held.expiresAt;
  const made = await held.hold(async (signal) => {
    await waitUntil(() => held.expiresAt > first + 1500);
    assert.equal(signal.aborted, false);
    await client.scoped({ lease: held }).session().write("k", 1);
    return "made";
  });
  assert.equal(made, "made");
  assert.equal(await lease.release(), false);
});

test("an error of the work comes through, and the lease ends", async () => {
  const lease = await keyed("invoke").lease(newStep());
  await assert.rejects(
    lease.hold(() => {
      throw new RangeError("of the work");
    }),
    { name: "RangeError" },
  );
  await assert.rejects(lease.renew(), { code: "lease_expired" });
});

test("a lease lost meanwhile aborts the signal of the work", async () => {
  const lease = await keyed("invoke").lease(newStep({ ttlSeconds: 1 }));
  await lease.hold(async (signal) => {
    assert.equal(await lease.release(), true);
    await waitUntil(() => signal.aborted);
    assert.ok(signal.reason instanceof Forbidden);
    assert.equal(signal.reason.code, "lease_expired");
  });
});

test("a lease is renewed again after a server was away", async (t) => {
  let failures = 0;
  const url = await startGateway(t, async (request, response) => {
    if (request.url.endsWith("/renew") && failures > 0 && failures++ < 3) return request.socket.destroy();
    const answer = await forwarded(URL_KEYED, request);
    return response.writeHead(answer.status).end(await answer.text());
  });
  const client = new Client(url, { key: KEYS.invoke });
  const lease = await client.scoped().lease(newStep({ ttlSeconds: 3 }));
  await lease.hold(async (signal) => {
    const before = lease.expiresAt;
    failures = 1;
    await waitUntil(() => lease.expiresAt > before);
    assert.ok(failures > 3);
    assert.equal(signal.aborted, false);
  });
});

test("a lease's token is not shown", async () => {
  const lease = await keyed("invoke").lease(newStep());
  const { token, ...rest } = lease.dump();
  assert.match(token, /./);
  assert.deepEqual(Object.keys(rest), ["task_id", "step_id", "ttl_seconds", "expires_at"]);
  assert.ok(!inspect(lease, { showHidden: true }).includes(token));
  assert.ok(!JSON.stringify(lease).includes(token));
  await assert.rejects(keyed("invoke").lease({ taskId: "t" }), InvalidRequest);
});

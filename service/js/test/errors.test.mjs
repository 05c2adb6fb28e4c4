/** What is never sent, who is let in, and how each group of routes says what went wrong. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { Client, Forbidden, InvalidRequest, NotFound, RemoryError, Unauthorized } from "../client.mjs";
import { KEYS, URL_KEYED, URL_OPEN, collect, newClient, startGateway, unique } from "./server.mjs";

test("values that JSON would change are never sent", async (t) => {
  let asked = 0;
  const url = await startGateway(t, (_, response) => response.end(String(++asked)));
  const scope = new Client(url).scoped().session("any");
  const ring = {};
  ring.ring = ring;
  let deep = [];
  for (let depth = 0; depth < 100_000; depth++) deep = [deep];
  const lost = [
    NaN,
    Infinity,
    [1, -Infinity],
    { deep: [{ a: NaN }] },
    1n,
    ring,
    deep,
    [undefined],
    () => 1,
    Symbol("a"),
  ];
  lost.push(new Map([[1, 2]]), new Set([1]), { inside: new Map() }, new ArrayBuffer(8), Float32Array.of(NaN));
  for (const value of lost) {
    await assert.rejects(scope.write("k", value), (error) => {
      assert.ok(error instanceof InvalidRequest, error.stack);
      assert.equal(error.status, null);
      assert.match(error.message, /JSON/);
      return true;
    });
  }
  await assert.rejects(new Client(url).generate("a", { samplingParams: { temperature: NaN } }), InvalidRequest);
  assert.equal(asked, 0);
});

test("options that are none, ids that name nothing and timeouts that are none are never sent", async (t) => {
  let asked = 0;
  const url = await startGateway(t, (_, response) => response.end(String(++asked)));
  const client = new Client(url, { session: "s" });
  const scope = client.scoped().session("any");
  const id = "00000000-0000-4000-8000-000000000001";
  for (const act of [
    () => scope.write("k", 1, { ttl: 5 }),
    () => scope.setVector("k", [1], { kind: "error" }),
    () => scope.update("k", () => 1, { default: 1 }),
    () => collect(scope.list({ limit: 5 })),
    () => client.chats.remember(id, { because: "autosave" }),
    () => client.chats.search(id, "a", 5, { limit: 3 }),
    () => client.notes.recall("a", { top_k: 1 }),
    () => collect(client.notes.all({ limit: 1 })),
    () => client.health({ wait: 1 }),
  ]) {
    await assert.rejects(act, { name: "InvalidRequest", status: null, message: /^there is no option/ });
  }
  assert.throws(() => scope.changes({ since: 1 }), { name: "InvalidRequest" });
  for (const bad of ["", ".", "..", undefined, null, 5, "\ud800"]) {
    for (const act of [
      () => client.memory(bad),
      () => client.deleteMemory(bad),
      () => client.chats.get(bad),
      () => client.chats.delete(bad),
      () => client.chats.deleteMessage(bad),
      () => client.chats.memory(bad),
    ]) {
      await assert.rejects(act, { name: "InvalidRequest", status: null, message: /^an id must/ });
    }
  }
  for (const timeout of [0, -1, NaN, "soon", null]) {
    assert.throws(() => new Client(url, { timeout }), InvalidRequest);
    if (timeout !== null) await assert.rejects(client.health({ timeout }), InvalidRequest);
  }
  assert.equal(asked, 0);
  assert.equal(await client.health({ timeout: Infinity }), 1);
});

test("an id cannot lead to another route", async () => {
  await assert.rejects(newClient().memory("../remory/info"), { name: "NotFound", status: 404 });
  await assert.rejects(newClient().memory("a?b#c"), { name: "NotFound", status: 404 });
});

test("keys", async () => {
  const session = unique();
  assert.deepEqual(await new Client(URL_KEYED, { key: KEYS.invoke, session }).memories(), []);
  for (const key of [undefined, "rk_wrong"]) {
    await assert.rejects(new Client(URL_KEYED, { key, session, user: "planner" }).memories(), (error) => {
      assert.ok(error instanceof Unauthorized && !(error instanceof Forbidden), error.stack);
      assert.deepEqual([error.name, error.status], ["Unauthorized", 401]);
      return true;
    });
  }
});

test("a key is not shown", () => {
  const client = new Client(URL_KEYED, { key: KEYS.invoke });
  assert.ok(!inspect(client, { depth: 5, showHidden: true }).includes(KEYS.invoke));
  assert.ok(!JSON.stringify(client).includes(KEYS.invoke));
  assert.throws(
    () => new Client(URL_KEYED, { key: "rk_schlüssel→" }),
    (error) => error instanceof InvalidRequest && !inspect(error).includes("schl"),
  );
});

test("each group of routes has its own body for errors", async () => {
  const client = newClient();
  const scope = client.scoped().session();
  await scope.write("k", 1);
  const missing = "00000000-0000-4000-8000-000000000001";
  for (const [act, name, status, code, detail] of [
    [() => client.memory("rm_none"), "NotFound", 404, null, /./],
    [() => client.call("GET", "/none"), "NotFound", 404, null, "no route /none"],
    [() => client.call("POST", "/health"), "RemoryError", 405, null, /does not answer POST/],
    [
      () => scope.write("k", 2, { expectedRevision: 7 }),
      "RevisionConflict",
      409,
      "revision_conflict",
      /expected revision 7/,
    ],
    [() => scope.write("", 2), "InvalidRequest", 400, "invalid_key", /key/],
    [() => client.chats.get(missing), "NotFound", 404, null, "Chat not found"],
    [() => client.chats.memory(missing), "NotFound", 404, null, "Memory not found"],
    [() => client.notes.delete(missing), "NotFound", 404, "not_found", /./],
    [() => client.notes.save(" "), "InvalidRequest", 400, "invalid_params", /./],
    [() => client.call("POST", "/api/rpc", { method: "none" }), "NotFound", 404, "method_not_found", /./],
  ]) {
    await assert.rejects(act, (error) => {
      assert.ok(error instanceof RemoryError, error.stack);
      assert.deepEqual([error.name, error.status, error.code], [name, status, code]);
      if (detail instanceof RegExp) assert.match(error.detail, detail);
      else assert.equal(error.detail, detail);
      assert.equal(error.message, `${status}: ${error.detail}`);
      assert.match(error.requestId, /^[0-9a-f]{16}$/);
      return true;
    });
  }
});

test("a body that does not fit is told by its places", async () => {
  await assert.rejects(newClient().call("POST", "/v1/compact", { prefix_ids: "a" }), (error) => {
    assert.ok(error instanceof InvalidRequest);
    assert.equal(error.status, 422);
    assert.deepEqual(error.detail[0].loc, ["prefix_ids"]);
    assert.match(error.message, /prefix_ids/);
    return true;
  });
});

test("errors of something on the way are typed by their status", async (t) => {
  const codes = [200];
  const url = await startGateway(t, (_, response) => {
    response.writeHead(codes.at(-1)).end('{"error": {"code": "constructor", "message": "no"}, "detail": null}');
  });
  for (const [status, name] of [
    [400, "InvalidRequest"],
    [404, "NotFound"],
    [413, "InvalidRequest"],
  ].concat([
    [418, "RemoryError"],
    [500, "ServerFailed"],
    [502, "ServerFailed"],
    [503, "ServerBusy"],
  ])) {
    codes.push(status);
    await assert.rejects(new Client(url).health(), { name, status, code: "constructor", detail: "no" });
  }
});

test("the user's name goes along on a server without keys", async () => {
  const name = unique();
  const scopeOf = (user) => new Client(URL_OPEN, { user }).scoped().session(name);
  await scopeOf("one").write("k", 1);
  assert.equal((await scopeOf("one").read("k")).value, 1);
  const changes = await collect(scopeOf("one").changes());
  assert.deepEqual(
    changes.map((change) => change.principal),
    ["one"],
  );
});

test("NotFound of a deleted handle is an Error like any other", async () => {
  const error = await newClient()
    .memory("rm_none")
    .catch((caught) => caught);
  assert.ok(error instanceof NotFound && error instanceof Error);
  assert.match(error.stack, /^NotFound: 404: /);
});

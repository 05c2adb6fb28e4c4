/** Chats and their memories against the real server. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { InvalidRequest, NotFound } from "../client.mjs";
import { newClient, unique } from "./server.mjs";

const TALK = [
  { role: "user", text: "Which port does the staging server use?" },
  { role: "assistant", text: "The staging server uses port 8421." },
];
const MORE = [
  { role: "user", text: "And how long does the nightly build take?" },
  { role: "assistant", text: "The nightly build takes 41 minutes." },
];

/** The chats of a user that no other test uses. */
function newChats() {
  return newClient({ user: unique("user") }).chats;
}

test("create, list, get, delete", async () => {
  const chats = newChats();
  assert.deepEqual(await chats.list(), []);
  const made = await chats.create({ title: "Ports" });
  const id = randomUUID();
  assert.equal((await chats.create({ id })).id, id);
  assert.equal((await chats.get(made.id)).title, "Ports");
  assert.deepEqual((await chats.list()).map((chat) => chat.id).sort(), [made.id, id].sort());
  assert.equal(await chats.delete(made.id), undefined);
  await assert.rejects(chats.get(made.id), { name: "NotFound", status: 404, detail: "Chat not found" });
  await assert.rejects(newChats().get(id), NotFound);
});

test("messages are added, read, changed and deleted", async () => {
  const chats = newChats();
  const { id } = await chats.create();
  const one = await chats.addMessages(id, { ...TALK[0], metadata: { channel: "ops" } });
  const [two, three] = await chats.addMessages(id, [
    TALK[1],
    { role: "user", parts: [{ type: "text", text: "Thanks 😀" }] },
  ]);
  const listed = await chats.messages(id);
  assert.deepEqual(
    listed.map((message) => [message.id, message.role, message.parts[0].text]),
    [
      [one.id, "user", TALK[0].text],
      [two.id, "assistant", TALK[1].text],
      [three.id, "user", "Thanks 😀"],
    ],
  );
  assert.equal(listed[0].metadata.channel, "ops");
  const changed = await chats.updateMessage(two.id, { text: "It uses port 9000." });
  assert.equal(changed.parts[0].text, "It uses port 9000.");
  assert.equal(await chats.deleteMessage(three.id), undefined);
  assert.deepEqual(
    (await chats.messages(id)).map((message) => message.parts[0].text),
    [TALK[0].text, "It uses port 9000."],
  );
  await assert.rejects(chats.deleteMessage(three.id), NotFound);
  await assert.rejects(chats.addMessages(id, { role: "narrator", text: "a" }), { name: "InvalidRequest", status: 400 });
});

test("lists go over all pages", async () => {
  const chats = newChats();
  const { id } = await chats.create();
  const texts = Array.from({ length: 2100 }, (_, number) => `Line ${number}`);
  await chats.addMessages(
    id,
    texts.map((text) => ({ role: "system", text })),
  );
  const listed = async (options) => (await chats.messages(id, options)).map((message) => message.parts[0].text);
  assert.deepEqual(await listed(), texts);
  assert.deepEqual(await listed({ limit: 1001, offset: 5 }), texts.slice(5, 1006));
  assert.deepEqual(await listed({ offset: 2098 }), texts.slice(2098));
  assert.deepEqual(await listed({ offset: 3000 }), []);
  for (let number = 0; number < 2; number++) await chats.create();
  assert.equal((await chats.list({ limit: 2 })).length, 2);
  assert.deepEqual(
    (await chats.list({ offset: 2 })).map((chat) => chat.id),
    [id],
  );
  await assert.rejects(chats.list({ limit: 0 }), InvalidRequest);
});

test("lists follow what the service says comes next", async () => {
  const chats = newChats();
  const { id } = await chats.create();
  await chats.addMessages(
    id,
    Array.from({ length: 1100 }, (_, number) => ({ role: "system", text: `Line ${number}` })),
  );
  const every = await chats.messages(id);
  // One that the first page has is deleted before the second is asked for.
  const asked = [];
  const { fetch } = globalThis;
  globalThis.fetch = async (url, options) => {
    if (asked.push(String(url)) === 2) await remove(every[0].id);
    return fetch(url, options);
  };
  const remove = async (messageId) => {
    globalThis.fetch = fetch;
    await chats.deleteMessage(messageId);
  };
  try {
    assert.deepEqual(
      (await chats.messages(id)).map((message) => message.id),
      every.map((message) => message.id),
    );
  } finally {
    globalThis.fetch = fetch;
  }
  assert.equal(asked.length, 2);
});

test("a memory of large messages has all of them", async () => {
  const chats = newChats();
  const { id } = await chats.create();
  const file = { type: "file", url: `data:,${"x".repeat(15 * 2 ** 20)}` };
  for (let number = 0; number < 5; number++) await chats.addMessages(id, { role: "user", parts: [file] });
  await chats.addMessages(id, TALK);
  const memory = await chats.memory((await chats.remember(id)).id);
  assert.equal(memory.messages.length, 7);
  assert.equal((await chats.memories(id, { limit: 1 })).length, 1);
});

test("memories are made, read, searched, regenerated and deleted", async () => {
  const chats = newChats();
  const { id } = await chats.create();
  const nothing = "No new messages to create memory from";
  await assert.rejects(chats.remember(id), { name: "InvalidRequest", status: 400, detail: nothing });

  const [, answer] = await chats.addMessages(id, TALK);
  const later = await chats.addMessages(id, MORE);
  const first = await chats.remember(id, { reason: "solved_problem", messageId: answer.id });
  assert.equal(first.chatId, id);
  assert.equal(first.reason, "solved_problem");
  const second = await chats.remember(id, { asOf: new Date(Date.now() + 60_000) });
  assert.equal(second.reason, "user_created");
  await assert.rejects(chats.remember(id), { detail: nothing });

  const listed = await chats.memories(id);
  assert.deepEqual(
    listed.map((memory) => [memory.id, memory.messageCount]),
    [
      [first.id, 2],
      [second.id, 2],
    ],
  );
  const whole = await chats.memory(second.id);
  assert.deepEqual(
    whole.messages.map((message) => message.id),
    later.map((message) => message.id),
  );

  const found = await chats.search(id, "How long does the build take?", 2);
  assert.deepEqual(
    found.map((one) => [one.rank, one.id]),
    [
      [1, second.id],
      [2, first.id],
    ],
  );
  assert.ok(found[0].relevance > found[1].relevance);
  assert.equal((await chats.search(id, "port", 1, { mode: "hybrid" })).length, 1);
  await assert.rejects(chats.search(id, "a".repeat(501)), { name: "InvalidRequest", status: 400 });
  await assert.rejects(chats.search(id, "a", 21), InvalidRequest);

  await chats.updateMessage(later[1].id, { text: "The nightly build takes 52 minutes." });
  const again = await chats.regenerate(second.id);
  assert.equal(again.id, second.id);
  assert.match(`${again.l1} ${again.l2}`, /52/);

  assert.equal(await chats.deleteMemory(first.id), undefined);
  assert.equal((await chats.memories(id)).length, 1);
  assert.equal((await chats.messages(id)).length, 4);
  await assert.rejects(chats.memory(first.id), { name: "NotFound", detail: "Memory not found" });
  await assert.rejects(chats.remember(id, { reason: "boredom" }), { name: "InvalidRequest", status: 400 });
});

test("another user's chats and memories are not there", async () => {
  const [mine, others] = [newChats(), newChats()];
  const { id } = await mine.create();
  const [message] = await mine.addMessages(id, TALK);
  const memory = await mine.remember(id);
  for (const act of [
    () => others.messages(id),
    () => others.addMessages(id, TALK),
    () => others.updateMessage(message.id, { text: "a" }),
    () => others.memories(id),
    () => others.remember(id),
    () => others.search(id, "port"),
    () => others.memory(memory.id),
    () => others.regenerate(memory.id),
    () => others.deleteMemory(memory.id),
    () => others.deleteMessage(message.id),
    () => others.delete(id),
  ]) {
    await assert.rejects(act, NotFound);
  }
  assert.equal((await mine.memory(memory.id)).messages.length, 2);
});

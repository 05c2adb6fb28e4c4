/** Notes against the real server. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import { Client, Forbidden, InvalidRequest, NotFound } from "../client.mjs";
import { KEYS, URL_KEYED, collect, newClient, unique } from "./server.mjs";

/** The notes of a user that no other test uses. */
function newNotes() {
  return newClient({ user: unique("user") }).notes;
}

const contents = (notes) => notes.map((note) => note.content);

test("save, recall, replace, delete", async () => {
  const notes = newNotes();
  const id = await notes.save("The nightly build runs at two in the morning.", { metadata: { team: "builds" } });
  await notes.save("The canteen closes at three.", { metadata: { team: "house" } });
  const [found, ...others] = await notes.recall("When does the build start?");
  assert.deepEqual(
    [found.id, found.content, found.metadata],
    [id, "The nightly build runs at two in the morning.", { team: "builds" }],
  );
  assert.ok(found.score <= 1 && found.score > others[0].score);
  assert.equal((await notes.recall("When does the build start?", { topK: 1 })).length, 1);

  assert.equal(await notes.save("The nightly build runs at four.", { id }), id);
  assert.equal(
    (await notes.recall("When does the build start?", { topK: 1 }))[0].content,
    "The nightly build runs at four.",
  );
  assert.equal(await notes.delete(id), undefined);
  assert.deepEqual(contents(await notes.recall("When does the build start?")), ["The canteen closes at three."]);
  await assert.rejects(notes.delete(id), { name: "NotFound", status: 404, code: "not_found" });
});

test("a filter applies before the closest are chosen", async () => {
  const notes = newNotes();
  for (let number = 0; number < 5; number++) {
    await notes.save(`Deploy step ${number}`, { metadata: { kind: "step", at: { stage: number % 2 } } });
  }
  await notes.save("The colour of the logo", { metadata: { kind: "style", at: { stage: 0 } } });
  const recall = async (filter) => contents(await notes.recall("deploy", { filter, topK: 10 })).sort();
  assert.deepEqual(await recall({ kind: "style" }), ["The colour of the logo"]);
  assert.deepEqual(await recall({ "at.stage": 1 }), ["Deploy step 1", "Deploy step 3"]);
  assert.equal((await recall({ kind: ["style", "step"] })).length, 6);
  assert.deepEqual(await recall({ kind: "none" }), []);
});

test("hybrid recall finds an exact number", async () => {
  const notes = newNotes();
  for (const code of ["A-1021", "A-1187", "A-2203"]) await notes.save(`Ticket ${code} is about the parser.`);
  const [found] = await notes.recall("A-1187", { topK: 1, mode: "hybrid" });
  assert.equal(found.content, "Ticket A-1187 is about the parser.");
});

test("pages, and all of them", async () => {
  const notes = newNotes();
  const texts = Array.from({ length: 7 }, (_, number) => `Note number ${number}`);
  const ids = [];
  for (const text of texts) ids.push(await notes.save(text));
  const first = await notes.list({ limit: 3 });
  assert.deepEqual(contents(first.memories), texts.slice(0, 3));
  assert.equal(first.next_page_offset, ids[3]);
  const second = await notes.list({ limit: 3, offset: first.next_page_offset });
  assert.deepEqual(contents(second.memories), texts.slice(3, 6));
  assert.deepEqual(await notes.list({ limit: 3, offset: 6 }), {
    memories: [{ id: ids[6], content: texts[6], metadata: {} }],
    next_page_offset: null,
  });
  assert.deepEqual(contents(await collect(notes.all({ pageSize: 2 }))), texts);
  assert.deepEqual(contents(await collect(notes.all())), texts);
  for await (const note of notes.all({ pageSize: 1 })) await notes.delete(note.id);
  assert.deepEqual(await notes.list(), { memories: [], next_page_offset: null });
  await assert.rejects(notes.list({ offset: randomUUID() }), { name: "InvalidRequest", code: "invalid_params" });
  await assert.rejects(notes.list({ limit: 101 }), InvalidRequest);
});

test("users are apart, and global notes are everybody's", async () => {
  const [mine, others] = [newNotes(), newNotes()];
  const marker = unique("marker");
  const id = await mine.save(`${marker}, my own`);
  assert.deepEqual(await others.recall(marker), []);
  await assert.rejects(others.delete(id), NotFound);
  const shared = await mine.save(`${marker}, of all`, { scope: "global", metadata: { marker } });
  const found = await others.recall(marker, { scope: "global", filter: { marker } });
  assert.deepEqual(contents(found), [`${marker}, of all`]);
  await others.delete(shared, { scope: "global" });
  await assert.rejects(mine.save("a", { scope: "session" }), { name: "InvalidRequest", code: "invalid_params" });
});

test("an agent works for a user", async () => {
  const notesOf = (role) => new Client(URL_KEYED, { key: KEYS[role] }).notes;
  const forPlanner = { targetUserId: "planner" };
  const id = await notesOf("agent").save("The planner likes short answers.", forPlanner);
  assert.deepEqual(contents(await notesOf("invoke").recall("answers")), ["The planner likes short answers."]);
  assert.deepEqual(contents(await collect(notesOf("admin").all(forPlanner))), ["The planner likes short answers."]);
  assert.equal((await notesOf("agent").list(forPlanner)).memories.length, 1);
  await assert.rejects(notesOf("other").recall("answers", forPlanner), (error) => {
    assert.ok(error instanceof Forbidden, error.stack);
    assert.deepEqual([error.status, error.code], [403, "forbidden"]);
    return true;
  });
  await assert.rejects(notesOf("agent").save("a"), { name: "InvalidRequest", code: "invalid_params" });
  await notesOf("agent").delete(id, forPlanner);
});

test("a generation recalls what a note says", async () => {
  const client = newClient({ user: unique("user") });
  await client.notes.save("The night watch uses channel 17.");
  const answer = await client.generate("Which channel does the night watch use?", {
    samplingParams: { temperature: 0, max_new_tokens: 2 },
    recall: { notes: "user", top_k: 1 },
  });
  assert.deepEqual(
    answer.meta_info.recalled.map((item) => item.text),
    ["The night watch uses channel 17."],
  );
});

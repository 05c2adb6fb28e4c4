"""Memories of chats, and which messages they were made of. Every function needs a connection.

A memory, the passage by which it is found and the messages' place in it change in one step.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remory.search.packing import unpack_vector
from remory_service.canonical import dump
from remory_service.store import passages
from remory_service.store.chats import KIND, Chat, text_of
from remory_service.store.passages import Collection, Text
from remory_service.store.schema import StoredChatMemory
from remory_service.store.statements import first, run

_MEMORIES = """
    SELECT m.id, m.uuid, chat.uuid, m.chat_id, m.passage_id, m.summary, m.reason, m.created_at, m.updated_at,
        (SELECT count(*) FROM message WHERE memory_id = m.id)
    FROM chat_memory m JOIN chat ON chat.id = m.chat_id
"""
_HEADS = "SELECT id, role, said, length(parts) + length(files), updated_at FROM message WHERE"
# The last condition is that of messages which a deleted memory gave back, unless they are asked for too.
_WAITING = "chat_id = ? AND memory_id IS NULL AND id > ? AND id <= ? AND created_at <= ? AND released <= ?"
_ASKED_AT_ONCE = 500
_HEADS_AT_ONCE = 10_000
_READ_AT_ONCE = 1 << 20
_LATEST = 2**63 - 1


@dataclass(frozen=True)
class ChatMemory:
    """A memory of a chat. `summary` has title, l1, l2, topics, decisions, actions, entities and method; `messages` is
    how many it has. Times: epoch ms.
    """

    number: int
    id: str
    chat: str
    chat_number: int
    passage: int
    summary: dict[str, Any]
    reason: str
    created_at: int
    updated_at: int
    messages: int


@dataclass(frozen=True)
class Head:
    """What tells whether a message is still as it was read: its number and the time of its last change. `said`: bytes
    of what a model reads of it; `stored`: bytes of its parts and files.
    """

    number: int
    role: str
    said: int
    stored: int
    updated_at: int


@dataclass(frozen=True)
class Spoken:
    """What a message says, as a model reads it."""

    role: str
    text: str


@dataclass(frozen=True)
class Backlog:
    """What waits in a chat for a memory by itself. `said`: bytes that a model would read of it, `known` of them in the
    messages up to the number that was asked about; `last`: the last message's number; `last_answer`: that of the last
    answer, None before there is a question and an answer.
    """

    said: int
    known: int
    last: int
    last_answer: int | None


@dataclass(frozen=True)
class Made:
    """What a memory is made of. `text` is what searches find it by, `vectors` are packed, by the model's id."""

    summary: Mapping[str, Any]
    text: str
    vectors: Mapping[int, bytes]


def find(user: str, memory: str) -> ChatMemory | None:
    """A memory of one of the user's chats by its id; None for one of somebody else, too."""
    found = first(f"{_MEMORIES} WHERE m.uuid = ? AND chat.user_name = ?", memory, user)
    return None if found is None else _memory(found)


def list_chat(chat: Chat, limit: int = _LATEST, offset: int = 0) -> list[ChatMemory]:
    """Memories of a chat, oldest first: up to `limit` after the first `offset`."""
    sql = f"{_MEMORIES} WHERE m.chat_id = ? ORDER BY m.created_at, m.id LIMIT ? OFFSET ?"
    return [_memory(row) for row in run(sql, chat.number, limit, offset).fetchall()]


def of_passages(found: Sequence[int]) -> dict[int, ChatMemory]:
    """Memories by the passages by which they were found; those that are gone are left out."""
    memories: dict[int, ChatMemory] = {}
    for begin in range(0, len(found), _ASKED_AT_ONCE):
        some = found[begin : begin + _ASKED_AT_ONCE]
        rows = run(f"{_MEMORIES} WHERE m.passage_id IN ({','.join('?' * len(some))})", *some)
        memories |= {memory.passage: memory for memory in map(_memory, rows.fetchall())}
    return memories


def vectors_of(memories: Sequence[ChatMemory], model: str) -> dict[int, np.ndarray]:
    """The vectors [D] that a model made of memories, by passage; those of which it made none are left out."""
    found = first("SELECT id, dimension FROM embedding_model WHERE name = ?", model)
    if found is None:
        return {}
    number, dimension = found
    packed = passages.vectors_of([memory.passage for memory in memories], number)
    return {passage: unpack_vector(content, dimension) for passage, content in packed.items()}


def exists(memory: ChatMemory) -> bool:
    """Whether a memory is still there."""
    return first("SELECT 1 FROM chat_memory WHERE id = ?", memory.number) is not None


def last_message(memory: ChatMemory) -> str | None:
    """The id of a memory's last message; None when all of them were deleted."""
    found = first("SELECT uuid FROM message WHERE memory_id = ? ORDER BY id DESC LIMIT 1", memory.number)
    return None if found is None else found[0]


def waiting(chat: int, last: int | None = None, as_of: int | None = None, released: bool = True) -> Iterator[Head]:
    """A chat's messages of which no memory was made, in their order: up to the number `last`, up to the time `as_of`
    (epoch ms), and with those of which one was deleted if they are to be `released` again.
    """
    after = 0
    bounds = (_LATEST if last is None else last, _LATEST if as_of is None else as_of, int(released))
    while True:
        rows = run(f"{_HEADS} {_WAITING} ORDER BY id LIMIT ?", chat, after, *bounds, _HEADS_AT_ONCE).fetchall()
        yield from (Head(*row) for row in rows)
        if len(rows) < _HEADS_AT_ONCE:
            return
        after = rows[-1][0]


def measure(chat: int, known: int = 0) -> Backlog:
    """What waits in a chat, but for messages that a deleted memory gave back; `known`: a message's number."""
    sql = f"""
        SELECT CAST(coalesce(sum(said), 0) AS BIGINT),
            CAST(coalesce(sum(CASE WHEN id <= ? THEN said END), 0) AS BIGINT), coalesce(max(id), 0),
            min(CASE WHEN role = 'user' AND said > 0 THEN id END),
            max(CASE WHEN role = 'assistant' AND said > 0 THEN id END)
        FROM message WHERE {_WAITING}
    """
    found = first(sql, known, chat, 0, _LATEST, _LATEST, 0)
    assert found is not None
    said, told, last, question, answer = found
    return Backlog(said, told, last, answer if question and answer and question < answer else None)


def waiting_chats(after: int, size: int, limit: int) -> list[int]:
    """Numbers of chats above `after`, ascending, of whose messages without a memory a model would read more than `size`
    bytes; messages that a deleted memory gave back do not count.
    """
    sql = """
        SELECT chat_id FROM message WHERE memory_id IS NULL AND released = 0 AND chat_id > ? GROUP BY chat_id
        HAVING sum(said) > ? ORDER BY chat_id LIMIT ?
    """
    return [chat for (chat,) in run(sql, after, size, limit).fetchall()]


def spoken(heads: Iterable[Head]) -> Iterator[Spoken]:
    """What messages say that were found within the same snapshot; few of them are held at once."""
    for some in _slices(heads):
        marks = ",".join("?" * len(some))
        sql = f"SELECT role, parts, files FROM message WHERE id IN ({marks}) ORDER BY id"
        for role, parts, files in run(sql, *(head.number for head in some)).fetchall():
            yield Spoken(role, text_of(bytes(parts), bytes(files)))


def _slices(heads: Iterable[Head]) -> Iterator[list[Head]]:
    """Messages in parts that have few bytes together, or are one message."""
    some: list[Head] = []
    size = 0
    for head in heads:
        if some and (size + head.stored > _READ_AT_ONCE or len(some) == _ASKED_AT_ONCE):
            yield some
            some, size = [], 0
        some.append(head)
        size += head.stored
    if some:
        yield some


def remembered(memory: int) -> list[Head]:
    """The messages that a memory has, in their order."""
    return [Head(*row) for row in run(f"{_HEADS} memory_id = ? ORDER BY id", memory).fetchall()]


def any_taken(chat: int, heads: Sequence[Head]) -> bool:
    """Whether a memory was meanwhile made of some of these messages."""
    sql = "SELECT id FROM message WHERE chat_id = ? AND memory_id IS NOT NULL AND id >= ? AND id <= ?"
    taken = {number for (number,) in run(sql, chat, heads[0].number, heads[-1].number).fetchall()}
    return any(head.number in taken for head in heads)


def add(chat: int, heads: Sequence[Head], made: Made, reason: str, now: int) -> str:
    """Store a memory of these messages, which must be just what `waiting` finds up to the last of them; its id.

    Needs a transaction.
    """
    found = first("SELECT uuid FROM chat WHERE id = ?", chat)
    assert found is not None
    name = str(uuid.uuid4())
    collection = passages.make_collection(Collection(KIND, found[0]))
    passage = passages.put(collection, Text(name, made.text, b"{}", made.vectors), now)
    number = StoredChatMemory.insert(
        uuid=name,
        chat=chat,
        passage=passage,
        summary=dump(made.summary),
        reason=reason,
        created_at=now,
        updated_at=now,
    ).execute()
    for begin in range(0, len(heads), _ASKED_AT_ONCE):
        some = [head.number for head in heads[begin : begin + _ASKED_AT_ONCE]]
        run(f"UPDATE message SET memory_id = ? WHERE id IN ({','.join('?' * len(some))})", number, *some)
    return name


def change(memory: ChatMemory, made: Made, now: int) -> None:
    """Let a memory say something else. Needs a transaction."""
    passages.put(_collection(memory), Text(memory.id, made.text, b"{}", made.vectors), now)
    run(
        "UPDATE chat_memory SET summary = ?, updated_at = ? WHERE id = ?",
        dump(made.summary),
        max(now, memory.updated_at + 1),
        memory.number,
    )


def remove(memory: ChatMemory) -> None:
    """Remove a memory and all by which it is found; its messages are without one again, released. Needs a
    transaction.
    """
    run("UPDATE message SET memory_id = NULL, released = 1 WHERE memory_id = ?", memory.number)
    run("DELETE FROM chat_memory WHERE id = ?", memory.number)
    passages.remove(_collection(memory), memory.id)


def _collection(memory: ChatMemory) -> int:
    collection = passages.find_collection(Collection(KIND, memory.chat))
    assert collection is not None
    return collection


def _memory(row: Sequence[Any]) -> ChatMemory:
    number, name, chat, chat_number, passage, summary, *rest = row
    return ChatMemory(number, name, chat, chat_number, passage, json.loads(bytes(summary)), *rest)

"""Chats and their messages. Every function needs a connection.

Chats and messages are asked for with the user they must belong to, here and nowhere else: what follows goes by their
numbers, which no client knows.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import peewee

from remory_service.store import passages
from remory_service.store.passages import Collection
from remory_service.store.schema import StoredChat, StoredMessage
from remory_service.store.statements import first, run

KIND = "chat"
_CHATS = """
    SELECT id, uuid, title, created_at, updated_at,
        (SELECT count(*) FROM message WHERE chat_id = chat.id),
        (SELECT count(*) FROM chat_memory WHERE chat_id = chat.id)
    FROM chat
"""
_MESSAGES = """
    SELECT message.uuid, message.role, message.parts, message.metadata, message.files, chat_memory.uuid,
        message.created_at, message.updated_at
    FROM message LEFT JOIN chat_memory ON chat_memory.id = message.memory_id
"""
_SIZES = """
    SELECT id, length(parts) + length(metadata) + length(files) FROM message
    WHERE chat_id = ? ORDER BY id LIMIT ? OFFSET ?
"""
_PUT_AT_ONCE = 500


class Taken(Exception):
    """The id is that of another user's chat."""


@dataclass(frozen=True)
class Chat:
    """A chat. `number` is the store's own, `id` a UUID; `messages` and `memories`: how many it has. Times: epoch ms."""

    number: int
    id: str
    title: str | None
    created_at: int
    updated_at: int
    messages: int
    memories: int

    @property
    def collection(self) -> Collection:
        """Where the passages of its memories are."""
        return Collection(KIND, self.id)


@dataclass(frozen=True)
class Draft:
    """What a message says: `parts` a JSON array, `metadata` a JSON object, `files` a JSON array, all as UTF-8."""

    role: str
    parts: bytes
    metadata: bytes
    files: bytes

    @property
    def size(self) -> int:
        """Bytes of it that are kept."""
        return len(self.parts) + len(self.metadata) + len(self.files)


@dataclass(frozen=True)
class Message:
    """A message. `memory`: the id of the memory that was made of it. Times: epoch ms."""

    id: str
    draft: Draft
    memory: str | None
    created_at: int
    updated_at: int


def find(user: str, chat: str) -> Chat | None:
    """A user's chat by its id; None for one of somebody else, too."""
    found = first(f"{_CHATS} WHERE uuid = ? AND user_name = ?", chat, user)
    return None if found is None else _chat(found)


def make(user: str, chat: str | None, title: str | None, now: int) -> Chat:
    """Make a chat, under an id of its own if none is given. One that the user already has is answered as it is.

    Needs a transaction. Raises Taken.
    """
    chat = chat or str(uuid.uuid4())
    if (known := find(user, chat)) is not None:
        return known
    if first("SELECT 1 FROM chat WHERE uuid = ?", chat) is not None:
        raise Taken
    data = None if title is None else title.encode()
    number = StoredChat.insert(uuid=chat, user=user, title=data, created_at=now, updated_at=now).execute()
    return Chat(number, chat, title, now, now, 0, 0)


def page_of(user: str, limit: int, offset: int) -> tuple[list[Chat], int]:
    """A user's chats, those that changed last first, and how many there are."""
    sql = f"{_CHATS} WHERE user_name = ? ORDER BY updated_at DESC, id DESC LIMIT ? OFFSET ?"
    chats = [_chat(row) for row in run(sql, user, limit, offset).fetchall()]
    return chats, _count("SELECT count(*) FROM chat WHERE user_name = ?", user)


def remove(chat: Chat) -> None:
    """Remove a chat with its messages, its memories and all by which they are found. Needs a transaction."""
    run("DELETE FROM message WHERE chat_id = ?", chat.number)
    run("DELETE FROM chat_memory WHERE chat_id = ?", chat.number)
    if (collection := passages.find_collection(chat.collection)) is not None:
        passages.remove_collection(collection)
    run("DELETE FROM chat WHERE id = ?", chat.number)


def exists(number: int) -> bool:
    """Whether a chat is still there."""
    return first("SELECT 1 FROM chat WHERE id = ?", number) is not None


def add(chat: Chat, drafts: Sequence[Draft], now: int) -> list[Message]:
    """Add messages at a chat's end. Needs a transaction.

    Their times ascend strictly: together they end at `now`, or go on from the last one that is there.
    """
    last = first("SELECT created_at FROM message WHERE chat_id = ? ORDER BY id DESC LIMIT 1", chat.number)
    begin = now - len(drafts) + 1 if last is None else max(last[0] + 1, now - len(drafts) + 1)
    added = [Message(str(uuid.uuid4()), draft, None, begin + i, begin + i) for i, draft in enumerate(drafts)]
    rows = [
        {
            "uuid": message.id,
            "chat": chat.number,
            "created_at": message.created_at,
            "updated_at": message.updated_at,
            **vars(message.draft),
        }
        for message in added
    ]
    for some in peewee.chunked(rows, _PUT_AT_ONCE):
        StoredMessage.insert_many(some).execute()
    _touch(chat.number, now)
    return added


def page(chat: Chat, limit: int, offset: int, most_bytes: int) -> list[Message]:
    """Up to `limit` messages of a chat after the first `offset`, with `most_bytes` together, but one at least."""
    sizes = run(_SIZES, chat.number, limit, offset).fetchall()
    last, size = 0, 0
    for number, bytes_of_it in sizes:
        size += bytes_of_it
        if last and size > most_bytes:
            break
        last = number
    if not sizes:
        return []
    sql = f"{_MESSAGES} WHERE message.chat_id = ? AND message.id >= ? AND message.id <= ? ORDER BY message.id"
    return [_message(row) for row in run(sql, chat.number, sizes[0][0], last).fetchall()]


def of_memory(memory: int) -> list[Message]:
    """The messages that a memory was made of, as they are now."""
    return [_message(row) for row in run(f"{_MESSAGES} WHERE message.memory_id = ? ORDER BY message.id", memory)]


def find_message(user: str, message: str) -> Message | None:
    """A message of one of the user's chats by its id; None for one of somebody else, too."""
    sql = f"{_MESSAGES} JOIN chat ON chat.id = message.chat_id WHERE message.uuid = ? AND chat.user_name = ?"
    found = first(sql, message, user)
    return None if found is None else _message(found)


def change(message: Message, draft: Draft, now: int) -> Message:
    """Let a message say something else. Needs a transaction."""
    changed = Message(message.id, draft, message.memory, message.created_at, max(now, message.updated_at + 1))
    StoredMessage.update(updated_at=changed.updated_at, **vars(draft)).where(StoredMessage.uuid == message.id).execute()
    _touch(_chat_of(message), now)
    return changed


def remove_message(message: Message, now: int) -> None:
    """Remove a message. Needs a transaction."""
    chat = _chat_of(message)
    run("DELETE FROM message WHERE uuid = ?", message.id)
    _touch(chat, now)


def place_of(chat: Chat, message: str) -> int | None:
    """The number of a chat's message, which ascends in the order of the messages; None when the chat has none such."""
    found = first("SELECT id FROM message WHERE chat_id = ? AND uuid = ?", chat.number, message)
    return None if found is None else found[0]


def _chat_of(message: Message) -> int:
    return _count("SELECT chat_id FROM message WHERE uuid = ?", message.id)


def _touch(chat: int, now: int) -> None:
    run("UPDATE chat SET updated_at = ? WHERE id = ? AND updated_at < ?", now, chat, now)


def _count(sql: str, *values: Any) -> int:
    found = first(sql, *values)
    assert found is not None
    return found[0]


def _chat(row: Sequence[Any]) -> Chat:
    number, chat, title, *rest = row
    return Chat(number, chat, None if title is None else bytes(title).decode(), *rest)


def _message(row: Sequence[Any]) -> Message:
    message, role, parts, metadata, files, memory, created_at, updated_at = row
    return Message(message, Draft(role, bytes(parts), bytes(metadata), bytes(files)), memory, created_at, updated_at)

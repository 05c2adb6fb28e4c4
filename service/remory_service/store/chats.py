"""Chats and their messages. Every function needs a connection.

Chats and messages are asked for with the user they must belong to, here and nowhere else: what follows goes by their
numbers, which no client knows.
"""

from __future__ import annotations

import json
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
_SIZES = "SELECT id, length(parts) + length(metadata) + length(files) FROM message"
_PUT_AT_ONCE = 500
_FILE_NAMES = ("filename", "name")


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


@dataclass(frozen=True)
class Page:
    """Some messages in their order. `further`: what to go on after, None where nothing follows."""

    messages: list[Message]
    further: int | None


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


def page_of(user: str, limit: int, offset: int, before: tuple[int, str] | None = None) -> tuple[list[Chat], bool, int]:
    """A user's chats, those that changed last first; whether more follow, and how many there are.

    `before` (time of the last change in epoch ms, id) of the chat that the page before ended with.
    """
    after, key = ("", ()) if before is None else ("AND (updated_at, uuid) < (?, ?)", before)
    sql = f"{_CHATS} WHERE user_name = ? {after} ORDER BY updated_at DESC, uuid DESC LIMIT ? OFFSET ?"
    found = [_chat(row) for row in run(sql, user, *key, limit + 1, offset).fetchall()]
    return found[:limit], len(found) > limit, _count("SELECT count(*) FROM chat WHERE user_name = ?", user)


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

    All get one time, `now` or that of the last one there if it is later: their order is that of their numbers.
    """
    last = first("SELECT created_at FROM message WHERE chat_id = ? ORDER BY id DESC LIMIT 1", chat.number)
    time = now if last is None else max(last[0], now)
    added = [Message(str(uuid.uuid4()), draft, None, time, time) for draft in drafts]
    rows = [
        {"uuid": message.id, "chat": chat.number, "created_at": time, "updated_at": time, **_columns(message.draft)}
        for message in added
    ]
    for some in peewee.chunked(rows, _PUT_AT_ONCE):
        StoredMessage.insert_many(some).execute()
    _touch(chat.number, now)
    return added


def page(chat: Chat, limit: int, offset: int, most_bytes: int, after: int = 0) -> Page:
    """Up to `limit` messages of a chat, with `most_bytes` together, but one at least: those that follow a page's
    `further`, but for the first `offset` of them.
    """
    return _page("chat_id", chat.number, limit, offset, most_bytes, after)


def page_of_memory(memory: int, limit: int, most_bytes: int, after: int = 0) -> Page:
    """The same of the messages that a memory was made of, as they are now."""
    return _page("memory_id", memory, limit, 0, most_bytes, after)


def _page(column: str, number: int, limit: int, offset: int, most_bytes: int, after: int) -> Page:
    sql = f"{_SIZES} WHERE {column} = ? AND id > ? ORDER BY id LIMIT ? OFFSET ?"
    sizes = run(sql, number, after, limit + 1, offset).fetchall()
    if not sizes:
        return Page([], None)
    count, size = 0, 0
    for _, bytes_of_it in sizes[:limit]:
        size += bytes_of_it
        if count and size > most_bytes:
            break
        count += 1
    begin, end = sizes[0][0], sizes[count - 1][0]
    sql = f"{_MESSAGES} WHERE message.{column} = ? AND message.id >= ? AND message.id <= ? ORDER BY message.id"
    found = [_message(row) for row in run(sql, number, begin, end).fetchall()]
    return Page(found, end if count < len(sizes) else None)


def find_message(user: str, message: str) -> Message | None:
    """A message of one of the user's chats by its id; None for one of somebody else, too."""
    sql = f"{_MESSAGES} JOIN chat ON chat.id = message.chat_id WHERE message.uuid = ? AND chat.user_name = ?"
    found = first(sql, message, user)
    return None if found is None else _message(found)


def change(message: Message, draft: Draft, now: int) -> Message:
    """Let a message say something else. Needs a transaction."""
    changed = Message(message.id, draft, message.memory, message.created_at, max(now, message.updated_at + 1))
    columns = {"updated_at": changed.updated_at, **_columns(draft)}
    StoredMessage.update(**columns).where(StoredMessage.uuid == message.id).execute()
    _touch(chat_of(message), now)
    return changed


def remove_message(message: Message, now: int) -> None:
    """Remove a message. Needs a transaction."""
    chat = chat_of(message)
    run("DELETE FROM message WHERE uuid = ?", message.id)
    _touch(chat, now)


def place_of(chat: Chat, message: str) -> int | None:
    """The number of a chat's message, which ascends in the order of the messages; None when the chat has none such."""
    found = first("SELECT id FROM message WHERE chat_id = ? AND uuid = ?", chat.number, message)
    return None if found is None else found[0]


def chat_of(message: Message) -> int:
    """The number of the chat that a message is in."""
    return _count("SELECT chat_id FROM message WHERE uuid = ?", message.id)


def text_of(parts: bytes, files: bytes) -> str:
    """What a message says, as a model reads it: its texts, its tools' results, the names of its files."""
    said = [_said(part) for part in json.loads(parts)]
    names = [_file_name(file) for file in json.loads(files)]
    return "\n".join(text for text in said + names if text.strip())


def _said(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return part["text"]
    if "output" in part:
        output = part["output"]
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return _file_name(part) if part["type"] == "file" else ""


def _file_name(file: dict[str, Any]) -> str:
    return next((file[field] for field in _FILE_NAMES if isinstance(file.get(field), str)), "")


def _columns(draft: Draft) -> dict[str, Any]:
    """A draft as the columns of a message, with how much it says."""
    return {**vars(draft), "said": len(text_of(draft.parts, draft.files).encode())}


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

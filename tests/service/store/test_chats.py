"""Chats, messages and memories in the store, on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from remory_service.store import chat_memories, chats, passages
from remory_service.store.chat_memories import Made
from remory_service.store.chats import Chat, Draft, Taken
from remory_service.store.database import transaction
from remory_service.store.schema import (
    StoredChat,
    StoredChatMemory,
    StoredEmbedding,
    StoredMessage,
    StoredPassage,
    database,
)

NOW = 1_800_000_000_000
SUMMARY = {"title": "t", "l1": "l1", "l2": "l2", "method": "model"} | dict.fromkeys(
    ("topics", "decisions", "actions", "entities"), ()
)


def draft(text: str, role: str = "user") -> Draft:
    return Draft(role, f'[{{"type":"text","text":"{text}"}}]'.encode(), b"{}", b"[]")


def make(user: str = "one", chat: str | None = None) -> Chat:
    with transaction():
        return chats.make(user, chat, None, NOW)


def add(chat: Chat, *texts: str, now: int = NOW) -> list[chats.Message]:
    with transaction():
        return chats.add(chat, [draft(text) for text in texts], now)


def remember(chat: Chat, last: str | None = None) -> chat_memories.ChatMemory:
    """A memory of what is waiting, with a vector."""
    place = None if last is None else chats.place_of(chat, last)
    with transaction():
        vectors = {passages.make_model("m", 2): b"\0\0\x80\x3f\0\0\0\0"}
        made = Made(SUMMARY, "what is searched", vectors)
        name = chat_memories.add(chat.number, chat_memories.waiting(chat.number, place), made, "user_created", NOW)
    found = chat_memories.find("one", name)
    assert found is not None
    return found


def count(model: Any) -> int:
    return model.select().count()


@pytest.mark.parametrize("model", [StoredChat, StoredChatMemory, StoredMessage])
def test_models_have_the_columns_that_the_migrations_made(store: Path, model: type) -> None:
    columns = {column.name for column in database.obj.get_columns(model._meta.table_name)}
    assert columns == {field.column_name for field in model._meta.fields.values()}


def test_an_id_is_one_users_and_not_told_to_others(store: Path) -> None:
    name = str(uuid4())
    chat = make("one", name)
    assert make("one", name) == chat
    with pytest.raises(Taken):
        make("two", name)
    assert chats.find("two", name) is None
    assert chats.page_of("two", 10, 0) == ([], 0)


def test_times_of_messages_ascend_strictly_and_end_now(store: Path) -> None:
    chat = make()
    first = [message.created_at for message in add(chat, "a", "b", "c")]
    assert first == [NOW - 2, NOW - 1, NOW]
    # A clock that stands still or goes back does not let them.
    later = [message.created_at for message in add(chat, "d", "e", now=NOW - 1000)]
    assert later == [NOW + 1, NOW + 2]
    assert [message.created_at for message in add(chat, "f", now=NOW + 500)] == [NOW + 500]
    stored = chats.page(chat, 10, 0, 1 << 20)
    assert [b"abcdef"[index : index + 1] in message.draft.parts for index, message in enumerate(stored)] == [True] * 6


def test_a_page_ends_before_it_has_too_many_bytes_but_has_one_message(store: Path) -> None:
    chat = make()
    add(chat, "x" * 1000, "y" * 100, "z" * 1000)
    size = draft("").size
    assert len(chats.page(chat, 10, 0, 1)) == 1
    assert len(chats.page(chat, 10, 0, 1100 + 2 * size)) == 2
    assert len(chats.page(chat, 10, 0, 1100 + 2 * size - 1)) == 1
    assert len(chats.page(chat, 10, 1, 1 << 20)) == 2
    assert chats.page(chat, 10, 3, 1 << 20) == []


def test_a_change_always_changes_the_time(store: Path) -> None:
    chat = make()
    (message,) = add(chat, "a")
    with transaction():
        changed = chats.change(message, draft("b"), NOW)
        again = chats.change(changed, draft("c"), NOW)
    assert message.updated_at < changed.updated_at < again.updated_at
    assert chats.find_message("one", message.id) == again


def test_waiting_messages_are_those_without_a_memory_in_their_order(store: Path) -> None:
    chat, other = make(), make()
    messages = add(chat, "a", "b", "c")
    add(other, "d")
    assert len(chat_memories.waiting(chat.number)) == 3
    assert len(chat_memories.waiting(chat.number, as_of=messages[1].created_at)) == 2
    memory = remember(chat, messages[1].id)
    assert memory.messages == 2
    (left,) = chat_memories.waiting(chat.number)
    assert left.number == chats.place_of(chat, messages[2].id)
    assert chats.place_of(other, messages[2].id) is None
    assert chat_memories.last_message(memory) == messages[1].id
    assert [message.memory for message in chats.page(chat, 9, 0, 1 << 20)] == [memory.id, memory.id, None]


def test_a_memory_goes_with_its_passage_and_vector_and_its_messages_stay(store: Path) -> None:
    chat = make()
    add(chat, "a", "b")
    memory = remember(chat)
    assert (count(StoredChatMemory), count(StoredPassage)) == (1, 1)
    with transaction():
        chat_memories.remove(memory)
    assert (count(StoredChatMemory), count(StoredPassage)) == (0, 0)
    assert StoredEmbedding.select().where(StoredEmbedding.content.is_null(False)).count() == 0
    assert len(chat_memories.waiting(chat.number)) == 2


def test_a_chat_goes_with_all_that_belongs_to_it_and_nothing_else(store: Path) -> None:
    chat, other = make(), make()
    for one in (chat, other):
        add(one, "a", "b")
        remember(one)
    with transaction():
        chats.remove(chat)
    assert [count(model) for model in (StoredChat, StoredMessage, StoredChatMemory, StoredPassage)] == [1, 2, 1, 1]
    assert count(StoredEmbedding) == 1
    assert len(chat_memories.list_chat(other)) == 1
    # The same id may be used anew, and finds nothing of what was.
    again = make("two", chat.id)
    assert again.number != chat.number
    assert passages.find_collection(again.collection) is None


def test_chats_that_are_over_are_found_page_by_page(store: Path) -> None:
    long = [make() for _ in range(3)]
    for chat in long:
        add(chat, "x" * 500, "y" * 500)
    add(make(), "short")
    remember(long[1])
    assert chat_memories.waiting_chats(0, 1000, 10) == [long[0].number, long[2].number]
    assert chat_memories.waiting_chats(0, 1000, 1) == [long[0].number]
    assert chat_memories.waiting_chats(long[0].number, 1000, 10) == [long[2].number]

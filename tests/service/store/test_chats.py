"""Chats, messages and memories in the store, on both databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from remory_service.store import chat_memories, chats, passages
from remory_service.store.chat_memories import Head, Made
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


def waiting(chat: Chat, *bounds: Any, **options: Any) -> list[Head]:
    return list(chat_memories.waiting(chat.number, *bounds, **options))


def remember(chat: Chat, last: str | None = None) -> chat_memories.ChatMemory:
    """A memory of what is waiting, with a vector."""
    place = None if last is None else chats.place_of(chat, last)
    with transaction():
        vectors = {passages.make_model("m", 2): b"\0\0\x80\x3f\0\0\0\0"}
        made = Made(SUMMARY, "what is searched", vectors)
        name = chat_memories.add(chat.number, waiting(chat, place), made, "user_created", NOW)
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
    assert chats.page_of("two", 10, 0) == ([], False, 0)


def test_messages_that_came_together_have_one_time_which_never_goes_back(store: Path) -> None:
    chat = make()
    assert [message.created_at for message in add(chat, "a", "b", "c")] == [NOW] * 3
    # A clock that goes back does not let them.
    assert [message.created_at for message in add(chat, "d", "e", now=NOW - 1000)] == [NOW] * 2
    assert [message.created_at for message in add(chat, "f", now=NOW + 500)] == [NOW + 500]
    stored = chats.page(chat, 10, 0, 1 << 20).messages
    assert [b"abcdef"[index : index + 1] in message.draft.parts for index, message in enumerate(stored)] == [True] * 6


def test_a_time_does_not_reach_to_what_was_said_after_it(store: Path) -> None:
    chat = make()
    add(chat, "a")
    add(chat, *("b" * 50), now=NOW + 10)
    assert len(waiting(chat, as_of=NOW + 9)) == 1
    assert len(waiting(chat, as_of=NOW + 10)) == 51


def test_a_page_ends_before_it_has_too_many_bytes_but_has_one_message(store: Path) -> None:
    chat = make()
    add(chat, "x" * 1000, "y" * 100, "z" * 1000)
    size = draft("").size

    def count(limit: int, offset: int, most: int, after: int = 0) -> tuple[int, bool]:
        page = chats.page(chat, limit, offset, most, after)
        return len(page.messages), page.further is not None

    assert count(10, 0, 1) == (1, True)
    assert count(10, 0, 1100 + 2 * size) == (2, True)
    assert count(10, 0, 1100 + 2 * size - 1) == (1, True)
    assert count(10, 0, 2100 + 3 * size) == (3, False)
    assert count(2, 0, 1 << 20) == (2, True)
    assert count(3, 0, 1 << 20) == (3, False)
    assert count(10, 1, 1 << 20) == (2, False)
    assert count(10, 3, 1 << 20) == (0, False)


def test_pages_go_on_where_they_ended_whatever_was_deleted(store: Path) -> None:
    chat = make()
    messages = add(chat, *"abcdef")
    first = chats.page(chat, 3, 0, 1 << 20)
    with transaction():
        for message in messages[:3]:
            chats.remove_message(message, NOW)
    assert first.further is not None
    second = chats.page(chat, 3, 0, 1 << 20, first.further)
    assert [message.id for message in second.messages] == [message.id for message in messages[3:]]
    assert second.further is None


def test_pages_of_chats_go_on_where_they_ended_whatever_was_deleted(store: Path) -> None:
    # All of one time, so that the ids alone keep them apart.
    made = {make().id: None for _ in range(6)}
    first, is_more, total = chats.page_of("one", 3, 0)
    assert (is_more, total) == (True, 6)
    with transaction():
        for chat in first:
            chats.remove(chat)
    second, is_more, total = chats.page_of("one", 3, 0, (first[-1].updated_at, first[-1].id))
    assert (is_more, total) == (False, 3)
    assert {chat.id for chat in (*first, *second)} == set(made)


def test_a_change_always_changes_the_time(store: Path) -> None:
    chat = make()
    (message,) = add(chat, "a")
    with transaction():
        changed = chats.change(message, draft("b"), NOW)
        again = chats.change(changed, draft("c"), NOW)
    assert message.updated_at < changed.updated_at < again.updated_at
    assert chats.find_message("one", message.id) == again


def test_a_change_of_a_message_is_one_of_its_chat(store: Path) -> None:
    chat = make()
    (message,) = add(chat, "a")

    def changed() -> int:
        found = chats.find("one", chat.id)
        assert found is not None
        return found.updated_at - NOW

    with transaction():
        message = chats.change(message, draft("b"), NOW + 5)
    assert changed() == 5
    with transaction():
        chats.remove_message(message, NOW + 9)
    assert changed() == 9


def test_waiting_messages_are_those_without_a_memory_in_their_order(store: Path) -> None:
    chat, other = make(), make()
    messages = add(chat, "a", "b", "c")
    add(other, "d")
    assert len(waiting(chat)) == 3
    memory = remember(chat, messages[1].id)
    assert memory.messages == 2
    (left,) = waiting(chat)
    assert left.number == chats.place_of(chat, messages[2].id)
    assert chats.place_of(other, messages[2].id) is None
    assert chat_memories.last_message(memory) == messages[1].id
    stored = chats.page(chat, 9, 0, 1 << 20).messages
    assert [message.memory for message in stored] == [memory.id, memory.id, None]


def test_waiting_messages_come_in_parts(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remory_service.store.chat_memories._HEADS_AT_ONCE", 2)
    chat = make()
    add(chat, *"abcde")
    assert [spoken.text for spoken in chat_memories.spoken(waiting(chat))] == list("abcde")
    monkeypatch.setattr("remory_service.store.chat_memories._READ_AT_ONCE", 1)
    assert [spoken.text for spoken in chat_memories.spoken(waiting(chat))] == list("abcde")


def test_a_memory_takes_just_its_messages(store: Path) -> None:
    """Those of another memory that stand between them stay with it."""
    chat = make()
    messages = add(chat, "a", "b", "c", "d")
    first = remember(chat, messages[1].id)
    second = remember(chat)
    with transaction():
        chat_memories.remove(first)
    add(chat, "e")
    third = remember(chat)
    stored = chats.page(chat, 9, 0, 1 << 20).messages
    assert [message.memory for message in stored] == [third.id] * 2 + [second.id] * 2 + [third.id]
    assert [spoken.text for spoken in chat_memories.spoken(chat_memories.remembered(third.number))] == ["a", "b", "e"]


def test_what_a_deleted_memory_gave_back_waits_for_those_alone_who_ask(store: Path) -> None:
    chat = make()
    add(chat, "question", "x" * 500)
    with transaction():
        chat_memories.remove(remember(chat))
    add(chat, "later")
    assert len(waiting(chat)) == 3
    assert len(waiting(chat, released=False)) == 1
    assert chat_memories.measure(chat.number).said == len("later")
    assert chat_memories.waiting_chats(0, 100, 10) == []


def test_a_chats_backlog_is_what_a_model_would_read(store: Path) -> None:
    chat = make()

    def measure(known: int = 0) -> tuple[int, int, bool]:
        backlog = chat_memories.measure(chat.number, known)
        return backlog.said, backlog.known, backlog.last_answer is not None

    assert measure() == (0, 0, False)
    silent = Draft("assistant", b'[{"type":"file","url":"' + b"x" * 900 + b'"}]', b"{}", b"[]")
    with transaction():
        answer, _ = chats.add(chat, [draft("Hello.", "assistant"), draft("Größe?")], NOW)
    assert measure() == (6 + 8, 0, False)
    with transaction():
        chats.add(chat, [silent], NOW)
    assert measure() == (14, 0, False)
    with transaction():
        last, _ = chats.add(chat, [draft("So.", "assistant"), draft("And?")], NOW)
    number = chats.place_of(chat, last.id)
    assert number is not None
    assert measure(number) == (21, 17, True)
    assert chat_memories.measure(chat.number).last_answer == number
    with transaction():
        chats.change(answer, draft("Hello!!", "assistant"), NOW)
    assert measure(number) == (22, 18, True)


def test_a_memory_goes_with_its_passage_and_vector_and_its_messages_stay(store: Path) -> None:
    chat = make()
    add(chat, "a", "b")
    memory = remember(chat)
    assert (count(StoredChatMemory), count(StoredPassage)) == (1, 1)
    with transaction():
        chat_memories.remove(memory)
    assert (count(StoredChatMemory), count(StoredPassage)) == (0, 0)
    assert StoredEmbedding.select().where(StoredEmbedding.content.is_null(False)).count() == 0
    assert len(waiting(chat)) == 2


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
    assert chat_memories.waiting_chats(0, 1000, 10) == []
    assert chat_memories.waiting_chats(0, 999, 10) == [long[0].number, long[2].number]
    assert chat_memories.waiting_chats(0, 999, 1) == [long[0].number]
    assert chat_memories.waiting_chats(long[0].number, 999, 10) == [long[2].number]

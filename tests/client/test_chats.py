"""Chats and their memories against a real server process, with the embedded models of language."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from remory import Chats, Client
from remory.client import Conflict, InvalidRequest, NotFound

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PARSER = [
    {"role": "user", "text": "Why do 3 tests of the parser fail?"},
    {"role": "assistant", "text": "The parser of the search service drops the last line of a file."},
    {"role": "user", "text": "Then read to the end of the file, please."},
    {"role": "assistant", "text": "Done. All 41 tests pass, and the change is in parse.c."},
]
DEPLOYS = [
    {"role": "user", "text": "When may the payment team deploy?"},
    {"role": "assistant", "text": "On Tuesdays at 14:00 only, after the gateway was checked."},
]


@pytest.fixture
def chats(server, request):
    """The chats of a user that no other test has."""
    with Client(server.url, user=request.node.name[:200]) as client:
        yield Chats(client)


@pytest.fixture
def chat(chats):
    return chats.create(title="Build failures")


class TestChats:
    def test_create_get_list_and_delete(self, chats):
        own = str(uuid4())
        first, second = chats.create(), chats.create(own, "Deploys")
        assert str(UUID(first.id)) == first.id and second.id == own
        assert (second.title, second.message_count, second.memory_count) == ("Deploys", 0, 0)
        assert TIME.fullmatch(first.created_at) and TIME.fullmatch(first.updated_at)
        assert chats.get(own) == second == chats.create(own, "Another title")
        assert {chat.id for chat in chats.list()} == {first.id, own}
        assert chats.delete(own) is None
        assert [chat.id for chat in chats.list()] == [first.id]
        for act in (chats.get, chats.delete, lambda id: chats.add(id, PARSER), lambda id: list(chats.messages(id))):
            with pytest.raises(NotFound, match="Chat not found") as caught:
                act(own)
            assert caught.value.status == 404

    def test_the_chat_that_changed_last_comes_first(self, chats):
        ids = [chats.create().id for _ in range(3)]
        chats.add(ids[0], PARSER)
        assert next(chats.list()).id == ids[0]

    def test_more_chats_than_a_page_has(self, chats, monkeypatch):
        monkeypatch.setattr("remory.client.chats._CHATS_PAGE", 2)
        ids = {chats.create().id for _ in range(5)}
        assert {chat.id for chat in chats.list()} == ids

    def test_no_chat_is_lost_when_others_are_deleted_meanwhile(self, chats, monkeypatch):
        monkeypatch.setattr("remory.client.chats._CHATS_PAGE", 2)
        ids = {chats.create().id for _ in range(6)}
        met = []
        for chat in chats.list():
            met.append(chat.id)
            chats.delete(chat.id)
        assert set(met) == ids

    def test_another_user_sees_nothing(self, server, chats, chat):
        (message,) = chats.add(chat.id, PARSER[0])
        with Client(server.url, user="elsewhere") as client:
            other = Chats(client)
            assert list(other.list()) == []
            for act in (
                lambda: other.get(chat.id),
                lambda: other.remember(chat.id),
                lambda: other.update_message(message.id, text="x"),
                lambda: other.delete_message(message.id),
            ):
                with pytest.raises(NotFound):
                    act()
            with pytest.raises(Conflict) as caught:
                other.create(chat.id)
            assert caught.value.status == 409
        assert next(chats.messages(chat.id)).text == PARSER[0]["text"]


class TestMessages:
    def test_messages_are_added_read_changed_and_deleted(self, chats, chat):
        added = chats.add(chat.id, PARSER)
        assert [(message.role, message.text) for message in added] == [(one["role"], one["text"]) for one in PARSER]
        assert list(chats.messages(chat.id)) == added
        assert added[0].parts == ({"type": "text", "text": PARSER[0]["text"]},)
        assert added[0].memory_id is None and TIME.fullmatch(added[0].metadata["createdAt"])
        changed = chats.update_message(added[3].id, text="All pass.", metadata={"liked": True})
        assert (changed.id, changed.role, changed.text) == (added[3].id, "assistant", "All pass.")
        assert changed.metadata["liked"] is True
        assert chats.update_message(added[3].id, role="tool").text == "All pass."
        assert chats.delete_message(added[0].id) is None
        assert [message.id for message in chats.messages(chat.id)] == [message.id for message in added[1:]]
        for act in (chats.delete_message, lambda id: chats.update_message(id, text="x")):
            with pytest.raises(NotFound, match="Message not found"):
                act(added[0].id)
        assert chats.get(chat.id).message_count == 3

    def test_parts_files_and_metadata(self, chats, chat):
        parts = [
            {"type": "text", "text": "See "},
            {"type": "file", "url": "file.csv"},
            {"type": "text", "text": "this."},
        ]
        sent = {"role": "user", "parts": parts, "metadata": {"place": 3}, "files": [{"name": "file.csv"}]}
        (message,) = chats.add(chat.id, sent)
        assert message.parts == tuple(parts) and message.text == "See this."
        assert (message.metadata["place"], message.metadata["files"]) == (3, [{"name": "file.csv"}])
        changed = chats.update_message(message.id, parts=parts[:1], files=[])
        assert (changed.text, changed.metadata["files"], changed.metadata["place"]) == ("See ", [], 3)

    def test_more_messages_than_a_page_has(self, chats, chat, monkeypatch):
        monkeypatch.setattr("remory.client.chats._MESSAGES_PAGE", 3)
        added = chats.add(chat.id, [{"role": "user", "text": f"Line {number}."} for number in range(10)])
        assert list(chats.messages(chat.id)) == added

    def test_no_message_is_lost_when_others_are_deleted_meanwhile(self, chats, chat, monkeypatch):
        monkeypatch.setattr("remory.client.chats._MESSAGES_PAGE", 3)
        added = chats.add(chat.id, [{"role": "user", "text": f"Line {number}."} for number in range(10)])
        met = []
        for message in chats.messages(chat.id):
            met.append(message)
            chats.delete_message(message.id)
        assert met == added

    @pytest.mark.parametrize("text", ["grün \U0001f680 שלום", "a\nb\t\u200fc", "x" * 1_000_000, ""])
    def test_texts_are_kept_exactly(self, chats, chat, text):
        chats.add(chat.id, {"role": "user", "text": text})
        assert [message.text for message in chats.messages(chat.id)] == [text]

    @pytest.mark.parametrize(
        "messages",
        [
            [],
            {"role": "narrator", "text": "x"},
            {"role": "user"},
            {"text": "x"},
            {"role": "user", "text": "x", "parts": []},
            {"role": "user", "text": "\ud800"},
            {"role": "user", "parts": ["x"]},
            [PARSER[0], {"role": "user", "text": 3}],
        ],
    )
    def test_what_cannot_be_used_is_refused_as_a_whole(self, chats, chat, messages):
        with pytest.raises(InvalidRequest):
            chats.add(chat.id, messages)
        assert list(chats.messages(chat.id)) == []


class TestMemories:
    def test_a_chat_is_remembered_searched_and_forgotten(self, chats, chat):
        added = chats.add(chat.id, PARSER)
        memory = chats.remember(chat.id, reason="solved_problem")
        assert (memory.chat_id, memory.reason, memory.message_count) == (chat.id, "solved_problem", 4)
        assert memory.method in ("model", "extractive") and memory.title and memory.l1 and memory.l2
        assert all(entity.lower() in str(PARSER).lower() for entity in memory.entities)
        assert abs(sum(element**2 for element in memory.vector) - 1) < 1e-3
        assert chats.memories(chat.id) == [memory]
        read = chats.memory(memory.id)
        assert [message.id for message in read.messages] == [message.id for message in added]
        assert {message.memory_id for message in read.messages} == {memory.id}
        assert (read.l1, read.vector) == (memory.l1, memory.vector)
        assert chats.get(chat.id).memory_count == 1
        with pytest.raises(InvalidRequest, match="No new messages to create memory from") as caught:
            chats.remember(chat.id)
        assert caught.value.status == 400

        chats.add(chat.id, DEPLOYS)
        second = chats.remember(chat.id)
        assert (second.reason, second.message_count) == ("user_created", 2)
        assert [one.id for one in chats.memories(chat.id)] == [memory.id, second.id]
        found = chats.search(chat.id, "When may the payment team deploy?")
        assert [one.rank for one in found] == [1, 2]
        assert (found[0].id, found[0].summary, found[0].details) == (second.id, second.l2, second.l1)
        assert 1 >= found[0].relevance > found[1].relevance >= -1
        assert found[1].message_id == added[-1].id
        assert len(chats.search(chat.id, "deploy", limit=1, mode="hybrid")) == 1

        assert chats.forget(memory.id) is None
        assert [one.id for one in chats.memories(chat.id)] == [second.id]
        assert [one.id for one in chats.search(chat.id, "parser")] == [second.id]
        for act in (chats.memory, chats.forget, chats.regenerate):
            with pytest.raises(NotFound, match="Memory not found"):
                act(memory.id)
        assert [message.memory_id for message in chats.messages(chat.id)] == [None] * 4 + [second.id] * 2
        assert chats.remember(chat.id).message_count == 4

    def test_more_memories_than_a_page_has(self, chats, chat, monkeypatch):
        monkeypatch.setattr("remory.client.chats._MEMORIES_PAGE", 1)
        made = []
        for messages in (PARSER, DEPLOYS):
            chats.add(chat.id, messages)
            made.append(chats.remember(chat.id))
        assert chats.memories(chat.id) == made

    def test_a_memory_of_large_messages_has_all_of_them(self, chats, chat):
        file = {"type": "file", "url": "data:," + "x" * (15 << 20)}
        added = [message for _ in range(5) for message in chats.add(chat.id, {"role": "user", "parts": [file]})]
        added += chats.add(chat.id, DEPLOYS)
        read = chats.memory(chats.remember(chat.id).id)
        assert [message.id for message in read.messages] == [message.id for message in added]

    def test_up_to_a_message_or_a_time(self, chats, chat):
        added = chats.add(chat.id, PARSER)
        assert chats.remember(chat.id, added[1].id).message_count == 2
        for early in (datetime.now(UTC) - timedelta(days=1), "2026-01-15T16:20:00.000Z"):
            with pytest.raises(InvalidRequest, match="No new messages"):
                chats.remember(chat.id, as_of=early)
        assert chats.remember(chat.id, as_of=datetime.now(UTC) + timedelta(minutes=1)).message_count == 2

    def test_regenerate_reads_the_messages_as_they_are_now(self, chats, chat):
        added = chats.add(chat.id, PARSER[:2])
        memory = chats.remember(chat.id)
        for message, other in zip(added, DEPLOYS, strict=True):
            chats.update_message(message.id, text=other["text"])
        assert chats.memory(memory.id).l1 == memory.l1
        anew = chats.regenerate(memory.id)
        assert (anew.id, anew.created_at, anew.message_count) == (memory.id, memory.created_at, 2)
        assert [message.text for message in anew.messages] == [one["text"] for one in DEPLOYS]
        assert anew.vector != memory.vector

    @pytest.mark.parametrize(
        ("act", "words"),
        [
            (lambda chats, id: chats.remember(id, reason="boredom"), "reason"),
            (lambda chats, id: chats.remember(id, as_of="yesterday"), "asOf"),
            (lambda chats, id: chats.remember(id, str(uuid4())), "messageId"),
            (lambda chats, id: chats.search(id, "x" * 501), "query"),
            (lambda chats, id: chats.search(id, ""), "query"),
            (lambda chats, id: chats.search(id, "x", limit=21), "limit"),
            (lambda chats, id: chats.search(id, "x", limit=0), "limit"),
        ],
    )
    def test_what_cannot_be_used_is_refused(self, chats, chat, act, words):
        chats.add(chat.id, PARSER)
        with pytest.raises(InvalidRequest, match=words) as caught:
            act(chats, chat.id)
        assert caught.value.status == 400
        assert chats.memories(chat.id) == []


def test_the_client_of_chats_needs_no_torch():
    program = "import sys; from remory import Chats; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False False\n"

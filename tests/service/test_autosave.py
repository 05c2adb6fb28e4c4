"""Memories that chats get by themselves, on both databases, with a small actor's tokens and a real endpoint."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from remory_service.app import create_app
from remory_service.autosave import Autosave
from remory_service.config import Config
from remory_service.runtime import Runtime
from remory_service.store import chat_memories, chats
from remory_service.store.chat_memories import Head, Spoken
from remory_service.store.database import close_store, connection
from tests.databases import PostgresqlServer
from tests.language.test_endpoint import Peer, Reply, Request
from tests.service.api.test_chat_memories import (
    completion,
    endpoint,
    memories_of,
    peer,
    post,
    runtime,
    said_to,
    served,
    summary,
    taken,
    talk,
)
from tests.service.api.test_chats import PLAIN, Clock, Routes, clock, config
from tests.service.conftest import StartServer

__all__ = ["clock", "config", "endpoint", "peer", "runtime"]

SECONDS = 20
LONG = "The build machine takes 41 seconds and three tests fail in the parser. " * 4


class Chats:
    """An application whose autosave runs, and the routes of a user of it."""

    def __init__(self, autosave: Autosave, routes: Routes):
        self.autosave, self.routes = autosave, routes

    def memories(self, chat: str) -> list[dict[str, Any]]:
        return self.routes("GET", f"chats/{chat}/memories", **PLAIN)

    def wait_for_memories(self, chat: str, count: int = 1) -> list[dict[str, Any]]:
        wait_for(lambda: len(self.memories(chat)) >= count)
        return self.memories(chat)

    def settle(self, text: str = LONG) -> None:
        """Wait until a chat that was told of later has its memory: what came before was looked at by then."""
        last = talk(self.routes, text, text)
        self.wait_for_memories(last)

    def number(self, chat: str) -> int:
        """The store's own number of a chat."""
        with connection():
            found = chats.find(self.routes.headers["X-Remory-User"], chat)
        assert found is not None
        return found.number


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"it did not come in {SECONDS} s"
        time.sleep(0.02)


@pytest.fixture
def begin(config: Config, clock: Clock, runtime: Runtime, peer: Peer) -> Iterator[Callable[..., Chats]]:
    """Makes applications with an autosave of so many tokens, which begin at once unless told to wait."""
    begun: list[Chats] = []

    def make(tokens: int = 100, start: bool = True, first_pause: float = 5.0) -> Chats:
        app = create_app(config, runtime, clock)
        autosave = Autosave(runtime, app.extensions["remory_remembering"], tokens, first_pause)
        app.extensions["remory_autosave"] = autosave
        begun.append(Chats(autosave, Routes(app.test_client()).as_user(f"user-{time.monotonic_ns()}")))
        if start:
            autosave.start()
        return begun[-1]

    yield make
    for one in begun:
        one.autosave.close()
        # Or the next test's would begin with them.
        for chat in one.routes("GET", "chats", **PLAIN):
            one.routes("DELETE", f"chats/{chat['id']}")
    close_store()


def test_a_chat_that_is_over_gets_a_memory_by_itself(begin: Callable[..., Chats]) -> None:
    made = begin()
    chat = talk(made.routes, "Which port?", "Port 8421.")
    made.settle()
    assert made.memories(chat) == []
    talk(made.routes, LONG, LONG, chat=chat)
    (memory,) = made.wait_for_memories(chat)
    assert (memory["reason"], memory["messageCount"]) == ("autosave", 4)
    assert taken(made.routes, chat) == [memory["id"]] * 4


def test_a_question_waits_for_its_answer(begin: Callable[..., Chats]) -> None:
    made = begin()
    questions = talk(made.routes, LONG)
    made.routes.say(questions, LONG)
    chat = talk(made.routes, LONG, "Port 8421.", LONG)
    (memory,) = made.wait_for_memories(chat)
    assert taken(made.routes, chat) == [memory["id"]] * 2 + [None]
    made.settle()
    assert made.memories(questions) == [] and len(made.memories(chat)) == 1
    made.routes.say(questions, "Now I see.", "assistant")
    assert made.wait_for_memories(questions)[0]["messageCount"] == 3


def test_tokens_are_counted_and_not_characters(begin: Callable[..., Chats], runtime: Runtime) -> None:
    tokens = len(runtime.loaded().engine.tokenizer.encode(LONG, add_special_tokens=False))
    made = begin(2 * tokens)
    chat = talk(made.routes, LONG, LONG)
    over = talk(made.routes, LONG, f"{LONG}x")
    made.wait_for_memories(over)
    assert made.memories(chat) == []


def test_a_very_long_message_is_over(begin: Callable[..., Chats]) -> None:
    made = begin(2048)
    chat = talk(made.routes, "amber " * 2000, "I see.")
    assert made.wait_for_memories(chat)[0]["messageCount"] == 2


def test_chats_that_are_over_at_the_start_are_found(begin: Callable[..., Chats]) -> None:
    before = begin(start=False)
    over = [talk(before.routes, LONG, LONG) for _ in range(3)]
    short = talk(before.routes, "Which port?", "Port 8421.")
    assert before.memories(over[0]) == []
    before.autosave.start()
    for chat in over:
        assert before.wait_for_memories(chat)[0]["reason"] == "autosave"
    assert before.memories(short) == []


def test_chats_for_which_there_was_no_place_are_found_later(
    begin: Callable[..., Chats], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remory_service.autosave.MOST_WAITING", 2)
    made = begin(start=False)
    over = [talk(made.routes, LONG, LONG) for _ in range(5)]
    made.autosave.start()
    over += [talk(made.routes, LONG, LONG) for _ in range(5)]
    for chat in over:
        made.wait_for_memories(chat)


def test_more_chats_than_are_looked_for_at_once(begin: Callable[..., Chats], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remory_service.autosave._SCANNED_AT_ONCE", 2)
    made = begin(start=False)
    over = [talk(made.routes, LONG, LONG) for _ in range(5)]
    made.autosave.start()
    for chat in over:
        made.wait_for_memories(chat)


def test_two_servers_do_not_go_side_by_side(begin: Callable[..., Chats], peer: Peer) -> None:
    one, two = begin(start=False), begin(start=False)
    over = [talk(one.routes, LONG, LONG) for _ in range(12)]
    for made in (one, two):
        made.autosave.start()
    for chat in over:
        one.wait_for_memories(chat)
    assert len(peer.requests) < 2 * len(over)


def test_what_one_memory_does_not_take_goes_to_the_next(
    begin: Callable[..., Chats], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remory_service.remembering.MOST_BYTES", 2 * len(LONG))
    made = begin()
    chat = talk(made.routes, *[LONG] * 6)
    assert [memory["messageCount"] for memory in made.wait_for_memories(chat, 3)] == [2, 2, 2]


def test_the_messages_of_a_deleted_memory_get_none_by_themselves(begin: Callable[..., Chats]) -> None:
    made = begin()
    chat = talk(made.routes, LONG, LONG)
    (memory,) = made.wait_for_memories(chat)
    made.routes("DELETE", f"memories/{memory['id']}")
    talk(made.routes, "Which port?", "Port 8421.", chat=chat)
    made.settle()
    assert made.memories(chat) == []
    talk(made.routes, LONG, LONG, chat=chat)
    (later,) = made.wait_for_memories(chat)
    assert taken(made.routes, chat) == [None] * 2 + [later["id"]] * 4
    # Who asks for one gets it.
    assert made.routes("POST", f"chats/{chat}/memories", {})["messageCount"] == 2


def test_a_changed_message_counts_as_it_is_now(begin: Callable[..., Chats], runtime: Runtime) -> None:
    dense = "".join(chr(0x4E00 + place) for place in range(len(LONG) // 3))
    encode = runtime.loaded().engine.tokenizer.encode
    sparse, many = (len(encode(text, add_special_tokens=False)) for text in (LONG[: len(dense.encode())], dense))
    assert sparse < many
    made = begin(sparse + 20)
    chat = talk(made.routes, LONG[: len(dense.encode())], "I see.")
    made.settle(f"{dense}{dense}")
    assert made.memories(chat) == []
    # As many bytes as before.
    made.routes("PUT", f"messages/{made.routes.messages(chat)[0]['id']}", {"text": dense})
    made.wait_for_memories(chat)


def test_what_was_counted_is_not_read_at_every_message(
    begin: Callable[..., Chats], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    spoken = chat_memories.spoken

    def counting(heads: Iterable[Head]) -> Iterator[Spoken]:
        for one in spoken(heads):
            read.append(len(one.text))
            yield one

    monkeypatch.setattr("remory_service.store.chat_memories.spoken", counting)
    made = begin(2000, start=False)
    chat = talk(made.routes, *[LONG] * 2)
    number, count = made.number(chat), 2
    while made.autosave._last(number) is None:
        talk(made.routes, "How long?", "It takes 41 seconds in the parser.", chat=chat)
        count += 2
    # All of them at every second message would be count² / 4.
    assert count > 60 and len(read) < 12 * count
    # What is known of messages that are gone is not used.
    for message in made.routes.messages(chat)[2:]:
        made.routes("DELETE", f"messages/{message['id']}")
    assert made.autosave._last(number) is None
    talk(made.routes, *[LONG] * 40, chat=chat)
    assert made.autosave._last(number) is not None


def test_all_of_a_long_message_counts(begin: Callable[..., Chats], runtime: Runtime) -> None:
    text = "amber " * 3000
    tokens = len(runtime.loaded().engine.tokenizer.encode(text, add_special_tokens=False))
    made = begin(tokens - 100)
    chat = talk(made.routes, text, "I see.")
    assert made.wait_for_memories(chat)[0]["messageCount"] == 2


def test_none_means_never(begin: Callable[..., Chats]) -> None:
    made = begin(tokens=0)
    chat = talk(made.routes, LONG, LONG)
    assert not any(thread.name == "remory-autosave" for thread in threading.enumerate())
    assert made.memories(chat) == []


def test_what_fails_is_tried_again_and_says_nothing_of_the_messages(
    begin: Callable[..., Chats], peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    failing = threading.Event()
    failing.set()

    def answer(request: Request) -> Reply:
        broken = failing.is_set() and "secret" in said_to(request)[0]
        return completion("{") if broken else summary(request)

    peer.answer = answer
    made = begin(first_pause=0.1)
    with caplog.at_level(logging.WARNING, "remory_service"):
        chat = talk(made.routes, f"A secret: {LONG}", LONG)
        wait_for(lambda: len(caplog.records) >= 2)
        # Others do not wait for it.
        made.settle()
        assert made.memories(chat) == [] and taken(made.routes, chat) == [None, None]
        failing.clear()
        made.wait_for_memories(chat)
    pauses = [record.args[0] for record in caplog.records if isinstance(record.args, tuple)]
    assert pauses[:2] == [0.1, 0.2]
    for record in caplog.records:
        text = record.getMessage()
        assert "SummarizerFailed" in text and "secret" not in text and "\n" not in text and not record.exc_info


def test_a_success_ends_the_pauses(begin: Callable[..., Chats], peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    failures = [True, True, False, True, False]
    peer.answer = lambda request: Reply(status=500) if failures.pop(0) else summary(request)
    made = begin(first_pause=0.05)
    with caplog.at_level(logging.WARNING, "remory_service"):
        chat = talk(made.routes, LONG, LONG)
        made.wait_for_memories(chat)
        talk(made.routes, LONG, LONG, chat=chat)
        made.wait_for_memories(chat, 2)
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == [0.05, 0.1, 0.05]


def test_during_an_outage_chats_are_tried_one_by_one(begin: Callable[..., Chats], peer: Peer) -> None:
    failing = threading.Event()
    failing.set()
    peer.answer = lambda request: Reply(status=500) if failing.is_set() else summary(request)
    made = begin(start=False, first_pause=0.1)
    over = [talk(made.routes, LONG, LONG) for _ in range(4)]
    made.autosave.start()
    wait_for(lambda: len(peer.requests) >= 4)
    failing.clear()
    for chat in over:
        made.wait_for_memories(chat)
    times = [request.time for request in peer.requests[:4]]
    for place, (earlier, later) in enumerate(pairwise(times)):
        assert later - earlier >= 0.1 * 2**place


def test_a_store_that_cannot_be_reached_is_asked_ever_less_often(
    runtime: Runtime,
    clock: Clock,
    tmp_path: Path,
    postgresql: PostgresqlServer,
    postgresql_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = create_app(Config(data=tmp_path, store=postgresql_url), runtime, clock)
    made = Chats(
        Autosave(runtime, app.extensions["remory_remembering"], 100, 0.05),
        Routes(app.test_client()).as_user("somebody"),
    )
    chat = talk(made.routes, LONG, LONG)
    postgresql.stop()
    try:
        with caplog.at_level(logging.WARNING, "remory_service.autosave"):
            made.autosave.start()
            wait_for(lambda: len(caplog.records) >= 3)
    finally:
        postgresql.start()
    assert [record.args[0] for record in caplog.records[:3] if isinstance(record.args, tuple)] == [0.05, 0.1, 0.2]
    made.wait_for_memories(chat)
    made.autosave.close()
    close_store()


def test_it_stops_while_an_endpoint_hangs_and_stores_nothing(begin: Callable[..., Chats], peer: Peer) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang(request: Request) -> Reply:
        asked.set()
        go_on.wait(SECONDS)
        return summary(request)

    peer.answer = hang
    made = begin()
    chat = talk(made.routes, LONG, LONG)
    assert asked.wait(SECONDS)
    made.autosave.close()
    assert not any(thread.name == "remory-autosave" for thread in threading.enumerate())
    go_on.set()
    assert made.memories(chat) == [] and taken(made.routes, chat) == [None, None]
    # What is told to it from here on waits for the next start.
    made.autosave.tell(made.number(chat))
    peer.answer = summary
    again = begin()
    again.routes = made.routes
    again.wait_for_memories(chat)


def test_it_gives_way_to_who_asks_for_a_memory(begin: Callable[..., Chats], peer: Peer) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang_once(request: Request) -> Reply:
        if not asked.is_set():
            asked.set()
            go_on.wait(SECONDS)
        return summary(request)

    peer.answer = hang_once
    made = begin()
    chat = talk(made.routes, LONG, LONG)
    assert asked.wait(SECONDS)
    memory = made.routes("POST", f"chats/{chat}/memories", {"reason": "made_decision"})
    go_on.set()
    assert memory["reason"] == "made_decision"
    made.settle()
    assert [one["reason"] for one in made.memories(chat)] == ["made_decision"]


def test_a_server_saves_and_ends_in_the_midst_of_it(start_server: StartServer, peer: Peer) -> None:
    asked = threading.Event()
    options = ("--autosave-tokens", "100", "--summarizer-url", peer.url, "--summarizer-model", "large")

    def hang(request: Request) -> Reply:
        asked.set()
        peer.closing.wait(SECONDS)
        return summary(request)

    pair = [{"role": "user", "text": LONG}, {"role": "assistant", "text": LONG}]
    server = start_server(*options)
    with served(server) as client:
        chat, other = (post(client, "/chats", {})["id"] for _ in range(2))
        post(client, f"/chats/{chat}/messages", pair)
        wait_for(lambda: None not in memories_of(client, chat))
        peer.answer = hang
        post(client, f"/chats/{other}/messages", pair)
        assert asked.wait(SECONDS)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(SECONDS) == 0
    peer.answer = summary
    with served(start_server(*options)) as client:
        wait_for(lambda: None not in memories_of(client, other))
        assert len(client.get(f"/chats/{chat}/memories").json()) == 1

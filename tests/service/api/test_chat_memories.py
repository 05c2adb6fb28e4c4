"""Memories of chats: on both databases, with the real embedder, a small real actor, and endpoints that fail."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remory.language.embedder import Embedder, EndpointEmbedder
from remory.search.packing import pack_vector
from remory_service.api.chats_bodies import Reason
from remory_service.app import create_app
from remory_service.config import Config, Endpoint
from remory_service.remembering import MOST_BYTES, MOST_MESSAGES, MOST_STORED, NothingNew, read_of, within_bounds
from remory_service.runtime import Runtime
from remory_service.store import chat_memories, chats, passages
from remory_service.store.chat_memories import Head, Made
from remory_service.store.database import close_store, connection, transaction
from remory_service.store.postgresql import MAX_CONNECTIONS
from remory_service.store.schema import StoredChatMemory, StoredPassage
from tests.language.test_endpoint import Peer, Reply, Request
from tests.service.api.test_chats import NO_CHAT, NO_MEMORY, NO_MESSAGE, PLAIN, Clock, Routes, clock, config
from tests.service.conftest import Server, launch

__all__ = ["clock", "config"]

NO_SUCH_MESSAGE = "messageId: the chat has no such message"
NOTHING_NEW = (400, "No new messages to create memory from")
REASONS: tuple[str, ...] = Reason.__args__
FIELDS = ("topics", "decisions", "actions", "entities")
SEED_FIELDS = {"id", "chatId", "title", "l1", "l2", "vector", *FIELDS, "reason", "createdAt", "updatedAt"}


def said_to(request: Request) -> list[str]:
    """The messages that a summariser's request is about."""
    return [message["text"] for message in json.loads(request.body["messages"][-1]["content"])]


def summary(request: Request) -> Reply:
    """A summary that repeats what was said."""
    texts = said_to(request)
    content = {"title": texts[0][:40], "l1": "\n".join(f"- {text}" for text in texts), "l2": texts[0]}
    content |= dict.fromkeys(FIELDS, []) | {"topics": ["Ports"], "entities": ["build machine", "No such system"]}
    return completion(json.dumps(content))


def completion(content: str) -> Reply:
    return Reply({"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]})


def vectors(request: Request) -> Reply:
    """Embeddings of 4 elements that say nothing of a text's meaning."""
    rows = [list(hashlib.sha256(text.encode()).digest()[:4]) for text in request.body["input"]]
    return Reply({"data": [{"index": index, "embedding": row} for index, row in enumerate(rows)]})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[Peer]:
    peer = Peer(summary)
    peer.start()
    yield peer
    peer.close()


@pytest.fixture
def peer(endpoint: Peer) -> Iterator[Peer]:
    """The summariser's endpoint, which answers well unless a test says otherwise, without earlier requests."""
    endpoint.answer = summary
    endpoint.requests.clear()
    yield endpoint
    endpoint.answer = summary


def load(config: Config, embedder: Embedder | None) -> Runtime:
    """A runtime that is ready."""
    ended = threading.Event()
    runtime = Runtime(config, embedder)
    runtime.start(lambda runtime: ended.set())
    assert ended.wait(60) and runtime.state == "ready", runtime.progress
    return runtime


@pytest.fixture(scope="module")
def runtime(endpoint: Peer, embedder: Embedder, tiny_actor: Path) -> Iterator[Runtime]:
    """A small actor, the packaged embedder, and the endpoint as the summariser."""
    loaded = load(Config(model=str(tiny_actor), summarizer=Endpoint(endpoint.url, "large")), embedder)
    yield loaded
    loaded.close()


@pytest.fixture
def routes(config: Config, clock: Clock, runtime: Runtime, peer: Peer) -> Iterator[Routes]:
    yield routes_of(config, runtime, clock)
    close_store()


def routes_of(config: Config, runtime: Runtime, clock: Clock) -> Routes:
    """The routes of another application on the same store, as a new user."""
    return Routes(create_app(config, runtime, clock).test_client()).as_user(str(uuid4()))


def talk(routes: Routes, *texts: str, chat: str | None = None) -> str:
    """A chat of questions and answers in turn."""
    chat = chat or routes.chat()
    messages = [{"role": ("user", "assistant")[place % 2], "text": text} for place, text in enumerate(texts)]
    routes("POST", f"chats/{chat}/messages", messages)
    return chat


def remember(routes: Routes, chat: str, **body: Any) -> dict[str, Any]:
    return routes("POST", f"chats/{chat}/memories", body)


def search(routes: Routes, chat: str, query: str, **body: Any) -> list[dict[str, Any]]:
    answer = routes("POST", f"chats/{chat}/memories/search", {"query": query, **body})
    assert (answer["success"], answer["query"], answer["totalResults"]) == (True, query, len(answer["results"]))
    assert [result["rank"] for result in answer["results"]] == list(range(1, len(answer["results"]) + 1))
    return answer["results"]


def taken(routes: Routes, chat: str) -> list[str | None]:
    """The memories that a chat's messages are of."""
    return [message["metadata"]["memoryId"] for message in routes.messages(chat)]


def count_stored(routes: Routes, chat: str) -> tuple[int, int]:
    """How many memories and passages there are of a chat."""
    with connection():
        found = chats.find(routes.headers["X-Remory-User"], chat)
        assert found is not None
        place = passages.find_collection(found.collection)
        kept = StoredPassage.select().where(StoredPassage.collection == place).count() if place else 0
        return StoredChatMemory.select().where(StoredChatMemory.chat == found.number).count(), kept


# One memory


def test_a_memory_is_made_read_and_listed(routes: Routes, clock: Clock) -> None:
    chat = talk(routes, "Which port has the build machine?", "It listens on port 8421.")
    clock.now += 5000
    made = remember(routes, chat)
    assert made["_links"] == {"self": {"href": f"http://localhost/api/memories/{made['id']}"}}
    assert set(made) == SEED_FIELDS | {"_links", "permissions", "tenant", "method", "messageCount"}
    assert (made["permissions"], made["tenant"], made["chatId"], made["messageCount"]) == ({}, "local", chat, 2)
    assert (made["reason"], made["method"]) == ("user_created", "model")
    assert made["createdAt"] == made["updatedAt"] == "2026-01-15T16:20:05.000Z"
    assert "8421" in made["l1"] and made["topics"] == ["Ports"]
    # What the messages do not name is not kept.
    assert made["entities"] == ["build machine"]
    found = routes("GET", f"memories/{made['id']}")
    messages = found.pop("messages")
    assert found == made
    assert messages == routes.messages(chat)
    assert [message["metadata"]["memoryId"] for message in messages] == [made["id"]] * 2
    item = {key: value for key, value in made.items() if key not in ("_links", "tenant")}
    assert routes("GET", f"chats/{chat}/memories", **PLAIN) == [item]
    assert routes("GET", f"chats/{chat}/memories") == {
        "_links": {"self": {"href": f"http://localhost/api/chats/{chat}/memories?limit=1000&offset=0"}},
        "_embedded": {"inf:memory": [item]},
        "count": 1,
        "total": 1,
    }


def test_a_vector_is_text_from_which_it_is_read_back_to_the_bit(routes: Routes) -> None:
    chat = talk(routes, "Which port has the build machine?", "It listens on port 8421.")
    made = remember(routes, chat)
    numbers = np.array(json.loads(made["vector"]), dtype=np.float32)
    assert made["vector"].startswith("[") and " " not in made["vector"] and numbers.shape == (384,)
    with connection():
        memory = chat_memories.find(routes.headers["X-Remory-User"], made["id"])
        assert memory is not None
        model = passages.find_model("all-MiniLM-L6-v2")
        assert model is not None
        assert passages.vectors_of([memory.passage], model)[memory.passage] == pack_vector(numbers)


def test_a_memory_by_the_actor(
    config: Config, clock: Clock, embedder: Embedder, tiny_actor: Path, endpoint: Peer
) -> None:
    """Its weights are random here: what it would add to the messages' own words is not kept."""
    runtime = load(Config(model=str(tiny_actor)), embedder)
    routes = routes_of(config, runtime, clock)
    chat = talk(routes, "Where does the service listen?", "The service listens on port 8421 of the build machine.")
    made = remember(routes, chat)
    assert made["method"] in ("model", "extractive") and "8421" in made["l1"] + made["l2"]
    assert all(entity.lower() in "the service listens on port 8421 of the build machine" for entity in made["entities"])
    assert search(routes, chat, "Which port?")[0]["id"] == made["id"]
    runtime.close()
    close_store()


def test_all_reasons_and_no_others(routes: Routes) -> None:
    chat = routes.chat()
    for reason in REASONS:
        talk(routes, f"Why {reason}?", "So.", chat=chat)
        assert remember(routes, chat, reason=reason)["reason"] == reason
    assert [item["reason"] for item in routes("GET", f"chats/{chat}/memories", **PLAIN)] == list(REASONS)
    talk(routes, "One more?", "Yes.", chat=chat)
    for reason in ("", "other", "USER_CREATED", 7, ["autosave"]):
        assert routes.fails("POST", f"chats/{chat}/memories", {"reason": reason})[0] == 400
    assert remember(routes, chat, reason=None, messageId=None, asOf=None)["reason"] == "user_created"


def test_without_a_new_pair_no_model_is_asked(routes: Routes, peer: Peer) -> None:
    chat = routes.chat()
    path = f"chats/{chat}/memories"
    assert routes.fails("POST", path, {}) == NOTHING_NEW
    routes.say(chat, "Is anybody there?")
    routes.say(chat, "Hello?", "system")
    assert routes.fails("POST", path, {}) == NOTHING_NEW
    only_answers = routes.chat()
    routes.say(only_answers, "Yes.", "assistant")
    assert routes.fails("POST", f"chats/{only_answers}/memories", {}) == NOTHING_NEW
    silent = talk(routes, " ", "")
    assert routes.fails("POST", f"chats/{silent}/memories", {}) == NOTHING_NEW
    assert peer.requests == []
    routes.say(chat, "I am.", "assistant")
    assert remember(routes, chat)["messageCount"] == 3
    asked = len(peer.requests)
    assert routes.fails("POST", path, {}) == NOTHING_NEW
    routes.say(chat, "Good.")
    assert routes.fails("POST", path, {}) == NOTHING_NEW
    assert len(peer.requests) == asked


def test_a_memory_reaches_to_a_message_or_a_time(routes: Routes, clock: Clock, peer: Peer) -> None:
    chat = routes.chat()
    names = []
    for text in ("one?", "One.", "two?", "Two.", "three?", "Three."):
        clock.now += 1000
        names.append(routes.say(chat, text, "user" if text[-1] == "?" else "assistant")["id"])
    path = f"chats/{chat}/memories"
    other = routes.say(routes.chat(), "elsewhere")["id"]
    for bad in (str(uuid4()), other, "x", 7):
        assert routes.fails("POST", path, {"messageId": bad})[0] == 400
    for bad in ("", "yesterday", "2026-13-01", "2026-01-15T25:00:00Z", 7, "1768494000000"):
        assert routes.fails("POST", path, {"asOf": bad})[0] == 400
    assert routes.fails("POST", path, {"messageId": names[0]}) == NOTHING_NEW
    assert routes.fails("POST", path, {"asOf": "2026-01-15"}) == NOTHING_NEW
    assert routes.fails("POST", path, {"asOf": "2026-01-15T16:20:01.999Z"}) == NOTHING_NEW
    # The narrower of the two counts.
    assert routes.fails("POST", path, {"messageId": names[5], "asOf": "2026-01-15T16:20:01Z"}) == NOTHING_NEW
    assert peer.requests == []
    first = remember(routes, chat, messageId=names[1].upper())["id"]
    assert taken(routes, chat) == [first] * 2 + [None] * 4
    assert routes.fails("POST", path, {"messageId": names[1]}) == NOTHING_NEW
    second = remember(routes, chat, asOf="2026-01-15T17:20:04.000+01:00")["id"]
    assert taken(routes, chat) == [first] * 2 + [second] * 2 + [None] * 2
    third = remember(routes, chat, asOf="2027-01-01")["id"]
    assert taken(routes, chat) == [first] * 2 + [second] * 2 + [third] * 2


def test_the_summary_is_never_the_clients(routes: Routes) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    made = remember(routes, chat, summary="mine", l1="mine", messageIds=["x"], title="mine")
    assert "mine" not in made["l1"] + made["l2"] + made["title"]


def test_a_memory_reads_parts_files_and_results_of_tools(routes: Routes, peer: Peer) -> None:
    chat = routes.chat()
    parts = [
        {"type": "text", "text": "See the report."},
        {"type": "file", "filename": "Q4_report.pdf", "url": "data:,"},
        {"type": "tool-read", "output": {"rows": 12}},
    ]
    body = [{"role": "user", "parts": parts, "files": [{"name": "notes.txt"}]}, {"role": "assistant", "text": "I did."}]
    routes("POST", f"chats/{chat}/messages", body)
    remember(routes, chat)
    assert said_to(peer.requests[0])[0] == 'See the report.\nQ4_report.pdf\n{"rows": 12}\nnotes.txt'


def heads(*messages: tuple[str, int], stored: int | None = None) -> list[Head]:
    """Messages of a role and bytes that it says, or has `stored` when it says something."""
    return [
        Head(place, role, said, (stored or said) if said else MOST_STORED, 0)
        for place, (role, said) in enumerate(messages)
    ]


def test_a_memory_is_made_of_a_bounded_part_but_of_a_pair_at_least() -> None:
    half = MOST_BYTES // 2
    fits = heads(("user", half), ("assistant", half))
    assert within_bounds(fits) == fits
    assert within_bounds(heads(("user", half), ("assistant", half), ("user", 1))) == fits
    late = heads(("user", MOST_BYTES), ("user", MOST_BYTES), ("assistant", 1), ("user", 1))
    assert within_bounds(late) == late[:3]
    for lacking in ([], heads(("user", 1)), heads(("assistant", 1), ("tool", 1), ("system", 1))):
        with pytest.raises(NothingNew):
            within_bounds(lacking)
    many = heads(*[("user", 1), ("assistant", 1)] * MOST_MESSAGES)
    assert len(within_bounds(many)) == MOST_MESSAGES
    files = heads(*[("user", 1), ("assistant", 1)] * 10, stored=MOST_STORED // 4)
    assert len(within_bounds(files)) == 4


def test_what_says_nothing_is_no_pair_and_not_read() -> None:
    silent = heads(("user", 0), ("assistant", 0), ("user", 1), ("assistant", 0), ("assistant", 1), ("user", 0))
    assert within_bounds(silent) == silent
    assert read_of(silent) == [silent[2], silent[4]]
    with pytest.raises(NothingNew):
        within_bounds(silent[:4])


def test_of_much_before_a_pair_the_last_is_read() -> None:
    half = MOST_BYTES // 2
    long = heads(("user", half), ("system", half), ("user", half), ("user", half - 1), ("assistant", 1))
    assert within_bounds(long) == long
    assert read_of(long) == long[2:]
    longer = heads(*[("user", 2 * MOST_BYTES)] * 30, ("assistant", 2 * MOST_BYTES))
    assert read_of(longer) == longer[-2:]
    stored = heads(*[("user", 1)] * 30, ("assistant", 1), stored=MOST_STORED // 4)
    assert read_of(stored) == stored[-4:]


def test_messages_without_text_go_to_the_memory_of_those_that_follow(routes: Routes, peer: Peer) -> None:
    chat = routes.chat()
    for role in ("user", "assistant"):
        part = {"type": "file", "url": "data:," + "x" * (9 << 20)}
        routes("POST", f"chats/{chat}/messages", {"role": role, "parts": [part]})
    assert routes.fails("POST", f"chats/{chat}/memories", {}) == NOTHING_NEW
    talk(routes, "Which port?", "Port 8421.", chat=chat)
    assert remember(routes, chat)["messageCount"] == 4
    assert said_to(peer.requests[0]) == ["Which port?", "Port 8421."]


def test_a_memory_of_large_messages_comes_in_pages_that_say_so(routes: Routes, peer: Peer) -> None:
    chat = routes.chat()
    for number in range(9):
        part = {"type": "file", "filename": f"page-{number}.png", "url": "data:," + "x" * (8 << 20)}
        routes("POST", f"chats/{chat}/messages", {"role": "user", "parts": [part]})
    routes.say(chat, "I saw them.", "assistant")
    made = remember(routes, chat)
    assert made["messageCount"] == 10
    # Not all of them were read for it.
    assert said_to(peer.requests[0]) == [f"page-{number}.png" for number in range(2, 9)] + ["I saw them."]
    answer = routes.client.get(f"/api/memories/{made['id']}", headers=routes.headers)
    further = answer.json["_links"]["next"]["href"]
    assert answer.headers["Link"] == f'<{further}>; rel="next"'
    rest = routes("GET", further.partition("/api/")[2])
    assert [len(answer.json["messages"]), len(rest["messages"])] == [7, 3]
    assert "next" not in rest["_links"] and rest["id"] == made["id"]
    again = routes("PUT", f"memories/{made['id']}", {"action": "regenerate"})
    assert "page-2.png" in again["memory"]["l1"] and "page-1.png" not in again["memory"]["l1"]


def test_memories_are_listed_in_pages_each_with_its_own_vector(routes: Routes) -> None:
    chat = routes.chat()
    made = []
    for text in ("Port 8421.", "Lentils.", "At 17:42."):
        talk(routes, "And?", text, chat=chat)
        made.append(remember(routes, chat))
    assert len({one["vector"] for one in made}) == 3

    def keys(memories: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return [(one["id"], one["vector"]) for one in memories]

    assert keys(routes("GET", f"chats/{chat}/memories", **PLAIN)) == keys(made)
    page = routes("GET", f"chats/{chat}/memories?limit=2")
    assert (page["count"], page["total"]) == (2, 3)
    rest = routes("GET", page["_links"]["next"]["href"].partition("/api/")[2])
    assert keys(page["_embedded"]["inf:memory"] + rest["_embedded"]["inf:memory"]) == keys(made)
    assert "next" not in rest["_links"]


def test_a_memory_is_of_its_messages_and_not_of_those_between(routes: Routes, peer: Peer) -> None:
    chat = talk(routes, "one?", "One.")
    first = remember(routes, chat)["id"]
    talk(routes, "two?", "Two.", chat=chat)
    second = remember(routes, chat)["id"]
    routes("DELETE", f"memories/{first}")
    talk(routes, "three?", "Three.", chat=chat)
    peer.requests.clear()
    third = remember(routes, chat)
    assert said_to(peer.requests[0]) == ["one?", "One.", "three?", "Three."]
    assert taken(routes, chat) == [third["id"]] * 2 + [second] * 2 + [third["id"]] * 2 and third["messageCount"] == 4


def test_a_time_before_a_list_came_reaches_to_none_of_it(routes: Routes, clock: Clock) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    clock.now += 10
    talk(routes, *["More?", "More."] * 20, chat=chat)
    assert remember(routes, chat, asOf="2026-01-15T16:20:00.009Z")["messageCount"] == 2


# Changing and deleting


def test_a_memory_is_regenerated_from_its_messages_as_they_are(routes: Routes, clock: Clock) -> None:
    chat = talk(routes, "Which port has the build machine?", "It listens on port 8421.")
    made = remember(routes, chat, reason="topic_change")
    _, answer = routes.messages(chat)
    clock.now += 9000
    routes("PUT", f"messages/{answer['id']}", {"text": "It listens on port 9317."})
    routes.say(chat, "not of it")
    again = routes("PUT", f"memories/{made['id']}", {"action": "regenerate"})
    assert (again["success"], again["message"]) == (True, "Memory regenerated successfully")
    assert set(again["memory"]) == {"id", "l1", "l2", *FIELDS, "createdAt"}
    assert "9317" in again["memory"]["l1"] and "8421" not in again["memory"]["l1"]
    found = routes("GET", f"memories/{made['id']}")
    assert {field: found[field] for field in again["memory"]} == again["memory"]
    assert (found["createdAt"], found["reason"]) == (made["createdAt"], "topic_change")
    assert found["updatedAt"] == "2026-01-15T16:20:09.000Z" and found["vector"] != made["vector"]
    assert taken(routes, chat) == [made["id"]] * 2 + [None]
    (result,) = search(routes, chat, "port")
    assert "9317" in result["details"]
    for bad in ({}, {"action": None}, {"action": "delete"}, {"action": "REGENERATE"}, {"l1": "mine"}):
        assert routes.fails("PUT", f"memories/{made['id']}", bad)[0] == 400


def test_a_memory_outlives_its_messages(routes: Routes) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    made = remember(routes, chat)
    first, second = routes.messages(chat)
    routes("DELETE", f"messages/{second['id']}")
    (result,) = search(routes, chat, "port")
    assert result["messageId"] == first["id"]
    routes("DELETE", f"messages/{first['id']}")
    assert search(routes, chat, "port")[0]["messageId"] is None
    found = routes("GET", f"memories/{made['id']}")
    assert (found["messages"], found["messageCount"], found["l1"]) == ([], 0, made["l1"])
    assert routes.fails("PUT", f"memories/{made['id']}", {"action": "regenerate"})[0] == 400


def test_a_deleted_memory_leaves_its_messages_to_another(routes: Routes) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    made = remember(routes, chat)
    gone = routes("DELETE", f"memories/{made['id']}")
    assert gone == {"_links": {"self": {"href": f"http://localhost/api/memories/{made['id']}"}}, "success": True}
    assert taken(routes, chat) == [None, None] and count_stored(routes, chat) == (0, 0)
    assert search(routes, chat, "port") == []
    for method, body in (("GET", None), ("PUT", {"action": "regenerate"}), ("DELETE", None)):
        assert routes.fails(method, f"memories/{made['id']}", body) == NO_MEMORY
    assert remember(routes, chat)["messageCount"] == 2


def test_deleting_150_memories_leaves_nothing_to_find(routes: Routes, embedder: Embedder) -> None:
    chat = routes.chat()
    user = routes.headers["X-Remory-User"]
    texts = [f"Note {number} about the build machine" for number in range(150)]
    rows = embedder.embed(texts)
    pairs = [{"role": role, "text": text} for text in texts for role in ("user", "assistant")]
    routes("POST", f"chats/{chat}/messages", pairs)
    with connection(), transaction():
        found = chats.find(user, chat)
        assert found is not None
        model = passages.make_model(embedder.model, embedder.dimension)
        heads = list(chat_memories.waiting(found.number))
        for place, text in enumerate(texts):
            summary = {"title": text, "l1": text, "l2": text, "method": "model"} | dict.fromkeys(FIELDS, [])
            made = Made(summary, text, {model: pack_vector(rows[place])})
            chat_memories.add(found.number, heads[2 * place : 2 * place + 2], made, "user_created", place)
    names = [item["id"] for item in routes("GET", f"chats/{chat}/memories", **PLAIN)]
    assert len(names) == 150
    assert len(search(routes, chat, "build machine", limit=20)) == 20
    for number, name in enumerate(names, 1):
        routes("DELETE", f"memories/{name}")
        if number % 50 == 0:
            assert len(search(routes, chat, "build machine", limit=20)) == min(20, 150 - number)
    assert search(routes, chat, "note 7", mode="hybrid") == []
    assert routes("GET", f"chats/{chat}")["memoryCount"] == 0 and count_stored(routes, chat) == (0, 0)
    assert set(taken(routes, chat)) == {None}


# Searching


def test_a_search_finds_the_nearest_of_its_chat_alone(routes: Routes) -> None:
    chat, other = routes.chat(), routes.chat()
    for pair in (
        ("Which port has the server?", "The server listens on port 8421."),
        ("What do we cook tonight?", "We cook a soup of lentils."),
        ("When does the train leave?", "The train leaves at 17:42."),
    ):
        talk(routes, *pair, chat=chat)
        remember(routes, chat)
        talk(routes, *pair, chat=other)
    remember(routes, other)
    found = search(routes, chat, "What is there to eat?")
    assert len(found) == 3 and "lentils" in found[0]["details"]
    assert set(found[0]) == {
        "id", "rank", "summary", "details", *FIELDS, "messageId", "createdAt", "relevance",
    }  # fmt: skip
    scores = [result["relevance"] for result in found]
    assert scores == sorted(scores, reverse=True) and all(-1 <= score <= 1 for score in scores)
    assert found[0]["messageId"] == routes.messages(chat)[3]["id"]
    memory = routes("GET", f"memories/{found[0]['id']}")
    assert (memory["l2"], memory["l1"]) == (found[0]["summary"], found[0]["details"])
    assert len(search(routes, chat, "eat", limit=1)) == 1
    assert len(search(routes, other, "eat")) == 1
    (first, *_) = search(routes, chat, "17:42", mode="hybrid")
    assert "17:42" in first["details"]
    assert search(routes, routes.chat(), "eat") == []


def test_searches_have_bounds(routes: Routes) -> None:
    path = f"chats/{talk(routes, 'Which port?', 'Port 8421.')}/memories/search"
    for body in (
        {},
        {"query": ""},
        {"query": " \n\t"},
        {"query": "x" * 501},
        {"query": 7},
        {"query": "x", "limit": 0},
        {"query": "x", "limit": 21},
        {"query": "x", "limit": "5"},
        {"query": "x", "limit": 1.5},
        {"query": "x", "mode": "words"},
    ):
        assert routes.fails("POST", path, body)[0] == 400
    for body in ({"query": "🦀" * 500, "limit": 20}, {"query": "x\u0000", "limit": 1}, {"query": "x", "limit": None}):
        assert routes("POST", path, body)["totalResults"] == 0


def test_vectors_of_another_model_are_kept_apart(
    config: Config, clock: Clock, runtime: Runtime, tiny_actor: Path, peer: Peer
) -> None:
    routes = routes_of(config, runtime, clock)
    chat = talk(routes, "Which port?", "Port 8421.")
    made = remember(routes, chat)

    def answer(request: Request) -> Reply:
        return vectors(request) if request.path.endswith("/embeddings") else summary(request)

    peer.answer = answer
    other_config = Config(model=str(tiny_actor), summarizer=Endpoint(peer.url, "large"))
    other_runtime = load(other_config, EndpointEmbedder(peer.url, f"other-{uuid4()}"))
    other = Routes(create_app(config, other_runtime, clock).test_client(), **routes.headers)
    assert other("GET", f"memories/{made['id']}")["vector"] is None
    assert search(other, chat, "port") == []
    other("PUT", f"memories/{made['id']}", {"action": "regenerate"})
    assert len(json.loads(other("GET", f"memories/{made['id']}")["vector"])) == 4
    assert len(search(other, chat, "port")) == 1
    # The summary is the same, so the first model's vector is of the same text and stays.
    again = Routes(create_app(config, runtime, clock).test_client(), **routes.headers)
    assert again("GET", f"memories/{made['id']}")["vector"] == made["vector"]
    assert len(search(again, chat, "port")) == 1
    other_runtime.close()
    close_store()


# What goes wrong


def test_models_that_are_not_there_yet_are_said_to_be(config: Config, clock: Clock) -> None:
    routes = routes_of(config, Runtime(config), clock)
    chat = talk(routes, "Which port?", "Port 8421.")
    answer = routes.client.post(f"/api/chats/{chat}/memories", json={}, headers=routes.headers)
    assert (answer.status_code, answer.json["error"]) == (503, "Service Unavailable")
    assert answer.headers["Retry-After"]
    assert routes("GET", f"chats/{chat}/memories", **PLAIN) == []
    close_store()


def test_what_is_stored_is_read_without_models(config: Config, routes: Routes, clock: Clock) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    made = remember(routes, chat)
    other = Routes(create_app(config, Runtime(config), clock).test_client(), **routes.headers)
    assert other("GET", f"chats/{chat}/memories", **PLAIN)[0]["id"] == made["id"]
    found = other("GET", f"memories/{made['id']}")
    assert (found["l1"], found["vector"], len(found["messages"])) == (made["l1"], None, 2)


def test_a_memory_that_was_stored_is_answered_though_the_models_stop(
    config: Config, embedder: Embedder, tiny_actor: Path, peer: Peer
) -> None:
    own = load(Config(model=str(tiny_actor), summarizer=Endpoint(peer.url, "large")), embedder)
    stops = threading.Event()

    def clock() -> int:
        # What is stored last before the answer asks for the time.
        if stops.is_set():
            own.stop()
        return Clock.now

    routes = Routes(create_app(config, own, clock).test_client()).as_user(str(uuid4()))
    chat = talk(routes, "Which port?", "Port 8421.")
    stops.set()
    made = remember(routes, chat)
    assert own.stopping and len(json.loads(made["vector"])) == embedder.dimension
    own.close()
    close_store()


@pytest.mark.parametrize("content", ["{", "[1, 2]", '{"title": 7}', '{"title": "\\ud800"}'])
def test_a_summariser_that_never_gives_a_summary_is_a_502(routes: Routes, peer: Peer, content: str) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    peer.answer = lambda request: completion(content)
    status, message = routes.fails("POST", f"chats/{chat}/memories", {})
    assert status == 502 and peer.url not in message
    assert len(peer.requests) == 3
    assert taken(routes, chat) == [None, None] and count_stored(routes, chat) == (0, 0)
    peer.answer = summary
    made = remember(routes, chat)
    peer.answer = lambda request: completion(content)
    assert routes.fails("PUT", f"memories/{made['id']}", {"action": "regenerate"})[0] == 502
    found = routes("GET", f"memories/{made['id']}")
    assert (found["l1"], found["vector"], found["updatedAt"]) == (made["l1"], made["vector"], made["updatedAt"])


def test_an_embedder_that_times_out_is_a_502(config: Config, clock: Clock, tiny_actor: Path, peer: Peer) -> None:
    hangs = threading.Event()

    def answer(request: Request) -> Reply:
        if not request.path.endswith("/embeddings"):
            return summary(request)
        # The text by which the memory is to be found.
        if hangs.is_set() and any("- Which port?" in text for text in request.body["input"]):
            peer.closing.wait(2)
        return vectors(request)

    peer.answer = answer
    embedder = EndpointEmbedder(peer.url, f"slow-{uuid4()}", timeout=0.5)
    runtime = load(Config(model=str(tiny_actor), summarizer=Endpoint(peer.url, "large")), embedder)
    routes = routes_of(config, runtime, clock)
    chat = talk(routes, "Which port?", "Port 8421.")
    hangs.set()
    status, message = routes.fails("POST", f"chats/{chat}/memories", {})
    assert status == 502 and "8421" not in message
    assert taken(routes, chat) == [None, None] and count_stored(routes, chat) == (0, 0)
    hangs.clear()
    assert remember(routes, chat)["messageCount"] == 2
    runtime.close()
    close_store()


# At once


def meanwhile(peer: Peer, *acts: Callable[[], Any]) -> None:
    """Let one act happen within each of the next summaries, then none."""
    left = list(acts)

    def answer(request: Request) -> Reply:
        if left:
            left.pop(0)()
        return summary(request)

    peer.answer = answer


def test_of_two_creates_at_once_the_second_finds_nothing_new(routes: Routes, peer: Peer) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    all_of_them = threading.Barrier(3)

    def create(_: int) -> tuple[int, Any]:
        all_of_them.wait()
        return Routes(routes.client.application.test_client(), **routes.headers).call(
            "POST", f"chats/{chat}/memories", {}
        )

    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(create, range(3)))
    assert sorted(status for status, _ in answers) == [200, 400, 400]
    assert {answer["message"] for status, answer in answers if status == 400} == {NOTHING_NEW[1]}
    # The others did not cost a summary each.
    assert len(peer.requests) == 1
    assert count_stored(routes, chat) == (1, 1)


def test_messages_that_came_meanwhile_wait_for_the_next_memory(routes: Routes, peer: Peer) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    meanwhile(peer, lambda: talk(routes, "And the host?", "The build machine.", chat=chat))
    made = remember(routes, chat)
    assert taken(routes, chat) == [made["id"]] * 2 + [None] * 2
    assert len(peer.requests) == 1


def test_messages_that_changed_meanwhile_are_read_again(routes: Routes, peer: Peer) -> None:
    chat = talk(routes, "Which port?", "Port 8421.", "Sure?", "Quite.")
    messages = routes.messages(chat)
    meanwhile(
        peer,
        lambda: routes("PUT", f"messages/{messages[1]['id']}", {"text": "Port 9317."}),
        lambda: routes("DELETE", f"messages/{messages[2]['id']}"),
    )
    made = remember(routes, chat)
    assert len(peer.requests) == 3 and made["messageCount"] == 3
    assert "9317" in made["l1"] and "8421" not in made["l1"] and "Sure?" not in made["l1"]
    again = routes("GET", f"memories/{made['id']}")["messages"]
    meanwhile(peer, lambda: routes("PUT", f"messages/{again[1]['id']}", {"text": "Port 1234."}))
    assert "1234" in routes("PUT", f"memories/{made['id']}", {"action": "regenerate"})["memory"]["l1"]


def test_a_chat_that_never_rests_is_given_up(routes: Routes, peer: Peer) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    (message, _) = routes.messages(chat)
    change = lambda: routes("PUT", f"messages/{message['id']}", {"metadata": {"liked": True}})  # noqa: E731
    meanwhile(peer, change, change, change, change)
    status, _ = routes.call("POST", f"chats/{chat}/memories", {})
    assert status == 503 and len(peer.requests) == 3
    assert taken(routes, chat) == [None, None] and count_stored(routes, chat) == (0, 0)


def test_what_another_process_took_meanwhile_is_not_taken_twice(
    routes: Routes, config: Config, clock: Clock, runtime: Runtime, peer: Peer
) -> None:
    chat = talk(routes, "Which port?", "Port 8421.", "Sure?", "Quite.")
    second = routes.messages(chat)[1]["id"]
    # An application of its own knows nothing of the other's turns, as another process does not.
    other = Routes(create_app(config, runtime, clock).test_client(), **routes.headers)
    made: list[str] = []
    meanwhile(peer, lambda: made.append(remember(other, chat, messageId=second)["id"]))
    assert routes.fails("POST", f"chats/{chat}/memories", {}) == NOTHING_NEW
    assert taken(routes, chat) == made * 2 + [None] * 2
    assert count_stored(routes, chat) == (1, 1)
    assert remember(routes, chat)["messageCount"] == 2


def test_what_was_deleted_meanwhile_is_not_found(routes: Routes, peer: Peer) -> None:
    chat = talk(routes, "Which port?", "Port 8421.")
    meanwhile(peer, lambda: routes("DELETE", f"chats/{chat}"))
    assert routes.fails("POST", f"chats/{chat}/memories", {}) == NO_CHAT
    chat = talk(routes, "Which port?", "Port 8421.")
    made = remember(routes, chat)["id"]
    meanwhile(peer, lambda: routes("DELETE", f"memories/{made}"))
    assert routes.fails("PUT", f"memories/{made}", {"action": "regenerate"}) == NO_MEMORY
    assert count_stored(routes, chat) == (0, 0) and taken(routes, chat) == [None, None]
    meanwhile(peer, lambda: routes("DELETE", f"messages/{routes.messages(chat)[0]['id']}"))
    assert routes.fails("POST", f"chats/{chat}/memories", {}) == NOTHING_NEW


class Hanging:
    """Lets a peer's answers wait until they are let go."""

    def __init__(self, peer: Peer):
        self.asked, self._go_on = threading.Semaphore(0), threading.Event()
        peer.answer = self._answer

    def _answer(self, request: Request) -> Reply:
        self.asked.release()
        self._go_on.wait(60)
        return summary(request)

    def wait(self, count: int) -> None:
        """Until so many requests were made."""
        for _ in range(count):
            assert self.asked.acquire(timeout=60)

    def let_go(self) -> None:
        self._go_on.set()


@pytest.fixture
def with_threads(
    config: Config, clock: Clock, embedder: Embedder, tiny_actor: Path, peer: Peer
) -> Iterator[Callable[[int], Routes]]:
    """Makes routes of a server that would have so many threads."""
    loaded: list[Runtime] = []

    def make(threads: int) -> Routes:
        chosen = Config(model=str(tiny_actor), summarizer=Endpoint(peer.url, "large"), threads=threads)
        loaded.append(load(chosen, embedder))
        return routes_of(config, loaded[-1], clock)

    yield make
    for one in loaded:
        one.close()
    close_store()


def beside(routes: Routes) -> Routes:
    """The same routes for another thread."""
    return Routes(routes.client.application.test_client(), **routes.headers)


def test_memories_take_a_quarter_of_the_threads(with_threads: Callable[[int], Routes], peer: Peer) -> None:
    routes = with_threads(8)
    kept = remember(routes, talk(routes, "Which port?", "Port 8421."))["id"]
    names = [talk(routes, "Which port?", "Port 8421.") for _ in range(3)]
    hanging = Hanging(peer)
    with ThreadPoolExecutor(2) as threads:
        begun = [threads.submit(remember, beside(routes), name) for name in names[:2]]
        hanging.wait(2)
        answer = routes.client.post(f"/api/chats/{names[2]}/memories", json={}, headers=routes.headers)
        assert (answer.status_code, answer.json["error"]) == (503, "Service Unavailable")
        assert answer.headers["Retry-After"] and "2 memories" in answer.json["message"]
        assert routes.call("PUT", f"memories/{kept}", {"action": "regenerate"})[0] == 503
        hanging.let_go()
        assert {creating.result()["messageCount"] for creating in begun} == {2}
    assert remember(routes, names[2])["messageCount"] == 2


def test_in_a_chat_two_wait_for_their_turn(with_threads: Callable[[int], Routes], peer: Peer) -> None:
    routes = with_threads(64)
    chat = talk(routes, "Which port?", "Port 8421.")
    hanging = Hanging(peer)
    path = f"chats/{chat}/memories"
    with ThreadPoolExecutor(5) as threads:
        begun = [threads.submit(beside(routes).call, "POST", path, {}) for _ in range(5)]
        hanging.wait(1)
        # Two are refused while the others are there.
        ended = [creating.result()[0] for creating in islice(as_completed(begun), 2)]
        assert ended == [503, 503]
        hanging.let_go()
        assert sorted(creating.result()[0] for creating in begun) == [200, 400, 400, 503, 503]
    assert count_stored(routes, chat) == (1, 1)


def test_no_connection_is_held_while_a_model_works(with_threads: Callable[[int], Routes], peer: Peer) -> None:
    """More summaries at once than a store has connections."""
    routes = with_threads(4 * (MAX_CONNECTIONS + 2))
    names = [talk(routes, "Which port?", "Port 8421.") for _ in range(MAX_CONNECTIONS + 2)]
    hanging = Hanging(peer)
    with ThreadPoolExecutor(len(names)) as threads:
        begun = [threads.submit(remember, beside(routes), name) for name in names]
        try:
            hanging.wait(len(names))
            assert len(routes("GET", "chats", **PLAIN)) == len(names)
        finally:
            hanging.let_go()
        assert {creating.result()["messageCount"] for creating in begun} == {2}


# Real servers


@pytest.fixture(scope="module")
def start(
    tmp_path_factory: pytest.TempPathFactory, tiny_actor: Path, tiny_checkpoint: Path, endpoint: Peer
) -> Iterator[Callable[[], Server]]:
    """Starts servers on one data folder, whose summariser is the endpoint; all are ended in the end."""
    folder, started = tmp_path_factory.mktemp("servers"), []
    options = ("--summarizer-url", endpoint.url, "--summarizer-model", "large")

    def start_one() -> Server:
        started.append(launch(folder, folder / "data", tiny_actor, tiny_checkpoint, *options))
        return started[-1]

    yield start_one
    for one in started:
        one.kill()


@pytest.fixture(scope="module")
def servers(start: Callable[[], Server]) -> tuple[Server, Server]:
    """Two processes on one data folder."""
    return start(), start()


def served(server: Server) -> httpx.Client:
    return httpx.Client(base_url=f"{server.url}/api", headers=PLAIN, timeout=60)


def post(client: httpx.Client, path: str, body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def begin(client: httpx.Client) -> str:
    chat = post(client, "/chats", {})["id"]
    pair = [{"role": "user", "text": "Which port?"}, {"role": "assistant", "text": "Port 8421."}]
    post(client, f"/chats/{chat}/messages", pair)
    return chat


def memories_of(client: httpx.Client, chat: str) -> list[str | None]:
    return [message["metadata"]["memoryId"] for message in client.get(f"/chats/{chat}/messages").json()]


def test_processes_never_share_a_message(servers: tuple[Server, Server], peer: Peer) -> None:
    """Creates of two servers on one folder: each message is of one memory, and each memory has its messages."""
    together = threading.Barrier(2)

    def answer(request: Request) -> Reply:
        # Both are at it now, if both are to come.
        try:
            together.wait(1)
        except threading.BrokenBarrierError:
            together.reset()
        return summary(request)

    with served(servers[0]) as one, served(servers[1]) as two:
        for _ in range(3):
            chat = begin(one)
            peer.answer = answer
            with ThreadPoolExecutor(2) as threads:
                begun = [threads.submit(client.post, f"/chats/{chat}/memories", json={}) for client in (one, two)]
                answers = [creating.result() for creating in begun]
            assert sorted(found.status_code for found in answers) == [200, 400]
            (memory,) = one.get(f"/chats/{chat}/memories").json()
            assert memories_of(two, chat) == [memory["id"]] * 2 and memory["messageCount"] == 2


def test_a_kill_during_the_summary_leaves_nothing_half_stored(
    servers: tuple[Server, Server], start: Callable[[], Server], peer: Peer
) -> None:
    asked = threading.Event()

    def hang(request: Request) -> Reply:
        asked.set()
        peer.closing.wait(2)
        return summary(request)

    victim = start()
    with served(victim) as client, ThreadPoolExecutor(1) as threads:
        chat = begin(client)
        peer.answer = hang
        waiting = threads.submit(client.post, f"/chats/{chat}/memories", json={})
        assert asked.wait(30)
        victim.kill()
        assert isinstance(waiting.exception(), httpx.HTTPError)
    peer.answer = summary
    with served(servers[0]) as client:
        assert client.get(f"/chats/{chat}/memories").json() == []
        assert memories_of(client, chat) == [None, None]
        assert post(client, f"/chats/{chat}/memories/search", {"query": "port"})["results"] == []
        assert post(client, f"/chats/{chat}/memories", {})["messageCount"] == 2


def test_a_client_that_hangs_up_stops_its_memory(servers: tuple[Server, Server], peer: Peer) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang(request: Request) -> Reply:
        asked.set()
        go_on.wait(30)
        return summary(request)

    with served(servers[0]) as client:
        chat = begin(client)
        peer.answer = hang
        with pytest.raises(httpx.ReadTimeout):
            client.post(f"/chats/{chat}/memories", json={}, timeout=0.5)
        assert asked.is_set()
        peer.answer = summary
        # Its turn is over although its summary was never answered.
        assert post(client, f"/chats/{chat}/memories", {})["messageCount"] == 2
        go_on.set()
        assert len(client.get(f"/chats/{chat}/memories").json()) == 1


def test_many_creates_leave_the_server_to_others(servers: tuple[Server, Server], peer: Peer) -> None:
    hanging = Hanging(peer)
    with served(servers[0]) as client, ThreadPoolExecutor(70) as threads:
        chat = begin(client)
        address = f"{servers[0].url}/api/chats/{chat}/memories"
        # More than the server has threads.
        begun = [threads.submit(httpx.post, address, json={}, timeout=60) for _ in range(70)]
        hanging.wait(1)
        assert httpx.get(f"{servers[0].url}/health", timeout=20).status_code == 200
        hanging.let_go()
        statuses = Counter(creating.result().status_code for creating in begun)
    assert statuses[200] == 1 and statuses[503] >= 60


def test_clients_that_hang_up_leave_nothing_at_the_endpoint(servers: tuple[Server, Server], peer: Peer) -> None:
    count, ended = 6, threading.Semaphore(0)

    def drips() -> Iterator[bytes]:
        try:
            while not peer.closing.wait(0.05):
                yield b" " * 1000
        finally:
            ended.release()

    peer.answer = lambda request: Reply(drips())
    with served(servers[0]) as client:
        chat = begin(client)
        for _ in range(count):
            with pytest.raises(httpx.ReadTimeout):
                client.post(f"/chats/{chat}/memories", json={}, timeout=1)
        asked = len(peer.requests)
        for _ in range(asked):
            assert ended.acquire(timeout=20)
        assert asked
        peer.answer = summary
        assert post(client, f"/chats/{chat}/memories", {})["messageCount"] == 2


# Whose


USERS = ("one", "two", "three")


def attempts(chat: str, message: str, memory: str) -> list[tuple[str, str, Any, tuple[int, str]]]:
    """Every route that names something, with what whoever does not own it is told."""
    return [
        ("GET", f"chats/{chat}", None, NO_CHAT),
        ("GET", f"chats/{chat}/messages", None, NO_CHAT),
        ("GET", f"chats/{chat}/memories", None, NO_CHAT),
        ("POST", f"chats/{chat}/messages", {"role": "user", "text": "mine"}, NO_CHAT),
        ("POST", f"chats/{chat}/memories", {}, NO_CHAT),
        ("POST", f"chats/{chat}/memories/search", {"query": "port"}, NO_CHAT),
        ("PUT", f"messages/{message}", {"text": "mine"}, NO_MESSAGE),
        ("GET", f"memories/{memory}", None, NO_MEMORY),
        ("PUT", f"memories/{memory}", {"action": "regenerate"}, NO_MEMORY),
        ("DELETE", f"messages/{message}", None, NO_MESSAGE),
        ("DELETE", f"memories/{memory}", None, NO_MEMORY),
        ("DELETE", f"chats/{chat}", None, NO_CHAT),
    ]


@pytest.fixture(scope="module")
def owned(config: Config, runtime: Runtime, endpoint: Peer) -> Iterator[dict[str, tuple[Routes, str, str, str]]]:
    """For each user its routes, and a chat with a message and a memory, all with the same texts."""
    endpoint.answer = summary
    client = create_app(config, runtime).test_client()
    everything = {}
    for user in USERS:
        routes = Routes(client).as_user(f"{user}-{uuid4()}")
        chat = talk(routes, "Which port?", "Port 8421.")
        memory = remember(routes, chat)["id"]
        everything[user] = (routes, chat, routes.messages(chat)[0]["id"], memory)
    yield everything
    close_store()


def state(routes: Routes, chat: str, memory: str) -> tuple[Any, ...]:
    paths = (f"chats/{chat}", f"chats/{chat}/messages", f"chats/{chat}/memories", f"memories/{memory}", "chats")
    return tuple(routes("GET", path) for path in paths)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_nobody_sees_changes_or_deletes_what_is_anothers(
    owned: dict[str, tuple[Routes, str, str, str]], data: st.DataObject
) -> None:
    before = {user: state(routes, chat, memory) for user, (routes, chat, _, memory) in owned.items()}
    for _ in range(data.draw(st.integers(1, 6))):
        owner, stranger = data.draw(st.permutations(USERS))[:2]
        routes, (_, *names) = owned[stranger][0], owned[owner]
        own_chat = owned[stranger][1]
        known = attempts(*names)
        # Something of another's within something of one's own.
        known.append(("POST", f"chats/{own_chat}/memories", {"messageId": names[1]}, (400, NO_SUCH_MESSAGE)))
        method, path, body, refusal = data.draw(st.sampled_from(known))
        assert routes.fails(method, path, body) == refusal
        status, _ = routes.call("POST", "chats", {"id": names[0]})
        assert status == 409
        found = search(routes, own_chat, "port")
        assert [result["id"] for result in found] == [owned[stranger][3]]
    assert before == {user: state(routes, chat, memory) for user, (routes, chat, _, memory) in owned.items()}

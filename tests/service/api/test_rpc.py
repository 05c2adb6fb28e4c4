"""The JSON-RPC memories' route, on both databases, with the real embedding model and a clock of the test's own."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remory.language.embedder import SentenceEncoder
from remory_service import notes
from remory_service.app import create_app
from remory_service.config import Config
from remory_service.identity import make_key
from remory_service.runtime import Runtime
from remory_service.store import passages
from remory_service.store.database import close_store, connection
from remory_service.store.passages import PassageVectors

NOWHERE = str(uuid.UUID(int=0))
DARK = "The user prefers the dark theme in every editor."
COFFEE = "Coffee is drunk without sugar."
TRAIN = "The train to the harbour leaves at platform seven."


class Remembering:
    """The real embedding model, which is asked once for each text, and for those of one call together."""

    def __init__(self, inner: SentenceEncoder):
        self.inner, self.model, self.dimension = inner, inner.model, inner.dimension
        self._vectors: dict[str, np.ndarray] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            self._vectors |= dict(zip(new, self.inner.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])


class Counting:
    """An embedding model that counts the texts that it was given, and calls `during` before each."""

    def __init__(self, inner: Remembering):
        self.inner, self.model, self.dimension = inner, inner.model, inner.dimension
        self.count = 0
        self.during: Callable[[], None] = lambda: None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.count += len(texts)
        once, self.during = self.during, lambda: None
        once()
        return self.inner.embed(texts)


class Routes:
    """The route of one application; `key` None sends no key, and `user` is who that is then."""

    def __init__(self, data: Path, store: str | None, embedder: Any):
        self.data, self.store = data, store
        config = Config(data=data, store=store)
        self.app = create_app(config, Runtime(config, embedder=embedder))
        self.client = self.app.test_client()

    def post(self, method: str, params: Any, key: str | None = None, user: str | None = None) -> tuple[int, Any]:
        headers = ({} if key is None else {"X-API-Key": key}) | ({} if user is None else {"X-Remory-User": user})
        body = {"method": f"MemoryRpc.{method}", "params": params}
        answer = self.app.test_client().post("/api/rpc", json=body, headers=headers)
        return answer.status_code, answer.json

    def __call__(
        self, method: str, /, scope: str = "user", key: str | None = None, user: str | None = None, **params: Any
    ) -> dict[str, Any]:
        status, answer = self.post(method, {"scope": scope, **params}, key, user)
        assert status == 200, answer
        assert answer.keys() == {"success", "data"}
        assert answer["success"] is answer["data"]["success"] is True
        return answer["data"]

    def fails(self, method: str, params: Any, key: str | None = None, user: str | None = None) -> tuple[int, str]:
        """Status and code of an answer that must have the group's one shape."""
        status, answer = self.post(method, params, key, user)
        assert status != 200, answer
        return status, code(answer)

    def save(self, content: str, metadata: Any = None, id: str | None = None, **context: Any) -> str:
        memory = {"content": content} | ({} if id is None else {"id": id})
        memory |= {} if metadata is None else {"metadata": metadata}
        return self("saveMemory", memory=memory, **context)["memoryId"]

    def recall(self, query: str, **params: Any) -> list[dict[str, Any]]:
        return self("recallMemories", queryText=query, **params)["memories"]

    def listed(self, **params: Any) -> list[str]:
        return [memory["id"] for memory in self("listMemories", limit=100, **params)["memories"]]

    def raw(self, text: str | bytes, content_type: str = "application/json") -> tuple[int, str]:
        answer = self.client.post("/api/rpc", data=text, content_type=content_type)
        return answer.status_code, code(answer.json)

    def make_key(self, user: str, *roles: str) -> str:
        return make_key(self.data, user, roles, self.store)


def code(answer: Any) -> str:
    assert answer.keys() == {"success", "error"}
    assert answer["success"] is False
    assert answer["error"].keys() == {"code", "message"}
    assert answer["error"]["message"]
    return answer["error"]["code"]


@pytest.fixture(scope="module")
def remembering(embedder: SentenceEncoder) -> Remembering:
    return Remembering(embedder)


@pytest.fixture
def counting(remembering: Remembering) -> Counting:
    return Counting(remembering)


@pytest.fixture
def routes(tmp_path: Path, database_url: str | None, counting: Counting) -> Iterator[Routes]:
    yield Routes(tmp_path / "data", database_url, counting)
    close_store()


# What the methods answer


def test_save_recall_list_and_delete(routes: Routes) -> None:
    saved = routes("saveMemory", memory={"content": DARK, "metadata": {"preference": "darkMode"}})
    id = saved.pop("memoryId")
    assert uuid.UUID(id).version == 4
    assert saved == {"success": True, "message": "Memory saved."}
    note = {"id": id, "content": DARK, "metadata": {"preference": "darkMode"}}
    (recalled,) = routes.recall("Which colours does the user like?")
    assert 0.2 < recalled.pop("score") < 1
    assert recalled == note
    assert routes("listMemories") == {"success": True, "memories": [note], "next_page_offset": None}
    assert routes("deleteMemory", memoryId=id) == {"success": True, "message": "Memory deleted."}
    assert routes("listMemories") == {"success": True, "memories": [], "next_page_offset": None}
    assert routes.recall("Which colours does the user like?") == []


def test_the_closest_comes_first_and_the_score_is_the_cosine(routes: Routes, embedder: SentenceEncoder) -> None:
    ids = {content: routes.save(content) for content in (COFFEE, DARK, TRAIN)}
    query = "From where does the railway go to the port?"
    vectors, asked = embedder.embed([COFFEE, DARK, TRAIN]), embedder.embed([query])[0]
    cosines = dict(zip(ids.values(), (vectors @ asked).tolist(), strict=True))
    found = routes.recall(query)
    assert [one["id"] for one in found] == sorted(cosines, key=lambda id: -cosines[id])
    assert found[0]["content"] == TRAIN
    for one in found:
        assert one["score"] == pytest.approx(cosines[one["id"]], abs=1e-6)
    assert routes.recall(TRAIN, topK=1)[0]["score"] == 1.0


def test_numbers_have_defaults(routes: Routes) -> None:
    ids = [routes.save(f"{COFFEE} {number}") for number in range(12)]
    assert len(routes.recall(COFFEE)) == 3
    assert len(routes.recall(COFFEE, topK=100)) == 12
    assert len(routes.recall(COFFEE, topK=5.0)) == 5
    page = routes("listMemories")
    assert [memory["id"] for memory in page["memories"]] == ids[:10]
    assert page["next_page_offset"] == ids[10]
    for name in ("topK", "filter", "targetUserId", "mode"):
        assert len(routes.recall(COFFEE, **{name: None})) == 3
    assert routes("listMemories", limit=None, offset=None, targetUserId=None) == page


def test_unknown_fields_are_ignored(routes: Routes) -> None:
    body = {"jsonrpc": "2.0", "id": 7, "method": "MemoryRpc.saveMemory", "more": 1}
    body["params"] = {"scope": "user", "more": [1], "memory": {"content": DARK, "more": None, "score": 2}}
    answer = routes.client.post("/api/rpc", json=body)
    assert answer.status_code == 200
    assert answer.json.keys() == {"success", "data"}


# Saving


def test_saving_an_id_again_replaces_the_note_and_keeps_its_place(routes: Routes) -> None:
    first = routes.save(COFFEE, {"a": 1})
    second = routes.save(DARK)
    assert routes.save(TRAIN, {"b": 2}, id=first) == first
    assert routes.listed() == [first, second]
    found = routes.recall(TRAIN, topK=1)[0]
    assert (found["id"], found["metadata"], found["score"]) == (first, {"b": 2}, 1.0)
    assert [one["id"] for one in routes.recall(COFFEE, topK=3)].count(first) == 1
    assert routes.recall(COFFEE, filter={"a": 1}) == []
    assert all(one["content"] != COFFEE for one in routes.recall("coffee sugar", mode="hybrid"))


def test_an_id_is_free_in_another_scope(routes: Routes) -> None:
    id = str(uuid.uuid4())
    contents = {"user": COFFEE, "global": DARK}
    for scope, content in contents.items():
        assert routes.save(content, id=id, scope=scope) == id
    routes.save(TRAIN, id=id, user="other")
    for scope, content in contents.items():
        assert [memory["content"] for memory in routes("listMemories", scope=scope)["memories"]] == [content]
    routes("deleteMemory", scope="global", memoryId=id)
    assert routes.listed() == routes.listed(user="other") == [id]
    assert routes.listed(scope="global") == []


def test_ids_are_uuids_in_any_case(routes: Routes) -> None:
    id = str(uuid.uuid4())
    assert routes.save(COFFEE, id=id.upper()) == id
    assert routes.save(DARK, id=id) == id
    assert len(routes.listed()) == 1
    routes("deleteMemory", memoryId=id.upper())
    assert routes.listed() == []


def test_new_metadata_alone_needs_no_embedding(routes: Routes, counting: Counting) -> None:
    id = routes.save(COFFEE, {"a": 1})
    before = counting.count
    routes.save(COFFEE, {"a": 2}, id=id)
    assert counting.count == before
    (found,) = routes.recall(COFFEE, filter={"a": 2})
    assert (found["id"], found["score"]) == (id, 1.0)
    assert routes.recall(COFFEE, filter={"a": 1}) == []


def test_a_note_that_changes_before_its_metadata_do_is_embedded_after_all(
    routes: Routes, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = routes.save(COFFEE)
    looked = notes._is_embedded

    def look(*place: Any) -> bool:
        found = looked(*place)
        monkeypatch.setattr(notes, "_is_embedded", looked)
        # Another client is faster, between the look outside the transaction and the one inside.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(routes.save, DARK, None, id).result()
        return found

    monkeypatch.setattr(notes, "_is_embedded", look)
    routes.save(COFFEE, {"a": 1}, id=id)
    (found,) = routes.recall(COFFEE)
    assert (found["content"], found["metadata"], found["score"]) == (COFFEE, {"a": 1}, 1.0)


def test_no_connection_is_held_while_the_model_works(routes: Routes, counting: Counting, database_url: str) -> None:
    def write() -> None:
        # Within a transaction or a taken connection this would wait for itself.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(routes.save, DARK).result(timeout=20)

    id = routes.save(COFFEE)
    counting.during = write
    routes.save(TRAIN, id=id)
    counting.during = lambda: routes("deleteMemory", memoryId=id) and None
    assert [found["content"] for found in routes.recall(TRAIN)] == [DARK]


@pytest.mark.parametrize(
    "content",
    [
        "NUL \u0000 in the middle",
        "من اليمين إلى اليسار \u202e and back",
        "👩‍👩‍👧‍👦 🦀 e\u0301 ﬁ İ",
        "  blanks around \n\t ",
        "a\ufeff\uffff\U0010ffff",
    ],
)
def test_texts_and_metadata_are_kept_exactly(routes: Routes, content: str) -> None:
    metadata = {content: [content, {"deep": content}], "number": 1.0, "big": 12345678901234567890, "none": None}
    id = routes.save(content, metadata)
    answers = [routes("listMemories")["memories"], routes.recall(content), routes.recall(content, mode="hybrid")]
    for (found,) in answers:
        assert (found["id"], found["content"]) == (id, content)
        assert json.dumps(found["metadata"]) == json.dumps(metadata)
    assert routes.recall("x", filter={content: [[content, {"deep": content}]]})[0]["id"] == id


# Filters


def test_filters_are_met_before_the_best_are_chosen(routes: Routes) -> None:
    near = [routes.save(f"{TRAIN} {number}", {"owner": "a"}) for number in range(15)]
    far = [routes.save(f"{COFFEE} {number}", {"owner": "b"}) for number in range(5)]
    for mode in ("cosine", "hybrid"):
        found = routes.recall(TRAIN, topK=5, filter={"owner": "b"}, mode=mode)
        assert {one["id"] for one in found} == set(far)
        assert [one["score"] for one in found] == sorted((one["score"] for one in found), reverse=True)
        assert {one["id"] for one in routes.recall(TRAIN, topK=15, mode=mode)} == set(near)


METADATA = [
    {"n": 1, "tags": ["x", "y"], "place": {"room": {"floor": 2}}, "open": True},
    {"n": 2, "tags": [], "place": {"room": {"floor": 3}}, "open": None},
    {"n": "1", "place.room": {"floor": 9}, "place": {"room": {"floor": 2}}},
    {"place": "room", "open": 1},
]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({}, {0, 1, 2, 3}),
        ({"n": 1}, {0}),
        ({"n": 1.0}, {0}),
        ({"n": "1"}, {2}),
        ({"n": [1, 2]}, {0, 1}),
        ({"n": [1, "1", 7]}, {0, 2}),
        ({"n": []}, set()),
        ({"tags": ["x", "y"]}, {0}),
        ({"tags": ["y", "x"]}, set()),
        ({"tags": []}, {1}),
        ({"tags": "x"}, set()),
        ({"place.room.floor": 2}, {0, 2}),
        ({"place.room.floor": [2, 3], "n": [2, "1"]}, {1, 2}),
        ({"place.room": {"floor": 2}}, {0}),
        ({"place.room": {"floor": 9}}, {2}),
        ({"place": "room"}, {3}),
        ({"place.room.floor.deeper": 2}, set()),
        ({"open": True}, {0}),
        ({"open": None}, {1}),
        ({"open": 1}, {3}),
        ({"": 1}, set()),
        ({"place.": 1}, set()),
    ],
)
def test_filters(filter: dict[str, Any], expected: set[int], by_filter: Callable[..., set[int]]) -> None:
    assert by_filter(filter) == expected
    assert by_filter(filter, "hybrid") == expected


@pytest.fixture
def by_filter(tmp_path: Path, remembering: Remembering) -> Iterator[Callable[..., set[int]]]:
    routes = Routes(tmp_path / "data", None, remembering)
    ids = [routes.save(f"{COFFEE} {number}", metadata) for number, metadata in enumerate(METADATA)]
    yield lambda filter, mode="cosine": {
        ids.index(one["id"]) for one in routes.recall(COFFEE, topK=10, filter=filter, mode=mode)
    }
    close_store()


# Pages


def test_pages_by_id_and_by_number(routes: Routes) -> None:
    ids = [routes.save(f"{COFFEE} {number}") for number in range(7)]

    def page(**params: Any) -> tuple[list[str], str | None]:
        answer = routes("listMemories", **params)
        return [memory["id"] for memory in answer["memories"]], answer["next_page_offset"]

    assert page(limit=3) == page(limit=3, offset=0) == page(limit=3, offset=ids[0]) == (ids[:3], ids[3])
    assert page(limit=3, offset=ids[3]) == page(limit=3, offset=3) == page(limit=3, offset=3.0) == (ids[3:6], ids[6])
    assert page(limit=3, offset=ids[6].upper()) == (ids[6:], None)
    assert page(limit=7) == (ids, None)
    assert page(offset=7) == page(offset=2**63 - 1) == ([], None)
    assert page(offset=0, user="nobody yet") == ([], None)


def test_pages_stay_while_notes_come_and_go(routes: Routes) -> None:
    ids = [routes.save(f"{COFFEE} {number}") for number in range(9)]
    seen: list[str] = []
    offset: dict[str, Any] = {}
    while True:
        page = routes("listMemories", limit=3, **offset)
        seen += [memory["id"] for memory in page["memories"]]
        if page["next_page_offset"] is None:
            break
        offset = {"offset": page["next_page_offset"]}
        if len(seen) == 3:
            # One that was seen, one that is still to come, one that changes, and one that is new.
            routes("deleteMemory", memoryId=ids[1])
            routes("deleteMemory", memoryId=ids[5])
            routes.save(DARK, id=ids[4])
            ids.append(routes.save(TRAIN))
    assert seen == [id for number, id in enumerate(ids) if number != 5]


# What is refused


BAD_PARAMS: list[tuple[str, Any]] = [
    *((method, params) for method in ("saveMemory", "listMemories") for params in ([], ["user"], "user", 1, None)),
    ("listMemories", {}),
    *(("listMemories", {"scope": scope}) for scope in ("User", "", None, 1, ["user"], "project")),
    *(("listMemories", {"scope": "user", "limit": limit}) for limit in (0, 101, -1, 1.5, "10", True, [1], 10**30)),
    *(
        ("listMemories", {"scope": "user", "offset": offset})
        for offset in (NOWHERE, "", "1", "x", -1, 0.5, True, [0], {}, 2**63, 1e300)
    ),
    *(("listMemories", {"scope": "user", "targetUserId": user}) for user in ("", 1, "ü", "a" * 257, "a\n")),
    ("saveMemory", {"scope": "user"}),
    *(("saveMemory", {"scope": "user", "memory": memory}) for memory in (None, [], DARK, {}, {"id": NOWHERE})),
    *(
        ("saveMemory", {"scope": "user", "memory": {"content": content}})
        for content in ("", " ", "\n\t\u00a0\u3000", "\u0000\u200b\ufffe", None, 1, [DARK], "x" * 65537, "ä" * 32769)
    ),
    *(
        ("saveMemory", {"scope": "user", "memory": {"content": DARK, "id": id}})
        for id in ("", "x", NOWHERE.replace("-", ""), f"{{{NOWHERE}}}", f"urn:uuid:{NOWHERE}", NOWHERE + "\n", 1, [])
    ),
    *(
        ("saveMemory", {"scope": "user", "memory": {"content": DARK, "metadata": metadata}})
        for metadata in ([], "x", 1, {"x": "x" * 16377}, {"x": 10**400}, {"x": ["ü" * 8190]})
    ),
    ("recallMemories", {"scope": "user"}),
    *(
        ("recallMemories", {"scope": "user", "queryText": query})
        for query in ("", "  ", "\u2003", "\u0007", None, 1, ["x"], "x" * 8193)
    ),
    *(
        ("recallMemories", {"scope": "user", "queryText": "x", "topK": k})
        for k in (0, 101, -3, 2.5, "3", True, [], 10**30, 1e30)
    ),
    *(
        ("recallMemories", {"scope": "user", "queryText": "x", "filter": filter})
        for filter in (
            [],
            "x",
            1,
            True,
            {"x": "x" * 16384},
            {"k" * 513: 1},
            {f"k{number}": 1 for number in range(33)},
            {"x": 10**400},
        )
    ),
    *(("recallMemories", {"scope": "user", "queryText": "x", "mode": mode}) for mode in ("", "Hybrid", "rrf", 1)),
    *(("deleteMemory", {"scope": "user", "memoryId": id}) for id in ("", "x", None, 0, [NOWHERE])),
    ("deleteMemory", {"scope": "user"}),
]


@pytest.fixture
def plain(tmp_path: Path, remembering: Remembering) -> Iterator[Routes]:
    """For what is the same on both databases, because it gets to neither."""
    yield Routes(tmp_path / "data", None, remembering)
    close_store()


@pytest.mark.parametrize(("method", "params"), BAD_PARAMS)
def test_params_that_do_not_fit_are_refused(plain: Routes, method: str, params: Any) -> None:
    assert plain.fails(method, params) == (400, "invalid_params")
    assert plain.listed() == []


def test_absent_params_are_refused(plain: Routes) -> None:
    for method in ("saveMemory", "recallMemories", "deleteMemory", "listMemories"):
        assert plain.raw(json.dumps({"method": f"MemoryRpc.{method}"})) == (400, "invalid_params")


@pytest.mark.parametrize("method", ["", "saveMemory", "MemoryRpc.SaveMemory", "MemoryRpc.clear", 1, None, ["x"], {}])
@pytest.mark.parametrize("params", [{}, [], "x"])
def test_unknown_methods(plain: Routes, method: Any, params: Any) -> None:
    assert plain.raw(json.dumps({"method": method, "params": params})) == (404, "method_not_found")


def test_numbers_are_told(plain: Routes) -> None:
    def told(method: str, **params: Any) -> str:
        return plain.post(method, {"scope": "user", **params})[1]["error"]["message"]

    long = "params.memory.content: may have 65536 bytes of UTF-8, this has 65538"
    assert told("saveMemory", memory={"content": "ä" * 32769}) == long
    large = "params.memory.metadata: may have 16384 canonical bytes, this has 16385"
    assert told("saveMemory", memory={"content": DARK, "metadata": {"x": "x" * 16377}}) == large
    assert "less than or equal to 100" in told("recallMemories", queryText="x", topK=101)
    assert told("listMemories", offset="x").startswith("params.offset: must be a UUID")


def test_the_largest_that_is_kept(routes: Routes) -> None:
    id = routes.save("word " * 13107 + "x", {"x": "x" * 16376})
    (found,) = routes("listMemories")["memories"]
    assert (found["id"], len(found["content"]), len(found["metadata"]["x"])) == (id, 65536, 16376)
    assert routes.recall("word")[0]["id"] == id


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        ("", 400, "invalid_request"),
        ("{", 400, "invalid_request"),
        ("[]", 400, "invalid_request"),
        ("null", 400, "invalid_request"),
        ("{}", 400, "invalid_request"),
        ('{"params": {}}', 400, "invalid_request"),
        ('{"method": NaN}', 400, "invalid_request"),
        (b'{"method": "\xff"}', 400, "invalid_request"),
        ('{"method": "MemoryRpc.saveMemory", "params": ' + "[" * 300 + "]" * 300 + "}", 400, "invalid_request"),
        (
            '{"method": "MemoryRpc.saveMemory", "params": {"scope": "user", "memory": {"content": "half \\ud800"}}}',
            400,
            "invalid_request",
        ),
        ('{"x": "' + "x" * (64 << 20) + '"}', 413, "too_large"),
        ('{"x": [' + "1," * 300_000 + "1]}", 400, "invalid_request"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_bodies_that_cannot_be_read(plain: Routes, text: str | bytes, status: int, expected: str) -> None:
    assert plain.raw(text) == (status, expected)


def test_other_errors_have_the_shape_too(plain: Routes) -> None:
    assert plain.raw("{}", "text/plain") == (400, "invalid_request")
    got = plain.client.get("/api/rpc")
    assert (got.status_code, code(got.json), got.headers["Allow"]) == (405, "method_not_allowed", "OPTIONS, POST")
    missing = plain.client.post("/api/rpc/more", json={})
    assert (missing.status_code, code(missing.json)) == (404, "not_found")
    bad = plain.client.post("/api/rpc", json={}, headers={"X-Remory-User": "ü"})
    assert (bad.status_code, code(bad.json)) == (400, "invalid_request")


def test_an_embedder_that_is_not_there_yet(tmp_path: Path, database_url: str | None) -> None:
    routes = Routes(tmp_path / "data", database_url, None)
    for method, params in (
        ("saveMemory", {"scope": "user", "memory": {"content": DARK}}),
        ("recallMemories", {"scope": "user", "queryText": DARK}),
    ):
        assert routes.fails(method, params) == (503, "unavailable")
    assert routes.listed() == []
    assert routes.fails("deleteMemory", {"scope": "user", "memoryId": NOWHERE}) == (404, "not_found")
    close_store()


def test_a_model_of_another_dimension_under_a_known_name(routes: Routes, counting: Counting) -> None:
    class Narrow(Counting):
        def embed(self, texts: Sequence[str]) -> np.ndarray:
            return super().embed(texts)[:, :8]

    id = routes.save(COFFEE)
    narrow = Narrow(counting.inner)
    narrow.dimension = 8
    routes.app.extensions["remory"]._embedder = narrow
    assert routes.fails("saveMemory", {"scope": "user", "memory": {"content": DARK}}) == (502, "model_failed")
    assert routes.fails("recallMemories", {"scope": "user", "queryText": DARK}) == (502, "model_failed")
    routes.app.extensions["remory"]._embedder = counting
    assert [one["id"] for one in routes.recall(DARK)] == routes.listed() == [id]


def test_what_is_not_there_is_not_deleted(routes: Routes) -> None:
    id = routes.save(COFFEE)
    assert routes.fails("deleteMemory", {"scope": "user", "memoryId": NOWHERE}) == (404, "not_found")
    assert routes.fails("deleteMemory", {"scope": "global", "memoryId": id}) == (404, "not_found")
    routes("deleteMemory", memoryId=id)
    assert routes.fails("deleteMemory", {"scope": "user", "memoryId": id}) == (404, "not_found")
    assert routes.fails("listMemories", {"scope": "user", "offset": id}) == (400, "invalid_params")


# Who may do what


def test_roles(routes: Routes) -> None:
    keys = {
        name: routes.make_key(name, *name.split("+"))
        for name in ("invoke", "worker", "agent", "admin", "agent+invoke", "agent+worker")
    }
    assert routes.fails("listMemories", {"scope": "user"}) == (401, "unauthenticated")
    for params in ({"scope": "user"}, {"scope": "global"}, {"scope": "user", "targetUserId": "worker"}):
        assert routes.fails("listMemories", params, keys["worker"]) == (403, "forbidden")
    ids = {}
    for name in ("invoke", "admin", "agent+invoke"):
        ids[name] = routes.save(COFFEE, key=keys[name])
        assert routes.listed(key=keys[name]) == routes.listed(key=keys[name], targetUserId=name) == [ids[name]]
    for name in ("agent", "agent+worker"):
        assert routes.fails("listMemories", {"scope": "user"}, keys[name]) == (400, "invalid_params")
    for name in ("agent", "admin", "agent+invoke", "agent+worker"):
        assert routes.listed(key=keys[name], targetUserId="invoke") == [ids["invoke"]]
    for method, params in (
        ("listMemories", {}),
        ("saveMemory", {"memory": {"content": DARK, "id": ids["admin"]}}),
        ("recallMemories", {"queryText": COFFEE}),
        ("deleteMemory", {"memoryId": ids["admin"]}),
    ):
        target = {"scope": "user", "targetUserId": "admin", **params}
        assert routes.fails(method, target, keys["invoke"]) == (403, "forbidden")
    # Everybody of these roles writes globally, whoever is named as the target.
    for name in ("invoke", "agent", "admin"):
        id = routes.save(TRAIN, scope="global", key=keys[name], targetUserId="somebody")
        routes("deleteMemory", scope="global", key=keys["invoke"], memoryId=id)


def test_one_users_notes_are_no_other_users(routes: Routes) -> None:
    ids = {user: [routes.save(content, user=user) for content in (DARK, COFFEE)] for user in ("a", "b", "user:a")}
    for user, own in ids.items():
        for mode in ("cosine", "hybrid"):
            assert {one["id"] for one in routes.recall(DARK, topK=100, user=user, mode=mode)} == set(own)
        assert routes.listed(user=user) == own
        for other, theirs in ids.items():
            if other != user:
                params = {"scope": "user", "memoryId": theirs[0]}
                assert routes.fails("deleteMemory", params, user=user) == (404, "not_found")
                params = {"scope": "user", "offset": theirs[0]}
                assert routes.fails("listMemories", params, user=user) == (400, "invalid_params")
                routes.save(TRAIN, id=theirs[0], user=user)
                routes("deleteMemory", user=user, memoryId=theirs[0])
    assert routes.listed(scope="global") == []
    for user, own in ids.items():
        contents = [memory["content"] for memory in routes("listMemories", user=user)["memories"]]
        assert (routes.listed(user=user), contents) == (own, [DARK, COFFEE])


# Every method by every kind of key, beside a model of what should be

USERS = ("one", "two")
ROLES = {"one": ("invoke",), "two": ("invoke",), "helper": ("agent",), "chief": ("admin",), "hand": ("worker",)}
IDS = [str(uuid.UUID(int=number)) for number in range(1, 5)]
CONTENTS = [DARK, COFFEE, TRAIN, "Error E4172 means that the disk is full.", "E4127 is the code of the west door."]
METADATAS = [{}, {"a": 1}, {"a": 2}, {"b": {"c": 1}}, {"b": {"c": [1]}, "a": 1}]
FILTERS: list[tuple[dict[str, Any] | None, Callable[[dict[str, Any]], bool]]] = [
    (None, lambda held: True),
    ({}, lambda held: True),
    ({"a": 1}, lambda held: held.get("a") == 1),
    ({"a": [1, 2]}, lambda held: "a" in held),
    ({"b.c": 1}, lambda held: held.get("b", {}).get("c") == 1),
    ({"b.c": [1], "a": 1}, lambda held: "a" in held and "b" in held),
]
CALLS = st.tuples(
    st.sampled_from(sorted(ROLES)),
    st.sampled_from(["user", "user", "user", "global"]),
    st.sampled_from([None, None, *USERS, "chief"]),
    st.one_of(
        st.tuples(st.just("saveMemory"), st.sampled_from(IDS), st.sampled_from(CONTENTS), st.sampled_from(METADATAS)),
        st.tuples(st.just("deleteMemory"), st.sampled_from(IDS)),
        st.tuples(st.just("listMemories"), st.integers(1, 3), st.sampled_from([None, 0, 1, 2, *IDS])),
        st.tuples(
            st.just("recallMemories"),
            st.sampled_from(CONTENTS),
            st.integers(1, 5),
            st.sampled_from(FILTERS),
            st.sampled_from(["cosine", "hybrid"]),
        ),
    ),
)


class Expected:
    """What each scope holds, in its order, and what a call should answer."""

    def __init__(self, vector: Callable[[str], np.ndarray]):
        self.scopes: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {}
        self.vector = vector

    def owner(self, user: str, scope: str, target: str | None) -> str | tuple[int, str]:
        roles = set(ROLES[user])
        if roles == {"worker"}:
            return 403, "forbidden"
        if scope == "global":
            return "global"
        if target is None:
            return (400, "invalid_params") if roles == {"agent"} else f"user {user}"
        return f"user {target}" if target == user or roles & {"agent", "admin"} else (403, "forbidden")

    def check(self, owner: str, call: tuple[Any, ...], status: int, answer: Any) -> None:
        held = self.scopes.setdefault(owner, {})
        getattr(self, call[0])(held, *call[1:], status, answer)

    def saveMemory(self, held: Any, id: str, content: str, metadata: Any, status: int, answer: Any) -> None:
        assert (status, answer["data"]["memoryId"]) == (200, id)
        held[id] = (content, metadata)

    def deleteMemory(self, held: Any, id: str, status: int, answer: Any) -> None:
        if held.pop(id, None) is None:
            assert (status, code(answer)) == (404, "not_found")
        else:
            assert status == 200

    def listMemories(self, held: Any, limit: int, offset: str | int | None, status: int, answer: Any) -> None:
        ids = list(held)
        if isinstance(offset, str) and offset not in held:
            assert (status, code(answer)) == (400, "invalid_params")
            return
        begin = ids.index(offset) if isinstance(offset, str) else offset or 0
        page = [{"id": id, "content": held[id][0], "metadata": held[id][1]} for id in ids[begin : begin + limit]]
        follows = ids[begin + limit] if begin + limit < len(ids) else None
        assert answer["data"] == {"success": True, "memories": page, "next_page_offset": follows}

    def recallMemories(self, held: Any, query: str, k: int, filter: Any, mode: str, status: int, answer: Any) -> None:
        matching = {id: note for id, note in held.items() if filter[1](note[1])}
        cosines = {id: float(self.vector(note[0]) @ self.vector(query)) for id, note in matching.items()}
        found = answer["data"]["memories"]
        assert len(found) == len({one["id"] for one in found}) == min(k, len(matching))
        for one in found:
            assert (one["content"], one["metadata"]) == matching[one["id"]]
            assert one["score"] == pytest.approx(cosines[one["id"]], abs=2e-6)
        scores = [one["score"] for one in found]
        if mode == "cosine":
            assert scores == pytest.approx(sorted(cosines.values(), reverse=True)[:k], abs=2e-6)
        elif any(note[0] == query for note in matching.values()):
            assert found[0]["content"] == query


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(CALLS, max_size=40))
def test_any_calls_answer_as_the_model_does(
    tmp_path: Path, remembering: Remembering, calls: list[tuple[Any, ...]]
) -> None:
    routes = Routes(tmp_path / uuid.uuid4().hex, None, remembering)
    keys = {user: routes.make_key(user, *roles) for user, roles in ROLES.items()}
    expected = Expected(lambda text: remembering.embed([text])[0])
    for user, scope, target, call in calls:
        method, *rest = call
        params: dict[str, Any] = {"scope": scope} | ({} if target is None else {"targetUserId": target})
        if method == "saveMemory":
            params["memory"] = {"id": rest[0], "content": rest[1], "metadata": rest[2]}
        elif method == "deleteMemory":
            params["memoryId"] = rest[0]
        elif method == "listMemories":
            params |= {"limit": rest[0], "offset": rest[1]}
        else:
            params |= {"queryText": rest[0], "topK": rest[1], "filter": rest[2][0], "mode": rest[3]}
        status, answer = routes.post(method, params, keys[user])
        owner = expected.owner(user, scope, target)
        if isinstance(owner, tuple):
            assert (status, code(answer)) == owner
        else:
            expected.check(owner, call, status, answer)
    close_store()


# Many at once


def test_two_saves_of_one_id_at_once_make_one_note(routes: Routes) -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            id = str(uuid.uuid4())
            assert set(pool.map(lambda content, id=id: routes.save(content, id=id), [DARK, COFFEE] * 4)) == {id}
            assert routes.listed().count(id) == 1
            note = next(one for one in routes("listMemories", limit=100)["memories"] if one["id"] == id)
            (found,) = [one for one in routes.recall(note["content"], topK=100) if one["id"] == id]
            assert found["score"] == 1.0


def test_threads_that_save_delete_recall_and_list(routes: Routes) -> None:
    kept = [routes.save(f"{COFFEE} {number}", {"kept": True}) for number in range(6)]

    def save_and_delete(number: int) -> None:
        draw = random.Random(number)
        own: list[str] = []
        for turn in range(12):
            own.append(routes.save(f"{TRAIN} {number} {turn}", {"kept": False}))
            if draw.random() < 0.7:
                routes("deleteMemory", memoryId=own.pop(draw.randrange(len(own))))
        for id in own:
            routes("deleteMemory", memoryId=id)

    def recall(mode: str) -> None:
        for _ in range(12):
            assert {one["id"] for one in routes.recall(TRAIN, topK=6, filter={"kept": True}, mode=mode)} == set(kept)
            found = routes.recall(TRAIN, topK=3, mode=mode)
            assert len(found) == len({one["id"] for one in found}) == 3

    def page() -> None:
        for _ in range(12):
            seen, offset = [], 0
            while offset is not None:
                status, answer = routes.post("listMemories", {"scope": "user", "limit": 2, "offset": offset})
                if status == 400:
                    # The memory that was to begin the page is gone: begin again.
                    seen, offset = [], 0
                    continue
                seen += [memory["id"] for memory in answer["data"]["memories"]]
                offset = answer["data"]["next_page_offset"]
            assert len(seen) == len(set(seen))
            assert seen[:6] == kept

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(save_and_delete, number) for number in range(3)]
        jobs += [pool.submit(recall, mode) for mode in ("cosine", "hybrid")] + [pool.submit(page)]
        for job in jobs:
            job.result(timeout=300)
    assert routes.listed() == kept
    assert [one["id"] for one in routes.recall(TRAIN, topK=100, filter={"kept": False}, mode="hybrid")] == []


def test_deleting_everything_leaves_nothing_to_be_found(routes: Routes, remembering: Remembering) -> None:
    remembering.embed([f"{COFFEE} {number}" for number in range(150)])
    ids = [routes.save(f"{COFFEE} {number}", {"n": number % 2}) for number in range(150)]
    assert len(routes.recall(COFFEE, topK=100)) == 100
    for id in ids:
        routes("deleteMemory", memoryId=id)
    for params in ({}, {"filter": {"n": 1}}, {"mode": "hybrid"}, {"mode": "hybrid", "filter": {"n": 1}}):
        assert routes.recall(COFFEE, topK=100, **params) == []
    assert routes.listed() == []


@pytest.mark.parametrize("mode", ["cosine", "hybrid"])
def test_what_is_deleted_or_changed_between_search_and_reading(
    routes: Routes, remembering: Remembering, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    remembering.embed([f"{TRAIN} {number}" for number in range(40)])
    ids = [routes.save(f"{TRAIN} {number}", {"n": 1}) for number in range(40)]
    searched = PassageVectors.since
    turns = iter(range(0, 40, 20))

    def search(vectors: PassageVectors, sequence: int) -> Any:
        yield from searched(vectors, sequence)
        # After the search has read the newest state, another client deletes half of it, and hides one.
        if (turn := next(turns, None)) is not None:
            with ThreadPoolExecutor(1) as pool:
                for id in ids[turn + 1 : turn + 19]:
                    pool.submit(routes, "deleteMemory", memoryId=id).result()
                pool.submit(routes.save, f"{TRAIN} {turn}", {"n": 2}, ids[turn]).result()

    monkeypatch.setattr(PassageVectors, "since", search)
    found = routes.recall(TRAIN, topK=30, filter={"n": 1}, mode=mode)
    assert sorted(one["id"] for one in found) == sorted([ids[19], ids[39]])


def test_another_process_on_the_store_is_followed(routes: Routes, database_url: str | None) -> None:
    routes.save(COFFEE)
    script = f"""
import sys
from pathlib import Path
from remory_service.app import create_app
from remory_service.config import Config
from remory_service.runtime import Runtime
from remory.language.embedder import load_embedder
config = Config(data=Path(sys.argv[1]), store=sys.argv[2] or None)
client = create_app(config, Runtime(config, embedder=load_embedder())).test_client()
def call(method, **params):
    body = {{"method": "MemoryRpc." + method, "params": {{"scope": "user", **params}}}}
    answer = client.post("/api/rpc", json=body)
    assert answer.status_code == 200, answer.json
    return answer.json["data"]
for line in sys.stdin:
    if line == "save\\n":
        for number in range(12):
            last = call("saveMemory", memory={{"content": f"{DARK} {{number}}"}})["memoryId"]
    else:
        call("deleteMemory", memoryId=last)
    print(last, flush=True)
"""
    command = [sys.executable, "-c", script, str(routes.data), database_url or ""]
    # As the server has it: threads that wait without spinning.
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write("save\n")
        other.stdin.flush()
        # Both write and read at once; neither may find the store locked.
        for number in range(12):
            routes.save(f"{TRAIN} {number}")
            routes.recall(DARK)
        last = other.stdout.readline().strip()
        found = routes.recall(f"{DARK} 11", topK=1)[0]
        assert (found["id"], found["score"]) == (last, 1.0)
        assert len(routes.listed()) == 25
        other.stdin.write("delete\n")
        other.stdin.close()
        other.stdout.readline()
        assert last not in {one["id"] for one in routes.recall(DARK, topK=100)}
        assert other.wait(60) == 0


# What is left in the store


def test_a_deleted_note_leaves_no_text(routes: Routes) -> None:
    id = routes.save("The word marmalade-97 stands nowhere else.")
    assert routes.recall("marmalade-97", mode="hybrid")[0]["id"] == id
    routes("deleteMemory", memoryId=id)
    with connection():
        collection = passages.find_collection(notes.notes_of("local"))
        assert collection is not None
        assert passages.page(collection, 10) == []
        assert (
            routes.app.extensions["remory_texts"].recall(
                [collection], routes.app.extensions["remory_texts"].ask("marmalade-97"), 3, mode="hybrid"
            )
            == []
        )

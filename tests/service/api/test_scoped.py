"""The scoped memory's routes, on both databases, with a clock of the test's own."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from remory_service.app import create_app
from remory_service.config import Config
from remory_service.identity import list_keys, make_key, revoke_key
from remory_service.store import changes
from remory_service.store.changes import RETENTION_MS
from remory_service.store.database import close_store, connection, transaction
from remory_service.store.schema import StoredLease

SESSION = {"scope": "session", "session_id": "s1"}
DAY_MS = 24 * 3600 * 1000


class Clock:
    """Epoch milliseconds that pass only when told to."""

    now = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now


class Routes:
    """The routes of one application; `api_key` None sends no key."""

    def __init__(self, data: Path, store: str | None, clock: Clock):
        self.data, self.store = data, store
        self._client = create_app(Config(data=data, store=store), clock=clock).test_client()

    def post(self, path: str, api_key: str | None = None, /, **body: Any) -> tuple[int, dict[str, Any]]:
        headers = {} if api_key is None else {"X-API-Key": api_key}
        answer = self._client.post(f"/api/v2/{path}", json=body, headers=headers)
        return answer.status_code, answer.json

    def __call__(self, path: str, api_key: str | None = None, /, **body: Any) -> dict[str, Any]:
        status, answer = self.post(path, api_key, **body)
        assert status == 200, answer
        return answer

    def fails(self, path: str, api_key: str | None = None, /, **body: Any) -> tuple[int, str]:
        status, answer = self.post(path, api_key, **body)
        assert status != 200, answer
        return status, answer["error"]["code"]

    def raw(self, path: str, text: str) -> tuple[int, str]:
        answer = self._client.post(f"/api/v2/{path}", data=text, content_type="application/json")
        return answer.status_code, answer.json["error"]["code"]

    def key(self, user: str, *roles: str) -> str:
        return make_key(self.data, user, roles, self.store)

    def revoke(self, key: str) -> None:
        (number,) = (known.id for known in list_keys(self.data, self.store) if key.startswith(known.hint))
        assert revoke_key(self.data, number, self.store)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def routes(tmp_path: Path, database_url: str | None, clock: Clock) -> Iterator[Routes]:
    yield Routes(tmp_path / "data", database_url, clock)
    close_store()


# Values


def test_a_value_is_read_as_it_was_written(routes: Routes) -> None:
    values: list[Any] = [
        None,
        True,
        0,
        -0.0,
        1.0,
        1e300,
        12345678901234567890,
        "",
        "Grüße 🦀 \u0000 \u202e",
        [],
        {},
        {"b": 1, "a": [None, {"x": 0.1}]},
    ]
    for value in values:
        written = routes("memory/write", **SESSION, key="k", value=value)
        read = routes("memory/read", **SESSION, key="k")
        assert read == {"found": True, "revision": written["revision"], "value": value}
        assert json.dumps(read["value"]) == json.dumps(value)


def test_what_is_not_there_is_not_found(routes: Routes) -> None:
    missing = {"found": False, "revision": 0, "value": None}
    assert routes("memory/read", **SESSION, key="k") == missing
    assert routes("memory/delete", **SESSION, key="k") == {"deleted": False}
    routes("memory/write", **SESSION, key="k", value=1)
    assert routes("memory/read", scope="session", session_id="s2", key="k") == missing
    assert routes("memory/read", scope="actor", actor_id="s1", key="k") == missing
    assert routes("memory/read", **SESSION, key="K") == missing


def test_revisions_ascend_across_deletes_and_expiry(routes: Routes, clock: Clock) -> None:
    assert routes("memory/write", **SESSION, key="k", value=1)["revision"] == 1
    assert routes("memory/write", **SESSION, key="k", value=1)["revision"] == 2
    assert routes("memory/delete", **SESSION, key="k") == {"deleted": True}
    assert routes("memory/read", **SESSION, key="k")["revision"] == 0
    assert routes("memory/write", **SESSION, key="k", value=1, ttl_seconds=1)["revision"] == 3
    clock.now += 1000
    assert routes("memory/write", **SESSION, key="k", value=1)["revision"] == 4


def test_a_value_and_a_vector_under_one_key_are_two_entries(routes: Routes) -> None:
    routes("memory/write", **SESSION, key="k", value=1)
    routes("memory/write", **SESSION, key="k", value=2)
    assert routes("memory/vector/set", **SESSION, key="k", embedding=[1]) == {"revision": 1, "dimension": 1}
    routes("memory/vector/delete", **SESSION, key="k")
    assert routes("memory/read", **SESSION, key="k")["revision"] == 2


def test_compare_and_set(routes: Routes) -> None:
    def conflict(path: str, expected: int, **body: Any) -> int:
        status, answer = routes.post(path, **SESSION, key="k", expected_revision=expected, **body)
        assert (status, answer["error"]["code"]) == (409, "revision_conflict")
        return answer["error"]["revision"]

    assert conflict("memory/write", 1, value=1) == 0
    assert conflict("memory/delete", 1) == 0
    assert routes("memory/write", **SESSION, key="k", value=1, expected_revision=0)["revision"] == 1
    assert conflict("memory/write", 0, value=2) == 1
    assert conflict("memory/write", 2, value=2) == 1
    assert conflict("memory/delete", 2) == 1
    assert routes("memory/write", **SESSION, key="k", value=2, expected_revision=1)["revision"] == 2
    assert routes("memory/delete", **SESSION, key="k", expected_revision=2) == {"deleted": True}
    assert conflict("memory/write", 2, value=3) == 0
    assert routes("memory/delete", **SESSION, key="k", expected_revision=0) == {"deleted": False}
    assert routes("memory/write", **SESSION, key="k", value=3, expected_revision=0)["revision"] == 3
    assert [change["revision"] for change in routes("memory/changes")["items"]] == [1, 2, 2, 3]


def test_what_has_expired_is_absent_on_every_path(routes: Routes, clock: Clock) -> None:
    written = routes("memory/write", **SESSION, key="k", value=1, ttl_seconds=1)
    assert written["expires_at"] == clock.now + 1000
    routes("memory/write", **SESSION, key="stays", value=2)
    clock.now += 999
    assert routes("memory/read", **SESSION, key="k")["found"]
    assert [item["expires_at"] for item in routes("memory/list", **SESSION)["items"]] == [clock.now + 1, None]
    before = routes("memory/changes")["next_cursor"]
    clock.now += 1
    assert routes("memory/read", **SESSION, key="k") == {"found": False, "revision": 0, "value": None}
    assert [item["key"] for item in routes("memory/list", **SESSION)["items"]] == ["stays"]
    assert routes("memory/delete", **SESSION, key="k") == {"deleted": False}
    assert routes.fails("memory/write", **SESSION, key="k", value=1, expected_revision=1) == (409, "revision_conflict")
    assert routes("memory/write", **SESSION, key="k", value=3, expected_revision=0)["revision"] == 2
    assert [change["revision"] for change in routes("memory/changes", after=before)["items"]] == [2]


def test_a_write_without_ttl_lives_for_ever_again(routes: Routes, clock: Clock) -> None:
    routes("memory/write", **SESSION, key="k", value=1, ttl_seconds=1)
    assert routes("memory/write", **SESSION, key="k", value=2)["expires_at"] is None
    clock.now += 4000 * DAY_MS
    assert routes("memory/read", **SESSION, key="k")["value"] == 2


def test_sizes_are_measured_in_canonical_bytes(routes: Routes) -> None:
    largest = 1 << 20
    routes("memory/write", **SESSION, key="k", value="x" * (largest - 2))
    assert routes.fails("memory/write", **SESSION, key="k", value="x" * (largest - 1)) == (400, "value_too_large")
    # 21 canonical bytes each, though Python would write 1e+20 in five.
    many = [1e20] * (largest // 22)
    routes("memory/write", **SESSION, key="k", value=many)
    assert routes.fails("memory/write", **SESSION, key="k", value=[*many, *many[:2]]) == (400, "value_too_large")
    assert routes("memory/read", **SESSION, key="k")["value"] == many


# Lists


def test_keys_are_listed_in_the_order_of_their_utf8_bytes(routes: Routes) -> None:
    keys = ["a", "B", "b", "ä", "a b", "a\u0300", "\ue000", "\uffff", "\U0001f980", "\U0010ffff", "Z", "aa", "_", "-"]
    random.Random(1).shuffle(keys)
    for key in keys:
        routes("memory/write", **SESSION, key=key, value=key)
    listed = routes("memory/list", **SESSION)
    assert [item["key"] for item in listed["items"]] == sorted(keys, key=str.encode)
    assert (listed["kind"], listed["next_cursor"]) == ("value", None)


def test_a_prefix_finds_what_begins_with_it(routes: Routes) -> None:
    last = "\U0010ffff"
    stems = ("a", "a/", "a0", "b", "\ud7ff", "\ue000", last, "A", "%", "_", "x%")
    keys = sorted({stem + end for stem in stems for end in ("", "a", "\uffff", last)}, key=str.encode)
    for key in keys:
        routes("memory/vector/set", **SESSION, key=key, embedding=[1])
    for prefix in ("", "a", "a/", "a/\uffff", "\ud7ff", last, last + last, "%", "_"):
        listed = routes("memory/list", **SESSION, kind="vector", prefix=prefix, limit=1000)["items"]
        assert [item["key"] for item in listed] == [key for key in keys if key.startswith(prefix)]
        assert all(item["dimension"] == 1 and item["revision"] == 1 for item in listed)
        changes = routes("memory/changes", prefix=prefix, limit=1000)["items"]
        assert sorted((change["key"] for change in changes), key=str.encode) == [item["key"] for item in listed]


def test_pages_stay_right_while_others_write(routes: Routes) -> None:
    for index in range(0, 50, 2):
        routes("memory/write", **SESSION, key=f"{index:02}", value=0)
    seen, cursor = [], None
    for round in range(100):
        page = routes("memory/list", **SESSION, limit=3, cursor=cursor)
        seen += [item["key"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        behind, ahead = int(cursor) - 1, int(cursor) + 1
        routes("memory/write", **SESSION, key=f"{max(behind, 0):02}", value=round)
        routes("memory/write", **SESSION, key=f"{ahead:02}", value=round)
        routes("memory/delete", **SESSION, key=cursor)
    assert seen == sorted(set(seen))
    assert {f"{index:02}" for index in range(0, 50, 2)} <= set(seen)


def test_a_page_that_holds_all_is_the_last(routes: Routes) -> None:
    for key in ("a", "b", "c"):
        routes("memory/write", **SESSION, key=key, value=0)
    assert routes("memory/list", **SESSION, limit=3)["next_cursor"] is None
    assert routes("memory/list", **SESSION, limit=2)["next_cursor"] == "b"
    assert routes("memory/list", **SESSION, limit=2, cursor="b")["items"][0]["key"] == "c"
    assert routes("memory/list", scope="global") == {"items": [], "kind": "value", "next_cursor": None}


# Vectors


def test_a_vector_is_got_as_it_was_set(routes: Routes) -> None:
    embedding = [1, -2.5, 1e-300, 0.1, 1e100]
    metadata = {"b": {"c": [1.0, None]}, "a": "\u0000"}
    assert routes("memory/vector/set", **SESSION, key="v", embedding=embedding, metadata=metadata) == {
        "revision": 1,
        "dimension": 5,
    }
    got = routes("memory/vector/get", **SESSION, key="v")
    assert got == {
        "found": True,
        "key": "v",
        "revision": 1,
        "dimension": 5,
        "embedding": embedding,
        "metadata": metadata,
    }
    routes("memory/vector/set", **SESSION, key="v", embedding=[0.5, 0.25])
    assert routes("memory/vector/get", **SESSION, key="v")["metadata"] == {}
    assert routes("memory/vector/get", **SESSION, key="v")["embedding"] == [0.5, 0.25]


def test_a_missing_vector_is_not_found(routes: Routes) -> None:
    missing = {"found": False, "key": "v", "revision": 0, "dimension": 0, "embedding": None, "metadata": None}
    assert routes("memory/vector/get", **SESSION, key="v") == missing
    routes("memory/vector/set", **SESSION, key="v", embedding=[1])
    assert routes("memory/vector/delete", **SESSION, key="v") == {"deleted": True}
    assert routes("memory/vector/delete", **SESSION, key="v") == {"deleted": False}
    assert routes("memory/vector/get", **SESSION, key="v") == missing
    assert routes("memory/list", **SESSION, kind="vector")["items"] == []
    assert routes("memory/vector/search", **SESSION, query_embedding=[1])["items"] == []
    assert routes("memory/vector/set", **SESSION, key="v", embedding=[1])["revision"] == 2


def test_search_orders_by_score_then_key(routes: Routes) -> None:
    for key, embedding in {"c": [3, 3], "a": [1, 1], "b": [7e100, 7e100], "d": [1, 0], "e": [-1, -1], "f": [1]}.items():
        routes("memory/vector/set", **SESSION, key=key, embedding=embedding, metadata={"key": key})
    found = routes("memory/vector/search", **SESSION, query_embedding=[2, 2])
    assert [hit["key"] for hit in found["items"]] == ["a", "b", "c", "d", "e"]
    assert [hit["score"] for hit in found["items"]] == pytest.approx([1, 1, 1, 0.5**0.5, -1])
    assert all(-1 <= hit["score"] <= 1 for hit in found["items"])
    assert (found["dimension"], found["scanned"], found["strategy"]) == (2, 5, "linear")
    assert found["items"][0] == {
        "key": "a",
        "revision": 1,
        "metadata": {"key": "a"},
        "score": found["items"][0]["score"],
    }
    assert [
        hit["key"] for hit in routes("memory/vector/search", **SESSION, query_embedding=[2, 2], top_k=2)["items"]
    ] == [
        "a",
        "b",
    ]


def test_a_write_is_found_by_the_next_search(routes: Routes) -> None:
    def keys() -> list[str]:
        return [hit["key"] for hit in routes("memory/vector/search", **SESSION, query_embedding=[1, 0])["items"]]

    for round in range(3):
        routes("memory/vector/set", **SESSION, key="v", embedding=[1, round])
        assert keys() == ["v"]
        routes("memory/vector/set", **SESSION, key="v", embedding=[1, 2, 3])
        assert keys() == []
        routes("memory/vector/set", **SESSION, key="v", embedding=[0, 1])
        assert keys() == ["v"]
        routes("memory/vector/delete", **SESSION, key="v")
        assert keys() == []


def test_filters_come_before_selection(routes: Routes) -> None:
    for index in range(15):
        routes("memory/vector/set", **SESSION, key=f"near{index:02}", embedding=[1, index / 100], metadata={"of": 1})
    for index in range(5):
        routes("memory/vector/set", **SESSION, key=f"far{index}", embedding=[-1, index], metadata={"of": 2})
    found = routes("memory/vector/search", **SESSION, query_embedding=[1, 0], top_k=5, filters={"of": 2})
    assert sorted(hit["key"] for hit in found["items"]) == [f"far{index}" for index in range(5)]
    assert found["scanned"] == 5
    routes("memory/vector/set", **SESSION, key="far0", embedding=[-1, 0], metadata={"of": 1})
    assert routes("memory/vector/search", **SESSION, query_embedding=[1, 0], filters={"of": 2})["scanned"] == 4


EQUALITY: list[tuple[Any, Any, bool]] = [
    (1, 1.0, True),
    (1.0, 1, True),
    (True, 1, False),
    (0, False, False),
    (None, None, True),
    ("absent", None, False),
    ("1", 1, False),
    ([1, {"a": 2}], [1.0, {"a": 2.0}], True),
    ([1, 2], [2, 1], False),
    ({"a": 1, "b": [True]}, {"b": [True], "a": 1}, True),
    ({"a": 1, "b": 2}, {"a": 1}, False),
    (9007199254740993, 9007199254740992, False),
    (-0.0, 0, True),
    ("é", "e\u0301", False),
]


def test_filters_are_met_under_json_equality(routes: Routes) -> None:
    for held, asked, matches in EQUALITY:
        metadata = {} if held == "absent" else {"x": held, "other": 1}
        routes("memory/vector/set", **SESSION, key="v", embedding=[1], metadata=metadata)
        found = routes("memory/vector/search", **SESSION, query_embedding=[1], filters={"x": asked})
        assert len(found["items"]) == matches, (held, asked)
        both = {"x": asked, "other": 2}
        assert routes("memory/vector/search", **SESSION, query_embedding=[1], filters=both)["items"] == []


# The feed


def test_the_feed_tells_every_change_in_order(routes: Routes, clock: Clock) -> None:
    routes("memory/write", **SESSION, key="k", value={"a": 1})
    routes("memory/vector/set", scope="global", key="v", embedding=[1])
    routes("memory/delete", **SESSION, key="k")
    routes("memory/vector/delete", scope="global", key="v")
    routes("memory/delete", **SESSION, key="k")
    feed = routes("memory/changes")
    common = {"principal": "local", "created_at": clock.now}
    session = {"scope": "session", "scope_id": "s1", "kind": "value", "key": "k", "revision": 1} | common
    everywhere = {"scope": "global", "scope_id": "", "kind": "vector", "key": "v", "revision": 1} | common
    nothing = {"value": None, "value_omitted": False}
    assert feed == {
        "items": [
            {"sequence": 1, "action": "set", "value": {"a": 1}, "value_omitted": False} | session,
            {"sequence": 2, "action": "set"} | nothing | everywhere,
            {"sequence": 3, "action": "delete"} | nothing | session,
            {"sequence": 4, "action": "delete"} | nothing | everywhere,
        ],
        "next_cursor": 4,
        "oldest_sequence": 1,
    }


def test_cursors_go_on_across_what_is_filtered(routes: Routes) -> None:
    for index in range(6):
        routes("memory/write", scope="session", session_id=f"s{index % 2}", key=f"k{index}", value=index)
    first = routes("memory/changes", scope="session", session_id="s0", limit=2)
    assert ([item["sequence"] for item in first["items"]], first["next_cursor"]) == ([1, 3], 3)
    second = routes("memory/changes", scope="session", session_id="s0", limit=2, after=3)
    assert ([item["sequence"] for item in second["items"]], second["next_cursor"]) == ([5], 6)
    assert routes("memory/changes", scope="session", session_id="nobody")["next_cursor"] == 6
    assert routes("memory/changes", prefix="k3")["items"][0]["sequence"] == 4
    assert routes("memory/changes", after=6) == {"items": [], "next_cursor": 6, "oldest_sequence": 1}
    assert routes("memory/changes", after=2**63 - 1) == {"items": [], "next_cursor": 6, "oldest_sequence": 1}


def test_long_values_are_left_out(routes: Routes) -> None:
    routes("memory/write", **SESSION, key="k", value="x" * 65534)
    routes("memory/write", **SESSION, key="k", value="x" * 65535)
    routes("memory/write", **SESSION, key="k", value=None)
    shown = [(item["value_omitted"], item["value"]) for item in routes("memory/changes")["items"]]
    assert shown == [(False, "x" * 65534), (True, None), (False, None)]


def test_a_page_ends_early_when_its_values_are_long(routes: Routes) -> None:
    for index in range(130):
        routes("memory/write", **SESSION, key="k", value=str(index % 10) * 60_000)
    sizes, cursor = [], 0
    while cursor < 130:
        page = routes("memory/changes", after=cursor, limit=1000)
        assert [item["sequence"] for item in page["items"]] == list(range(cursor + 1, page["next_cursor"] + 1))
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
    assert sizes == [100, 30]
    assert len(routes("memory/changes", limit=7)["items"]) == 7


def test_changes_are_kept_for_thirty_days(routes: Routes, clock: Clock) -> None:
    for index in range(3):
        routes("memory/write", **SESSION, key="k", value=index)
    clock.now += RETENTION_MS // 2
    routes("memory/write", **SESSION, key="k", value=3)
    assert routes("memory/changes")["oldest_sequence"] == 1
    clock.now += RETENTION_MS // 2 + 60_000
    assert routes("memory/changes", after=0)["oldest_sequence"] == 4
    assert [item["sequence"] for item in routes("memory/changes", after=3)["items"]] == [4]
    status, answer = routes.post("memory/changes", after=2)
    assert (status, answer["error"]["code"], answer["error"]["oldest_sequence"]) == (409, "cursor_expired", 4)
    clock.now += RETENTION_MS
    empty = routes("memory/changes")
    assert empty == {"items": [], "next_cursor": 4, "oldest_sequence": 5}
    assert routes("memory/changes", after=4) == empty
    assert routes.fails("memory/changes", after=3) == (409, "cursor_expired")
    routes("memory/write", **SESSION, key="k", value=4)
    assert [item["sequence"] for item in routes("memory/changes", after=4)["items"]] == [5]
    assert routes("memory/read", **SESSION, key="k")["revision"] == 5


# Who may do what


def test_the_first_to_write_owns_a_scope(routes: Routes) -> None:
    ours, theirs, admin = routes.key("a", "invoke"), routes.key("b", "invoke"), routes.key("c", "admin")
    for scope in (SESSION, {"scope": "actor", "actor_id": "x"}, {"scope": "workflow", "root_id": "x"}):
        assert not routes("memory/read", theirs, **scope, key="k")["found"]
        assert routes("memory/delete", theirs, **scope, key="k") == {"deleted": False}
        assert routes.fails("memory/write", theirs, **scope, key="k", value=1, expected_revision=3)[0] == 409
        routes("memory/write", ours, **scope, key="k", value=1)
        routes("memory/vector/set", ours, **scope, key="k", embedding=[1])
        requests: list[tuple[str, dict[str, Any]]] = [
            ("memory/read", {"key": "k"}),
            ("memory/write", {"key": "k", "value": 2}),
            ("memory/write", {"key": "k", "value": 2, "expected_revision": 9}),
            ("memory/delete", {"key": "k"}),
            ("memory/list", {}),
            ("memory/list", {"kind": "vector"}),
            ("memory/changes", {}),
            ("memory/vector/set", {"key": "k", "embedding": [1]}),
            ("memory/vector/get", {"key": "k"}),
            ("memory/vector/delete", {"key": "k"}),
            ("memory/vector/search", {"query_embedding": [1]}),
        ]
        for path, body in requests:
            assert routes.fails(path, theirs, **scope, **body) == (403, "forbidden"), path
        assert routes("memory/read", admin, **scope, key="k")["value"] == 1
        assert routes("memory/write", admin, **scope, key="k", value=3)["revision"] == 2
        assert routes("memory/read", ours, **scope, key="k")["value"] == 3


def test_global_is_everybodys(routes: Routes) -> None:
    ours, theirs = routes.key("a", "invoke"), routes.key("b", "invoke")
    routes("memory/write", ours, scope="global", key="k", value=1)
    assert routes("memory/write", theirs, scope="global", key="k", value=2)["revision"] == 2
    assert routes("memory/read", ours, scope="global", key="k")["value"] == 2


def test_the_feed_shows_what_may_be_read(routes: Routes) -> None:
    ours, theirs, admin = routes.key("a", "invoke"), routes.key("b", "invoke"), routes.key("c", "admin")
    routes("memory/write", ours, **SESSION, key="k", value=1)
    routes("memory/write", theirs, scope="actor", actor_id="x", key="k", value=2)
    routes("memory/write", theirs, scope="global", key="k", value=3)
    routes("memory/write", theirs, scope="workflow", root_id="x", key="k", value=4)

    def seen(key: str) -> tuple[list[int], int]:
        feed = routes("memory/changes", key)
        return [item["value"] for item in feed["items"]], feed["next_cursor"]

    assert seen(ours) == ([1, 3], 4)
    assert seen(theirs) == ([2, 3, 4], 4)
    assert seen(admin) == ([1, 2, 3, 4], 4)


def test_keys_and_roles(routes: Routes) -> None:
    agent, worker, admin = routes.key("a", "agent"), routes.key("a", "worker"), routes.key("a", "admin")
    assert routes.fails("memory/read", **SESSION, key="k") == (401, "unauthenticated")
    assert routes.fails("memory/read", "rk_wrong", **SESSION, key="k") == (401, "unauthenticated")
    assert routes.fails("memory/read", agent, **SESSION, key="k") == (403, "forbidden")
    assert routes.fails("memory/read", worker, **SESSION, key="k") == (403, "lease_required")
    lease = {"task_id": "t", "step_id": "p", "root_id": "r", "session_id": "s"}
    assert routes.fails("leases", worker, **lease) == (403, "forbidden")
    assert routes.fails("leases", agent, **lease) == (403, "forbidden")
    assert routes("leases", admin, **lease)["lease_token"]


# Leases


@pytest.fixture
def keys(routes: Routes) -> dict[str, str]:
    return {
        "owner": routes.key("owner", "invoke"),
        "other": routes.key("other", "invoke"),
        "worker": routes.key("worker", "worker"),
    }


LEASE = {"task_id": "t", "step_id": "p", "root_id": "r1", "session_id": "s1"}
Held = Callable[..., dict[str, str]]


@pytest.fixture
def lease(routes: Routes, keys: dict[str, str]) -> Held:
    """Grants a lease, and returns what a worker sends with it."""

    def grant(key: str = "owner", **fields: Any) -> dict[str, str]:
        token = routes("leases", keys[key], **(LEASE | fields))["lease_token"]
        return {"lease_token": token, "task_id": "t", "step_id": "p"}

    return grant


def test_a_worker_acts_in_the_scopes_of_its_lease(routes: Routes, keys: dict[str, str], lease: Held) -> None:
    held, worker, owner = lease(actor_id="a1"), keys["worker"], keys["owner"]
    for scope in ("session", "actor", "workflow", "global"):
        assert routes("memory/write", worker, **held, scope=scope, key="k", value=scope)["revision"] == 1
        assert routes("memory/read", worker, **held, scope=scope, key="k")["value"] == scope
        assert routes("memory/vector/set", worker, **held, scope=scope, key="v", embedding=[1])["revision"] == 1
        assert len(routes("memory/vector/search", worker, **held, scope=scope, query_embedding=[1])["items"]) == 1
    assert routes("memory/read", owner, **SESSION, key="k")["value"] == "session"
    assert routes("memory/read", owner, scope="actor", actor_id="a1", key="k")["value"] == "actor"
    assert routes("memory/read", owner, scope="workflow", root_id="r1", key="k")["value"] == "workflow"
    assert routes.fails("memory/read", keys["other"], **SESSION, key="k") == (403, "forbidden")
    assert {item["principal"] for item in routes("memory/changes", owner)["items"]} == {"worker"}
    assert routes("memory/read", worker, **held, scope="session", session_id="s1", key="k")["found"]


def test_a_worker_sees_nothing_beyond_its_lease(routes: Routes, keys: dict[str, str], lease: Held) -> None:
    held, worker = lease(), keys["worker"]
    routes("memory/write", keys["owner"], scope="session", session_id="s2", key="k", value="hidden")
    routes("memory/write", keys["owner"], scope="actor", actor_id="a1", key="k", value="hidden")
    routes("memory/write", keys["owner"], **SESSION, key="k", value="seen")
    routes("memory/write", keys["other"], scope="global", key="k", value="seen")
    assert routes.fails("memory/read", worker, **held, scope="session", session_id="s2", key="k") == (403, "forbidden")
    assert routes.fails("memory/read", worker, **held, scope="global", actor_id="a1", key="k") == (403, "forbidden")
    assert routes.fails("memory/read", worker, **held, scope="actor", key="k") == (400, "invalid_scope")
    feed = routes("memory/changes", worker, **held)
    assert ([item["value"] for item in feed["items"]], feed["next_cursor"]) == (["seen", "seen"], 4)
    assert len(routes("memory/changes", worker, **held, scope="session")["items"]) == 1


def test_a_lease_lends_no_more_than_its_grantor_has(routes: Routes, keys: dict[str, str], lease: Held) -> None:
    held = lease("other")
    routes("memory/write", keys["owner"], **SESSION, key="k", value=1)
    assert routes.fails("leases", keys["other"], **LEASE) == (403, "forbidden")
    # Granted when nobody owned the session yet.
    assert routes.fails("memory/read", keys["worker"], **held, scope="session", key="k") == (403, "forbidden")
    assert routes("memory/changes", keys["worker"], **held)["items"] == []
    admin = routes.key("root", "admin")
    token = routes("leases", admin, **LEASE)["lease_token"]
    assert (
        routes("memory/read", keys["worker"], **held | {"lease_token": token}, scope="session", key="k")["value"] == 1
    )


def test_a_lease_ends_by_its_time(routes: Routes, keys: dict[str, str], lease: Held, clock: Clock) -> None:
    held, worker = lease(ttl_seconds=10), keys["worker"]
    clock.now += 9_999
    routes("memory/write", worker, **held, scope="session", key="k", value=1)
    assert routes("leases/renew", worker, **held, ttl_seconds=5) == {
        "lease_token": held["lease_token"],
        "expires_at": clock.now + 5000,
    }
    clock.now += 4_999
    assert routes("memory/read", worker, **held, scope="session", key="k")["found"]
    clock.now += 1
    assert routes.fails("memory/read", worker, **held, scope="session", key="k") == (403, "lease_expired")
    assert routes.fails("memory/changes", worker, **held) == (403, "lease_expired")
    assert routes.fails("leases/renew", worker, **held) == (403, "lease_expired")
    assert routes("leases/release", worker, **held) == {"released": False}


def test_a_lease_ends_by_release(routes: Routes, keys: dict[str, str], lease: Held) -> None:
    for key in ("worker", "owner"):
        held = lease()
        assert routes.fails("leases/release", keys["other"], **held) == (403, "forbidden")
        assert routes.fails("leases/renew", keys["other"], **held) == (403, "forbidden")
        assert routes("leases/release", keys[key], **held) == {"released": True}
        assert routes.fails("memory/read", keys["worker"], **held, scope="session", key="k") == (403, "lease_expired")


def test_a_lease_is_for_one_step(routes: Routes, keys: dict[str, str], lease: Held) -> None:
    held, worker = lease(), keys["worker"]
    wrong: list[dict[str, Any]] = [{"task_id": "u"}, {"step_id": "q"}, {"task_id": None}]
    for change in wrong:
        assert routes.fails("memory/read", worker, **held | change, scope="session", key="k") == (403, "forbidden")
    unknown = held | {"lease_token": "rl_unknown"}
    assert routes.fails("memory/read", worker, **unknown, scope="session", key="k") == (403, "lease_required")
    assert routes.fails("memory/read", keys["owner"], **held, scope="workflow", key="k") == (400, "invalid_scope")


def test_lease_tokens_are_not_in_the_store(routes: Routes, lease: Held) -> None:
    token = lease()["lease_token"]
    with connection():
        (stored,) = StoredLease.select().dicts()
    assert "owner" in str(stored)
    assert token not in str(stored)


def test_a_lease_lasts_no_longer_than_its_grantors_keys(routes: Routes, keys: dict[str, str], lease: Held) -> None:
    worker, held = keys["worker"], lease()
    root = routes.key("root", "admin")
    routes("memory/write", keys["other"], scope="session", session_id="s2", key="k", value=1)
    foreign = LEASE | {"session_id": "s2"}
    lent = held | {"lease_token": routes("leases", root, **foreign)["lease_token"]}
    assert routes("memory/read", worker, **lent, scope="session", key="k")["found"]
    routes.key("root", "invoke")
    routes.revoke(root)
    assert routes.fails("memory/read", worker, **lent, scope="session", key="k") == (403, "forbidden")
    assert not routes("memory/read", worker, **held, scope="session", key="k")["found"]
    routes.revoke(keys["owner"])
    assert routes.fails("memory/read", worker, **held, scope="session", key="k") == (403, "lease_expired")
    assert routes.fails("leases/renew", worker, **held) == (403, "lease_expired")


# What happens at once


def test_a_scope_that_comes_to_be_is_not_passed_over(routes: Routes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for the scope and the reading of its changes."""
    page = changes.page

    def write_and_page(*arguments: Any) -> Any:
        monkeypatch.undo()
        with ThreadPoolExecutor() as pool:
            pool.submit(routes, "memory/write", **SESSION, key="k", value=1).result()
        return page(*arguments)

    routes("memory/write", scope="global", key="k", value=0)
    monkeypatch.setattr(changes, "page", write_and_page)
    cursor = routes("memory/changes", **SESSION)["next_cursor"]
    assert [item["value"] for item in routes("memory/changes", **SESSION, after=cursor)["items"]] == [1]


def test_a_write_that_waits_is_a_write_of_its_end(routes: Routes, keys: dict[str, str], clock: Clock) -> None:
    owner, worker = keys["owner"], keys["worker"]
    routes("memory/write", owner, **SESSION, key="short", value=1, ttl_seconds=3)
    token = routes("leases", owner, **LEASE, ttl_seconds=3)["lease_token"]
    held = {"task_id": "t", "step_id": "p", "lease_token": token}
    with ThreadPoolExecutor() as pool:
        with connection(), transaction():
            lasting = pool.submit(routes, "memory/write", owner, **SESSION, key="k", value=1, ttl_seconds=10)
            expired = pool.submit(
                routes.fails, "memory/write", owner, **SESSION, key="short", value=2, expected_revision=1
            )
            leased = pool.submit(routes.fails, "memory/write", worker, **held, scope="session", key="l", value=1)
            renewed = pool.submit(routes.fails, "leases/renew", worker, **held)
            time.sleep(0.5)
            clock.now += 4000
        assert lasting.result()["expires_at"] == clock.now + 10_000
        assert expired.result() == (409, "revision_conflict")
        assert leased.result() == renewed.result() == (403, "lease_expired")


# What is refused


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("memory/read", {"key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "planet", "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": None, "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "session", "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "actor", "session_id": "s", "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "session", "session_id": "", "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "session", "session_id": 5, "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "session", "session_id": "x" * 513, "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "session", "session_id": "a\x7f", "key": "k"}, "invalid_scope"),
    ("memory/read", {"scope": "global"}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": ""}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": None}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": 1}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": "x" * 513}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": "é" * 257}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": "a\nb"}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": "a\u0000"}, "invalid_key"),
    ("memory/read", {"scope": "global", "key": "\u0085"}, "invalid_key"),
    ("memory/write", {"scope": "global", "key": "k"}, "invalid_request"),
    ("memory/write", {"scope": "global", "key": "k", "value": 1, "ttl_seconds": 0}, "invalid_request"),
    ("memory/write", {"scope": "global", "key": "k", "value": 1, "ttl_seconds": 10**9}, "invalid_request"),
    ("memory/write", {"scope": "global", "key": "k", "value": 1, "ttl_seconds": "5"}, "invalid_request"),
    ("memory/write", {"scope": "global", "key": "k", "value": 1, "expected_revision": -1}, "invalid_request"),
    ("memory/write", {"scope": "global", "key": "k", "value": 1, "expected_revision": True}, "invalid_request"),
    ("memory/write", {"scope": "global", "key": "k", "value": 10**400}, "invalid_request"),
    ("memory/list", {"scope": "global", "limit": 0}, "invalid_request"),
    ("memory/list", {"scope": "global", "limit": 1001}, "invalid_request"),
    ("memory/list", {"scope": "global", "kind": "graph"}, "invalid_request"),
    ("memory/list", {"scope": "global", "cursor": "\n"}, "invalid_request"),
    ("memory/changes", {"after": -1}, "invalid_request"),
    ("memory/changes", {"after": 2**63}, "invalid_request"),
    ("memory/changes", {"scope": "session"}, "invalid_scope"),
    ("memory/vector/set", {"scope": "global", "key": "v"}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": []}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": "1,2"}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [1, "2"]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [1, None]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [True]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [[1]]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [0, 0.0, -0.0]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [1e200]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [1e150, 1e150]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [10**400]}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [1] * 100_000}, "invalid_vector"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [1], "metadata": [1]}, "invalid_metadata"),
    ("memory/vector/set", {"scope": "global", "key": "v", "embedding": [1], "metadata": "{}"}, "invalid_metadata"),
    (
        "memory/vector/set",
        {"scope": "global", "key": "v", "embedding": [1], "metadata": {"a": "x" * 16384}},
        "invalid_metadata",
    ),
    (
        "memory/vector/set",
        {"scope": "global", "key": "v", "embedding": [1], "metadata": {"a": 10**400}},
        "invalid_metadata",
    ),
    ("memory/vector/search", {"scope": "global", "query_embedding": [0]}, "invalid_vector"),
    ("memory/vector/search", {"scope": "global"}, "invalid_vector"),
    ("memory/vector/search", {"scope": "global", "query_embedding": [1], "top_k": 0}, "invalid_request"),
    ("memory/vector/search", {"scope": "global", "query_embedding": [1], "top_k": 1001}, "invalid_request"),
    ("memory/vector/search", {"scope": "global", "query_embedding": [1], "strategy": "magic"}, "invalid_request"),
    (
        "memory/vector/search",
        {"scope": "global", "query_embedding": [1], "filters": {str(index): 1 for index in range(33)}},
        "invalid_request",
    ),
    ("memory/vector/search", {"scope": "global", "query_embedding": [1], "filters": [1]}, "invalid_request"),
    ("leases", {"task_id": "t", "step_id": "p", "session_id": "s"}, "invalid_scope"),
    ("leases", LEASE | {"task_id": ""}, "invalid_request"),
    ("leases", LEASE | {"ttl_seconds": 0}, "invalid_request"),
]


def test_what_is_wrong_has_its_code_and_changes_nothing(routes: Routes) -> None:
    for path, body, code in REFUSED:
        assert routes.fails(path, **body) == (400, code), (path, str(body)[:200])
    assert routes("memory/changes")["next_cursor"] == 0
    assert routes("memory/write", scope="global", key="k", value=1)["revision"] == 1


NO_JSON = [
    ('{"scope":"global","key":"v","embedding":[NaN]}', "invalid_vector"),
    ('{"scope":"global","key":"v","embedding":[-Infinity]}', "invalid_vector"),
    ('{"scope":"global","key":"v","embedding":[1e999]}', "invalid_vector"),
    (
        '{"scope":"global","key":"v","embedding":[1],"metadata":' + '{"a":' * 10_000 + "1" + "}" * 10_001,
        "invalid_metadata",
    ),
    ('{"scope":"global","key":"\\ud800","embedding":[1]}', "invalid_request"),
    ("[]", "invalid_request"),
    ('"text"', "invalid_request"),
    ("{", "invalid_request"),
    ("", "invalid_request"),
]


def test_what_is_no_json_has_its_code(routes: Routes) -> None:
    for text, code in NO_JSON:
        assert routes.raw("memory/vector/set", text) == (400, code), text[:200]
        routes("memory/vector/set", scope="global", key="v", embedding=[1])


def test_limits_are_reached(routes: Routes) -> None:
    everything = {
        "key": "é" * 256,
        "embedding": [1e-5] * 16384,
        "metadata": {"a": "x" * (16384 - 8)},
        "unknown": "ignored",
    }
    assert routes("memory/vector/set", scope="global", **everything)["dimension"] == 16384
    filters = {str(index): index for index in range(32)}
    assert routes("memory/vector/search", scope="global", query_embedding=[1], filters=filters)["items"] == []
    routes("memory/vector/set", scope="global", key="k", embedding=[1e150])
    routes("memory/vector/set", scope="global", key="k", embedding=[5e-324])
    assert routes("memory/vector/search", scope="global", query_embedding=[2], top_k=1000)["items"][0]["score"] == 1
    routes("memory/write", scope="global", key="k", value=1, ttl_seconds=10 * 365 * 24 * 3600)


def test_unknown_routes_and_methods_have_the_groups_shape(routes: Routes) -> None:
    assert routes.fails("memory/nothing") == (404, "not_found")
    answer = routes._client.get("/api/v2/memory/read")
    assert (answer.status_code, answer.json["error"]["code"]) == (405, "method_not_allowed")

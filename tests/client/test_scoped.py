"""Scoped memory against a real server process."""

from __future__ import annotations

import logging
import math
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import numpy
import pytest
import torch

from remory import Client, ScopedMemory
from remory.client import (
    ConnectionFailed,
    CursorExpired,
    Forbidden,
    InvalidKey,
    InvalidMetadata,
    InvalidRequest,
    InvalidScope,
    InvalidVector,
    Lease,
    LeaseExpired,
    LeaseRequired,
    RemoryHTTPError,
    RevisionConflict,
    ServerFailed,
    Unauthorized,
    Value,
    ValueTooLarge,
)
from remory.client.scoped import Entry, Match, Vector, Written, WrittenVector

_DAY_MS = 24 * 3600 * 1000
_SECONDS = 120


@pytest.fixture
def memory(client):
    return ScopedMemory(client)


@pytest.fixture
def notes(memory):
    """A session scope that no other test uses."""
    return memory.session()


@contextmanager
def followed(feed):
    """The values of a feed, a list that grows in another thread until the block ends; then its error is raised."""
    seen = []

    def follow():
        for change in feed:
            seen.append(change.value)

    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(follow)
        try:
            yield seen
        finally:
            feed.close()
            following.result(_SECONDS)


def wait_until(is_true):
    deadline = time.monotonic() + _SECONDS
    while not is_true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


class TestValues:
    def test_read_write_delete(self, notes):
        assert notes.read("goal") == Value(False, None, 0)
        assert notes.write("goal", {"text": "grün", "steps": [1, 2.5, None, True]}) == Written(1, None)
        assert notes.read("goal") == Value(True, {"text": "grün", "steps": [1, 2.5, None, True]}, 1)
        assert notes.delete("goal") is True
        assert notes.delete("goal") is False
        assert notes.read("goal") == Value(False, None, 0)
        assert notes.write("goal", None).revision == 2
        assert notes.read("goal") == Value(True, None, 2)

    def test_a_value_ends_with_its_ttl(self, notes):
        before = time.time() * 1000
        written = notes.write("short", 1, ttl_seconds=1)
        assert before < written.expires_at < before + _DAY_MS
        wait_until(lambda: not notes.read("short").found)
        assert list(notes.list()) == []
        assert notes.write("short", 2).revision == 2

    def test_expected_revisions(self, notes):
        assert notes.write("k", "a", expected_revision=0).revision == 1
        assert notes.write("k", "b", expected_revision=1).revision == 2
        for act in (
            lambda: notes.write("k", "c", expected_revision=1),
            lambda: notes.write("k", "c", expected_revision=0),
            lambda: notes.delete("k", expected_revision=1),
        ):
            with pytest.raises(RevisionConflict) as caught:
                act()
            assert (caught.value.revision, caught.value.code, caught.value.status) == (2, "revision_conflict", 409)
        assert notes.delete("k", expected_revision=2)
        with pytest.raises(RevisionConflict) as caught:
            notes.write("k", "c", expected_revision=2)
        assert caught.value.revision == 0

    def test_list_goes_over_all_pages(self, notes):
        names = [f"a/{number}" for number in range(7)] + ["b", "é", "z", "\U0001f600"]
        for name in names:
            notes.write(name, 0)
        by_bytes = sorted(names, key=str.encode)
        assert [entry.key for entry in notes.list(page_size=2)] == by_bytes
        assert [entry.key for entry in notes.list(page_size=len(names))] == by_bytes
        assert [entry.key for entry in notes.list(prefix="a/", page_size=3)] == by_bytes[:7]
        first = next(notes.list())
        assert first == Entry("a/0", 1, first.updated_at, None, None)
        assert abs(first.updated_at - time.time() * 1000) < _DAY_MS

    def test_what_is_written_on_the_way_is_listed_if_it_is_ahead(self, notes):
        for name in "bdf":
            notes.write(name, 0)
        listed = notes.list(page_size=1)
        assert next(listed).key == "b"
        notes.write("a", 0)
        notes.write("c", 0)
        notes.delete("f")
        assert [entry.key for entry in listed] == ["c", "d"]


class TestScopes:
    def test_scopes_are_apart(self, memory, request):
        name = request.node.name
        scopes = [memory.session(name), memory.actor(name), memory.workflow(name), memory.shared]
        for number, scope in enumerate(scopes):
            scope.write(name, number)
        assert [scope.read(name).value for scope in scopes] == [0, 1, 2, 3]
        assert memory.session(name + "2").read(name).found is False

    def test_a_value_and_a_vector_share_a_key(self, notes):
        notes.write("k", 1)
        notes.write("k", 2)
        assert notes.set_vector("k", [1.0]).revision == 1
        assert notes.delete("k")
        assert notes.get_vector("k").found

    def test_the_clients_session_is_the_default(self, memory, client):
        memory.session().write("k", 1)
        assert memory.session(client.session).read("k").value == 1

    def test_a_scope_needs_its_id(self, memory, server):
        with Client(server.url) as sessionless:
            for scope in (ScopedMemory(sessionless).session, memory.actor, memory.workflow):
                with pytest.raises(InvalidScope, match="needs its") as caught:
                    scope()
                assert caught.value.code == "invalid_scope"
        for bad in ("", "a\nb", "é" * 300):
            with pytest.raises(InvalidScope) as caught:
                memory.session(bad).read("k")
            assert (caught.value.code, caught.value.status) == ("invalid_scope", 400)


class TestUpdate:
    def test_update_starts_with_the_default(self, notes):
        assert notes.update("seen", lambda seen: [*seen, "a"], default=[]) == Value(True, ["a"], 1)
        assert notes.update("seen", lambda seen: [*seen, "b"]) == Value(True, ["a", "b"], 2)
        assert notes.update("other", lambda value: value is None).value is True

    def test_nothing_is_lost_under_contention(self, memory, server, client):
        def count(_):
            with Client(server.url, session=client.session) as own:
                for _ in range(15):
                    ScopedMemory(own).session().update("count", lambda count: count + 1, default=0)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(count, range(8)))
        assert memory.session().read("count") == Value(True, 120, 120)

    def test_it_gives_up_after_its_attempts(self, notes):
        calls = []

        def disturb(value):
            calls.append(value)
            notes.write("k", len(calls))
            return "mine"

        with pytest.raises(RevisionConflict) as caught:
            notes.update("k", disturb, attempts=3)
        assert calls == [None, 1, 2]
        assert caught.value.revision == 3
        assert notes.read("k").value == 3

    def test_a_deleted_key_is_found_missing_again(self, notes):
        notes.write("k", 5)
        calls = []

        def delete_once(value):
            calls.append(value)
            if len(calls) == 1:
                notes.delete("k")
            return value + 1

        assert notes.update("k", delete_once, default=0) == Value(True, 1, 2)
        assert calls == [5, 0]

    def test_ttl_and_wrong_attempts(self, notes):
        notes.update("k", lambda _: 1, ttl_seconds=1000)
        assert next(notes.list()).expires_at is not None
        with pytest.raises(ValueError, match="attempts"):
            notes.update("k", lambda _: 1, attempts=0)


class TestVectors:
    @pytest.mark.parametrize(
        "embedding",
        [
            [1, 0.5, -2],
            (1.0, 0.5, -2.0),
            numpy.array([1, 0.5, -2], dtype=numpy.float16),
            [numpy.float32(1), numpy.float64(0.5), numpy.int64(-2)],
            torch.tensor([1, 0.5, -2], dtype=torch.bfloat16, requires_grad=True),
            numpy.array([[9, 9], [1, 9], [0.5, 9], [-2, 9]])[1:, 0],
        ],
        ids=["list", "tuple", "float16", "scalars", "bfloat16", "strided"],
    )
    def test_all_kinds_of_arrays(self, notes, embedding):
        assert notes.set_vector("k", embedding, {"a": 1}) == WrittenVector(1, 3)
        assert notes.get_vector("k") == Vector(True, "k", 1, 3, [1.0, 0.5, -2.0], {"a": 1})
        assert notes.search(embedding).items == (Match("k", 1, {"a": 1}, pytest.approx(1)),)

    def test_delete_and_list(self, notes):
        assert notes.get_vector("k") == Vector(False, "k", 0, 0, None, None)
        notes.set_vector("k", [1.0, 2.0])
        assert notes.get_vector("k").metadata == {}
        entry = next(notes.list("vector"))
        assert (entry.key, entry.revision, entry.dimension, entry.expires_at) == ("k", 1, 2, None)
        assert list(notes.list()) == []
        with pytest.raises(RevisionConflict):
            notes.delete_vector("k", expected_revision=2)
        assert notes.delete_vector("k", expected_revision=1)
        assert not notes.delete_vector("k")
        with pytest.raises(RevisionConflict) as caught:
            notes.set_vector("k", [1.0], expected_revision=1)
        assert caught.value.revision == 0
        assert notes.set_vector("k", [1.0], expected_revision=0).revision == 2

    def test_search(self, notes):
        for name, angle, kind in (("a", 0.1, 1), ("b", 0.2, 2), ("c", 0.3, 1), ("d", 0.3, 1)):
            notes.set_vector(name, [math.cos(angle), math.sin(angle)], {"kind": kind})
        notes.set_vector("another dimension", [1.0, 0.0, 0.0])
        found = notes.search(numpy.array([1.0, 0.0]), top_k=3)
        assert [match.key for match in found] == ["a", "b", "c"]
        assert [match.score for match in found] == pytest.approx([math.cos(0.1), math.cos(0.2), math.cos(0.3)])
        assert (len(found), found.scanned, found.strategy, found.dimension) == (3, 4, "linear", 2)
        filtered = notes.search([1, 0], filters={"kind": 1.0}, strategy="linear")
        assert [match.key for match in filtered] == ["a", "c", "d"]
        assert notes.search([1, 0], filters={"kind": True}).items == ()
        notes.delete_vector("a")
        assert notes.search([1, 0], top_k=1).items[0].key == "b"
        with pytest.raises(InvalidRequest) as caught:
            notes.search([1, 0], strategy="fastest")
        assert caught.value.code == "invalid_request"


class TestErrors:
    @pytest.mark.parametrize("key", ["", "a\x00", "k" * 513])
    def test_keys(self, notes, key):
        with pytest.raises(InvalidKey) as caught:
            notes.write(key, 1)
        assert (caught.value.code, caught.value.status) == ("invalid_key", 400)
        assert caught.value.request_id

    @pytest.mark.parametrize("embedding", [[], [0.0, 0.0], [1e200, 1.0]])
    def test_vectors_that_the_service_refuses(self, notes, embedding):
        for act in (lambda: notes.set_vector("k", embedding), lambda: notes.search(embedding)):
            with pytest.raises(InvalidVector) as caught:
                act()
            assert (caught.value.code, caught.value.status) == ("invalid_vector", 400)

    @pytest.mark.parametrize(
        "embedding",
        [[math.nan], [1, math.inf], [10**400], [True], ["1"], [[1.0]], "12", 3.0, None, torch.ones(2, 2), {"a": 1}],
        ids=repr,
    )
    def test_vectors_that_are_never_sent(self, notes, embedding):
        with pytest.raises(InvalidVector) as caught:
            notes.set_vector("k", embedding)
        assert (caught.value.code, caught.value.status) == ("invalid_vector", None)

    def test_metadata_and_values(self, notes):
        with pytest.raises(InvalidMetadata) as caught:
            notes.set_vector("k", [1.0], {"text": "x" * 17000})
        assert (caught.value.code, caught.value.status) == ("invalid_metadata", 400)
        with pytest.raises(ValueTooLarge) as caught:
            notes.write("k", "x" * (1 << 20))
        assert (caught.value.code, caught.value.status) == ("value_too_large", 400)

    @pytest.mark.parametrize("value", [{1, 2}, math.nan, "\ud800", numpy.float32(1)], ids=["set", "nan", "lone", "f32"])
    def test_values_that_are_no_json(self, notes, value):
        with pytest.raises(InvalidRequest, match="JSON") as caught:
            notes.write("k", value)
        assert caught.value.status is None
        assert not notes.read("k").found

    def test_deep_values_do_not_crash(self, notes):
        deep = []
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(InvalidRequest):
            notes.write("k", deep)

    def test_numbers_out_of_range(self, notes):
        for act in (
            lambda: notes.write("k", 1, ttl_seconds=0),
            lambda: notes.search([1.0], top_k=0),
            lambda: next(notes.list(page_size=1001)),
            lambda: list(notes.changes(after=-1)),
        ):
            with pytest.raises(InvalidRequest) as caught:
                act()
            assert (caught.value.code, caught.value.status) == ("invalid_request", 400)

    def test_one_base_for_all(self, notes):
        for kind in (RevisionConflict, CursorExpired, LeaseRequired, InvalidVector):
            assert issubclass(kind, RemoryHTTPError)
        assert issubclass(LeaseExpired, Forbidden) and issubclass(Forbidden, Unauthorized)


class TestChanges:
    def test_every_write_and_delete_is_there(self, notes):
        notes.write("a", {"n": 1})
        notes.write("b", "x" * 70_000)
        notes.set_vector("a", [1.0])
        notes.delete("a")
        notes.delete_vector("a")
        feed = notes.changes()
        seen = list(feed)
        assert [(one.kind, one.action, one.key, one.revision) for one in seen] == [
            ("value", "set", "a", 1),
            ("value", "set", "b", 1),
            ("vector", "set", "a", 1),
            ("value", "delete", "a", 1),
            ("vector", "delete", "a", 1),
        ]
        assert [one.value for one in seen] == [{"n": 1}, None, None, None, None]
        assert [one.value_omitted for one in seen] == [False, True, False, False, False]
        assert {one.principal for one in seen} == {"local"}
        assert {(one.scope, one.scope_id) for one in seen} == {("session", "test_every_write_and_delete_is_there")}
        assert [one.sequence for one in seen] == sorted({one.sequence for one in seen})
        assert feed.oldest_sequence == 1

    def test_it_goes_on_from_its_cursor(self, memory, notes):
        for number in range(5):
            notes.write(f"k{number}", number)
        feed = notes.changes(page_size=2)
        for change in feed:
            if change.key == "k2":
                break
        assert feed.cursor == change.sequence
        assert [one.value for one in feed] == [3, 4]
        assert list(feed) == []
        notes.write("k5", 5)
        assert [one.value for one in feed] == [5]
        again = notes.changes(after=change.sequence, prefix="k4")
        assert [one.value for one in again] == [4]
        assert again.cursor >= feed.cursor

    def test_the_cursor_passes_what_others_wrote(self, memory, notes):
        memory.session("other of the cursor").write("k", 1)
        feed = notes.changes()
        assert list(feed) == []
        assert feed.cursor > 0

    def test_everything_the_caller_may_see(self, memory, notes):
        feed = memory.changes()
        list(feed)
        notes.write("mine", 1)
        memory.shared.write("everybody's", 2)
        assert [(one.scope, one.key) for one in feed] == [("session", "mine"), ("global", "everybody's")]

    def test_following_waits_for_changes_until_closed(self, notes):
        with followed(notes.changes(follow=True, poll_seconds=0.05)) as seen:
            notes.write("a", 1)
            wait_until(lambda: seen == [1])
            notes.write("b", 2)
            wait_until(lambda: seen == [1, 2])

    def test_it_survives_a_server_that_is_killed(self, start_server, tmp_path):
        server = start_server(tmp_path)
        with Client(server.url, session="s") as client:
            notes = ScopedMemory(client).session()
            with followed(notes.changes(follow=True, poll_seconds=0.05, patience_seconds=_SECONDS)) as seen:
                notes.write("a", 1)
                wait_until(lambda: seen == [1])
                notes.write("b", 2)
                server.kill()
                with pytest.raises(ConnectionFailed):
                    notes.write("c", "nobody is there")
                start_server(tmp_path, "--port", str(urlsplit(server.url).port))
                assert notes.read("b").value == 2
                notes.write("c", 3)
                wait_until(lambda: len(seen) == 3)
            assert seen == [1, 2, 3]

    def test_patience_ends(self, start_server, tmp_path):
        server = start_server(tmp_path)
        with Client(server.url, session="s") as client:
            memory = ScopedMemory(client)
            memory.session().write("a", 1)
            feed = memory.changes(patience_seconds=0.5)
            assert len(list(feed)) == 1
            server.kill()
            with pytest.raises(ConnectionFailed):
                list(feed)
            assert feed.cursor == 1

    def test_an_expired_cursor(self, start_server, tmp_path):
        server = start_server(tmp_path)
        with Client(server.url, session="s") as client:
            notes = ScopedMemory(client).session()
            for number in range(5):
                notes.write(f"k{number}", number)
            server.kill()
            with closing(sqlite3.connect(tmp_path / "remory.sqlite3")) as database, database:
                database.execute("UPDATE change SET created_at = created_at - ? WHERE sequence <= 3", (31 * _DAY_MS,))
            start_server(tmp_path, "--port", str(urlsplit(server.url).port))
            notes.write("k5", 5)

            with pytest.raises(CursorExpired, match="resnapshot") as caught:
                list(notes.changes(after=1))
            assert (caught.value.oldest_sequence, caught.value.code, caught.value.status) == (4, "cursor_expired", 409)
            snapshots = []
            feed = notes.changes(after=1, resnapshot=lambda: snapshots.append([one.key for one in notes.list()]))
            assert [one.key for one in feed] == ["k3", "k4", "k5"]
            assert snapshots == [["k0", "k1", "k2", "k3", "k4", "k5"]]
            assert feed.oldest_sequence == 4
            assert [one.key for one in notes.changes(after=3)] == ["k3", "k4", "k5"]

            # As after the restoring of a backup.
            with pytest.raises(CursorExpired, match="changes end at 6, before the cursor 9: an older store") as caught:
                list(notes.changes(after=9))
            assert caught.value.oldest_sequence == 4
            feed = notes.changes(after=9, resnapshot=lambda: None)
            assert [one.key for one in feed] == ["k3", "k4", "k5"]


@pytest.fixture(scope="module")
def keyed(start_server, tmp_path_factory):
    """URL of a server with keys, and a key of each role."""
    from remory_service.identity import make_key

    data = tmp_path_factory.mktemp("keyed")
    keys = {
        role: make_key(data, user, [role])
        for role, user in (("invoke", "planner"), ("worker", "builder"), ("agent", "agent"), ("admin", "admin"))
    }
    keys["other"] = make_key(data, "other", ["invoke"])
    return start_server(data).url, keys


class TestKeysAndLeases:
    @pytest.fixture
    def memory_of(self, keyed):
        """`memory_of(key name, lease)`: a memory as the holder of this key sees it."""
        url, keys = keyed
        clients = []

        def make(name, lease=None):
            clients.append(Client(url, key=keys.get(name)))
            return ScopedMemory(clients[-1], lease=lease and Lease.load(clients[-1], lease.dump()))

        yield make
        for client in clients:
            client.close()

    @pytest.fixture
    def step(self, request):
        name = request.node.name
        return {"task_id": "task", "step_id": "step", "root_id": f"{name} root", "session_id": f"{name} session"}

    def test_ownership(self, memory_of):
        memory_of("invoke").session("owned").write("k", 1)
        with pytest.raises(Forbidden) as caught:
            memory_of("other").session("owned").read("k")
        assert (caught.value.code, caught.value.status) == ("forbidden", 403)
        assert memory_of("admin").session("owned").read("k").value == 1
        memory_of("invoke").shared.write("k", 1)
        assert memory_of("other").shared.read("k").value == 1
        assert {one.scope for one in memory_of("other").changes()} == {"global"}

    def test_keys_and_roles(self, memory_of):
        with pytest.raises(Unauthorized) as caught:
            memory_of("no such key").shared.read("k")
        assert (caught.value.code, caught.value.status) == ("unauthenticated", 401)
        with pytest.raises(Forbidden):
            memory_of("agent").shared.read("k")
        with pytest.raises(LeaseRequired) as caught:
            memory_of("worker").shared.read("k")
        assert (caught.value.code, caught.value.status) == ("lease_required", 403)
        with pytest.raises(Forbidden):
            memory_of("worker").lease(task_id="t", step_id="s", root_id="r", session_id="s")

    def test_a_worker_under_a_lease(self, memory_of, step):
        planner = memory_of("invoke")
        planner.session(step["session_id"]).write("goal", "green")
        with planner.lease(**step, actor_id="a test's actor", ttl_seconds=60) as lease:
            worker = memory_of("worker", lease)
            assert worker.session().read("goal").value == "green"
            worker.session(step["session_id"]).write("result", 1)
            worker.workflow().write("result", 2)
            worker.actor().write("result", 3)
            worker.shared.write("result", 4)
            for elsewhere in (worker.session("elsewhere"), worker.workflow("elsewhere"), worker.actor("elsewhere")):
                with pytest.raises(Forbidden):
                    elsewhere.read("goal")
            seen = [one.value for one in worker.changes() if one.key == "result"]
            assert seen == [1, 2, 3, 4]
            assert [one.value for one in worker.session().changes()] == ["green", 1]
            planner.session(step["session_id"] + " next door").write("result", 5)
            assert 5 not in [one.value for one in worker.changes()]
        assert planner.session(step["session_id"]).read("result").value == 1
        assert planner.workflow(step["root_id"]).read("result").value == 2
        with pytest.raises(LeaseExpired) as caught:
            worker.session().read("goal")
        assert (caught.value.code, caught.value.status) == ("lease_expired", 403)
        assert lease.release() is False
        assert lease.lost is None

    def test_a_lease_without_an_actor(self, memory_of, step):
        worker = memory_of("worker", memory_of("invoke").lease(**step))
        with pytest.raises(InvalidScope):
            worker.actor().read("k")

    def test_a_lease_of_another_step(self, memory_of, step):
        lease = memory_of("invoke").lease(**step)
        lease.step_id = "another"
        with pytest.raises(Forbidden):
            memory_of("worker", lease).session().read("k")

    def test_it_is_renewed_as_long_as_it_is_held(self, memory_of, step):
        with memory_of("invoke").lease(**step, ttl_seconds=1) as lease:
            worker = memory_of("worker", lease)
            first = lease.expires_at
            wait_until(lambda: lease.expires_at > first + 1500)
            assert worker.session().read("k").found is False
            assert lease.lost is None

    def test_an_expired_lease(self, memory_of, step):
        lease = memory_of("invoke").lease(**step, ttl_seconds=1)
        worker = memory_of("worker", lease)
        assert worker.session().read("k").found is False
        time.sleep(1.1)
        for act in (lambda: worker.session().read("k"), lambda: list(worker.changes()), lease.renew, lease.__enter__):
            with pytest.raises(LeaseExpired):
                act()
        assert lease.release() is False

    def test_a_lease_lost_meanwhile(self, memory_of, step):
        with memory_of("invoke").lease(**step, ttl_seconds=1) as lease:
            assert lease.release() is True
            wait_until(lambda: lease.lost is not None)
            assert isinstance(lease.lost, LeaseExpired)

    def test_an_error_of_the_body_comes_through_and_the_lease_ends(self, memory_of, step):
        with pytest.raises(ZeroDivisionError), memory_of("invoke").lease(**step) as lease:
            _ = 1 / 0
        with pytest.raises(LeaseExpired):
            lease.renew()

    @pytest.mark.parametrize(
        "spoil",
        [lambda lease: setattr(lease, "token", "rl_none"), lambda lease: lease.client.close()],
        ids=["a token that is none", "closed client"],
    )
    def test_an_error_of_the_body_is_not_hidden_by_the_end_of_the_lease(self, memory_of, step, spoil):
        with pytest.raises(ZeroDivisionError), memory_of("invoke").lease(**step) as lease:
            spoil(lease)
            _ = 1 / 0

    def test_a_token_that_is_none_ends_renewing_and_leaving_is_quiet(self, memory_of, step):
        with memory_of("invoke").lease(**step, ttl_seconds=3) as lease:
            lease.token = "rl_none"
            wait_until(lambda: lease.lost is not None)
        assert isinstance(lease.lost, LeaseRequired)

    def test_a_closed_client_is_told_by_lost_and_at_the_end(self, memory_of, step, caplog):
        lease = memory_of("invoke").lease(**step, ttl_seconds=3)
        with pytest.raises(RuntimeError, match="closed"), lease:
            lease.client.close()
            wait_until(lambda: lease.lost is not None)
        assert isinstance(lease.lost, RuntimeError)
        wait_until(
            lambda: [one.exc_info[1] for one in caplog.records if one.name == "remory.client.lease"] == [lease.lost]
        )
        assert lease.token not in caplog.text

    def test_a_worker_keeps_its_lease_alive_itself(self, memory_of, step):
        worker_client = memory_of("worker").client
        lease = Lease.load(worker_client, memory_of("invoke").lease(**step, ttl_seconds=2).dump())
        with lease:
            assert ScopedMemory(worker_client, lease=lease).session().write("k", 1).revision == 1

    def test_a_lease_outlives_the_server(self, start_server, tmp_path, step):
        server = start_server(tmp_path)
        with Client(server.url) as client:
            with ScopedMemory(client).lease(**step, ttl_seconds=60) as lease:
                server.kill()
                again = start_server(tmp_path, "--port", str(urlsplit(server.url).port))
                assert ScopedMemory(client, lease=lease).session().write("k", 1).revision == 1
                again.kill()
            with pytest.raises(ConnectionFailed):
                lease.release()

    def test_a_renewal_that_a_dead_server_lost_is_tried_again(self, start_server, tmp_path, step, caplog):
        caplog.set_level(logging.INFO, "remory.client.lease")
        server = start_server(tmp_path)
        with Client(server.url) as client, ScopedMemory(client).lease(**step, ttl_seconds=3) as lease:
            # The thread still waits as for a short lease, and finds nobody with most of a long one left.
            lease.renew(_SECONDS)
            server.kill()
            before = lease.expires_at
            wait_until(lambda: "tried again" in caplog.text)
            start_server(tmp_path, "--port", str(urlsplit(server.url).port))
            wait_until(lambda: lease.expires_at > before)
            assert lease.lost is None
            assert ScopedMemory(client, lease=lease).session().write("k", 1).revision == 1

    def test_a_renewal_that_failed_in_the_server_is_tried_again(self, start_server, tmp_path, step, caplog):
        caplog.set_level(logging.INFO, "remory.client.lease")
        server = start_server(tmp_path)
        with (
            Client(server.url) as client,
            ScopedMemory(client).lease(**step, ttl_seconds=3) as lease,
            closing(sqlite3.connect(tmp_path / "remory.sqlite3")) as database,
        ):
            lease.renew(_SECONDS)
            database.execute("ALTER TABLE lease RENAME TO hidden")
            before = lease.expires_at
            wait_until(lambda: "tried again" in caplog.text)
            with pytest.raises(ServerFailed):
                lease.renew()
            database.execute("ALTER TABLE hidden RENAME TO lease")
            wait_until(lambda: lease.expires_at > before)
            assert lease.lost is None

    def test_a_server_that_stays_away_loses_the_lease(self, start_server, tmp_path, step):
        server = start_server(tmp_path)
        with Client(server.url) as client, ScopedMemory(client).lease(**step, ttl_seconds=3) as lease:
            server.kill()
            wait_until(lambda: lease.lost is not None)
            assert isinstance(lease.lost, ConnectionFailed)

    def test_a_server_that_hangs_loses_the_lease(self, start_server, tmp_path, step):
        server = start_server(tmp_path)
        with Client(server.url) as client, ScopedMemory(client).lease(**step, ttl_seconds=3) as lease:
            server.kill()
            with socket.create_server(("127.0.0.1", urlsplit(server.url).port)):
                wait_until(lambda: lease.lost is not None)
            assert isinstance(lease.lost, ConnectionFailed)

    def test_the_end_of_the_block_does_not_wait_for_a_server_that_is_away(self, start_server, tmp_path, step, caplog):
        caplog.set_level(logging.INFO, "remory.client.lease")
        server = start_server(tmp_path)
        with Client(server.url) as client:
            with ScopedMemory(client).lease(**step, ttl_seconds=3) as lease:
                lease.renew(_SECONDS)
                server.kill()
                wait_until(lambda: "tried again" in caplog.text)
            assert lease.lost is None

    def test_the_token_is_not_shown(self, memory_of, step):
        lease = memory_of("invoke").lease(**step)
        assert lease.token not in repr(lease)
        assert "step" in repr(lease)

"""Many clients at once on real servers that share a store: every answer must fit one order of what happened."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tests.service.conftest import Server, StartServer
from tests.service.scoped.clients import FeedReader, Load, Record, Run
from tests.service.scoped.linearizability import check, check_feed

OPERATIONS = 4000
BETWEEN_KILLS = 800


@pytest.fixture
def start(start_server: StartServer, database_url: str | None) -> StartServer:
    """Starts servers on one store, on each of the databases."""
    store = [] if database_url is None else ["--store", database_url]
    return lambda *options: start_server(*store, *options)


@pytest.fixture
def pair(start: StartServer) -> list[Server]:
    """Two servers on one store."""
    return [start(), start()]


def load_for(servers: list[Server], operations: int | None = OPERATIONS) -> Load:
    return Load(tuple(server.url for server in servers), "shared", operations)


def assert_right(record: Record, feed: FeedReader) -> None:
    """The history is linearizable, and the feed tells all of it and nothing else."""
    assert record.unexpected == []
    assert check(record.operations) == []
    assert check_feed(record.operations, feed.read_on()) == []


def test_clients_of_two_servers_see_one_order(pair: list[Server]) -> None:
    load = load_for(pair)
    with Run(load) as run:
        record = run.result()
    assert {operation.outcome for operation in record.operations} >= {"done", "absent", "conflict"}
    assert_right(record, FeedReader(load.urls))


def test_a_feed_is_read_without_gaps_while_it_grows(pair: list[Server]) -> None:
    """By a reader that falls behind and catches up again, so that pages end at their limit and at the feed's end."""
    load = load_for(pair)
    limit, pages = 5, Counter[bool]()
    follower, ended = FeedReader(load.urls, limit), Event()

    def follow() -> None:
        while not ended.is_set():
            is_full = follower.read_page() == limit
            pages[is_full] += 1
            if not is_full:
                ended.wait(0.05)

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow)
        try:
            with Run(load) as run:
                record = run.result()
        finally:
            ended.set()
        following.result()
    assert min(pages[True], pages[False]) > 5
    assert_right(record, follower)
    assert follower.changes == FeedReader(load.urls).read_on()


def test_what_was_answered_survives_kills(start: StartServer) -> None:
    """Each server is killed under load while the other goes on, then both at once, and started again at its place."""
    servers = [start(), start()]
    load = load_for(servers, operations=None)
    with Run(load) as run:
        for victims in ([0], [1], [0, 1]):
            run.wait_for(BETWEEN_KILLS)
            for victim in victims:
                servers[victim].kill()
            for victim in victims:
                servers[victim] = start("--port", servers[victim].url.rpartition(":")[2])
        run.wait_for(BETWEEN_KILLS)
        run.stop()
        record = run.result()
    assert "unknown" in {operation.outcome for operation in record.operations}
    assert_right(record, FeedReader(load.urls))

"""The approximate index of PostgreSQL's vector extension."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from remory.search.packing import pack_vector
from remory_service.search import Searcher
from remory_service.store import entries, pgvector
from remory_service.store.changes import last_sequence
from remory_service.store.database import close_store, connection, open_store, transaction
from remory_service.store.entries import VECTOR, Content, Place, ScopeVectors, Write
from remory_service.store.schema import Feed, StoredEntry
from remory_service.store.scopes import Scope, make_scope
from remory_service.store.statements import run
from tests.databases import PostgresqlServer, database_of

ROWS, DIMENSION = 10_500, 16
LARGE = 1 << 40


@pytest.fixture
def scope(tmp_path: Path, postgresql_url: str) -> Iterator[int]:
    open_store(tmp_path / "data", postgresql_url)
    with connection():
        assert pgvector.is_offered(DIMENSION)
        with transaction():
            made = make_scope(Scope("session", "s"), "u").id
        yield made


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    """Vectors [ROWS, DIMENSION] in 100 clusters."""
    random = np.random.default_rng(0)
    centers = random.standard_normal((100, DIMENSION))
    return centers[np.arange(ROWS) % 100] + 0.3 * random.standard_normal((ROWS, DIMENSION))


def fill(scope: int, vectors: np.ndarray) -> None:
    """Rows as many writes would leave them, without the changes."""
    start = last_sequence()
    rows = [
        {
            "scope": scope,
            "kind": VECTOR,
            "key": f"k{number:05}",
            "revision": 1,
            "sequence": start + number + 1,
            "updated_at": 0,
            "dimension": vectors.shape[1],
            "metadata": f'{{"odd": {number % 2}}}'.encode(),
            "content": pack_vector(vector),
        }
        for number, vector in enumerate(vectors)
    ]
    with transaction():
        for first in range(0, len(rows), 1000):
            StoredEntry.insert_many(rows[first : first + 1000]).execute()
        Feed.update(last_sequence=start + len(rows)).execute()


def settle(searcher: Searcher) -> None:
    """Wait for what goes on in the background."""
    thread = searcher._builder._thread
    assert thread is not None
    thread.join()


def indexed(scope: int) -> list[str]:
    """Keys of the vectors that lie in the index's table."""
    found = run("SELECT key FROM indexed_vector JOIN entry ON id = entry_id WHERE indexed_vector.scope_id = ?", scope)
    return sorted(key for (key,) in found.fetchall())


def put(scope: int, key: str, vector: np.ndarray) -> None:
    content = Content(pack_vector(vector), dimension=len(vector), metadata=b"{}")
    with transaction():
        entries.put(Place(scope, VECTOR, key), content, Write("u", 0))


def test_a_large_collection_gets_its_index(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors)
    searcher = Searcher(LARGE)
    exact = searcher.search(ScopeVectors(scope), vectors[7], 20)
    assert (exact.strategy, exact.scanned) == ("linear", ROWS)
    assert searcher.search(ScopeVectors(scope), vectors[7], 20, strategy="hnsw").strategy == "linear"
    settle(searcher)
    found = searcher.search(ScopeVectors(scope), vectors[7], 20, strategy="hnsw")
    assert (found.strategy, found.scanned) == ("hnsw", 200)
    assert len({hit.key for hit in found.hits} & {hit.key for hit in exact.hits}) >= 19
    assert found.hits[0] == exact.hits[0]

    put(scope, "new", vectors[7])
    with transaction():
        entries.delete(Place(scope, VECTOR, exact.hits[1].key), Write("u", 0))
    put(scope, exact.hits[2].key, -vectors[7])
    for other in (searcher, Searcher(LARGE)):
        other.search(ScopeVectors(scope), vectors[7], 20, strategy="hnsw")
        settle(other)
        found = other.search(ScopeVectors(scope), vectors[7], 20, strategy="hnsw")
        # Two were written since: they are scored beside what the index names.
        assert (found.strategy, found.scanned) == ("hnsw", 202)
        assert [hit.key for hit in found.hits][:2] == ["k00007", "new"]
        assert not {hit.key for hit in found.hits} & {exact.hits[1].key, exact.hits[2].key}
        few = other.search(ScopeVectors(scope), vectors[7], 20, {"odd": 1}, "hnsw")
        assert few.strategy == "linear"
        assert {hit.metadata for hit in few.hits} == {b'{"odd": 1}'}
        other.close()


def test_the_index_is_what_answers(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors[:2000])
    graph = pgvector.build_graph(scope, DIMENSION, threading.Event())
    assert graph is not None
    assert graph.sequence == 2000
    unit = vectors[3] / np.linalg.norm(vectors[3])
    assert graph.candidates(unit, 5, None)[0] == StoredEntry.get(StoredEntry.key == "k00003").id
    allowed = np.array([row.id for row in StoredEntry.select().where(StoredEntry.key << ["k00001", "k00055"])])
    assert sorted(graph.candidates(unit, 5, allowed)) == sorted(allowed)
    run("SELECT pg_stat_force_next_flush()")
    uses = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = ?"
    assert run(uses, f"indexed_vector_{scope}_16").fetchone() == (2,)


@pytest.mark.parametrize("dimension", [1, 2000, 2001, 4000])
def test_dimensions(scope: int, dimension: int) -> None:
    vectors = np.random.default_rng(dimension).standard_normal((20, dimension)) * 1e100
    fill(scope, vectors)
    assert pgvector.is_offered(dimension)
    graph = pgvector.build_graph(scope, dimension, threading.Event())
    assert graph is not None
    unit = vectors[4] / 1e100
    unit /= np.linalg.norm(unit)
    found = graph.candidates(unit, 20, None)
    assert len(found) == 20
    if dimension > 1:
        assert found[0] == StoredEntry.get(StoredEntry.key == "k00004").id


def test_more_dimensions_than_it_takes(scope: int) -> None:
    assert not pgvector.is_offered(4001)


def test_an_index_is_brought_up_to_date(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors[:50])
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    put(scope, "k00003", np.ones(3))
    put(scope, "k00004", -vectors[5])
    with transaction():
        entries.delete(Place(scope, VECTOR, "k00006"), Write("u", 0))
    graph = pgvector.build_graph(scope, DIMENSION, threading.Event())
    assert graph is not None
    assert graph.sequence == last_sequence() == 53
    known = {row.key: row.id for row in StoredEntry.select()}
    found = graph.candidates(-vectors[5] / np.linalg.norm(vectors[5]), 100, None)
    assert found[0] == known["k00004"]
    assert set(found) == set(known.values()) - {known["k00003"], known["k00006"]}


def test_a_build_that_is_stopped_leaves_none(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors[:50])
    stop = threading.Event()
    stop.set()
    assert pgvector.build_graph(scope, DIMENSION, stop) is None
    assert pgvector.find_graph(scope, DIMENSION) is None


def test_without_the_right_to_install_it_searches_stay_exact(tmp_path: Path, postgresql: PostgresqlServer) -> None:
    with postgresql.fresh() as url:
        name = str(conninfo_to_dict(url)["dbname"])
        postgresql.run("CREATE ROLE plain LOGIN")
        postgresql.run("GRANT CREATE ON SCHEMA public TO plain", name)
        postgresql.run(f"REVOKE CREATE ON DATABASE {name} FROM PUBLIC")
        open_store(tmp_path, postgresql.url(name, "plain"))
        with connection():
            # No writer waits for it, and it for no writer.
            with ThreadPoolExecutor(1) as pool, transaction():
                assert not pool.submit(is_offered_to_a_thread).result()
            assert pgvector.find_graph(1, 16) is None
        close_store()


def is_offered_to_a_thread() -> bool:
    with connection():
        return pgvector.is_offered(16)


def test_it_is_decided_once(scope: int) -> None:
    run("DROP EXTENSION vector")
    assert pgvector.is_offered(16)


def test_an_extension_that_is_too_old(
    tmp_path: Path, postgresql: PostgresqlServer, postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    postgresql.run("CREATE EXTENSION vector", database_of(postgresql_url))
    postgresql.run("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'", database_of(postgresql_url))
    open_store(tmp_path, postgresql_url)
    with connection(), caplog.at_level(logging.INFO):
        for _ in range(3):
            assert not pgvector.is_offered(16)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records if "vector" in record.getMessage()] == [
        "the extension vector has version 0.7.4, 0.8 is the oldest"
    ]


@pytest.mark.parametrize(
    "fault", ["DROP TABLE indexed_vector", "DROP EXTENSION vector CASCADE", "DROP TABLE vector_index, indexed_vector"]
)
def test_an_index_that_is_lost_is_made_again(scope: int, vectors: np.ndarray, fault: str) -> None:
    """No search and no write fails meanwhile."""
    fill(scope, vectors)
    now = [0.0]
    searcher = Searcher(LARGE, lambda: now[0])

    def search() -> str:
        found = searcher.search(ScopeVectors(scope), vectors[7], 1, strategy="hnsw")
        assert found.hits[0].key == "k00007"
        return found.strategy

    search()
    settle(searcher)
    assert search() == "hnsw"
    run(fault)
    assert [search(), search()] == ["linear", "linear"]
    put(scope, "k00008", vectors[9])
    with transaction():
        assert entries.delete(Place(scope, VECTOR, "k00009"), Write("u", 0))
    run("CREATE EXTENSION IF NOT EXISTS vector")
    now[0] += 61
    assert search() == "linear"
    settle(searcher)
    assert search() == "hnsw"
    assert len(indexed(scope)) == ROWS - 1


def test_what_fails_is_tried_again_later_and_later(
    scope: int, vectors: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    fill(scope, vectors)
    run("CREATE VIEW indexed_vector AS SELECT 1")
    now = [0.0]
    searcher = Searcher(LARGE, lambda: now[0])
    tries = []
    for _ in range(5 * 60):
        assert searcher.search(ScopeVectors(scope), vectors[7], 1, strategy="hnsw").strategy == "linear"
        settle(searcher)
        if len(caplog.records) > len(tries):
            tries.append(now[0])
        now[0] += 60
    assert tries == [60.0 * minute for minute in (0, 1, 3, 7, 15, 31, 63, 123, 183, 243)]
    assert len(caplog.records) == len(tries)
    assert [bool(record.exc_info) for record in caplog.records] == [True] + [False] * 9
    assert {record.getMessage().count("\n") for record in caplog.records} == {0}
    run("DROP VIEW indexed_vector")
    now[0] += 3600
    searcher.search(ScopeVectors(scope), vectors[7], 1, strategy="hnsw")
    settle(searcher)
    assert searcher.search(ScopeVectors(scope), vectors[7], 1, strategy="hnsw").strategy == "hnsw"


class _SetWhenAskedAgain(threading.Event):
    """Set from the third question on."""

    asked = 0

    def is_set(self) -> bool:
        self.asked += 1
        return self.asked > 2


def test_what_was_filled_before_a_stop_stays(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors[:1200])
    assert pgvector.build_graph(scope, DIMENSION, _SetWhenAskedAgain()) is None
    assert indexed(scope) == [f"k{number:05}" for number in range(1000)]
    assert pgvector.find_graph(scope, DIMENSION) is None
    rows = "SELECT xmin::text FROM indexed_vector WHERE sequence <= 1000 ORDER BY entry_id"
    before = run(rows).fetchall()
    graph = pgvector.build_graph(scope, DIMENSION, threading.Event())
    assert graph is not None
    assert graph.sequence == 1200
    assert len(indexed(scope)) == 1200
    assert run(rows).fetchall() == before


def test_an_index_that_was_left_half_made_is_made_anew(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors[:50])
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    run("UPDATE pg_index SET indisvalid = false WHERE indexrelid = ?::regclass", f"indexed_vector_{scope}_{DIMENSION}")
    assert pgvector.find_graph(scope, DIMENSION) is None
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    assert pgvector.find_graph(scope, DIMENSION)


def test_one_builds_at_a_time(scope: int, vectors: np.ndarray, postgresql_url: str) -> None:
    fill(scope, vectors[:50])
    with psycopg.connect(postgresql_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [pgvector._BUILDERS_LOCK])
        assert pgvector.build_graph(scope, DIMENSION, threading.Event()) is None
        other.execute("SELECT pg_advisory_unlock(%s)", [pgvector._BUILDERS_LOCK])
        assert pgvector.build_graph(scope, DIMENSION, threading.Event())
        # It leaves the connection as it was, and the lock to others.
        assert other.execute("SELECT pg_try_advisory_lock(%s)", [pgvector._BUILDERS_LOCK]).fetchone() == (True,)
    assert run("SHOW lock_timeout").fetchone() == ("30s",)


def test_many_that_build_at_once(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors[:700])

    def build() -> bool:
        with connection():
            return pgvector.build_graph(scope, DIMENSION, threading.Event()) is not None

    with ThreadPoolExecutor(4) as pool:
        results = [pool.submit(build) for _ in range(4)]
        built = [result.result() for result in results]
    assert any(built)
    assert len(indexed(scope)) == 700


def test_no_write_waits_for_an_index_that_is_made(scope: int, vectors: np.ndarray, postgresql_url: str) -> None:
    """While somebody keeps the making of the index waiting, vectors are set and deleted."""
    fill(scope, vectors[:50])
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    run(f"DROP INDEX indexed_vector_{scope}_{DIMENSION}")

    def build() -> bool:
        with connection():
            return pgvector.build_graph(scope, DIMENSION, threading.Event()) is not None

    waiting = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%%CREATE INDEX%%' AND wait_event_type = 'Lock'"
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(postgresql_url) as other:
            other.execute("LOCK TABLE indexed_vector IN ROW EXCLUSIVE MODE")
            built = pool.submit(build)
            while run(waiting).fetchone() is None:
                assert not built.done()
            put(scope, "k00003", vectors[60])
            with transaction():
                entries.delete(Place(scope, VECTOR, "k00004"), Write("u", 0))
            assert not built.done()
        assert built.result()
    assert indexed(scope) == [f"k{number:05}" for number in range(50) if number not in (3, 4)]


def test_what_is_deleted_or_replaced_leaves_the_index_at_once(
    scope: int, vectors: np.ndarray, postgresql_url: str
) -> None:
    """Whoever does it, with the entry's own transaction."""
    fill(scope, vectors[:6])
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    with psycopg.connect(postgresql_url) as other:
        other.execute("UPDATE entry SET content = NULL WHERE key = 'k00000'")
        assert len(indexed(scope)) == 6
        other.commit()
        assert indexed(scope) == [f"k{number:05}" for number in range(1, 6)]
        other.execute("UPDATE entry SET content = NULL WHERE key = 'k00001'")
        other.rollback()
    put(scope, "k00002", vectors[7])
    with transaction():
        entries.delete(Place(scope, VECTOR, "k00003"), Write("u", 0))
    assert indexed(scope) == ["k00001", "k00004", "k00005"]
    put(scope, "k00004", vectors[4])
    assert indexed(scope) == ["k00001", "k00004", "k00005"]
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    assert indexed(scope) == ["k00001", "k00002", "k00004", "k00005"]


def test_what_is_deleted_while_it_is_filled_in_goes_too(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors[:6])
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    run("TRUNCATE indexed_vector, vector_index")
    batch = pgvector._next(scope, 0)
    with transaction():
        entries.delete(Place(scope, VECTOR, "k00003"), Write("u", 0))
    put(scope, "k00004", vectors[8])
    pgvector._fill(scope, DIMENSION, batch)
    pgvector._settle(scope, DIMENSION, batch)
    assert indexed(scope) == ["k00000", "k00001", "k00002", "k00005"]


@pytest.mark.parametrize("content", [b"abc", bytes(4 * DIMENSION), b"\xff" * 8 * DIMENSION])
def test_a_damaged_vector_is_left_out(scope: int, vectors: np.ndarray, content: bytes) -> None:
    fill(scope, vectors[:5])
    StoredEntry.update(content=content).where(StoredEntry.key == "k00002").execute()
    assert pgvector.build_graph(scope, DIMENSION, threading.Event())
    assert indexed(scope) == ["k00000", "k00001", "k00003", "k00004"]

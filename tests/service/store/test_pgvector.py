"""The approximate index of PostgreSQL's vector extension."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from psycopg.conninfo import conninfo_to_dict

from remory.search.packing import pack_vector
from remory_service.search import Searcher
from remory_service.store import entries, pgvector
from remory_service.store.changes import last_sequence
from remory_service.store.database import close_store, connection, open_store, transaction
from remory_service.store.entries import VECTOR, Content, Place, Write
from remory_service.store.schema import Feed, StoredEntry
from remory_service.store.scopes import Scope, make_scope
from remory_service.store.statements import run
from tests.databases import PostgresqlServer

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


def put(scope: int, key: str, vector: np.ndarray) -> None:
    content = Content(pack_vector(vector), dimension=len(vector), metadata=b"{}")
    with transaction():
        entries.put(Place(scope, VECTOR, key), content, Write("u", 0))


def test_a_large_collection_gets_its_index(scope: int, vectors: np.ndarray) -> None:
    fill(scope, vectors)
    searcher = Searcher(LARGE)
    exact = searcher.search(scope, vectors[7], 20)
    assert (exact.strategy, exact.scanned) == ("linear", ROWS)
    assert searcher.search(scope, vectors[7], 20, strategy="hnsw").strategy == "linear"
    searcher._builder._thread.join()
    found = searcher.search(scope, vectors[7], 20, strategy="hnsw")
    assert (found.strategy, found.scanned) == ("hnsw", 200)
    assert len({hit.key for hit in found.hits} & {hit.key for hit in exact.hits}) >= 19
    assert found.hits[0] == exact.hits[0]

    put(scope, "new", vectors[7])
    with transaction():
        entries.delete(Place(scope, VECTOR, exact.hits[1].key), Write("u", 0))
    put(scope, exact.hits[2].key, -vectors[7])
    for other in (searcher, Searcher(LARGE)):
        other.search(scope, vectors[7], 20, strategy="hnsw")
        found = other.search(scope, vectors[7], 20, strategy="hnsw")
        assert (found.strategy, found.scanned) == ("hnsw", 200)
        assert [hit.key for hit in found.hits][:2] == ["k00007", "new"]
        assert not {hit.key for hit in found.hits} & {exact.hits[1].key, exact.hits[2].key}
        few = other.search(scope, vectors[7], 20, {"odd": 1}, "hnsw")
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
            assert not pgvector.is_offered(16)
            assert pgvector.find_graph(1, 16) is None
        close_store()

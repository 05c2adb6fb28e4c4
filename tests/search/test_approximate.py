from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from remory.search import Collection, GraphUnusable, HnswGraph
from tests.search.examples import collect, make_clusters, make_row, nearest, numbers

pytest.importorskip("faiss", reason="the extra remory[hnsw]")

ROWS, DIMENSION = 20_000, 32


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return make_clusters(ROWS, DIMENSION)


@pytest.fixture(scope="module")
def graph(vectors: np.ndarray) -> HnswGraph:
    collection = collect(vectors)
    assert collection.build_graph(threading.Event())
    assert isinstance(collection.graph, HnswGraph)
    return collection.graph


@pytest.fixture
def collection(vectors: np.ndarray, graph: HnswGraph) -> Collection:
    """Every row is in the graph."""
    made = collect(vectors, lambda id: {"half": id % 2, "tenth": id % 10})
    made.graph = graph
    return made


def make_queries(vectors: np.ndarray, count: int) -> np.ndarray:
    generator = np.random.default_rng(5)
    return vectors[generator.integers(0, len(vectors), count)] + 0.2 * generator.standard_normal((count, DIMENSION))


def test_recall_on_clusters(collection: Collection, vectors: np.ndarray) -> None:
    hits = 0
    for query in make_queries(vectors, 100):
        found = collection.search(query, 10, strategy="hnsw")
        assert found.strategy == "hnsw"
        assert found.scanned <= 200
        hits += len({*numbers(found)} & {*nearest(vectors, query, 10)})
    assert hits / 1000 >= 0.95


def test_scores_and_order_are_those_of_the_exact_search(collection: Collection, vectors: np.ndarray) -> None:
    for query in make_queries(vectors, 10):
        exact = {hit.key: hit for hit in collection.search(query, ROWS).hits}
        hits = collection.search(query, 300, strategy="hnsw").hits
        assert len(hits) == 300
        assert all(exact[hit.key] == hit for hit in hits)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.key))


def test_filters_are_applied_inside_the_graph(collection: Collection, vectors: np.ndarray) -> None:
    shared = 0
    for query in make_queries(vectors, 30):
        found = collection.search(query, 10, {"half": 1}, "hnsw")
        assert found.strategy == "hnsw"
        assert all(number % 2 == 1 for number in numbers(found))
        shared += len({*numbers(found)} & {2 * number + 1 for number in nearest(vectors[1::2], query, 10)})
    assert shared / 300 >= 0.95


def test_few_rows_after_filters_are_searched_exactly(collection: Collection, vectors: np.ndarray) -> None:
    query = make_queries(vectors, 1)[0]
    found = collection.search(query, 10, {"tenth": 3}, "hnsw")
    assert (found.strategy, found.scanned) == ("linear", ROWS // 10)
    assert numbers(found) == [10 * number + 3 for number in nearest(vectors[3::10], query, 10)]


def test_rows_outside_the_graph_are_found_at_once(collection: Collection, vectors: np.ndarray) -> None:
    query = make_queries(vectors, 1)[0]
    rows = [make_row(ROWS + number, half=number % 2) for number in range(5)]
    collection.set_many(rows, np.repeat(query[None], 5, axis=0))
    found = collection.search(query, 8, strategy="hnsw")
    assert numbers(found)[:5] == [ROWS + number for number in range(5)]
    assert numbers(found)[5:] == nearest(vectors, query, 3)
    assert (found.strategy, found.scanned) == ("hnsw", 205)
    found = collection.search(query, 8, {"half": 1}, "hnsw")
    assert numbers(found)[:2] == [ROWS + 1, ROWS + 3]
    assert (found.strategy, found.scanned) == ("hnsw", 202)


def test_deleted_rows_are_not_returned(collection: Collection, vectors: np.ndarray) -> None:
    query = make_queries(vectors, 1)[0]
    gone = nearest(vectors, query, 30)
    for number in gone:
        assert collection.delete(number)
    found = collection.search(query, 10, strategy="hnsw")
    assert (found.strategy, found.scanned) == ("hnsw", 170)
    assert numbers(found) == nearest(vectors, query, 40)[30:]


def test_replaced_vectors_are_found_by_their_new_value_only(collection: Collection, vectors: np.ndarray) -> None:
    query = make_queries(vectors, 1)[0]
    first, second = nearest(vectors, query, 2)
    collection.set_many([make_row(first, ROWS + 1)], -query[None])
    found = collection.search(query, 10, strategy="hnsw")
    assert found.strategy == "hnsw"
    assert numbers(found)[0] == second
    assert first not in numbers(found)
    assert numbers(collection.search(-query, 1, strategy="hnsw")) == [first]


def test_too_few_candidates_fall_back_to_the_exact_search(collection: Collection, vectors: np.ndarray) -> None:
    query = make_queries(vectors, 1)[0]
    for number in nearest(vectors, query, 400):
        collection.delete(number)
    found = collection.search(query, 10, strategy="hnsw")
    assert (found.strategy, found.scanned) == ("linear", ROWS - 400)
    assert numbers(found) == nearest(vectors, query, 410)[400:]


def test_without_a_graph_the_search_is_linear_and_says_so(vectors: np.ndarray) -> None:
    found = collect(vectors).search(vectors[0], 5, strategy="hnsw")
    assert (found.strategy, found.scanned) == ("linear", ROWS)


def test_the_server_chooses_the_exact_search_for_a_small_collection(collection: Collection) -> None:
    query = np.ones(DIMENSION)
    assert collection.search(query, 5).strategy == "linear"
    assert collection.search(query, 5, strategy="linear").strategy == "linear"


class _Candidates:
    """A graph elsewhere, such as a database's index."""

    def __init__(self, sequence: int, answer: Callable[[int], list[int]]) -> None:
        self.sequence = sequence
        self.answer = answer
        self.allowed: list[np.ndarray | None] = []

    def candidates(self, query: np.ndarray, count: int, allowed_ids: np.ndarray | None) -> np.ndarray:
        assert np.linalg.norm(query) == pytest.approx(1)
        self.allowed.append(allowed_ids)
        return np.array(self.answer(count), dtype=np.int64)


def test_a_graph_elsewhere(vectors: np.ndarray) -> None:
    """It may name rows that the collection does not have, or that do not match: they are left out."""
    collection = collect(vectors, lambda id: {"half": id % 2})
    graph = _Candidates(ROWS, lambda count: [10**9, *range(count)])
    collection.graph = graph
    found = collection.search(vectors[7], 5, strategy="hnsw")
    assert (numbers(found)[0], found.scanned, found.strategy) == (7, 200, "hnsw")
    found = collection.search(vectors[7], 500, {"half": 1}, strategy="hnsw")
    assert (numbers(found)[0], found.scanned, found.strategy) == (7, 500, "hnsw")
    first, second = graph.allowed
    assert first is None
    assert second is not None
    assert sorted(second.tolist()) == list(range(1, ROWS, 2))
    assert not collection.wants_graph(asked=True)


def test_a_graph_that_cannot_answer_is_forgotten(vectors: np.ndarray) -> None:
    collection = collect(vectors)

    def fail(count: int) -> list[int]:
        raise GraphUnusable("the table is gone")

    collection.graph = _Candidates(ROWS, fail)
    found = collection.search(vectors[7], 5, strategy="hnsw")
    assert (numbers(found), found.strategy) == (nearest(vectors, vectors[7], 5), "linear")
    assert collection.graph is None
    assert collection.wants_graph(asked=True)


def test_a_graph_that_came_meanwhile_is_kept(vectors: np.ndarray) -> None:
    collection = collect(vectors)
    newer = _Candidates(ROWS, lambda count: list(range(count)))

    def fail(count: int) -> list[int]:
        collection.graph = newer
        raise GraphUnusable("the table is gone")

    collection.graph = _Candidates(ROWS, fail)
    assert collection.search(vectors[7], 5, strategy="hnsw").strategy == "linear"
    assert collection.graph is newer


def test_a_candidate_is_the_row_that_the_search_began_with(vectors: np.ndarray) -> None:
    """A writer replaces and deletes what the graph is about to name: the search keeps to its state."""
    collection = collect(vectors)

    def answer(count: int) -> list[int]:
        collection.set_many([make_row(0, 10**6), make_row(0, 10**6 + 1)], -vectors[[0, 0]])
        collection.delete(1)
        return list(range(200))

    collection.graph = _Candidates(ROWS, answer)
    found = collection.search(vectors[0], 200, strategy="hnsw")
    assert numbers(found) == nearest(vectors[:200], vectors[0], 200)
    assert (found.hits[0].revision, found.hits[0].score, found.strategy) == (1, 1, "hnsw")
    assert collection.search(-vectors[0], 1).hits[0].revision == 10**6 + 2


def test_when_a_graph_pays(vectors: np.ndarray) -> None:
    small = collect(vectors[:9_999])
    assert not small.wants_graph(asked=True)

    collection = collect(vectors[:10_000])
    assert not collection.wants_graph()
    assert collection.wants_graph(asked=True)
    assert collection.build_graph(threading.Event())
    assert not collection.wants_graph(asked=True)
    assert collection.search(vectors[0], 1, strategy="hnsw").strategy == "hnsw"

    collection.set_many([make_row(id) for id in range(10_000, 12_600)], vectors[10_000:12_600])
    assert collection.wants_graph(asked=True)
    assert collection.build_graph(threading.Event())
    assert not collection.wants_graph(asked=True)
    for id in range(2_200):
        collection.delete(id)
    assert collection.wants_graph(asked=True)
    assert collection.build_graph(threading.Event())
    assert isinstance(collection.graph, HnswGraph)
    assert len(collection.graph) == len(collection) == 10_400


def test_building_stops() -> None:
    collection = collect(make_clusters(2000, 8))
    stop = threading.Event()
    stop.set()
    assert not collection.build_graph(stop)
    assert collection.graph is None


def test_searches_and_writes_go_on_while_a_graph_is_built(vectors: np.ndarray) -> None:
    collection = collect(vectors[:12_000])
    added: list[np.ndarray] = []
    with ThreadPoolExecutor(1) as pool:
        built = pool.submit(collection.build_graph, threading.Event())
        while not collection._building.locked():
            assert not built.done()
        assert not collection.build_graph(threading.Event())
        while not built.done():
            added.append(np.random.default_rng(len(added)).standard_normal(DIMENSION))
            id = ROWS + len(added)
            collection.set_many([make_row(id)], added[-1][None])
            assert collection.delete(len(added))
            assert numbers(collection.search(added[-1], 1, strategy="hnsw")) == [id]
        assert built.result()
    assert len(added) > 3
    for number, vector in enumerate(added[:50], start=1):
        found = collection.search(vector, 1, strategy="hnsw")
        assert (numbers(found), found.strategy) == ([ROWS + number], "hnsw")
        found = collection.search(vectors[number], 10, strategy="hnsw")
        assert found.strategy == "hnsw"
        assert number not in numbers(found)


def test_threads_that_write_while_others_search_through_the_graph(collection: Collection, vectors: np.ndarray) -> None:
    """One row moves to and fro; every answer has it once, at a place where it was."""
    places = np.stack([vectors[0], -vectors[0]])

    def write() -> None:
        for number in range(400):
            collection.set_many([make_row(0, ROWS + number)], places[number % 2][None])

    def read(place: np.ndarray) -> None:
        while not writer.done():
            scores = [
                hit.score for hit in collection.search(place, 50, strategy="hnsw").hits if hit.key == "key-000000"
            ]
            assert scores in ([1.0], [])

    with ThreadPoolExecutor(3) as pool:
        writer = pool.submit(write)
        for thread in (writer, *(pool.submit(read, place) for place in places)):
            thread.result()
    assert numbers(collection.search(places[1], 1, strategy="hnsw")) == [0]


@pytest.mark.parametrize("imports", ["import torch, faiss", "import faiss, torch"])
def test_torch_and_faiss_live_in_one_process(imports: str) -> None:
    """Each wheel brings an OpenMP runtime. A graph that is built and searched leaves torch's threads as they were."""
    check = f"""
{imports}
import threading
from tests.search.examples import collect, make_clusters, nearest, numbers
torch.set_num_threads(2)
vectors = make_clusters(12_000, 16)
collection = collect(vectors)
assert collection.build_graph(threading.Event())
assert torch.get_num_threads() == 2
found = collection.search(vectors[5], 3, strategy="hnsw")
assert found.strategy == "hnsw" and numbers(found) == nearest(vectors, vectors[5], 3)
assert torch.get_num_threads() == 2
left = torch.arange(250_000.0).reshape(500, 500) / 250_000
assert torch.allclose(left @ left, torch.from_numpy(left.numpy() @ left.numpy()))
"""
    subprocess.run([sys.executable, "-c", check], check=True, cwd=Path(__file__).parents[2])

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch

from remory.errors import InvalidInput
from remory.search import VectorSet
from tests.search.examples import make_clusters, nearest

ROWS, DIMENSION = 20_000, 24
needs_faiss = pytest.mark.skipif(not importlib.util.find_spec("faiss"), reason="the extra remory[hnsw]")


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return make_clusters(ROWS, DIMENSION)


@pytest.fixture(scope="module")
def queries(vectors: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(2).standard_normal((20, DIMENSION)).astype(np.float32)
    return vectors[::1000] + 0.2 * noise


@pytest.fixture(scope="module")
def with_graph(vectors: np.ndarray) -> VectorSet:
    pytest.importorskip("faiss", reason="the extra remory[hnsw]")
    return VectorSet(vectors, graph=True)


@pytest.mark.parametrize("backend", [None, "remory", pytest.param("faiss", marks=needs_faiss)])
@pytest.mark.parametrize("share", [None, 0.3, 0.001, 0.0])
def test_exact(vectors: np.ndarray, queries: np.ndarray, backend: str | None, share: float | None) -> None:
    mask = None if share is None else np.random.default_rng(1).random(ROWS) < share
    kept = np.arange(ROWS) if mask is None else np.flatnonzero(mask)
    results = VectorSet(vectors, backend=backend).search(queries, 30, mask)
    assert (results.strategy, results.backend, results.device) == ("exact", backend or "remory", "cpu")
    count = min(30, len(kept))
    for query, scores, ids in zip(queries, results.scores, results.ids, strict=True):
        assert ids[:count].tolist() == kept[nearest(vectors[kept], query, count)].tolist()
        assert (ids[count:] == -1).all() and (scores[count:] == -np.inf).all()
        cosines = vectors[ids[:count]] @ query / np.linalg.norm(vectors[ids[:count]], axis=1) / np.linalg.norm(query)
        np.testing.assert_allclose(scores[:count], cosines, atol=1e-5)


def test_a_graph_is_taken_when_asked_and_its_scores_are_exact(
    with_graph: VectorSet, vectors: np.ndarray, queries: np.ndarray
) -> None:
    exact = with_graph.search(queries, 10)
    assert (exact.strategy, exact.reason) == ("exact", "20,000 rows, and up to 500,000 are searched exactly")
    results = with_graph.search(queries, 10, strategy="hnsw")
    assert (results.strategy, results.reason) == ("hnsw", "asked for")
    assert (results.ids == exact.ids).mean() >= 0.95
    same = results.ids == exact.ids
    assert np.array_equal(results.scores[same], exact.scores[same])


def test_a_mask_that_lets_few_through_is_searched_exactly(with_graph: VectorSet, queries: np.ndarray) -> None:
    mask = np.arange(ROWS) % 4 == 0
    results = with_graph.search(queries, 10, mask, strategy="hnsw")
    assert (results.strategy, results.reason) == ("exact", "5,000 rows to search, a graph pays from 10,000 on")
    assert (results.ids % 4 == 0).all()


def test_a_graph_names_every_vector_when_all_are_asked_for(with_graph: VectorSet, queries: np.ndarray) -> None:
    results = with_graph.search(queries[:1], ROWS, strategy="hnsw")
    assert results.strategy == "hnsw"
    assert sorted(results.ids[0].tolist()) == list(range(ROWS))


def test_a_graph_that_names_too_few_is_no_answer(with_graph: VectorSet, queries: np.ndarray) -> None:
    """Among 200 vectors it cannot name 201."""
    few = np.arange(ROWS) % 100 == 0
    assert with_graph._graph is not None
    assert with_graph._graph.search(queries[:1], 10, few, least=201) is None
    assert with_graph._graph.search(queries[:1], 10, few, least=10) is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("share", [None, 0.3])
def test_a_gpu_answers_as_the_cpu_does(vectors: np.ndarray, queries: np.ndarray, share: float | None) -> None:
    mask = None if share is None else np.random.default_rng(1).random(ROWS) < share
    here, there = (VectorSet(vectors, device=device).search(queries, 30, mask) for device in ("cpu", "cuda"))
    assert there.device == "cuda"
    assert np.array_equal(here.ids, there.ids)
    np.testing.assert_allclose(here.scores, there.scores, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vectors": np.ones(3, np.float32)}, r"vectors must be \[N, D\] float32, got \[3\] float32"),
        ({"vectors": np.ones((3, 2))}, r"vectors must be \[N, D\] float32, got \[3, 2\] float64"),
        ({"vectors": [[1.0, 2.0]]}, "vectors must be a numpy array, got builtins.list"),
        ({"queries": torch.ones(1, 2)}, "queries must be a numpy array, got torch.Tensor"),
        ({"backend": "numpy"}, "backend is 'numpy', expected remory or faiss"),
        (
            {"queries": np.ones((1, 3), np.float32)},
            r"queries must be \[Q, D\] = \[Q, 2\] float32, got \[1, 3\] float32",
        ),
        ({"k": 0}, "k is 0, expected at least 1"),
        ({"mask": np.ones(4, bool)}, r"mask must be \[N\] = \[3\] bool, got \[4\] bool"),
        ({"mask": np.ones(3)}, r"mask must be \[N\] = \[3\] bool, got \[3\] float64"),
        ({"strategy": "linear"}, "strategy is 'linear', expected exact or hnsw"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict, message: str) -> None:
    ones = np.ones((3, 2), np.float32)
    given = {"vectors": ones, "backend": None, "queries": ones[:1], "k": 1, "mask": None, "strategy": None, **change}
    with pytest.raises(InvalidInput, match=message):
        made = VectorSet(given.pop("vectors"), backend=given.pop("backend"))
        made.search(**given)


@pytest.mark.parametrize(
    ("backend", "device"),
    [("remory", "cpu"), ("remory", "cpu:0"), pytest.param("faiss", "cpu", marks=needs_faiss)],
    ids=["index", "resident", "faiss"],
)
@pytest.mark.parametrize("value", [np.nan, np.inf, 0])
def test_rows_without_a_direction_are_refused(backend: str, device: str, value: float) -> None:
    """`cpu:0` stands for any other device than plain "cpu"."""
    vectors = np.ones((3, 2), np.float32)
    vectors[1] = value
    with pytest.raises(InvalidInput, match=r"(row|id) 1 "):
        VectorSet(vectors, device=device, backend=backend)
    vectors[1] = 1e30, 1e-30
    VectorSet(vectors, device=device, backend=backend)

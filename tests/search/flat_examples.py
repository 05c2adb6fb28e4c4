"""The definition that the flat index is compared with, and vectors that are hard for it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from remory.search import FlatIndex, FlatView


def vectors_of(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def cosines(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """[Q, N] float64, each row summed alike."""
    queries, vectors = queries.astype(np.float64), vectors.astype(np.float64)
    queries = queries / np.sqrt((queries**2).sum(axis=1, keepdims=True))
    norms = np.sqrt((vectors**2).sum(axis=1))
    products = [[(vector * query).sum() for vector in vectors] for query in queries]
    return np.clip(np.array(products).reshape(len(queries), len(vectors)) / norms, -1, 1)


def defined(
    queries: np.ndarray, vectors: np.ndarray, k: int, ids: np.ndarray | None = None, mask: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What a search must return: scores [Q, k] float32 and ids [Q, k]."""
    ids = np.arange(len(vectors)) if ids is None else ids
    if mask is not None:
        taking = np.array([id < len(mask) and bool(mask[id]) for id in ids], dtype=bool)
        vectors, ids = vectors[taking], ids[taking]
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    found = np.full((len(queries), k), -1)
    for query, row in enumerate(cosines(queries, vectors).astype(np.float32)):
        best = np.lexsort((ids, -row))[:k]
        scores[query, : len(best)], found[query, : len(best)] = row[best], ids[best]
    return scores, found


def index_of(vectors: np.ndarray, certified: bool = True, threads: int = 2) -> FlatIndex:
    index = FlatIndex(vectors.shape[1], certified, threads)
    index.add(np.arange(len(vectors)), vectors)
    return index


def assert_same(got: tuple[np.ndarray, np.ndarray], expected: tuple[np.ndarray, np.ndarray]) -> None:
    assert (got[0].dtype, got[1].dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(got[1], expected[1])
    np.testing.assert_array_equal(got[0], expected[0])


def assert_bounded(view: FlatView, query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The first pass bounds the score of every row, before and after its rounding. Returns the bounds' widths."""
    ids, lower, upper = view._view.bounds(query, len(vectors), None, 1)
    assert sorted(ids) == list(range(len(vectors)))
    exact = cosines(query[None], vectors)[0][ids]
    assert (lower <= exact).all() and (exact <= upper).all()
    rounded = exact.astype(np.float32)
    assert (lower <= rounded).all() and (rounded <= upper).all()
    return upper - lower


def hard_vectors(width: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, queries [Q, D], vectors [N, D]) at which a careless bound or a careless tie would show."""
    query = vectors_of(1, 2, width)
    base = query[:1] + 0.3 * vectors_of(2, 1, width)

    near = np.repeat(base, 700, axis=0)
    bits = near.view(np.int32)
    rng = np.random.default_rng(3)
    bits[np.arange(700), rng.integers(0, width, 700)] += rng.integers(-2, 3, 700, dtype=np.int32)
    yield "rows that differ in the last bits of one element", query, near

    yield "scaled copies", query, base * rng.choice([0.5, 1, 2, 3, 1e-3, 7e5], (900, 1)).astype(np.float32)

    constant = np.ones((1, width), dtype=np.float32)
    permuted = np.array([rng.permutation(base[0]) for _ in range(600)])
    yield "permuted copies, equal for a constant query", constant, permuted

    spiked = 1e-3 * vectors_of(4, 800, width)
    spiked[np.arange(800), rng.integers(0, width, 800)] = 1
    yield "one large element and many tiny ones", query, spiked
    yield "a query with one large element", spiked[:2], vectors_of(5, 500, width)

    scales = rng.choice([1e-44, 1e-38, 1e-30, 1, 1e18, 1e30], (700, 1)).astype(np.float64)
    extreme = (vectors_of(6, 700, width) * scales).astype(np.float32)
    extreme[(extreme == 0).all(axis=1), 0] = 1e-45
    yield "from denormal numbers to 1e30", query, extreme
    yield "extreme queries", np.concatenate([query * np.float32(1e-43), query * np.float32(1e30)]), extreme

    halves = rng.choice([-0.5, 0.5], (800, width)).astype(np.float32)
    halves[:, 0] = 127
    yield "every element half way between two codes", query, halves

    ties = rng.integers(-1, 2, (3000, width)).astype(np.float32)
    ties[~ties.any(axis=1), 0] = 1
    yield "many ties", np.sign(query), ties

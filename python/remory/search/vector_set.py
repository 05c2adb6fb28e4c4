"""One interface to every search by cosine: exact or through a graph, on a CPU or a GPU, Remory's kernels or FAISS's."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from remory.errors import InvalidInput
from remory.ops import cosine_topk
from remory.search.approximate import HnswGraph, load_faiss
from remory.search.choice import EXACT, HNSW, choose
from remory.search.flat import FlatIndex

REMORY, FAISS = "remory", "faiss"
_STRATEGIES = (None, EXACT, HNSW)
_GRAPH_BATCH = 1024
_GRAPH_CANDIDATES = 200


@dataclass(frozen=True)
class Results:
    """scores [Q, k] float32 and ids [Q, k] int64, best first, padded with -inf and -1; and which search gave them."""

    scores: np.ndarray
    ids: np.ndarray
    strategy: str  # "exact" or "hnsw"
    backend: str  # "remory" or "faiss"
    device: str
    reason: str  # why this strategy, with the numbers


class VectorSet:
    """Vectors that stay as they are, with their row numbers as ids.

    For vectors that come and go there is `FlatIndex`; with metadata and filters, `Collection`.
    """

    def __init__(
        self, vectors: np.ndarray, *, device: str = "cpu", backend: str | None = None, graph: bool = False
    ) -> None:
        """Copy vectors [N, D] float32, of any norm but zero, to `device`.

        `backend` says who searches exactly: "remory", which is the default (`FlatIndex` on the CPU, the op
        `cosine_topk` elsewhere), or "faiss", whose float32 scores may swap what differs in the last bits. `graph`
        makes a graph too, on the CPU, which takes minutes for some 100,000 rows. Both graph and "faiss" need the extra
        `remory[hnsw]`, and on a GPU a faiss that was built for it; ImportError without.

        Raises InvalidInput with the numbers for vectors of another shape or dtype, with a row that has no direction,
        and for an unknown backend.
        """
        vectors = _array("vectors", vectors)
        if vectors.ndim != 2 or vectors.dtype != np.float32:
            raise InvalidInput(f"vectors must be [N, D] float32, got {list(vectors.shape)} {vectors.dtype}")
        if backend not in (None, REMORY, FAISS):
            raise InvalidInput(f"backend is {backend!r}, expected {REMORY} or {FAISS}")
        self.device = device = str(torch.device(device))
        self.backend = backend or REMORY
        self.rows, self.dimension = vectors.shape
        self._exact: _Exact
        if self.backend == FAISS:
            self._exact = _FaissRows(vectors, device)
        elif device == "cpu":
            self._exact = FlatIndex(self.dimension)
            self._exact.add(np.arange(self.rows), vectors)
        else:
            self._exact = _ResidentRows(vectors, device)
        self._graph = _GraphRows(vectors) if graph else None

    def search(
        self, queries: np.ndarray, k: int, mask: np.ndarray | None = None, strategy: str | None = None
    ) -> Results:
        """The k vectors of highest cosine for each of queries [Q, D] float32, among those where mask [N] bool is true.

        `strategy` is "exact", "hnsw" or None: `choose` decides, by the number of rows, the share that the mask lets
        through, the device, and whether there is a graph. What a graph names is scored exactly, on the CPU, and where
        it names fewer than k vectors the exact search answers alone.

        Raises InvalidInput with the numbers for queries, mask, k or a strategy that do not fit.
        """
        if strategy not in _STRATEGIES:
            raise InvalidInput(f"strategy is {strategy!r}, expected {EXACT} or {HNSW}")
        queries = _array("queries", queries)
        if queries.ndim != 2 or queries.shape[1] != self.dimension or queries.dtype != np.float32:
            raise InvalidInput(
                f"queries must be [Q, D] = [Q, {self.dimension}] float32, got {list(queries.shape)} {queries.dtype}"
            )
        if k < 1:
            raise InvalidInput(f"k is {k}, expected at least 1")
        mask = None if mask is None else _array("mask", mask)
        if mask is not None and (mask.dtype != bool or mask.shape != (self.rows,)):
            raise InvalidInput(f"mask must be [N] = [{self.rows}] bool, got {list(mask.shape)} {mask.dtype}")
        selected = self.rows if mask is None else int(np.count_nonzero(mask))
        choice = choose(self.rows, selected, has_graph=self._graph is not None, device=self.device, asked=strategy)
        if choice.strategy == HNSW and self._graph is not None:
            found = self._graph.search(queries, k, mask, least=min(k, selected))
            if found is not None:
                return self._results(found, HNSW, choice.reason)
            return self._results(self._exact.search(queries, k, mask), EXACT, f"the graph named fewer than {k} rows")
        return self._results(self._exact.search(queries, k, mask), EXACT, choice.reason)

    def _results(self, found: tuple[np.ndarray, np.ndarray], strategy: str, reason: str) -> Results:
        return Results(*found, strategy, self.backend, self.device, reason)


class _Exact(Protocol):
    def search(self, queries: np.ndarray, k: int, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]: ...


class _ResidentRows:
    """Vectors that lie on a device, searched there by the op."""

    def __init__(self, vectors: np.ndarray, device: str) -> None:
        self._vectors = torch.from_numpy(vectors).to(device, copy=True)
        norms = torch.linalg.vector_norm(self._vectors, dim=1, dtype=torch.float64)
        _require_directions(norms.cpu().numpy())

    def search(self, queries: np.ndarray, k: int, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        device = self._vectors.device
        given = torch.from_numpy(queries).to(device)
        kept = None if mask is None else torch.from_numpy(mask).to(device)
        scores, ids = cosine_topk(given, self._vectors, k, kept)
        return scores.cpu().numpy(), ids.cpu().numpy()


class _GraphRows:
    """Vectors with a graph; what it names is scored exactly, on the CPU."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._vectors = torch.from_numpy(vectors.copy())
        batches = (_unit(vectors[first : first + _GRAPH_BATCH]) for first in range(0, len(vectors), _GRAPH_BATCH))
        graph = HnswGraph.build(batches, np.arange(len(vectors)), vectors.shape[1], 0, threading.Event())
        assert graph is not None  # nobody has stopped it
        self._graph = graph

    def search(
        self, queries: np.ndarray, k: int, mask: np.ndarray | None, least: int
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """None when the graph names fewer than `least` vectors for a query."""
        allowed = None if mask is None else np.flatnonzero(mask)
        scores, ids = np.empty((len(queries), k), np.float32), np.full((len(queries), k), -1)
        for number, direction in enumerate(_unit(queries)):
            # Ascending, so that equal scores go to the lower id.
            named = np.sort(self._graph.candidates(direction, max(_GRAPH_CANDIDATES, 2 * k), allowed))
            if len(named) < least:
                return None
            best, places = cosine_topk(torch.from_numpy(queries[number : number + 1]), self._vectors[named], k)
            count = min(k, len(named))
            scores[number] = best[0]
            ids[number, :count] = named[places[0, :count]]
        return scores, ids


class _FaissRows:
    """Unit vectors, compared with each query by FAISS."""

    def __init__(self, vectors: np.ndarray, device: str) -> None:
        self._faiss = load_faiss()
        self._unit = _unit(vectors)
        if device != "cpu" and not hasattr(self._faiss, "StandardGpuResources"):
            raise ImportError(f"This FAISS was built without GPUs: install one with them to search on {device}")
        self._resources: Any = None if device == "cpu" else self._faiss.StandardGpuResources()

    def search(self, queries: np.ndarray, k: int, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        kept = None if mask is None else np.flatnonzero(mask)
        rows = self._unit if kept is None else self._unit[kept]
        given = _unit(queries)
        metric = self._faiss.METRIC_INNER_PRODUCT
        count = min(k, len(rows))
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        ids = np.full((len(queries), k), -1, dtype=np.int64)
        if count == 0:
            return scores, ids
        if self._resources is None:
            found = self._faiss.knn(given, rows, count, metric)
        else:
            found = self._faiss.knn_gpu(self._resources, given, rows, count, metric=metric)
        scores[:, :count] = found[0]
        ids[:, :count] = found[1] if kept is None else kept[found[1]]
        return scores, ids


def _array(name: str, given: object) -> np.ndarray:
    if not isinstance(given, np.ndarray):
        raise InvalidInput(f"{name} must be a numpy array, got {type(given).__module__}.{type(given).__name__}")
    return np.ascontiguousarray(given)


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows [n, D] as unit vectors, float32. Raises InvalidInput for a row that has no direction."""
    exact = rows.astype(np.float64)
    norms = np.sqrt(np.einsum("nd,nd->n", exact, exact))
    _require_directions(norms)
    return (exact / norms[:, None]).astype(np.float32)


def _require_directions(norms: np.ndarray) -> None:
    """`norms` [n] of rows, in float64, where no square of a float32 number overflows."""
    bad = np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))
    if len(bad):
        raise InvalidInput(f"row {bad[0]} has a NaN, an infinity or only zeros: it has no direction")

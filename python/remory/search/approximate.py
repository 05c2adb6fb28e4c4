"""Approximate search: a graph names rows that are likely among the nearest, and the exact search scores them.

`HnswGraph` needs FAISS, the extra `remory[hnsw]`. FAISS's wheels bring an OpenMP runtime and a BLAS of their own; in
either order of import both work beside torch's. But when torch was imported first, FAISS runs on torch's OpenMP, and
the number of threads that is set through FAISS is torch's too, in the thread that sets it: so it is put back. Here
FAISS never uses more than the thread that calls it.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

_NEIGHBOURS = 32
_BUILD_BREADTH = 200
_LEAST_BREADTH = 200


class GraphUnusable(Exception):
    """A graph cannot answer. Collections go on without it."""


class Graph(Protocol):
    """What `Collection` needs of an approximate index, in this process or in a database.

    `sequence`: the index holds every row that was written up to this write and not deleted or replaced since.
    """

    @property
    def sequence(self) -> int: ...

    def candidates(self, query: np.ndarray, count: int, allowed_ids: np.ndarray | None) -> np.ndarray:
        """Ids, int64, of up to `count` rows that are likely the nearest of the unit vector `query` [D] float64.

        Only rows among `allowed_ids` (int64, in any order), or any row when it is None. Rows that were
        deleted or replaced meanwhile may be among them: the caller leaves them out and scores the others itself.
        Raises GraphUnusable.
        """
        ...


def hnsw_is_installed() -> bool:
    """Whether FAISS is there, without importing it."""
    return importlib.util.find_spec("faiss") is not None


class HnswGraph:
    """A hierarchical navigable small-world graph (Malkov and Yashunin, 2018) over unit vectors. Complete once made."""

    def __init__(self, index: Any, ids: np.ndarray, sequence: int) -> None:
        self._index = index
        self._ids = ids
        self._sequence = sequence

    @classmethod
    def build(
        cls, batches: Iterable[np.ndarray], ids: np.ndarray, dimension: int, sequence: int, stop: threading.Event
    ) -> HnswGraph | None:
        """From unit vectors [n, D] float32 in batches, in the order of `ids` [N] int64; None when `stop` was set.

        Runs on the calling thread alone and lets others run meanwhile. Raises ImportError without FAISS.
        """
        faiss = load_faiss()
        index = faiss.IndexHNSWFlat(dimension, _NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _BUILD_BREADTH
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)
        try:
            for batch in batches:
                if stop.is_set():
                    return None
                index.add(batch)
        finally:
            faiss.omp_set_num_threads(threads)
        return cls(index, ids, sequence)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def sequence(self) -> int:
        return self._sequence

    @property
    def nbytes(self) -> int:
        """Bytes held, about: the vectors, and two lists of neighbours a row at the lowest level."""
        return len(self) * (4 * self._index.d + 4 * 2 * _NEIGHBOURS + 24)

    def candidates(self, query: np.ndarray, count: int, allowed_ids: np.ndarray | None) -> np.ndarray:
        faiss = load_faiss()
        settings: dict[str, Any] = {"efSearch": max(_LEAST_BREADTH, count)}
        if allowed_ids is not None:
            bits = np.packbits(np.isin(self._ids, allowed_ids, assume_unique=True), bitorder="little")
            settings["sel"] = faiss.IDSelectorBitmap(bits)
        given = query.astype(np.float32)[None]
        _, found = self._index.search(given, count, params=faiss.SearchParametersHNSW(**settings))
        return self._ids[found[0][found[0] >= 0]]


def load_faiss() -> Any:
    """Imported when it is first needed: it is an extra, and loads a second BLAS. Raises ImportError with what to do."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ImportError("FAISS is not installed: pip install 'remory[hnsw]'") from error

"""An exact index by cosine, compiled, that is searched while it is written: no metadata, ids alone."""

from __future__ import annotations

import operator
import os
import platform
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import numpy as np
import torch

from remory.errors import InvalidInput

_LIBRARY = Path(__file__).parents[1] / "_index.so"


def _load() -> ModuleType:
    if not _LIBRARY.exists():
        raise ImportError(f"Remory's index is not built: {_LIBRARY} is missing. Run `make setup`, or `pip install .`")
    loader = ExtensionFileLoader("remory._index", str(_LIBRARY))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    try:
        module = module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise ImportError(
            f"Remory's index does not load under Python {platform.python_version()}: {error}. "
            "Build it again with `make setup`"
        ) from error
    return module


_index = _load()


class FlatView:
    """An index in a state that existed; what is written later does not change it. Made by `FlatIndex.view`.

    It keeps the memory of the rows of its state, also of those that the index has given back.
    """

    def __init__(self, view: Any, threads: int | None) -> None:
        self._view = view
        self._threads = threads

    def __len__(self) -> int:
        return len(self._view)

    @property
    def dimension(self) -> int:
        return self._view.dimension

    def search(self, queries: np.ndarray, k: int, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k vectors of highest cosine for each query: scores [Q, k] float32 and ids [Q, k] int64, best first.

        As `remory.ops.cosine_topk` has it: the cosines of the float32 vectors in float64, rounded to float32; equal
        scores go to the lower id; where fewer than k take part, the rest is -inf and -1. queries [Q, D] float32, of any
        norm but zero. mask [M] bool, by id: only ids where it is true take part, and none from M on.

        Raises InvalidInput with the query's number when it is zero or not finite, and with the numbers when shapes,
        dtypes or k do not fit.
        """
        queries = _vectors("queries", queries, "Q", None, self.dimension)
        return self._view.search(queries, _count("k", k), _mask(mask), _thread_count(self._threads))


class FlatIndex:
    """Vectors [D] float32 under ids int64, none below 0: add, replace, remove, exact search, save and load.

    Thread-safe and free of the GIL: any number of searches run beside one writer, and each sees one state that existed;
    writers wait for each other. Growth is amortised, removal rebuilds nothing, and the memory of dead rows is given
    back when they are many. A write that raises has changed nothing. In a process that was forked while a thread wrote,
    the copy can be searched, but not written.

    `certified` keeps int8 copies of the vectors beside them, a quarter more memory, with a bound on each copy's error:
    a search reads the copies, and then scores exactly the few vectors that may be among the best. The answer is the
    same; for few queries at a time it comes about three times as fast. Above 32,768 dimensions there are no copies.

    `threads` is how many a large search or write may use; None: as many as torch is set to.
    """

    def __init__(self, dimension: int, certified: bool = True, threads: int | None = None) -> None:
        """Raises InvalidInput for a dimension below 1 or above 1,048,576, and for threads below 1."""
        self._set(_index.FlatIndex(_count("dimension", dimension), bool(certified)), threads)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def dimension(self) -> int:
        return self._index.dimension

    @property
    def certified(self) -> bool:
        """Whether int8 copies are kept."""
        return self._index.certified

    @property
    def nbytes(self) -> int:
        """Bytes reserved for the rows there are now and their successors; views may hold more."""
        return self._index.nbytes

    def add(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        """Add vectors [n, D] float32 under new ids [n].

        Raises InvalidInput with the id when one is negative, is there already or is given twice, or when its vector is
        zero or not finite; with the numbers when shapes or dtypes do not fit.
        """
        self._index.add(*self._rows(ids, vectors), _thread_count(self._threads))

    def replace(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        """Put vectors [n, D] float32 in the place of those of the ids [n], which must be there. Raises as `add`."""
        self._index.replace(*self._rows(ids, vectors), _thread_count(self._threads))

    def remove(self, ids: np.ndarray) -> int:
        """Remove the vectors of the ids [n] and return how many there were; ids that are not there are passed over."""
        return self._index.remove(_ids(ids))

    def search(self, queries: np.ndarray, k: int, mask: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As `FlatView.search`, which says all, on the index as it is now.

        queries [Q, D] float32; mask [M] bool by id, of any length: ids from M on take no part.
        """
        return self.view().search(queries, k, mask)

    def view(self) -> FlatView:
        """The index as it is now, in about a microsecond."""
        return FlatView(self._index.view(), self._threads)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index as it is now to one checksummed file, which replaces a file at `path` when it is complete.

        A process that is killed meanwhile leaves the old file as it was, and beside it one named
        `PATH.NUMBERS.partial`. Raises OSError, and ValueError for a path with a null character.
        """
        self._index.save(_path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], threads: int | None = None) -> Self:
        """Read what `save` wrote. Raises OSError, and DamagedIndex when any byte is not as it was written."""
        index = cls.__new__(cls)
        index._set(_index.FlatIndex.load(_path(path), _thread_count(threads)), threads)
        return index

    def _set(self, index: Any, threads: int | None) -> None:
        self._threads = None if threads is None else _count("threads", threads)
        self._index = index

    def _rows(self, ids: np.ndarray, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ids = _ids(ids)
        return ids, _vectors("vectors", vectors, "n", len(ids), self.dimension)


def _path(path: str | os.PathLike[str]) -> bytes:
    """The path as the system takes it, which ends at a null character."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"the path {path!r} has a null character")
    return encoded


def _thread_count(threads: int | None) -> int:
    return torch.get_num_threads() if threads is None else threads


def _count(name: str, value: int) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InvalidInput(f"{name} must be an integer, got {type(value).__name__}") from error
    if number < 1 or number > np.iinfo(np.int64).max:
        raise InvalidInput(f"{name} is {number}, expected at least 1 and an int64")
    return number


def _ids(ids: np.ndarray) -> np.ndarray:
    ids = np.asarray(ids, dtype=np.int64 if np.size(ids) == 0 else None)
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise InvalidInput(f"ids must be [n] int64, got {list(ids.shape)} {ids.dtype}")
    return np.ascontiguousarray(ids)


def _vectors(name: str, vectors: np.ndarray, rows: str, count: int | None, dimension: int) -> np.ndarray:
    vectors = np.asarray(vectors)
    if vectors.dtype != np.float32:
        raise InvalidInput(f"{name} must be float32, got {vectors.dtype}")
    if vectors.ndim != 2 or vectors.shape[1] != dimension or (count is not None and len(vectors) != count):
        expected = [rows if count is None else count, dimension]
        raise InvalidInput(f"{name} must be [{rows}, D] = [{expected[0]}, {expected[1]}], got {list(vectors.shape)}")
    return np.ascontiguousarray(vectors)


def _mask(mask: np.ndarray | None) -> np.ndarray | None:
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != np.bool_ or mask.ndim != 1:
        raise InvalidInput(f"mask must be [M] bool, got {list(mask.shape)} {mask.dtype}")
    return np.ascontiguousarray(mask)

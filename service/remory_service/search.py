"""Searches over the store's vectors, on images of them in memory.

An image holds one scope's vectors and follows the table: a search first reads what was written after the last change
that its image has seen. So what was acknowledged before a search began is found by it, in every process, and a restart
needs nothing but the table.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remory.search import Collection, Found, Row, View, hnsw_is_installed
from remory.search.packing import unpack_vectors
from remory_service.store import entries, pgvector
from remory_service.store.database import connection, is_postgresql

log = logging.getLogger(__name__)

_READ_AT_ONCE = 4096


@dataclass(frozen=True)
class _Record:
    """A vector's row of the table; `content` None: deleted."""

    id: int
    key: str
    sequence: int
    revision: int
    dimension: int | None
    metadata: bytes | None
    content: bytes | None


class Searcher:
    """The images of this process. Those that were not searched for longest go when they hold more than `budget` bytes
    together; the one being searched stays whatever its size.
    """

    def __init__(self, budget: int):
        self._budget = budget
        self._images: OrderedDict[int, _Image] = OrderedDict()
        self._lock = threading.Lock()
        self._builder = _Builder()

    def search(
        self,
        scope: int | None,
        query: np.ndarray,
        k: int,
        filters: Mapping[str, Any] | None = None,
        strategy: str | None = None,
    ) -> Found:
        """The `k` vectors of a scope closest to `query` (float64 [D]); needs a connection. Scope None: an empty one."""
        if scope is None:
            return Found([], 0, "linear")
        image = self._image(scope)
        view = image.follow(len(query))
        self._evict(image)
        if view is None:
            return Found([], 0, "linear")
        self._builder.tend(scope, image.collections[len(query)], asked=strategy == "hnsw")
        return view.search(query, k, filters, strategy)

    def close(self) -> None:
        """Stop what goes on in the background."""
        self._builder.close()

    def _image(self, scope: int) -> _Image:
        with self._lock:
            image = self._images.setdefault(scope, _Image(scope))
            self._images.move_to_end(scope)
            return image

    def _evict(self, searched: _Image) -> None:
        with self._lock:
            held = {image.scope: image.nbytes for image in self._images.values()}
            for scope in list(self._images):
                if sum(held.values()) <= self._budget:
                    break
                if scope != searched.scope:
                    del self._images[scope], held[scope]


class _Image:
    """One scope's vectors, a collection for each dimension, as of the change `sequence`."""

    def __init__(self, scope: int):
        self.scope = scope
        self.collections: dict[int, Collection] = {}
        self._sequence = 0
        self._dimensions: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return sum(collection.nbytes for collection in list(self.collections.values()))

    def follow(self, dimension: int) -> View | None:
        """Read what was written since; the vectors of a dimension as they are then, None when there never were any."""
        with self._lock:
            for batch in _batches(entries.vectors_since(self.scope, self._sequence)):
                self._apply(batch)
                self._sequence = batch[-1].sequence
            # Under the lock: between the batches of another search the collection is in no state that ever was.
            collection = self.collections.get(dimension)
            return None if collection is None else collection.view()

    def _apply(self, batch: Sequence[_Record]) -> None:
        added: dict[tuple[int, int], list[_Record]] = defaultdict(list)
        for record in batch:
            old = self._dimensions.get(record.id)
            if old is not None and (record.content is None or old != record.dimension):
                self.collections[old].delete(record.id)
                del self._dimensions[record.id]
            if record.content is not None and record.dimension is not None:
                added[record.dimension, len(record.content)].append(record)
                self._dimensions[record.id] = record.dimension
        for (dimension, _), records in added.items():
            vectors = unpack_vectors([record.content for record in records if record.content], dimension)
            collection = self.collections.setdefault(dimension, Collection(dimension))
            collection.set_many([_row(record) for record in records], vectors)


class _Builder:
    """Makes the graphs of large collections in the background, one at a time."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def tend(self, scope: int, collection: Collection, asked: bool) -> None:
        """See that a collection gets the graph that pays for it. Needs a connection; does not wait for the graph."""
        if not collection.wants_graph(asked) or not self._lock.acquire(blocking=False):
            return
        try:
            if self._thread is None or not self._thread.is_alive():
                self._begin(scope, collection, asked)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Stop, and wait until that is so."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _begin(self, scope: int, collection: Collection, asked: bool) -> None:
        if is_postgresql():
            if collection.graph is None:
                collection.graph = pgvector.find_graph(scope, collection.dimension)
            if not collection.wants_graph(asked) or not pgvector.is_offered(collection.dimension):
                return
        elif not hnsw_is_installed():
            return
        work = (scope, collection)
        self._thread = threading.Thread(target=self._build, args=work, name="remory-graph", daemon=True)
        self._thread.start()

    def _build(self, scope: int, collection: Collection) -> None:
        # The boundary of this thread: without a graph searches are exact, and the next one that wants it tries again.
        try:
            if is_postgresql():
                with connection():
                    graph = pgvector.build_graph(scope, collection.dimension, self._stop)
                if graph is not None:
                    collection.graph = graph
            else:
                collection.build_graph(self._stop)
        except Exception:
            log.exception("no graph could be made for %d vectors of scope %d", len(collection), scope)


def _batches(records: Iterator[tuple[Any, ...]]) -> Iterator[list[_Record]]:
    while batch := [_Record(*record) for record in itertools.islice(records, _READ_AT_ONCE)]:
        yield batch


def _row(record: _Record) -> Row:
    return Row(record.id, record.key, record.sequence, record.revision, record.metadata or b"{}")

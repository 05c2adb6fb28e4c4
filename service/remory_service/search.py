"""Searches over the store's vectors, on images of them in memory.

An image holds the vectors of one scope, or of one collection of passages, and follows the table: a search first reads
what was written after the last change that its image has seen. So what was acknowledged before a search began is found
by it, in every process, and a restart needs nothing but the table.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from remory.search import Collection, Condition, Found, Row, View, hnsw_is_installed
from remory.search.packing import unpack_vector, unpack_vectors
from remory_service.store import pgvector
from remory_service.store.database import connection, is_postgresql
from remory_service.store.entries import ScopeVectors

log = logging.getLogger(__name__)

# What an image costs without a vector in it.
_IMAGE_BYTES = 1000
# After each try to make a graph, so long none for this collection; twice as long after each one that fails.
_REST_SECONDS, _LONGEST_REST_SECONDS = 60, 3600
_STOP_SECONDS = 2


class Vectors(Hashable, Protocol):
    """A set of vectors in the store that can be followed."""

    def since(self, sequence: int) -> Iterator[list[tuple[Any, ...]]]:
        """Pages of what changed after `sequence`, in the order of the changes: id, key, sequence, revision, dimension,
        metadata, content. The last page is read from the newest state."""


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
    together; the one being searched stays whatever its size. `clock` (seconds) decides when a graph is tried again.
    """

    def __init__(self, budget: int, clock: Callable[[], float] = time.monotonic):
        self._budget = budget
        self._images: OrderedDict[Vectors, _Image] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        self._builder = _Builder(clock)

    def search(
        self,
        vectors: Vectors | None,
        query: np.ndarray,
        k: int,
        filters: Mapping[str, Any] | Sequence[Condition] | None = None,
        strategy: str | None = None,
    ) -> Found:
        """The `k` vectors closest to `query` ([D]) of a set, None for an empty one; needs a connection."""
        if vectors is None:
            return Found([], 0, "linear")
        image = self._image(vectors)
        try:
            view = image.follow(len(query))
        finally:
            self._weigh(image)
        if view is None:
            return Found([], 0, "linear")
        self._builder.tend(vectors, image.collections[len(query)], asked=strategy == "hnsw")
        return view.search(query, k, filters, strategy)

    def close(self) -> None:
        """Stop what goes on in the background; waits for it two seconds at most. No graph is begun from here on."""
        self._builder.close()

    def _image(self, vectors: Vectors) -> _Image:
        with self._lock:
            image = self._images.get(vectors)
            if image is None:
                image = self._images[vectors] = _Image(vectors)
            self._images.move_to_end(vectors)
            return image

    def _weigh(self, searched: _Image) -> None:
        """Count what an image holds now, and let others go for it."""
        with self._lock:
            # Another search may have let it go meanwhile: then only those that still use it hold it.
            if self._images.get(searched.vectors) is not searched:
                return
            self._held += searched.nbytes - searched.counted
            searched.counted = searched.nbytes
            while self._held > self._budget and len(self._images) > 1:
                oldest = next(iter(self._images))
                if oldest == searched.vectors:
                    self._images.move_to_end(oldest)
                else:
                    self._held -= self._images.pop(oldest).counted


class _Image:
    """One set of vectors, a collection for each dimension, as of the change `sequence`.

    `nbytes`: memory held, about, as of the last `follow`; `counted`: what its owner has counted of it.
    """

    def __init__(self, vectors: Vectors):
        self.vectors = vectors
        self.collections: dict[int, Collection] = {}
        self.nbytes = _IMAGE_BYTES
        self.counted = 0
        self._sizes: dict[int, int] = {}
        self._sequence = 0
        self._dimensions: dict[int, int] = {}
        self._lock = threading.Lock()

    def follow(self, dimension: int) -> View | None:
        """Read what was written since; the vectors of a dimension as they are then, None when there never were any."""
        with self._lock:
            for page in self.vectors.since(self._sequence):
                records = [_Record(*row) for row in page]
                self._apply(records)
                self._sequence = records[-1].sequence
            # Under the lock: between the pages of another search the collection is in no state that ever was.
            collection = self.collections.get(dimension)
            if collection is None:
                return None
            self._measure(dimension)
            return collection.view()

    def _apply(self, records: Sequence[_Record]) -> None:
        added: dict[int, list[_Record]] = defaultdict(list)
        for record in records:
            if record.content is None or record.dimension != self._dimensions.get(record.id):
                self._remove(record.id)
            if record.content is not None and record.dimension is not None:
                added[record.dimension].append(record)
        for dimension, some in added.items():
            self._add(dimension, some)
            self._measure(dimension)

    def _add(self, dimension: int, records: Sequence[_Record]) -> None:
        """In one call, however they are packed: in a collection later calls bring later changes."""
        try:
            vectors = _unpack([record.content or b"" for record in records], dimension)
            collection = self.collections.get(dimension)
            if collection is None:
                collection = Collection(dimension)
            collection.set_many([_row(record) for record in records], vectors)
        except ValueError as error:
            self._add_sound(dimension, records, error)
            return
        self.collections[dimension] = collection
        self._dimensions.update((record.id, dimension) for record in records)

    def _add_sound(self, dimension: int, records: Sequence[_Record], error: ValueError) -> None:
        """One by one, without those that are damaged: they must not keep the others from being found."""
        if len(records) > 1:
            for record in records:
                self._add(dimension, [record])
            return
        self._remove(records[0].id)
        log.error("vector %d of %s is damaged and left out of searches: %s", records[0].id, self.vectors, error)

    def _remove(self, id: int) -> None:
        dimension = self._dimensions.pop(id, None)
        if dimension is not None:
            self.collections[dimension].delete(id)
            self._measure(dimension)

    def _measure(self, dimension: int) -> None:
        collection = self.collections.get(dimension)
        if collection is not None:
            size = collection.nbytes
            self.nbytes += size - self._sizes.get(dimension, 0)
            self._sizes[dimension] = size


class _Builder:
    """Makes the graphs of large collections in the background, one at a time. Searches neither wait for it nor fail."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        # Of a collection: until when it rests, and how often in a row no graph could be made.
        self._resting: dict[tuple[Vectors, int], float] = {}
        self._failures: dict[tuple[Vectors, int], int] = {}

    def tend(self, vectors: Vectors, collection: Collection, asked: bool) -> None:
        """See that a collection gets the graph that pays for it, without waiting for anything."""
        place = (vectors, collection.dimension)
        if self._resting.get(place, 0) > self._clock() or not collection.wants_graph(asked):
            return
        with self._lock:
            busy = self._thread is not None and self._thread.is_alive()
            if busy or self._stop.is_set():
                return
            work = (place, collection, asked)
            thread = threading.Thread(target=self._work, args=work, name="remory-graph", daemon=True)
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def close(self) -> None:
        """Stop, and wait a little for it: a database that makes an index does not stop at once."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(_STOP_SECONDS)

    def _work(self, place: tuple[Vectors, int], collection: Collection, asked: bool) -> None:
        # The boundary of this thread: without a graph searches are exact.
        try:
            vectors, dimension = place
            if is_postgresql() and isinstance(vectors, ScopeVectors):
                self._index(vectors.scope, dimension, collection, asked)
            elif hnsw_is_installed():
                collection.build_graph(self._stop)
            self._failures.pop(place, None)
        except Exception as error:
            failures = self._failures[place] = self._failures.get(place, 0) + 1
            log.warning(
                "no graph could be made for %d vectors of %s, without one searches are exact: %s: %s",
                len(collection),
                place[0],
                type(error).__name__,
                " ".join(str(error).split()),
                exc_info=failures == 1,
            )
        rest = min(_REST_SECONDS * 2 ** min(self._failures.get(place, 1) - 1, 16), _LONGEST_REST_SECONDS)
        self._resting[place] = self._clock() + rest

    def _index(self, scope: int, dimension: int, collection: Collection, asked: bool) -> None:
        with connection():
            if not pgvector.is_offered(dimension):
                return
            _use(collection, pgvector.find_graph(scope, dimension))
            if collection.wants_graph(asked):
                _use(collection, pgvector.build_graph(scope, dimension, self._stop))


def _use(collection: Collection, graph: pgvector.PgvectorGraph | None) -> None:
    if graph is not None:
        graph.check()
        collection.graph = graph


def _unpack(contents: Sequence[bytes], dimension: int) -> np.ndarray:
    """Vectors [n, dimension] however each is packed. Raises ValueError."""
    if len({len(content) for content in contents}) == 1:
        return unpack_vectors(contents, dimension)
    return np.stack([unpack_vector(content, dimension) for content in contents])


def _row(record: _Record) -> Row:
    return Row(record.id, record.key, record.sequence, record.revision, record.metadata or b"{}")

"""Collections of vectors: exact search by `cosine_topk` and float64, and the merge of what a graph proposes.

Rows lie in slots, in the order in which they came, and a slot is never written twice: a replaced row gets a new one.
So a search needs the lock only to take a snapshot, and sees one state that existed.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from remory.errors import InvalidInput
from remory.ops.cosine_topk import cosine_topk, score_error
from remory.search.approximate import Graph, GraphUnusable, HnswGraph
from remory.search.choice import EXACT, GRAPH_LEAST_ROWS, GRAPH_UNASKED_ROWS, HNSW, choose
from remory.search.filters import Columns, Condition

# Scores are compared after rounding, so that scaled copies of one vector tie although their last bits differ.
_DECIMALS = 12
# Elements that are handled as float64 at a time: they stay in the cache.
_CHUNK_ELEMENTS = 1 << 19
_FIRST_CAPACITY = 8
# What a collection costs before its first row.
_COLLECTION_BYTES = 5000
# Slots of deleted and replaced rows are given back when there are this many and they are more than half.
_LEAST_DEAD = 4096
_GRAPH_BATCH = 256
_GRAPH_CANDIDATES = 200
# A graph is made anew when more than this share of the live rows is not in it, or as many in it are dead.
_GRAPH_STALE = 0.2
# What callers write, and what it means: "linear" is the scoped memory's word for exact.
_STRATEGIES = {None: None, "linear": EXACT, "hnsw": HNSW}


@dataclass(frozen=True)
class Row:
    """One vector's entry as the table has it."""

    id: int  # stable identity of the entry: a replaced vector keeps it
    key: str
    sequence: int  # the write that made it; ascending over writes
    revision: int
    metadata: bytes  # a JSON object as UTF-8


@dataclass(frozen=True)
class Hit:
    """A row that was found; `score` is the cosine, -1 to 1, rounded to 12 decimals."""

    id: int
    key: str
    revision: int
    metadata: bytes
    score: float


@dataclass(frozen=True)
class Found:
    """Hits, best first; how many vectors were scored; the strategy that was used, "linear" or "hnsw", and why."""

    hits: list[Hit]
    scanned: int
    strategy: str
    reason: str = ""


class Collection:
    """Vectors of one dimension, with metadata: set, delete, exact and approximate search.

    Thread-safe; a search sees one state that existed, however many writers there are. Each call of `set_many` brings
    rows of higher sequences than all before: that is how a row is known not to be in the graph. `graph` may be set to
    any `Graph`, such as a database's index; `build_graph` makes and sets one in this process.
    """

    def __init__(self, dimension: int) -> None:
        if dimension < 1:
            raise InvalidInput(f"dimension is {dimension}, expected at least 1")
        self.dimension = dimension
        self._slots = _Slots(dimension, _FIRST_CAPACITY)
        self._graph: Graph | None = None
        self._lock = threading.Lock()
        self._building = threading.Lock()

    def __len__(self) -> int:
        """Live vectors."""
        with self._lock:
            return self._slots.count - self._slots.dead

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, about, with the graph's."""
        with self._lock:
            graph = self._graph
            return self._slots.nbytes + (graph.nbytes if isinstance(graph, HnswGraph) else 0)

    @property
    def graph(self) -> Graph | None:
        """What names candidates for the strategy "hnsw"; None: all searches are linear."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph | None) -> None:
        with self._lock:
            self._graph = graph

    def set_many(self, rows: Sequence[Row], vectors: np.ndarray) -> None:
        """Add rows with their vectors [n, D], float32 or float64; a row replaces the one of its id. All or nothing.

        Elements may have any magnitude. Raises InvalidInput when shapes or dtype do not fit, or, with the row's key,
        when a vector has a NaN or an infinity or is zero.
        """
        if vectors.shape != (len(rows), self.dimension):
            raise InvalidInput(f"vectors must be [{len(rows)}, {self.dimension}], got {list(vectors.shape)}")
        if vectors.dtype not in (np.float32, np.float64):
            raise InvalidInput(f"vectors must be float32 or float64, got {vectors.dtype}")
        scaled, sources = _scale(vectors, lambda number: f"the vector of {rows[number].key!r}")
        with self._lock:
            self._slots.append(rows, scaled, sources)
            self._give_back()

    def delete(self, id: int) -> bool:
        """Remove the row; False when there is none of this id."""
        with self._lock:
            removed = self._slots.remove(id)
            self._give_back()
        return removed

    def search(
        self,
        query: np.ndarray,
        k: int,
        filters: Mapping[str, Any] | Sequence[Condition] | None = None,
        strategy: str | None = None,
    ) -> Found:
        """`View.search` on the collection as it is now."""
        return self.view().search(query, k, filters, strategy)

    def view(self) -> View:
        """The collection as it is now; what is written later does not change it."""
        with self._lock:
            slots, count = self._slots, self._slots.count
            return View(
                slots=slots,
                vectors=slots.vectors[:count],
                ids=slots.ids[:count],
                sequences=slots.sequences[:count],
                alive=slots.alive[:count].copy(),
                live=count - slots.dead,
                graph=self._graph,
                forget=self._forget,
            )

    def wants_graph(self, asked: bool = False) -> bool:
        """Whether a graph, or a newer one, pays: there are over 500,000 rows, or 10,000 if somebody `asked` for "hnsw",
        and more than a fifth of the rows is not in the graph that there is, or as many in it are dead.
        """
        if len(self) < (GRAPH_LEAST_ROWS if asked else GRAPH_UNASKED_ROWS + 1):
            return False
        view = self.view()
        if view.graph is None:
            return True
        held = np.count_nonzero(view.alive & (view.sequences <= view.graph.sequence))
        stale = _GRAPH_STALE * view.live
        dead = len(view.graph) - held if isinstance(view.graph, HnswGraph) else 0
        return bool(view.live - held > stale or dead > stale)

    def build_graph(self, stop: threading.Event) -> bool:
        """Make a graph of the rows there are now and use it; False when `stop` was set or another call is at it.

        Takes minutes for some 100,000 rows, on the calling thread; searches and writes go on, and `stop` ends it
        within a second or so. Raises ImportError without FAISS.
        """
        if not self._building.acquire(blocking=False):
            return False
        try:
            view = self.view()
            slots = np.flatnonzero(view.alive)
            last = int(view.sequences.max(initial=0))
            graph = HnswGraph.build(view.unit_rows(slots), view.ids[slots], self.dimension, last, stop)
            if graph is not None:
                self.graph = graph
            return graph is not None
        finally:
            self._building.release()

    def _forget(self, graph: Graph) -> None:
        with self._lock:
            if self._graph is graph:
                self._graph = None

    def _give_back(self) -> None:
        slots = self._slots
        if slots.dead >= _LEAST_DEAD and 2 * slots.dead > slots.count:
            self._slots = slots.rewritten()


class _Slots:
    """The rows of a collection. Written under its lock; a reader with a count reads what lies below it without."""

    def __init__(self, dimension: int, capacity: int) -> None:
        self.count = 0
        self.dead = 0
        self.vectors = np.empty((capacity, dimension), dtype=np.float32)
        self.ids = np.empty(capacity, dtype=np.int64)
        self.sequences = np.empty(capacity, dtype=np.int64)
        self.alive = np.zeros(capacity, dtype=bool)
        self.rows: list[Row] = []
        self.metadata: list[bytes] = []
        self.text_bytes = 0
        # Where float32 does not hold the vector exactly, the vector, by slot.
        self.sources: dict[int, np.ndarray] = {}
        # The last slot of each id, also when it is dead, and for each slot the one before of the same id, or -1:
        # so a reader finds the slot that an id had in its snapshot.
        self.last_slot: dict[int, int] = {}
        self.previous: list[int] = []
        self.columns = Columns(self.metadata)

    @property
    def nbytes(self) -> int:
        width = self.vectors.shape[1]
        # Beside vectors and text, a row is some objects of Python's and its places in lists and dicts.
        return (
            _COLLECTION_BYTES
            + max(self.count, _FIRST_CAPACITY) * 4 * width
            + self.count * 500
            + len(self.sources) * (8 * width + 200)
            + self.text_bytes
            + self.columns.nbytes
        )

    def append(self, rows: Sequence[Row], vectors: np.ndarray, sources: Mapping[int, np.ndarray]) -> None:
        """`sources` by the number of the row."""
        first, count = self.count, self.count + len(rows)
        text_bytes = sum(len(row.metadata) + len(row.key) for row in rows)
        self._reserve(count)
        self.vectors[first:count] = vectors
        self.ids[first:count] = [row.id for row in rows]
        self.sequences[first:count] = [row.sequence for row in rows]
        self.alive[first:count] = True
        self.rows.extend(rows)
        self.metadata.extend(row.metadata for row in rows)
        self.text_bytes += text_bytes
        self.sources.update((first + number, source) for number, source in sources.items())
        for slot, row in enumerate(rows, start=first):
            before = self.last_slot.get(row.id, -1)
            self.previous.append(before)
            self.last_slot[row.id] = slot
            if before >= 0 and self.alive[before]:
                self._kill(before)
        self.count = count

    def remove(self, id: int) -> bool:
        slot = self.last_slot.get(id)
        if slot is None or not self.alive[slot]:
            return False
        self._kill(slot)
        return True

    def slot_below(self, id: int, count: int) -> int:
        """The last slot of an id that lies below `count`, or -1."""
        slot = self.last_slot.get(id, -1)
        while slot >= count:
            slot = self.previous[slot]
        return slot

    def rewritten(self) -> _Slots:
        """The live rows alone, in new memory: snapshots keep the old one."""
        kept = np.flatnonzero(self.alive[: self.count])
        fresh = _Slots(self.vectors.shape[1], max(2 * len(kept), _FIRST_CAPACITY))
        numbers = {int(slot): number for number, slot in enumerate(kept)}
        sources = {numbers[slot]: source for slot, source in self.sources.items() if slot in numbers}
        fresh.append([self.rows[slot] for slot in kept], self.vectors[kept], sources)
        fresh.columns = self.columns.keep(kept, fresh.metadata)
        return fresh

    def _kill(self, slot: int) -> None:
        self.alive[slot] = False
        self.dead += 1

    def _reserve(self, count: int) -> None:
        capacity = len(self.ids)
        if count <= capacity:
            return
        # Memory beyond the count is not touched until it is written, so the system does not spend it.
        capacity = max(count + count // 2, 2 * capacity)
        for name in ("vectors", "ids", "sequences", "alive"):
            old = getattr(self, name)
            grown = np.zeros((capacity, *old.shape[1:]), dtype=old.dtype)
            grown[: self.count] = old[: self.count]
            setattr(self, name, grown)


@dataclass(frozen=True)
class View:
    """A collection in a state that existed, made by `Collection.view`. Slots beyond `ids` belong to later states."""

    slots: _Slots
    vectors: np.ndarray
    ids: np.ndarray
    sequences: np.ndarray
    alive: np.ndarray
    live: int
    graph: Graph | None
    forget: Callable[[Graph], None]

    def search(
        self,
        query: np.ndarray,
        k: int,
        filters: Mapping[str, Any] | Sequence[Condition] | None = None,
        strategy: str | None = None,
    ) -> Found:
        """The k rows of highest cosine with `query` [D], float32 or float64: score descending, then key ascending.

        Only rows that meet `filters`: whose metadata holds, under each top-level key of a mapping, an equal JSON
        value, or that meet all conditions of a list. Cosines are those
        of the vectors as they were given, in float64; `scanned` counts the vectors that were scored.

        `strategy` "linear" scores every row that matches. "hnsw" scores what the graph names, and every row that the
        graph does not hold yet; it falls back to "linear" without a graph, with fewer than 10,000 matching rows or
        fewer than a twentieth of all, when the graph names fewer than k of them, and when it cannot answer: then the
        collection forgets it. None chooses: "linear" up to 500,000 rows, then "hnsw". A graph finds nearly all of the
        nearest where vectors lie in clusters, as embeddings of text do; among vectors without structure it misses
        many, and only "linear" is sure.

        Raises InvalidInput for a query that is not finite, zero or of another shape, for k below 1, for an unknown
        strategy, and for a filter that is not JSON.
        """
        if k < 1:
            raise InvalidInput(f"k is {k}, expected at least 1")
        if strategy not in _STRATEGIES:
            raise InvalidInput(f"strategy is {strategy!r}, expected linear or hnsw")
        direction = self._direction(query)
        selected = self._select(filters)
        matching = int(np.count_nonzero(selected))
        choice = choose(self.live, matching, has_graph=self.graph is not None, asked=_STRATEGIES[strategy])
        reason = choice.reason
        if choice.strategy == HNSW and self.graph is not None:
            try:
                found = self._search_graph(self.graph, direction, k, selected, bool(filters), reason)
            except GraphUnusable:
                self.forget(self.graph)
                reason = "the graph could not answer"
            else:
                if found is not None:
                    return found
                reason = f"the graph named fewer than {k} rows"
        slots = self._reach(direction, k, selected)
        return Found(self._best(direction, k, slots), matching, "linear", reason)

    def _direction(self, query: np.ndarray) -> np.ndarray:
        """The query as a unit vector [D] float64."""
        dimension = self.vectors.shape[1]
        if query.shape != (dimension,) or query.dtype not in (np.float32, np.float64):
            raise InvalidInput(
                f"the query must be [{dimension}], float32 or float64, got {list(query.shape)}, {query.dtype}"
            )
        scaled = _scale_chunk(query[None].astype(np.float64), 0, lambda number: "the query")[0]
        return scaled / np.sqrt(scaled @ scaled)

    def _select(self, filters: Mapping[str, Any] | Sequence[Condition] | None) -> np.ndarray:
        """[count] bool: the live rows that match."""
        if not filters:
            return self.alive
        return self.alive & self.slots.columns.match(filters, len(self.ids))

    def _search_graph(
        self, graph: Graph, direction: np.ndarray, k: int, selected: np.ndarray, filtered: bool, reason: str
    ) -> Found | None:
        """None when the graph names fewer than k rows that are selected and unchanged, of as many that it holds."""
        held = selected & (self.sequences <= graph.sequence)
        allowed = self.ids[held] if filtered else None
        named = graph.candidates(direction, max(_GRAPH_CANDIDATES, 2 * k), allowed)
        places = [self.slots.slot_below(id, len(self.ids)) for id in named.tolist()]
        slots = np.array([slot for slot in places if slot >= 0 and held[slot]], dtype=np.int64)
        if len(slots) < min(k, int(np.count_nonzero(held))):
            return None
        outside = selected & ~held
        scanned = len(slots) + int(np.count_nonzero(outside))
        slots = np.concatenate([slots, self._reach(direction, k, outside)])
        return Found(self._best(direction, k, slots), scanned, "hnsw", reason)

    def unit_rows(self, slots: np.ndarray) -> Iterator[np.ndarray]:
        """The vectors of these slots as unit vectors [n, D] float32, in batches."""
        for start in range(0, len(slots), _GRAPH_BATCH):
            rows = self.vectors[slots[start : start + _GRAPH_BATCH]]
            yield rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def _reach(self, direction: np.ndarray, k: int, selected: np.ndarray) -> np.ndarray:
        """The slots of all selected rows that can be among the k best.

        The op's score is within its stated error of the cosine of the float32 row and query; these are roundings of
        the float64 ones, by u = 2^-24 in each element, which moves a cosine by at most 2 u each. So k rows have true
        cosines of at least the k-th score less that error, and a row whose score is lower than the k-th by twice the
        error, and by what rounding to 12 decimals can lift it, is not among the best. More are asked for until such a
        row is seen.
        """
        total = int(np.count_nonzero(selected))
        if total == 0:
            return np.empty(0, dtype=np.int64)
        margin = 2 * (score_error(len(direction)) + 6 * 2.0**-24) + 10.0**-_DECIMALS
        query = torch.from_numpy(direction.astype(np.float32))[None]
        vectors = torch.from_numpy(self.vectors)
        mask = None if total == len(selected) else torch.from_numpy(selected)
        wanted = min(2 * k + 64, total)
        while True:
            scores, slots = (result[0].numpy() for result in cosine_topk(query, vectors, wanted, mask))
            floor = float(scores[min(k, total) - 1]) - margin
            if wanted == total or scores[-1] < floor:
                return slots[scores >= floor]
            wanted = min(32 * wanted, total)

    def _best(self, direction: np.ndarray, k: int, slots: np.ndarray) -> list[Hit]:
        """Of these slots the k of highest cosine, in order. Strings compare as their UTF-8 bytes do."""
        scores = self._score(direction, slots)
        if len(slots) > k:
            likely = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
            slots, scores = slots[likely], scores[likely]
        rows = [self.slots.rows[slot] for slot in slots.tolist()]
        pairs = zip(scores.tolist(), rows, strict=True)
        best = heapq.nsmallest(k, pairs, key=lambda pair: (-pair[0], pair[1].key))
        return [Hit(row.id, row.key, row.revision, row.metadata, score) for score, row in best]

    def _score(self, direction: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Cosines [n] float64, rounded, of the vectors in these slots as they were given."""
        scores = np.empty(len(slots))
        step = _chunk_rows(len(direction))
        for start in range(0, len(slots), step):
            some = slots[start : start + step]
            rows = self.vectors[some].astype(np.float64)
            if self.slots.sources:
                for number, slot in enumerate(some.tolist()):
                    source = self.slots.sources.get(slot)
                    if source is not None:
                        rows[number] = source
            # Sums row by row, each alike: a matrix product rounds equal rows differently.
            dots, squares = np.einsum("nd,d->n", rows, direction), np.einsum("nd,nd->n", rows, rows)
            scores[start : start + step] = dots / np.sqrt(squares)
        # Adding zero makes a zero of -0.
        return np.clip(scores, -1, 1).round(_DECIMALS) + 0.0


def _scale(vectors: np.ndarray, name: Callable[[int], str]) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Each vector times a power of two, so that its largest magnitude is in [0.5, 1): [n, D] float32, and in float64,
    by number, those that float32 does not hold exactly. Cosines are as before, and no square or sum overflows."""
    scaled = np.empty(vectors.shape, dtype=np.float32)
    sources: dict[int, np.ndarray] = {}
    step = _chunk_rows(vectors.shape[1])
    for start in range(0, len(vectors), step):
        exact = _scale_chunk(vectors[start : start + step].astype(np.float64), start, name)
        rounded = scaled[start : start + step]
        rounded[:] = exact
        inexact = np.flatnonzero((rounded != exact).any(axis=1))
        sources.update((start + int(number), exact[number].copy()) for number in inexact)
    return scaled, sources


def _scale_chunk(vectors: np.ndarray, first: int, name: Callable[[int], str]) -> np.ndarray:
    """Scales float64 vectors [n, D]; `name` says which one the error is about, counted from `first`."""
    largest = np.maximum(vectors.max(axis=1), -vectors.min(axis=1))
    if len(bad := np.flatnonzero(~np.isfinite(largest))):
        raise InvalidInput(f"{name(first + int(bad[0]))} has a NaN or an infinity")
    if len(bad := np.flatnonzero(largest == 0)):
        raise InvalidInput(f"{name(first + int(bad[0]))} is zero: it has no direction")
    return np.ldexp(vectors, -np.frexp(largest)[1][:, None])


def _chunk_rows(dimension: int) -> int:
    return max(_CHUNK_ELEMENTS // dimension, 1)

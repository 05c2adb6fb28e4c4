"""The approximate index of a collection in PostgreSQL, by its vector extension (pgvector).

The table of entries stays as it is everywhere. Beside it lies a table with the unit vectors of large collections, and
for each of these an HNSW index. It is filled in the background, up to a change whose number is kept with it; what came
later is scored by the searcher itself. A trigger takes out what is deleted or replaced, whoever does it.

All of it can be made anew from the entries: what is found damaged is dropped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import peewee

from remory.search import GraphUnusable
from remory.search.packing import unpack_vectors
from remory_service.store.database import is_postgresql, snapshot, transaction
from remory_service.store.entries import VECTOR
from remory_service.store.schema import database
from remory_service.store.statements import first, run

log = logging.getLogger(__name__)

# What the extension's HNSW index takes: more elements only as half floats, and no more than these.
_FULL_DIMENSIONS = 2000
_MOST_DIMENSIONS = 4000
_LARGEST_BREADTH = 1000
_MOST_VISITED = 1_000_000
_FILLED_AT_ONCE = 500
# Filtered searches need what came with it: an index that is read on until enough rows are found.
_OLDEST_VERSION = (0, 8)
# Any number will do, as long as all processes take the same one.
_BUILDERS_LOCK = 0x72656D6F727A
_BRIEFLY = "2s"
_TABLES = (
    "DROP TABLE IF EXISTS indexed_vector, vector_index",
    """
    CREATE TABLE indexed_vector (
        entry_id BIGINT NOT NULL PRIMARY KEY,
        scope_id BIGINT NOT NULL,
        dimension INTEGER NOT NULL,
        sequence BIGINT NOT NULL,
        embedding vector NOT NULL
    )
    """,
    """
    CREATE TABLE vector_index (
        scope_id BIGINT NOT NULL,
        dimension INTEGER NOT NULL,
        sequence BIGINT NOT NULL,
        PRIMARY KEY (scope_id, dimension)
    )
    """,
    # By its owner's rights: a role that may write entries need not know of these tables. And without them, should
    # somebody drop them, entries can still be written.
    """
    CREATE OR REPLACE FUNCTION forget_indexed_vector() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    BEGIN
        IF to_regclass('indexed_vector') IS NOT NULL THEN
            DELETE FROM indexed_vector WHERE entry_id = NEW.id;
        END IF;
        RETURN NULL;
    END
    $$
    """,
    "DROP TRIGGER IF EXISTS forget_indexed_vector ON entry",
    """
    CREATE TRIGGER forget_indexed_vector AFTER UPDATE OF content ON entry FOR EACH ROW
    WHEN (
        NEW.kind = 'vector'
        AND (OLD.content IS DISTINCT FROM NEW.content OR OLD.dimension IS DISTINCT FROM NEW.dimension)
    )
    EXECUTE FUNCTION forget_indexed_vector()
    """,
)
# Stores of this process, and whether they have the extension.
_decided: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
_deciding = threading.Lock()


class PgvectorGraph:
    """A `remory.search.Graph` that lies in the database; needs a connection when it is asked."""

    def __init__(self, scope: int, dimension: int, sequence: int):
        self._scope = int(scope)
        self._dimension = int(dimension)
        self._sequence = sequence
        self._failed = False

    @property
    def sequence(self) -> int:
        """The index holds every vector that was written up to this change."""
        return self._sequence

    def candidates(self, query: np.ndarray, count: int, allowed_ids: np.ndarray | None) -> np.ndarray:
        """Ids of up to `count` entries likely nearest to the unit vector `query` [D], of `allowed_ids` if given.

        Raises GraphUnusable, whatever the database says: the entries can be searched without it.
        """
        try:
            return self._nearest(query, count, allowed_ids)
        except peewee.PeeweeException as error:
            if not self._failed:
                self._failed = True
                log.warning(
                    "the index of scope %d cannot be searched, searches are exact: %s", self._scope, _line(error)
                )
            raise GraphUnusable(str(error)) from error

    def check(self) -> None:
        """See whether it answers. Raises peewee.DatabaseError."""
        self._nearest(np.eye(1, self._dimension)[0], 1, None)

    def _nearest(self, query: np.ndarray, count: int, allowed_ids: np.ndarray | None) -> np.ndarray:
        kind = _element_type(self._dimension)
        among = "" if allowed_ids is None else "AND entry_id = ANY(?)"
        # Scope and dimension stand in the text: with values that are sent apart, PostgreSQL may plan without knowing
        # that the partial index holds all that is asked for.
        nearest = f"""
            SELECT entry_id FROM indexed_vector
            WHERE scope_id = {self._scope} AND dimension = {self._dimension} {among}
            ORDER BY embedding::{kind} <=> ?::{kind} LIMIT ?
        """
        values = [] if allowed_ids is None else [allowed_ids.tolist()]
        with snapshot():
            run(f"SET LOCAL hnsw.ef_search = {min(max(count, 1), _LARGEST_BREADTH)}")
            run("SET LOCAL hnsw.iterative_scan = strict_order")
            run(f"SET LOCAL hnsw.max_scan_tuples = {_MOST_VISITED}")
            run("SET LOCAL enable_seqscan = off")
            run("SET LOCAL enable_sort = off")
            found = run(nearest, *values, _text(query), count).fetchall()
        return np.array([number for (number,) in found], dtype=np.int64)


def is_offered(dimension: int) -> bool:
    """Whether this store can index vectors of a dimension. Needs a connection.

    The first call installs the extension, if the server has it and our role may; what came of it holds for this
    process.
    """
    if not is_postgresql() or dimension > _MOST_DIMENSIONS:
        return False
    with _deciding:
        store = database.obj
        if store not in _decided:
            lack = _lack()
            if lack is not None:
                log.info("searches stay exact in the %s: %s", store, lack)
            _decided[store] = lack is None
        return _decided[store]


def find_graph(scope: int, dimension: int) -> PgvectorGraph | None:
    """The index of a collection, if there is one. Needs a connection."""
    if not _index_is_valid(scope, dimension) or (filled := _filled(scope, dimension)) is None:
        return None
    return PgvectorGraph(scope, dimension, filled)


def build_graph(scope: int, dimension: int, stop: threading.Event) -> PgvectorGraph | None:
    """Bring a collection's index up to date, or make it; None when `stop` was set, or when somebody else makes one in
    this database. Takes minutes for 100,000 vectors. What was done stays, also when it fails. Needs a connection.
    """
    with _sole_builder() as alone:
        if not alone:
            return None
        _make_tables()
        done = _filled(scope, dimension) or 0
        while batch := _next(scope, done):
            if stop.is_set():
                return None
            done = batch[-1][1]
            _fill(scope, dimension, batch)
            _settle(scope, dimension, batch)
        if stop.is_set():
            return None
        _make_index(int(scope), int(dimension))
    return find_graph(scope, dimension)


@contextmanager
def _sole_builder() -> Iterator[bool]:
    """Whether nobody else makes an index in this database meanwhile."""
    if first("SELECT pg_try_advisory_lock(?)", _BUILDERS_LOCK) != (True,):
        yield False
        return
    try:
        # Nobody waits for it, so it may wait.
        with _lock_timeout("0"):
            yield True
    finally:
        # With a connection that died the lock is gone, and what it died of is the error to be told.
        with suppress(peewee.PeeweeException):
            run("SELECT pg_advisory_unlock(?)", _BUILDERS_LOCK)


@contextmanager
def _lock_timeout(limit: str) -> Iterator[None]:
    """How long this connection waits for locks, for the block."""
    run("SELECT set_config('lock_timeout', ?, false)", limit)
    try:
        yield
    finally:
        with suppress(peewee.PeeweeException):
            run("RESET lock_timeout")


def _lack() -> str | None:
    """Why the extension cannot be used in this database, None when it can."""
    known = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    found = first(known)
    if found is None:
        if first("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'") is None:
            return "the server does not have the extension vector"
        try:
            with _lock_timeout(_BRIEFLY):
                run("CREATE EXTENSION IF NOT EXISTS vector")
        except peewee.ProgrammingError as error:
            return f"the extension vector cannot be installed: {_line(error)}"
        found = first(known)
    version = found[0] if found else ""
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST_VERSION:
        return f"the extension vector has version {version}, {'.'.join(map(str, _OLDEST_VERSION))} is the oldest"
    return None


def _make_tables() -> None:
    """Make the tables and the trigger, unless they are there. Without the extension `embedding` goes and they stay."""
    made = """
        SELECT 1 FROM pg_attribute JOIN pg_trigger ON tgname = 'forget_indexed_vector' AND tgrelid = 'entry'::regclass
        WHERE attrelid = to_regclass('indexed_vector') AND attname = 'embedding' AND NOT attisdropped
            AND to_regclass('vector_index') IS NOT NULL
    """
    if first(made) is not None:
        return
    with transaction():
        run(f"SET LOCAL lock_timeout = '{_BRIEFLY}'")
        for statement in _TABLES:
            run(statement)


def _filled(scope: int, dimension: int) -> int | None:
    """Up to which change the collection's vectors are in the table."""
    if first("SELECT to_regclass('vector_index')") == (None,):
        return None
    found = first("SELECT sequence FROM vector_index WHERE scope_id = ? AND dimension = ?", scope, dimension)
    return None if found is None else found[0]


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def _element_type(dimension: int) -> str:
    return f"vector({dimension})" if dimension <= _FULL_DIMENSIONS else f"halfvec({dimension})"


def _next(scope: int, sequence: int) -> Sequence[tuple[int, int, int | None, bytes | None]]:
    """The next vectors in the order of their changes: id, sequence, dimension, content."""
    return run(
        """
        SELECT id, sequence, dimension, content FROM entry
        WHERE scope_id = ? AND kind = ? AND sequence > ? ORDER BY sequence LIMIT ?
        """,
        scope,
        VECTOR,
        sequence,
        _FILLED_AT_ONCE,
    ).fetchall()


def _fill(scope: int, dimension: int, batch: Sequence[tuple[int, int, int | None, bytes | None]]) -> None:
    """Put a batch's vectors of one dimension into the table, without a transaction: it would keep all writers waiting.

    A vector that is damaged is left out.
    """
    units = {row[0]: _unit(row[3], dimension) for row in batch if row[2] == dimension and row[3] is not None}
    kept = [(row[0], row[1], unit) for row in batch if (unit := units.get(row[0])) is not None]
    run(
        """
        INSERT INTO indexed_vector (entry_id, scope_id, dimension, sequence, embedding)
        SELECT entry_id, ?, ?, sequence, embedding::vector
        FROM unnest(?::bigint[], ?::bigint[], ?::text[]) AS given (entry_id, sequence, embedding)
        ON CONFLICT (entry_id) DO UPDATE
        SET dimension = EXCLUDED.dimension, sequence = EXCLUDED.sequence, embedding = EXCLUDED.embedding
        WHERE indexed_vector.sequence < EXCLUDED.sequence
        """,
        scope,
        dimension,
        [number for number, _, _ in kept],
        [sequence for _, sequence, _ in kept],
        [_text(unit) for _, _, unit in kept],
    )


def _settle(scope: int, dimension: int, batch: Sequence[tuple[int, int, int | None, bytes | None]]) -> None:
    """Note that a batch is in the table, and take out what was deleted or replaced since it was read."""
    # While no writer is at work: else one's trigger may have looked before a row came, and its entry not be seen here.
    with transaction():
        run(
            """
            DELETE FROM indexed_vector USING entry
            WHERE entry_id = ANY(?) AND entry.id = entry_id
                AND (entry.sequence <> indexed_vector.sequence OR entry.content IS NULL)
            """,
            [row[0] for row in batch],
        )
        run(
            """
            INSERT INTO vector_index (scope_id, dimension, sequence) VALUES (?, ?, ?)
            ON CONFLICT (scope_id, dimension) DO UPDATE SET sequence = EXCLUDED.sequence
            """,
            scope,
            dimension,
            batch[-1][1],
        )


def _make_index(scope: int, dimension: int) -> None:
    if _index_is_valid(scope, dimension):
        return
    kind = _element_type(dimension)
    operators = f"{kind.partition('(')[0]}_cosine_ops"
    name = _index_name(scope, dimension)
    # What an attempt that failed left behind.
    run(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    # Concurrently: otherwise whoever deletes a vector, and so every writer, would wait for minutes.
    run(
        f"""
        CREATE INDEX CONCURRENTLY {name} ON indexed_vector USING hnsw ((embedding::{kind}) {operators})
        WHERE scope_id = {scope} AND dimension = {dimension}
        """
    )


def _index_is_valid(scope: int, dimension: int) -> bool:
    name = _index_name(scope, dimension)
    return first("SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(?) AND indisvalid", name) is not None


def _index_name(scope: int, dimension: int) -> str:
    return f"indexed_vector_{scope}_{dimension}"


def _unit(content: bytes, dimension: int) -> np.ndarray | None:
    """As a unit vector [D]; None for what is none."""
    try:
        vector = unpack_vectors([content], dimension)[0].astype(np.float64)
    except ValueError:
        return None
    largest = np.abs(vector).max(initial=0)
    if not 0 < largest < np.inf:
        return None
    vector = vector / largest
    return vector / np.linalg.norm(vector)


def _text(vector: np.ndarray) -> str:
    """A vector as the extension reads it: float32 in decimal."""
    return f"[{','.join(map(str, vector.astype(np.float32).tolist()))}]"

"""The approximate index of a collection in PostgreSQL, by its vector extension (pgvector).

The table of entries stays as it is everywhere. Beside it lies a table with the unit vectors of large collections, and
for each of these an HNSW index. It is filled in the background, up to a change whose number is kept with it; what came
later is scored by the searcher itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import numpy as np
import peewee

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
_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS indexed_vector (
        entry_id BIGINT NOT NULL PRIMARY KEY,
        scope_id BIGINT NOT NULL,
        dimension INTEGER NOT NULL,
        sequence BIGINT NOT NULL,
        embedding vector NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS vector_index (
        scope_id BIGINT NOT NULL,
        dimension INTEGER NOT NULL,
        sequence BIGINT NOT NULL,
        PRIMARY KEY (scope_id, dimension)
    )
    """,
)


class PgvectorGraph:
    """A `remory.search.Graph` that lies in the database; needs a connection when it is asked."""

    def __init__(self, scope: int, dimension: int, sequence: int):
        self._scope = int(scope)
        self._dimension = int(dimension)
        self._sequence = sequence

    @property
    def sequence(self) -> int:
        """The index holds every vector that was written up to this change."""
        return self._sequence

    def candidates(self, query: np.ndarray, count: int, allowed_ids: np.ndarray | None) -> np.ndarray:
        """Ids of up to `count` entries likely nearest to the unit vector `query` [D], of `allowed_ids` if given."""
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
    """Whether this store can index vectors of a dimension. Needs a connection."""
    if not is_postgresql() or dimension > _MOST_DIMENSIONS:
        return False
    return first("SELECT 1 FROM pg_extension WHERE extname = 'vector'") is not None or _install()


def find_graph(scope: int, dimension: int) -> PgvectorGraph | None:
    """The index of a collection, if there is one. Needs a connection."""
    if first("SELECT to_regclass('vector_index')") == (None,):
        return None
    found = first("SELECT sequence FROM vector_index WHERE scope_id = ? AND dimension = ?", scope, dimension)
    return None if found is None else PgvectorGraph(scope, dimension, found[0])


def build_graph(scope: int, dimension: int, stop: threading.Event) -> PgvectorGraph | None:
    """Bring a collection's index up to date, or make it; None when `stop` was set. Takes minutes for 100,000 vectors.

    Other processes may do the same at once. Needs a connection.
    """
    with transaction():
        for statement in _TABLES:
            run(statement)
    known = find_graph(scope, dimension)
    done = known.sequence if known else 0
    while batch := _next(scope, done):
        if stop.is_set():
            return None
        _fill(scope, dimension, batch)
        done = batch[-1][1]
    _make_index(int(scope), int(dimension))
    with transaction():
        run(
            """
            INSERT INTO vector_index (scope_id, dimension, sequence) VALUES (?, ?, ?)
            ON CONFLICT (scope_id, dimension)
            DO UPDATE SET sequence = GREATEST(vector_index.sequence, EXCLUDED.sequence)
            """,
            scope,
            dimension,
            done,
        )
    return find_graph(scope, dimension)


def _install() -> bool:
    """Install the extension in this database, if the server has it and our role may."""
    if first("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'") is None:
        return False
    try:
        with transaction():
            run("CREATE EXTENSION IF NOT EXISTS vector")
    except peewee.ProgrammingError as error:
        log.info("searches stay exact: the extension vector cannot be installed in %s: %s", database.obj, error)
        return False
    return True


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
    """Put a batch's vectors of one dimension into the table, and take those out that are none of it any more.

    Without a transaction, which would keep all writers waiting: an older vector never replaces a newer one, and what
    lies here too long only costs its being looked at.
    """
    kept = [(row[0], row[1], row[3]) for row in batch if row[2] == dimension and row[3] is not None]
    gone = {row[0] for row in batch} - {row[0] for row in kept}
    run("DELETE FROM indexed_vector WHERE entry_id = ANY(?) AND dimension = ?", list(gone), dimension)
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
        [_text(_unit(content, dimension)) for _, _, content in kept],
    )


def _make_index(scope: int, dimension: int) -> None:
    kind = _element_type(dimension)
    operators = f"{kind.partition('(')[0]}_cosine_ops"
    name = f"indexed_vector_{scope}_{dimension}"
    # Not CONCURRENTLY, which waits for every transaction: only this module reads and writes the table.
    run(
        f"""
        CREATE INDEX IF NOT EXISTS {name} ON indexed_vector USING hnsw ((embedding::{kind}) {operators})
        WHERE scope_id = {scope} AND dimension = {dimension}
        """
    )


def _unit(content: bytes, dimension: int) -> np.ndarray:
    vector = unpack_vectors([content], dimension)[0].astype(np.float64)
    vector = vector / np.abs(vector).max()
    return vector / np.linalg.norm(vector)


def _text(vector: np.ndarray) -> str:
    """A vector as the extension reads it: float32 in decimal."""
    return f"[{','.join(map(str, vector.astype(np.float32).tolist()))}]"

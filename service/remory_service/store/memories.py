"""Memories: handles, each of one user's one session, and their rows, once per content.

Every function takes a connection for as long as it needs one. Nothing but user, session and handle together finds a
memory.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import peewee

from remory.compaction.history import Chunk
from remory.compaction.memory import Memory, pack_ids, unpack_ids
from remory_service.errors import StoreDamaged
from remory_service.store import histories, transcripts
from remory_service.store.database import connection, now_ms, transaction
from remory_service.store.histories import KeptChunk
from remory_service.store.schema import StoredMemory, StoredRows
from remory_service.store.transcripts import Collected

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Owner:
    """Whose memory it is."""

    user: str
    session: str


@dataclass(frozen=True)
class MemoryInfo:
    """What a listing shows of a memory. `created_at`: epoch milliseconds."""

    handle: str
    created_at: int
    summary_ids: list[int]
    receipt: dict[str, Any]


@connection()
def save(
    owner: Owner,
    memory: Memory,
    history: Sequence[Chunk] = (),
    parents: Sequence[str] = (),
    collected: Collected | None = None,
) -> Memory:
    """Store a memory under a new handle: all of it in one transaction, or nothing.

    `history`: chunks of what its compaction removed, if they are to be kept. `parents`: handles that it was made from,
    whose histories it has too. `collected`: what its session agreed to have kept of the compaction.

    Returns it with the handle, and with the receipt's `timings_ms.store`: milliseconds up to the writing of the handle
    itself, which has the receipt in it.
    """
    start = time.monotonic()
    rows = memory.rows_bytes()
    with transaction():
        StoredRows.insert(sha256=memory.rows_sha256, size=len(rows), data=rows).on_conflict_ignore().execute()
        timings = memory.receipt["timings_ms"] | {"store": round((time.monotonic() - start) * 1000, 3)}
        saved = replace(memory, handle=f"rm_{secrets.token_hex(16)}", receipt={**memory.receipt, "timings_ms": timings})
        number = StoredMemory.insert(
            handle=saved.handle,
            user=owner.user,
            session=owner.session,
            rows=saved.rows_sha256,
            width=saved.rows.shape[1],
            prefix_ids=pack_ids(saved.prefix_ids),
            summary_ids=pack_ids(saved.summary_ids),
            identity=saved.identity,
            receipt=json.dumps(saved.receipt),
            created_at=now_ms(),
        ).execute()
        known = [known for parent in parents if (known := _number(owner, parent)) is not None]
        histories.keep(number, history, known, now_ms())
        if collected is not None:
            transcripts.keep(number, collected, known, now_ms())
    return saved


@connection()
def load(owner: Owner, handle: str) -> Memory | None:
    """A memory with its rows, or None. Raises StoreDamaged when the rows are not those that were written."""
    query = StoredMemory.select(StoredMemory, StoredRows).join(StoredRows).where(_is(owner, handle))
    found = query.get_or_none()
    if found is None:
        return None
    rows = found.rows
    if len(rows.data) != rows.size or hashlib.sha256(rows.data).hexdigest() != rows.sha256:
        raise StoreDamaged(f"the stored rows of {handle} are damaged: delete it and compact again")
    receipt = json.loads(found.receipt)
    return Memory.from_bytes(
        prefix_ids=found.prefix_ids,
        summary_ids=found.summary_ids,
        rows=rows.data,
        width=found.width,
        frontier=[(node["start"], node["stop"], node["depth"]) for node in receipt["frontier"]],
        identity=found.identity,
        receipt=receipt,
        handle=handle,
    )


@connection()
def find(owner: Owner, handle: str) -> MemoryInfo | None:
    """What a listing shows of one memory, or None."""
    found = StoredMemory.get_or_none(_is(owner, handle))
    return None if found is None else _info(found)


@connection()
def list_session(owner: Owner) -> list[MemoryInfo]:
    """All memories of a session, newest first."""
    query = StoredMemory.select().where(StoredMemory.user == owner.user, StoredMemory.session == owner.session)
    return [_info(found) for found in query.order_by(StoredMemory.id.desc())]


@connection()
def histories_of(owner: Owner, handle: str) -> list[int]:
    """The collections of what a memory stands for, as far as it was kept, oldest first."""
    number = _number(owner, handle)
    return [] if number is None else histories.of_memory(number)


@connection()
def history_page(owner: Owner, handle: str, limit: int, skip: int) -> list[KeptChunk] | None:
    """Some of what was kept of a memory's histories, oldest first; None when there is no such memory."""
    number = _number(owner, handle)
    return None if number is None else histories.page(number, limit, skip)


@connection()
def keep_continuation(owner: Owner, handle: str, ids: Sequence[int], limit: int) -> bool:
    """Keep what was said behind a memory, if its compaction has a transcript. `limit`: see `Collected`."""
    with transaction():
        number = _number(owner, handle)
        return number is not None and transcripts.keep_continuation(number, ids, limit, now_ms())


@connection()
def delete(owner: Owner, handle: str) -> bool:
    """Delete a memory with its transcripts, and its rows and histories unless another handle has them; False when there
    is none.
    """
    with transaction():
        found = StoredMemory.select(StoredMemory.id, StoredMemory.rows).where(_is(owner, handle)).tuples().first()
        if found is None:
            return False
        number, digest = found
        histories.release(number)
        transcripts.remove([number])
        StoredMemory.delete_by_id(number)
        others = StoredMemory.select().where(StoredMemory.rows == digest)
        StoredRows.delete().where(StoredRows.sha256 == digest, ~peewee.fn.EXISTS(others)).execute()
    return True


@connection()
def remove_orphans() -> int:
    """Remove rows that no handle has, and say how many. Transactions leave none; a file edited by hand may."""
    with transaction():
        used = StoredMemory.select(StoredMemory.rows)
        removed = StoredRows.delete().where(StoredRows.sha256.not_in(used)).execute()
    if removed:
        log.warning("removed %d rows contents that no handle had", removed)
    return removed


@connection()
def totals() -> tuple[int, int]:
    """Number of handles, and bytes of rows."""
    size = StoredRows.select(peewee.fn.COALESCE(peewee.fn.SUM(StoredRows.size), 0)).scalar()
    # PostgreSQL sums BIGINT as NUMERIC.
    return StoredMemory.select().count(), int(size)


def _number(owner: Owner, handle: str) -> int | None:
    found = StoredMemory.select(StoredMemory.id).where(_is(owner, handle)).tuples().first()
    return None if found is None else found[0]


def _is(owner: Owner, handle: str) -> peewee.Expression:
    # PostgreSQL takes no NUL in a text, and no handle has one.
    handle = handle.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return (StoredMemory.handle == handle) & (StoredMemory.user == owner.user) & (StoredMemory.session == owner.session)


def _info(found: StoredMemory) -> MemoryInfo:
    summary = unpack_ids(found.summary_ids).tolist()
    return MemoryInfo(found.handle, found.created_at, summary, json.loads(found.receipt))

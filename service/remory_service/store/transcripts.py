"""Token transcripts, for a trainer: what a memory's compaction removed, and what was said behind the memory.

They belong to their memory, and through it to one user's one session; prefix and summary are the memory's. All together
are bounded: the oldest go first, each with what was said behind it. The `size` of one counts its ids and its row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from remory.compaction.memory import pack_ids, unpack_ids
from remory_service.store.database import connection, transaction
from remory_service.store.schema import StoredContinuation, StoredTranscript
from remory_service.store.statements import first, run

COMPACTION = "compaction"
CONTINUATION = "continuation"
_TOKEN_BYTES = 4
# What a row takes beside its ids, about: the bound should hold for many short answers too.
_ROW_BYTES = 128
# A client sends all that followed a memory each time. Of so many continuations one may be what another goes on from.
_COMPARED = 8
_REMOVED_AT_ONCE = 100
_EXPORTED_AT_ONCE = 20
_SESSION = "JOIN stored_memory m ON m.id = t.memory_id WHERE m.user_name = ? AND m.session_name = ?"
_ITEMS = f"""
    SELECT m.handle, '{COMPACTION}' AS kind, t.created_at, t.size, t.actor_revision, t.memory_id, 0 AS place
    FROM transcript t {_SESSION}
    UNION ALL
    SELECT m.handle, '{CONTINUATION}', c.created_at, c.size, t.actor_revision, t.memory_id, c.id
    FROM transcript t JOIN transcript_continuation c ON c.memory_id = t.memory_id {_SESSION}
"""
_LINES = """
    SELECT c.id, t.memory_id, t.actor_revision, m.prefix_ids, m.summary_ids, c.ids
    FROM transcript_continuation c
    JOIN transcript t ON t.memory_id = c.memory_id JOIN stored_memory m ON m.id = t.memory_id
    WHERE c.id > ? ORDER BY c.id LIMIT ?
"""


@dataclass(frozen=True)
class Collected:
    """What a compaction removed, in an actor's tokens. `limit`: most bytes of all transcripts together."""

    history_ids: Sequence[int]
    actor_revision: str
    limit: int


@dataclass(frozen=True)
class TranscriptInfo:
    """What a listing shows of a transcript. `kind`: compaction or continuation; `created_at`: epoch ms."""

    handle: str
    kind: str
    created_at: int
    tokens: int
    size: int
    actor_revision: str


@dataclass(frozen=True)
class Line:
    """One thing that was said behind a memory, and all that stood before it, in token ids."""

    prefix_ids: list[int]
    history_ids: list[int]
    summary_ids: list[int]
    continuation_ids: list[int]
    actor_revision: str


def keep(memory: int, collected: Collected, parents: Sequence[int], now: int) -> bool:
    """Keep the transcript of a new memory; False when it alone is beyond the limit. Needs a transaction."""
    packed = pack_ids(collected.history_ids)
    size = _size(packed)
    if size > collected.limit:
        return False
    StoredTranscript.insert(
        memory=memory,
        created_at=now,
        size=size,
        actor_revision=collected.actor_revision,
        parents=json.dumps(list(parents)),
        history_ids=packed,
    ).execute()
    _grow(size, collected.limit)
    return True


def keep_continuation(memory: int, ids: Sequence[int], limit: int, now: int) -> bool:
    """Keep what was said behind a memory: in place of what it goes on from, if that was kept. Needs a transaction.

    False when the memory has no transcript, or when both are beyond the limit.
    """
    found = first("SELECT size FROM transcript WHERE memory_id = ?", memory)
    packed = pack_ids(ids)
    size = _size(packed)
    if found is None or found[0] + size > limit:
        return False
    newest = "SELECT id, size, ids FROM transcript_continuation WHERE memory_id = ? ORDER BY id DESC LIMIT ?"
    known = [(number, took, bytes(old)) for number, took, old in run(newest, memory, _COMPARED).fetchall()]
    if any(old.startswith(packed) for _, _, old in known):
        return True
    begun = next(((number, took) for number, took, old in known if packed.startswith(old)), None)
    if begun is None:
        StoredContinuation.insert(transcript=memory, created_at=now, size=size, ids=packed).execute()
    else:
        changed = StoredContinuation.update(created_at=now, size=size, ids=packed)
        changed.where(StoredContinuation.id == begun[0]).execute()
    _grow(size - (begun[1] if begun else 0), limit)
    return True


def remove(memories: Sequence[int]) -> int:
    """Remove the transcripts of memories, and what was said behind them; how many there were. Needs a transaction."""
    if not memories:
        return 0
    marks = ", ".join("?" * len(memories))
    counts, sizes = [], []
    for table in ("transcript_continuation", "transcript"):
        found = first(f"SELECT count(*), coalesce(sum(size), 0) FROM {table} WHERE memory_id IN ({marks})", *memories)
        assert found is not None
        counts.append(found[0])
        sizes.append(int(found[1]))  # PostgreSQL sums BIGINT as NUMERIC
        run(f"DELETE FROM {table} WHERE memory_id IN ({marks})", *memories)
    if any(counts):
        run("UPDATE transcript_total SET size = size - ?", sum(sizes))
    return sum(counts)


@connection()
def page(user: str, session: str, limit: int, skip: int) -> list[TranscriptInfo]:
    """Up to `limit` of a session's transcripts, the newest memory's first, without the first `skip`."""
    ordered = f"{_ITEMS} ORDER BY memory_id DESC, place LIMIT ? OFFSET ?"
    rows = run(ordered, user, session, user, session, limit, skip).fetchall()
    return [
        TranscriptInfo(handle, kind, created_at, (size - _ROW_BYTES) // _TOKEN_BYTES, size, revision)
        for handle, kind, created_at, size, revision, _, _ in rows
    ]


@connection()
def totals_of(user: str, session: str) -> tuple[int, int]:
    """How many transcripts a session has, and their bytes."""
    counted = f"SELECT count(*), coalesce(sum(size), 0) FROM ({_ITEMS}) items"
    found = first(counted, user, session, user, session)
    assert found is not None
    return found[0], int(found[1])


@connection()
def delete_session(user: str, session: str) -> int:
    """Delete all transcripts of a session, and none of its memories; how many there were."""
    removed = 0
    with transaction():
        of_session = f"SELECT t.memory_id FROM transcript t {_SESSION} ORDER BY t.memory_id LIMIT {_REMOVED_AT_ONCE}"
        while some := run(of_session, user, session).fetchall():
            removed += remove([memory for (memory,) in some])
    return removed


@connection()
def total() -> int:
    """Bytes of all transcripts."""
    found = first("SELECT size FROM transcript_total")
    assert found is not None
    return found[0]


@connection()
def counts() -> tuple[int, int]:
    """How many compactions all transcripts have, and behind how many of them nothing was said that was kept."""
    silent = "NOT EXISTS (SELECT 1 FROM transcript_continuation c WHERE c.memory_id = t.memory_id)"
    found = first(f"SELECT count(*), coalesce(sum(CASE WHEN {silent} THEN 1 ELSE 0 END), 0) FROM transcript t")
    assert found is not None
    return found[0], int(found[1])


def lines() -> Iterator[Line]:
    """All that was said behind memories, oldest first. Takes a connection now and then, and holds none in between.

    A line's history is all that its memory stands for and that is still there: that of the memories it went on from,
    then its own.
    """
    after = 0
    while some := _lines_after(after):
        for number, line in some:
            after = number
            yield line


@connection()
def _lines_after(after: int) -> list[tuple[int, Line]]:
    return [
        (number, Line(_ids(prefix), _ids(_lineage(memory)), _ids(summary), _ids(continuation), revision))
        for number, memory, revision, prefix, summary, continuation in run(_LINES, after, _EXPORTED_AT_ONCE).fetchall()
    ]


def _lineage(memory: int) -> bytes:
    """The histories that a memory stands for, each once, in the order in which they were read."""
    seen: set[int] = set()
    ordered: list[int] = []
    # A memory is met twice: its parents have their places before it. Lineages may be longer than calls may be deep.
    waiting = [(memory, False)]
    while waiting:
        number, placed = waiting.pop()
        if placed:
            ordered.append(number)
        elif number not in seen:
            seen.add(number)
            found = first("SELECT parents FROM transcript WHERE memory_id = ?", number)
            if found is not None:
                waiting.append((number, True))
                waiting += [(parent, False) for parent in reversed(json.loads(found[0]))]
    return b"".join(_history(number) for number in ordered)


def _history(memory: int) -> bytes:
    found = first("SELECT history_ids FROM transcript WHERE memory_id = ?", memory)
    return b"" if found is None else bytes(found[0])


def _size(packed: bytes) -> int:
    return _ROW_BYTES + len(packed)


def _grow(size: int, limit: int) -> None:
    """Count so many bytes more, and remove the oldest transcripts until all are within the limit again."""
    run("UPDATE transcript_total SET size = size + ?", size)
    while total() > limit and (oldest := first("SELECT min(memory_id) FROM transcript")) and oldest[0] is not None:
        remove([oldest[0]])


def _ids(packed: bytes) -> list[int]:
    return unpack_ids(bytes(packed)).tolist()

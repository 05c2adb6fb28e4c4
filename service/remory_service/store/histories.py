"""The histories that memories stand for: chunks of token ids as passages, one collection for each compaction.

A memory has the history that its own compaction removed and those of the memories it was made from. A history goes
with the last memory that has it. Every function needs a transaction, except where it says otherwise.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from remory.compaction.history import Chunk
from remory.compaction.memory import pack_ids, unpack_ids
from remory_service.store import passages
from remory_service.store.passages import Collection, Text
from remory_service.store.schema import StoredChunk
from remory_service.store.statements import first, run

KIND = "history"
_INHERIT = """
    INSERT INTO memory_history (memory_id, collection_id, place)
    SELECT CAST(? AS BIGINT), collection_id, CAST(? AS INTEGER) + place FROM memory_history
    WHERE memory_id = ? AND collection_id NOT IN (SELECT collection_id FROM memory_history WHERE memory_id = ?)
"""
_CHUNKS = """
    SELECT h.place, p.name, c.ids, p.text FROM memory_history h
    JOIN passage p ON p.collection_id = h.collection_id JOIN history_chunk c ON c.passage_id = p.id
    WHERE h.memory_id = ? ORDER BY h.place, p.id LIMIT ? OFFSET ?
"""


@dataclass(frozen=True)
class KeptChunk:
    """A chunk as it was kept. `name`: the place of its history among the memory's, and its own number in that."""

    name: str
    ids: list[int]
    text: str


def keep(memory: int, chunks: Sequence[Chunk], parents: Iterable[int], now: int) -> int | None:
    """Give a new memory the histories of its parents, and one of these chunks; returns the collection of that one,
    None when there are no chunks.
    """
    place = 0
    for parent in parents:
        run(_INHERIT, memory, place, parent, memory)
        place = 1 + _last_place(memory)
    if not chunks:
        return None
    own = passages.make_collection(Collection(KIND, secrets.token_hex(16)))
    texts = [Text(f"{number:06}", chunk.text, b"{}", {}) for number, chunk in enumerate(chunks)]
    ids = zip(passages.add_many(own, texts, now), (pack_ids(chunk.ids) for chunk in chunks), strict=True)
    StoredChunk.insert_many(list(ids), [StoredChunk.passage_id, StoredChunk.ids]).execute()
    run("INSERT INTO memory_history (memory_id, collection_id, place) VALUES (?, ?, ?)", memory, own, place)
    return own


def of_memory(memory: int) -> list[int]:
    """The collections of a memory's histories, oldest first. Needs a connection only."""
    rows = run("SELECT collection_id FROM memory_history WHERE memory_id = ? ORDER BY place", memory)
    return [collection for (collection,) in rows.fetchall()]


def page(memory: int, limit: int, skip: int) -> list[KeptChunk]:
    """Up to `limit` chunks of a memory's histories in order, without the first `skip`. Needs only a connection."""
    rows = run(_CHUNKS, memory, limit, skip).fetchall()
    return [
        KeptChunk(f"{place}-{name}", unpack_ids(bytes(ids)).tolist(), bytes(text).decode())
        for place, name, ids, text in rows
    ]


def release(memory: int) -> None:
    """Take a memory's histories from it, before it is deleted; those that no other memory has are removed."""
    collections = of_memory(memory)
    run("DELETE FROM memory_history WHERE memory_id = ?", memory)
    for collection in collections:
        used = run("SELECT 1 FROM memory_history WHERE collection_id = ? LIMIT 1", collection).fetchone()
        if used is None:
            passages.remove_collection(collection)


def _last_place(memory: int) -> int:
    found = first("SELECT max(place) FROM memory_history WHERE memory_id = ?", memory)
    return -1 if found is None or found[0] is None else found[0]

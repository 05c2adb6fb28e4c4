"""The histories that memories stand for: chunks of token ids as passages, one collection for each compaction.

A memory has the history that its own compaction removed and those of the memories it was made from. A history goes
with the last memory that has it. Every function needs a transaction, except where it says otherwise.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence

from remory.compaction.history import Chunk
from remory.compaction.memory import pack_ids, unpack_ids
from remory_service.store import passages
from remory_service.store.passages import Collection, Text
from remory_service.store.statements import run

KIND = "history"
_LINK = "INSERT INTO memory_history (memory_id, collection_id, place) VALUES (?, ?, ?)"


def keep(memory: int, chunks: Sequence[Chunk], parents: Iterable[int], now: int) -> int | None:
    """Give a new memory the histories of its parents, and one of these chunks; returns the collection of that one,
    None when there are no chunks.
    """
    inherited: dict[int, None] = {}
    for parent in parents:
        inherited |= dict.fromkeys(of_memory(parent))
    for place, collection in enumerate(inherited):
        run(_LINK, memory, collection, place)
    if not chunks:
        return None
    own = passages.make_collection(Collection(KIND, secrets.token_hex(16)))
    for number, chunk in enumerate(chunks):
        metadata = json.dumps({"number": number, "tokens": len(chunk.ids)}).encode()
        passage = passages.put(own, Text(f"{number:06}", chunk.text, metadata, {}), now)
        run("INSERT INTO history_chunk (passage_id, ids) VALUES (?, ?)", passage, pack_ids(chunk.ids))
    run(_LINK, memory, own, len(inherited))
    return own


def of_memory(memory: int) -> list[int]:
    """The collections of a memory's histories, oldest first. Needs a connection only."""
    rows = run("SELECT collection_id FROM memory_history WHERE memory_id = ? ORDER BY place", memory)
    return [collection for (collection,) in rows.fetchall()]


def ids_of(passage: int) -> list[int]:
    """The token ids of a chunk. Needs a connection only."""
    row = run("SELECT ids FROM history_chunk WHERE passage_id = ?", passage).fetchone()
    return [] if row is None else unpack_ids(bytes(row[0])).tolist()


def release(memory: int) -> None:
    """Take a memory's histories from it, before it is deleted; those that no other memory has are removed."""
    collections = of_memory(memory)
    run("DELETE FROM memory_history WHERE memory_id = ?", memory)
    for collection in collections:
        used = run("SELECT 1 FROM memory_history WHERE collection_id = ? LIMIT 1", collection).fetchone()
        if used is None:
            passages.remove_collection(collection)

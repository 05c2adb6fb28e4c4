"""Entries: values and vectors by key, with revisions that never go back. Every function needs a connection.

A key's row stays when its entry is deleted or has expired, so that its revision is never used again. What has expired
counts as absent at once; emptying its row is only housekeeping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import peewee

from remory_service.errors import ServiceError
from remory_service.store import changes
from remory_service.store.schema import StoredEntry
from remory_service.store.statements import first, run

VALUE, VECTOR = "value", "vector"
PURGED_AT_ONCE = 500
_AT = "scope_id = ? AND kind = ? AND key = ?"
_READ = f"SELECT revision, expires_at, dimension, metadata, content FROM entry WHERE {_AT}"
_KNOWN = f"SELECT id, revision, expires_at, content IS NOT NULL FROM entry WHERE {_AT}"
_INSERT = """
    INSERT INTO entry (
        revision, sequence, updated_at, expires_at, dimension, metadata, content, scope_id, kind, key
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = """
    UPDATE entry
    SET revision = ?, sequence = ?, updated_at = ?, expires_at = ?, dimension = ?, metadata = ?, content = ?
    WHERE id = ?
"""
_FIELDS = (
    StoredEntry.key,
    StoredEntry.revision,
    StoredEntry.updated_at,
    StoredEntry.expires_at,
    StoredEntry.dimension,
)
_FOLLOWED = """
    SELECT id, key, sequence, revision, dimension, metadata, content FROM entry
    WHERE scope_id = ? AND kind = ? AND sequence > ? ORDER BY sequence LIMIT ?
"""
_FOLLOWED_AT_ONCE = 4096


class RevisionConflict(ServiceError):
    """The entry has another revision than was expected."""

    status, code = 409, "revision_conflict"

    def __init__(self, expected: int, live: int):
        found = f"has revision {live}" if live else "does not exist"
        super().__init__(f"expected revision {expected}, but the key {found}")
        self.fields = {"revision": live}


@dataclass(frozen=True)
class Entry:
    """A live entry. `expires_at` and `updated_at`: epoch ms. `dimension`: of vectors."""

    key: str
    revision: int
    updated_at: int
    expires_at: int | None
    dimension: int | None


@dataclass(frozen=True)
class Held:
    """What a live entry holds. `content` of a value is JSON, of a vector its packed elements; `metadata` is JSON."""

    revision: int
    expires_at: int | None
    dimension: int | None
    metadata: bytes | None
    content: bytes


@dataclass(frozen=True)
class Content:
    """What an entry is to hold: a value's JSON, or a vector's packed elements with `dimension` and `metadata` (JSON).
    `lives_ms`: how long from its write, None for ever. `shown`: what the feed shows of it.
    """

    data: bytes
    lives_ms: int | None = None
    dimension: int | None = None
    metadata: bytes | None = None
    shown: bytes | None = None


@dataclass(frozen=True)
class Written:
    """What a write made. `expires_at`: epoch ms, None for ever."""

    revision: int
    expires_at: int | None


@dataclass(frozen=True)
class Place:
    """Where an entry lies."""

    scope: int
    kind: str
    key: str


@dataclass(frozen=True)
class Write:
    """Who writes when (epoch ms), and the live revision that is expected, if one is."""

    principal: str
    now: int
    expected: int | None = None


def read(place: Place, now: int) -> Held | None:
    """The live entry of a key, or None."""
    found = first(_READ, place.scope, place.kind, place.key)
    if found is None or found[-1] is None:
        return None
    held = Held(*found)
    return held if held.expires_at is None or held.expires_at > now else None


def put(place: Place, content: Content, write: Write) -> Written:
    """Set an entry. Needs a transaction. Raises RevisionConflict."""
    known = _known(place)
    _check(known, write)
    revision = known.revision + 1 if known else 1
    sequence = changes.append(
        changes.Change(place.scope, place.kind, place.key, "set", revision, write.principal, write.now, content.shown)
    )
    expires_at = None if content.lives_ms is None else write.now + content.lives_ms
    state = (revision, sequence, write.now, expires_at, content.dimension, content.metadata, content.data)
    if known:
        run(_UPDATE, *state, known.id)
    else:
        run(_INSERT, *state, place.scope, place.kind, place.key)
    return Written(revision, expires_at)


def delete(place: Place, write: Write) -> bool:
    """Delete a live entry, False when there is none. Needs a transaction. Raises RevisionConflict."""
    known = _known(place)
    _check(known, write)
    if known is None or not _lives(known, write.now):
        return False
    sequence = changes.append(
        changes.Change(place.scope, place.kind, place.key, "delete", known.revision, write.principal, write.now, None)
    )
    run(_UPDATE, known.revision, sequence, write.now, None, None, None, None, known.id)
    return True


def page(scope: int, kind: str, prefix: str, cursor: str | None, limit: int, now: int) -> tuple[list[Entry], bool]:
    """Live entries by key in UTF-8 order, after `cursor`; and whether more follow."""
    entry = StoredEntry
    query = entry.select(*_FIELDS).where(
        entry.scope == scope,
        entry.kind == kind,
        entry.content.is_null(False),
        entry.expires_at.is_null() | (entry.expires_at > now),
    )
    if prefix:
        query = query.where(*starts_with(entry.key, prefix))
    if cursor is not None:
        query = query.where(entry.key > cursor)
    rows: Any = query.order_by(entry.key).limit(limit + 1).tuples()
    found = [Entry(*row) for row in rows]
    return found[:limit], len(found) > limit


@dataclass(frozen=True)
class ScopeVectors:
    """The vectors of a scope, to be followed by their sequence."""

    scope: int

    def since(self, sequence: int) -> Iterator[list[tuple[Any, ...]]]:
        """Vectors changed after `sequence`, deleted ones too, in the order of their changes: id, key, sequence,
        revision, dimension, metadata, content.

        In pages, each of which reads the newest state: what changes between two of them comes again in a later one, so
        after the last one all is as it was when that was read.
        """
        while True:
            found = run(_FOLLOWED, self.scope, VECTOR, sequence, _FOLLOWED_AT_ONCE).fetchall()
            if found:
                yield found
            if len(found) < _FOLLOWED_AT_ONCE:
                return
            sequence = found[-1][2]


def has_expired(now: int) -> bool:
    """Whether `purge_expired` has something to do."""
    sql = "SELECT 1 FROM entry WHERE expires_at <= ? AND expires_at IS NOT NULL AND content IS NOT NULL LIMIT 1"
    return first(sql, now) is not None


def purge_expired(now: int) -> int:
    """Empty some of the rows that have expired, and say how many. Needs a transaction."""
    dead = (
        StoredEntry.select(StoredEntry.id)
        .where(StoredEntry.expires_at <= now, StoredEntry.content.is_null(False))
        .limit(PURGED_AT_ONCE)
    )
    emptied = StoredEntry.update(expires_at=None, dimension=None, metadata=None, content=None)
    return emptied.where(StoredEntry.id.in_(dead)).execute()


def starts_with(field: peewee.Field, prefix: str) -> list[peewee.Expression]:
    """Conditions for texts that begin with a prefix, in a form that an index on the field serves."""
    bound = _after_prefix(prefix)
    return [field >= prefix] + ([field < bound] if bound is not None else [])


def _after_prefix(prefix: str) -> str | None:
    """The least text above all that begin with the prefix, None when there is none."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            # The surrogates lie between these two and are no characters.
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None


@dataclass(frozen=True)
class _Known:
    """A key's row without its content. `held`: it has content."""

    id: int
    revision: int
    expires_at: int | None
    held: bool


def _known(place: Place) -> _Known | None:
    found = first(_KNOWN, place.scope, place.kind, place.key)
    return None if found is None else _Known(*found)


def _lives(known: _Known, now: int) -> bool:
    return bool(known.held) and (known.expires_at is None or known.expires_at > now)


def _check(known: _Known | None, write: Write) -> None:
    live = known.revision if known is not None and _lives(known, write.now) else 0
    if write.expected is not None and write.expected != live:
        raise RevisionConflict(write.expected, live)

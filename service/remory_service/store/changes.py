"""The change feed: every set and delete under one ascending number without gaps. Every function needs a connection.

Numbers are given inside write transactions, of which there is one at a time: whoever sees a change sees every smaller
one that has not been pruned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import peewee

from remory_service.errors import ServiceError
from remory_service.store.database import snapshot
from remory_service.store.schema import StoredChange, StoredScope
from remory_service.store.statements import first, run

RETENTION_MS = 30 * 24 * 3600 * 1000
PRUNED_AT_ONCE = 1000
# A page ends early when its values have so many bytes together, looked at after every so many changes.
_PAGE_BYTES = 4 << 20
_READ_AT_ONCE = 50
_APPEND = """
    INSERT INTO change (sequence, scope_id, kind, key, action, revision, principal, created_at, value)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class CursorExpired(ServiceError):
    """Changes after the cursor have been pruned."""

    status, code = 409, "cursor_expired"

    def __init__(self, after: int, oldest: int):
        super().__init__(
            f"changes after {after} have been pruned, the oldest one is {oldest}: read the state anew and restart with "
            "after = 0"
        )
        self.fields = {"oldest_sequence": oldest}


@dataclass(frozen=True)
class Change:
    """What happened to an entry. `action`: set or delete. `value`: JSON, None when it is not shown. Time: epoch ms."""

    scope: int
    kind: str
    key: str
    action: str
    revision: int
    principal: str
    created_at: int
    value: bytes | None


@dataclass(frozen=True)
class SeenChange:
    """A change as the feed shows it."""

    sequence: int
    scope: str
    scope_id: str
    kind: str
    key: str
    action: str
    revision: int
    principal: str
    created_at: int
    value: bytes | None


@dataclass(frozen=True)
class Page:
    """Changes, the cursor behind them, and the oldest number that is still there (the next one, if none is)."""

    changes: list[SeenChange]
    next_cursor: int
    oldest: int


def append(change: Change) -> int:
    """Add a change under the next number, and return it. Needs a transaction."""
    sequence = last_sequence() + 1
    run("UPDATE feed SET last_sequence = ?", sequence)
    run(_APPEND, sequence, *vars(change).values())
    return sequence


def last_sequence() -> int:
    """The number given last, 0 before the first."""
    found = first("SELECT last_sequence FROM feed")
    assert found is not None
    return found[0]


def page(after: int, limit: int, conditions: Sequence[peewee.Expression]) -> Page:
    """Changes after a cursor that meet the conditions, on StoredChange and StoredScope.

    The cursor goes on across changes that do not, up to the last one of this state. Raises CursorExpired.
    """
    with snapshot():
        last = last_sequence()
        oldest = StoredChange.select(peewee.fn.MIN(StoredChange.sequence)).scalar() or last + 1
        if 0 < after < oldest - 1:
            raise CursorExpired(after, oldest)
        found, ended = _collect(after, limit, conditions)
    return Page(found, last if ended else found[-1].sequence, oldest)


def has_outlived(now: int) -> bool:
    """Whether `prune` has something to do."""
    oldest = first("SELECT created_at FROM change ORDER BY sequence LIMIT 1")
    return oldest is not None and oldest[0] < now - RETENTION_MS


def prune(now: int) -> int:
    """Delete some of the changes beyond their retention, oldest first and without gaps; says how many. Needs a
    transaction.
    """
    oldest = StoredChange.select(StoredChange.sequence, StoredChange.created_at).order_by(StoredChange.sequence)
    rows: Any = oldest.limit(PRUNED_AT_ONCE).tuples()
    end = 0
    for sequence, created_at in rows:
        if created_at >= now - RETENTION_MS:
            break
        end = sequence
    return StoredChange.delete().where(StoredChange.sequence <= end).execute() if end else 0


def _collect(after: int, limit: int, conditions: Sequence[peewee.Expression]) -> tuple[list[SeenChange], bool]:
    """Up to `limit` changes, or fewer when their values are long; and whether there are no more."""
    found: list[SeenChange] = []
    size = 0
    while len(found) < limit:
        wanted = min(limit - len(found), _READ_AT_ONCE)
        some = [SeenChange(*row) for row in _after(found[-1].sequence if found else after, wanted, conditions)]
        found += some
        size += sum(len(change.value or b"") for change in some)
        if len(some) < wanted:
            return found, True
        if size >= _PAGE_BYTES:
            break
    return found, False


def _after(after: int, limit: int, conditions: Sequence[peewee.Expression]) -> Any:
    change, scope = StoredChange, StoredScope
    fields = (
        change.sequence,
        scope.kind,
        scope.name,
        change.kind,
        change.key,
        change.action,
        change.revision,
        change.principal,
        change.created_at,
        change.value,
    )
    query = change.select(*fields).join(scope).where(change.sequence > after, *conditions)
    return query.order_by(change.sequence).limit(limit).tuples()

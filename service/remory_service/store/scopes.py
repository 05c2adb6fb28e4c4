"""Scopes: the rooms that entries lie in, and who owns each. Every function needs a connection."""

from __future__ import annotations

from dataclasses import dataclass

from remory_service.store.schema import StoredScope
from remory_service.store.statements import first


@dataclass(frozen=True)
class Scope:
    """A scope as a caller names it. `kind`: session, actor, workflow or global; `name` is empty for global."""

    kind: str
    name: str


@dataclass(frozen=True)
class KnownScope:
    """A scope that was written to. `owner` is None for global."""

    id: int
    owner: str | None


GLOBAL = Scope("global", "")


def find_scope(scope: Scope) -> KnownScope | None:
    """A scope's row, or None when nobody has written to it."""
    found = first("SELECT id, owner FROM scope WHERE kind = ? AND name = ?", scope.kind, scope.name)
    return None if found is None else KnownScope(*found)


def make_scope(scope: Scope, owner: str | None) -> KnownScope:
    """A new scope's row. Needs a transaction in which `find_scope` found none."""
    made = StoredScope.insert(kind=scope.kind, name=scope.name, owner=owner).execute()
    return KnownScope(made, owner)

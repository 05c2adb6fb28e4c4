"""The schema's history: modules `m0001_…`, `m0002_…`, each with the `STATEMENTS` that bring a store from one number to
the next. A migration that has been released is never edited.

Statements are `str.format` templates, because the databases name some types differently: `{identity}` is the type of an
id column, `{bytes}` that of bytes, and `{ordered_text}` that of text which compares by its UTF-8 bytes. A `%` is
written twice. What the databases do in different ways altogether stands in `SQLITE` and `POSTGRESQL`, after the rest.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from typing import Any

from remory_service.errors import ServiceError


class StoreTooNew(ServiceError):
    """The store was written by a later version of Remory."""


def migrations(kind: str) -> dict[int, tuple[str, ...]]:
    """Statements by number, for a store of a kind: sqlite or postgresql."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {int(name[1:5]): importlib.import_module(f"{__name__}.{name}") for name in names}
    return {number: module.STATEMENTS + getattr(module, kind.upper(), ()) for number, module in modules.items()}


def migrate(store: Any) -> list[int]:
    """Bring a SqliteStore or PostgresqlStore up to date in one transaction, safe for two processes at once; returns the
    numbers applied.

    A store that is up to date is only read, so that it opens while another process writes.
    """
    known = migrations(store.kind)
    if _pending(store, known) == []:
        return []
    with store.write():
        store.execute_sql(
            "CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, applied_at BIGINT NOT NULL)"
        )
        pending = _pending(store, known)
        for number in pending:
            for statement in known[number]:
                store.execute_sql(statement.format_map(store.types))
            values = (number, time.time_ns() // 1_000_000)
            store.execute_sql(f"INSERT INTO migration VALUES ({store.param}, {store.param})", values)
    return pending


def _pending(store: Any, known: dict[int, tuple[str, ...]]) -> list[int]:
    """Numbers that the store has not been through, ascending."""
    done: set[int] = set()
    if store.table_exists("migration"):
        done = {number for (number,) in store.execute_sql("SELECT number FROM migration").fetchall()}
    if unknown := done - known.keys():
        raise StoreTooNew(
            f"the store has schema {max(unknown)} and this Remory knows {max(known)}: install a newer Remory"
        )
    return sorted(known.keys() - done)

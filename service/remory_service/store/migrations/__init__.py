"""The schema's history: modules `m0001_…`, `m0002_…`, each with the `STATEMENTS` that bring a file from one number to
the next. A migration that has been released is never edited.
"""

from __future__ import annotations

import importlib
import pkgutil
import time

import peewee

from remory_service.errors import ServiceError


class StoreTooNew(ServiceError):
    """The file was written by a later version of Remory."""


def migrations() -> dict[int, tuple[str, ...]]:
    """Statements by number."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {int(name[1:5]): importlib.import_module(f"{__name__}.{name}").STATEMENTS for name in names}


def migrate(database: peewee.Database) -> list[int]:
    """Bring a file up to date in one transaction, safe for two processes at once; returns the numbers applied.

    A file that is up to date is only read, so that it opens while another process writes.
    """
    known = migrations()
    if _pending(database, known) == []:
        return []
    with database.atomic("IMMEDIATE"):
        database.execute_sql(
            "CREATE TABLE IF NOT EXISTS migration (number INTEGER PRIMARY KEY, applied_at BIGINT NOT NULL)"
        )
        pending = _pending(database, known)
        for number in pending:
            for statement in known[number]:
                database.execute_sql(statement)
            database.execute_sql("INSERT INTO migration VALUES (?, ?)", (number, time.time_ns() // 1_000_000))
    return pending


def _pending(database: peewee.Database, known: dict[int, tuple[str, ...]]) -> list[int]:
    """Numbers that the file has not been through, ascending."""
    done: set[int] = set()
    if database.table_exists("migration"):
        done = {number for (number,) in database.execute_sql("SELECT number FROM migration").fetchall()}
    if unknown := done - known.keys():
        raise StoreTooNew(
            f"the store has schema {max(unknown)} and this Remory knows {max(known)}: install a newer Remory"
        )
    return sorted(known.keys() - done)

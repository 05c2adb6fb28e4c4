"""Opens the store: where the file lies, who may read it, and how SQLite is set."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import peewee

from remory_service.errors import ServiceError
from remory_service.store.migrations import migrate
from remory_service.store.schema import database

log = logging.getLogger(__name__)

FILE_NAME = "remory.sqlite3"
BUSY_SECONDS = 30
_PRAGMAS = (
    ("journal_mode", "wal"),
    # FULL, not NORMAL: a client drops its history once it has a handle, so an answered handle must survive a power cut.
    ("synchronous", "full"),
    ("foreign_keys", 1),
)


class StoreUnusable(ServiceError):
    """The store cannot be opened: damaged, unreadable, or no place for it."""


def store_path(folder: Path) -> Path:
    """The store's file in a data folder."""
    return folder.expanduser() / FILE_NAME


def open_store(folder: Path) -> None:
    """Make or open the store in `folder` and bring its schema up to date.

    A new folder gets mode 700 and the file 600; SQLite gives its side files the file's mode. From here on
    `connection()` gives access. Raises StoreUnusable or StoreTooNew.
    """
    path = store_path(folder)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise StoreUnusable(f"the store {path} cannot be opened: {error.strerror}") from error
    database.initialize(peewee.SqliteDatabase(str(path), pragmas=_PRAGMAS, timeout=BUSY_SECONDS, autoconnect=False))
    try:
        with connection():
            if applied := migrate(database.obj):
                log.debug("store %s: applied migrations %s", path, applied)
    except peewee.OperationalError as error:
        raise StoreUnusable(f"the store {path} cannot be used: {error}") from error
    except peewee.DatabaseError as error:
        raise StoreUnusable(
            f"the store {path} is damaged ({error}): put a backup in its place, or move it away to start empty"
        ) from error


@contextmanager
def connection() -> Iterator[None]:
    """A connection of this thread for the block."""
    with database.connection_context():
        yield


def transaction() -> peewee._atomic:
    """One write transaction: it waits for the writer's place at its begin, so it never fails half-way for a lock."""
    return database.atomic("IMMEDIATE")


def check_store() -> list[str]:
    """SQLite's own complaints about the file; an empty list when it is healthy. Reads the whole file."""
    found = [line for (line,) in database.execute_sql("PRAGMA quick_check").fetchall()]
    return [] if found == ["ok"] else found


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000

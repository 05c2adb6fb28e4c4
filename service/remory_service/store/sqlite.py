"""A store in an SQLite file: how its connections are set, and who may write."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import peewee
from playhouse.pool import PooledSqliteDatabase

BUSY_SECONDS = 30
_BUSY_STEP_SECONDS = 0.01
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PRAGMAS = (
    # How long another process may keep a writer, or the change to WAL below, waiting.
    ("busy_timeout", BUSY_SECONDS * 1000),
    ("journal_mode", "wal"),
    # FULL, not NORMAL: a client drops its history once it has a handle, so an answered handle must survive a power cut.
    ("synchronous", "full"),
    ("foreign_keys", 1),
)
# SQLite's own waiting polls with growing sleeps and keeps no order, so writers of one process wait for each other here.
_writer = threading.Lock()


class SqliteStore(PooledSqliteDatabase):
    """Connections to one file, kept open between requests: to open one costs more than most requests do."""

    kind = "sqlite"
    types = {"identity": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "ordered_text": "TEXT"}
    _retired = False

    def __init__(self, path: Path):
        # As many connections as threads: what bounds them is the server's own number of threads.
        super().__init__(
            str(path),
            max_connections=0,
            pragmas=_PRAGMAS,
            autoconnect=False,
            check_same_thread=False,
        )

    def _connect(self) -> sqlite3.Connection:
        """Also while other processes open a new file: the change to WAL does not wait for them as statements do."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                return super()._connect()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in _BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_BUSY_STEP_SECONDS)

    def __str__(self) -> str:
        return str(self.database)

    def rollback(self) -> None:
        """Undo the transaction. SQLite does so itself when the disk is full, which is then the error to be told."""
        if self.connection().in_transaction:
            super().rollback()

    @contextmanager
    def write(self) -> Iterator[None]:
        """A transaction of the one writer. It waits for its place at its begin and never fails half-way for a lock."""
        if not _writer.acquire(timeout=BUSY_SECONDS):
            raise peewee.OperationalError("the file is locked by other writers")
        try:
            with self.transaction("IMMEDIATE"):
                yield
        finally:
            _writer.release()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """A transaction whose queries all see the state at the first of them."""
        reading: Any = self.transaction("DEFERRED")
        reading.reads_only = True
        with reading:
            yield

    def complaints(self) -> list[str]:
        """SQLite's own complaints about the file; an empty list when it is healthy. Reads the whole file."""
        found = [line for (line,) in self.execute_sql("PRAGMA quick_check").fetchall()]
        return [] if found == ["ok"] else found

    def retire(self) -> None:
        """Close the connections that nobody uses, and each of the others when it comes back."""
        self._retired = True
        self.close_idle()

    def _can_reuse(self, conn: object) -> bool:
        return not self._retired and super()._can_reuse(conn)

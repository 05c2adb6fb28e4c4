"""Which of the databases' errors pass by themselves."""

from __future__ import annotations

import sqlite3
from typing import Any

import peewee
from playhouse.pool import MaxConnectionsExceeded

# PostgreSQL's codes: lock not available in time, deadlock, serialization failure.
_BUSY = ("55P03", "40P01", "40001")
_FULL = "53100"
# The connection was lost or ended by the server, the server starts, stops or has no connection left.
_GONE = ("08", "57P", "53300", "25P03", "25P04")


def passing_failure(error: Exception) -> str | None:
    """What to tell a client about an error of a store that may serve the same request later; None for other errors.

    Holds none of the driver's text, which names hosts and files.
    """
    if isinstance(error, MaxConnectionsExceeded):
        return "the store is busy: all its connections are in use"
    if not isinstance(error, peewee.DatabaseError):
        return None
    driver: Any = getattr(error, "orig", None)
    if getattr(driver, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL or getattr(driver, "sqlstate", None) == _FULL:
        return "the store's disk is full"
    # SQLite's errors have no code of this kind.
    if not hasattr(driver, "sqlstate"):
        locked = isinstance(error, peewee.OperationalError) and "locked" in str(error)
        return "the store is busy with another writer" if locked else None
    if driver.sqlstate in _BUSY:
        return "the store is busy with another writer"
    # libpq gives no code to what it finds out itself: nobody answers, the connection broke.
    lost = driver.sqlstate is None and isinstance(error, peewee.OperationalError)
    if lost or (driver.sqlstate or "").startswith(_GONE):
        return "the store's database cannot be reached at the moment"
    return None

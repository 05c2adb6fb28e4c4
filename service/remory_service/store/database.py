"""Opens the store, in a file or on a server, and gives access to it: connections, transactions, snapshots."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import peewee

from remory_service.errors import ServiceError
from remory_service.store.migrations import migrate
from remory_service.store.schema import database
from remory_service.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from remory_service.store.postgresql import PostgresqlStore

log = logging.getLogger(__name__)

FILE_NAME = "remory.sqlite3"
_SCHEMES = ("postgresql", "postgres")
_HINTS = {
    "password": "give it by ~/.pgpass, by $PGPASSWORD or in the URL, special characters as %XX",
    "permission denied for schema": "the role needs the right to create tables there: GRANT CREATE ON SCHEMA … TO …",
    "does not exist": "make a database with createdb, a role with createuser",
}


class StoreUnusable(ServiceError):
    """The store cannot be opened: damaged, unreadable, unreachable, or no place for it."""


def store_path(folder: Path) -> Path:
    """The store's file in a data folder."""
    return folder.expanduser() / FILE_NAME


def open_store(data: Path, url: str | None = None) -> None:
    """Make or open the store and bring its schema up to date: the PostgreSQL database at `url`
    (`postgresql://user@host:port/name`), or without one the SQLite file in the folder `data`.

    A new folder gets mode 700 and the file 600; SQLite gives its side files the file's mode. From here on
    `connection()` gives access; a store that was open before is closed. Raises StoreUnusable or StoreTooNew, whose text
    never has the URL's password in it.
    """
    close_store()
    if url is None:
        _open_file(store_path(data))
    else:
        _open_server(url)


def close_store() -> None:
    """Close all connections that are not in use, and the others as they come back.

    A process does it before it forks, since no connection may have two owners, and before it ends.
    """
    if database.obj is not None:
        database.obj.retire()


@contextmanager
def connection() -> Iterator[None]:
    """A connection of this thread for the block: the one it has, else one that is taken from the pool and given back.

    Raises peewee.OperationalError for a server that cannot be reached, MaxConnectionsExceeded when none comes free.
    """
    store = database.obj
    if not store.is_closed():
        yield
        return
    store.connect()
    try:
        yield
    finally:
        store.close()


@contextmanager
def transaction() -> Iterator[None]:
    """A write transaction on this thread's connection: there is one at a time in a store, whoever writes.

    It waits for its place at its begin and sees all that was committed before. An exception undoes it. Within another
    transaction it is a part of that one, which an exception undoes alone. Within a snapshot it raises RuntimeError.
    """
    store = database.obj
    if not store.in_transaction():
        with store.write():
            yield
    elif getattr(store.top_transaction(), "reads_only", False):
        raise RuntimeError("a snapshot is for reading")
    else:
        with store.savepoint():
            yield


@contextmanager
def snapshot() -> Iterator[None]:
    """A read transaction on this thread's connection: all its queries see one state, and it keeps no writer waiting.

    Within a transaction or another snapshot it is a part of that one.
    """
    store = database.obj
    if store.in_transaction():
        yield
        return
    with store.snapshot():
        yield


def is_postgresql() -> bool:
    """Whether the open store is a PostgreSQL database."""
    return database.obj.kind == "postgresql"


def check_store() -> list[str]:
    """What is wrong with the open store; an empty list when it is healthy. Reads the whole of an SQLite file."""
    return database.obj.complaints()


def store_place() -> str:
    """Where the open store lies, without a password."""
    return str(database.obj)


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def _open_file(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
    except OSError as error:
        raise StoreUnusable(f"the store {path} cannot be opened: {error.strerror}") from error
    try:
        _migrate(SqliteStore(path))
    except peewee.OperationalError as error:
        raise StoreUnusable(f"the store {path} cannot be used: {error}") from error
    except peewee.DatabaseError as error:
        raise StoreUnusable(
            f"the store {path} is damaged ({error}): put a backup in its place and remove the files beside it that end "
            "in -wal and -shm, or move all of them away to start empty"
        ) from error


def _open_server(url: str) -> None:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in _SCHEMES:
        # The whole is not shown: what is no URL of ours may hold a password at any place.
        raise StoreUnusable(
            "the store's URL must begin with postgresql://; without a URL it is an SQLite file in --data"
        )
    store = _server(url)
    try:
        _migrate(store)
    except peewee.DatabaseError as error:
        raise StoreUnusable(f"the {store} cannot be used: {_reason(error)}") from error


def _server(url: str) -> PostgresqlStore:
    try:
        from remory_service.store.postgresql import PostgresqlStore
    except ImportError as error:
        raise StoreUnusable(
            f"PostgreSQL needs a driver that is not there ({error}): pip install 'remory[postgresql]'"
        ) from error
    try:
        return PostgresqlStore(url)
    except ValueError as error:
        raise StoreUnusable(f"the store's URL cannot be used: {error}") from None


def _migrate(store: SqliteStore | PostgresqlStore) -> None:
    database.initialize(store)
    try:
        with connection():
            if store.kind == "postgresql" and (complaints := store.complaints()):
                raise StoreUnusable(f"the {store} cannot be used: {'; '.join(complaints)}")
            if applied := migrate(store):
                log.debug("%s: applied migrations %s", store, applied)
    except BaseException:
        store.retire()
        raise


def _reason(error: peewee.DatabaseError) -> str:
    """The driver's text in one line, with what helps."""
    text = " ".join(str(error).split())
    return next((f"{text}; {hint}" for words, hint in _HINTS.items() if words in text), text)

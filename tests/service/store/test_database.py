from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peewee
import pytest

from remory_service.store import sqlite
from remory_service.store.database import (
    FILE_NAME,
    StoreUnusable,
    check_store,
    close_store,
    connection,
    is_postgresql,
    open_store,
    snapshot,
    transaction,
)
from remory_service.store.failures import passing_failure
from remory_service.store.schema import StoredRows, database


def insert(name: str) -> None:
    StoredRows.insert(sha256=name, size=1, data=b"a").execute()


def names() -> list[str]:
    return sorted(rows.sha256 for rows in StoredRows.select(StoredRows.sha256))


def elsewhere(work: Callable[[], object]) -> None:
    """Do something in another thread, on a connection of its own, to the end."""

    def connected() -> None:
        with connection():
            work()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(connected).result(60)


def test_only_the_owner_may_read_a_new_store(tmp_path: Path) -> None:
    open_store(tmp_path / "deep" / "data")
    with connection(), transaction():
        insert("a")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep" / "data").iterdir()}
    assert stat.S_IMODE((tmp_path / "deep" / "data").stat().st_mode) == 0o700
    assert modes.keys() == {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
    assert set(modes.values()) == {0o600}


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    open_store(tmp_path)
    (tmp_path / FILE_NAME).chmod(0o644)
    open_store(tmp_path)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_sqlite_is_set_as_promised(tmp_path: Path) -> None:
    open_store(tmp_path)
    with connection():
        settings = {name: database.obj.pragma(name) for name in ("journal_mode", "synchronous", "foreign_keys")}
        assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
        assert database.obj.pragma("busy_timeout") == 30_000


def test_a_closed_store_is_all_in_its_file(tmp_path: Path) -> None:
    open_store(tmp_path)
    with connection(), transaction():
        insert("a")
    close_store()
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 8192])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(StoreUnusable, match=f"{FILE_NAME}.*damaged"):
        open_store(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StoreUnusable, match="cannot be opened"):
        open_store(tmp_path / "data")


def test_a_store_that_is_there_is_healthy(store: Path, database_url: str | None) -> None:
    assert check_store() == []
    assert is_postgresql() == (database_url is not None)


def test_a_transaction_that_fails_is_undone(store: Path) -> None:
    with pytest.raises(ZeroDivisionError), transaction():
        insert("a")
        raise ZeroDivisionError
    assert names() == []


def test_a_transaction_within_another_is_a_part_of_it(store: Path) -> None:
    with transaction():
        insert("a")
        with transaction():
            insert("b")
        with pytest.raises(ZeroDivisionError), transaction():
            insert("c")
            raise ZeroDivisionError
    assert names() == ["a", "b"]
    with pytest.raises(ZeroDivisionError), transaction():
        with transaction():
            insert("d")
        raise ZeroDivisionError
    assert names() == ["a", "b"]


def test_a_statement_that_fails_spoils_neither_connection_nor_place(store: Path) -> None:
    with pytest.raises(Exception, match="nothing_there"), transaction():
        database.execute_sql("SELECT * FROM nothing_there")
    with transaction():
        insert("a")
    elsewhere(lambda: insert("b"))
    assert names() == ["a", "b"]


def test_there_is_one_writer_at_a_time_and_it_sees_what_the_last_one_wrote(store: Path) -> None:
    StoredRows.insert(sha256="count", size=0, data=b"").execute()

    def count() -> None:
        for _ in range(25):
            with connection(), transaction():
                size = StoredRows.get_by_id("count").size
                StoredRows.update(size=size + 1).execute()

    with ThreadPoolExecutor(8) as threads:
        for counted in [threads.submit(count) for _ in range(8)]:
            counted.result(120)
    assert StoredRows.get_by_id("count").size == 200


def test_a_writer_that_waits_too_long_for_those_of_its_process_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    open_store(tmp_path)
    with connection(), transaction(), pytest.raises(peewee.OperationalError) as caught:
        elsewhere(lambda: write("a"))
    assert passing_failure(caught.value) == "the store is busy with another writer"
    with connection():
        write("b")
        assert names() == ["b"]


def test_a_snapshot_sees_one_state_and_keeps_no_writer_waiting(store: Path) -> None:
    insert("a")
    with snapshot():
        assert names() == ["a"]
        elsewhere(lambda: write("b"))
        assert names() == ["a"]
        with snapshot():
            assert names() == ["a"]
    assert names() == ["a", "b"]


def write(name: str) -> None:
    with transaction():
        insert(name)


def test_a_snapshot_is_for_reading(store: Path) -> None:
    with snapshot():
        with pytest.raises(RuntimeError, match="reading"), transaction():
            pass
        assert names() == []
    write("a")
    assert names() == ["a"]


def test_a_snapshot_within_a_transaction_sees_what_it_wrote(store: Path) -> None:
    with transaction():
        insert("a")
        with snapshot():
            assert names() == ["a"]
        insert("b")
    assert names() == ["a", "b"]


def test_connections_are_kept_and_given_out_again(tmp_path: Path, database_url: str | None) -> None:
    open_store(tmp_path, database_url)
    with connection():
        first = database.connection()
        with connection():
            assert database.connection() is first
        assert not database.is_closed()
    assert database.is_closed()
    with connection():
        assert database.connection() is first


def test_a_connection_that_was_in_use_when_its_store_was_closed_is_not_kept(
    tmp_path: Path, database_url: str | None
) -> None:
    open_store(tmp_path, database_url)
    taken, closed = threading.Event(), threading.Event()

    def hold() -> object:
        with connection():
            held = database.connection()
            taken.set()
            closed.wait(60)
            assert names() == []
        return held

    with ThreadPoolExecutor(1) as thread:
        holding = thread.submit(hold)
        taken.wait(60)
        store = database.obj
        close_store()
        closed.set()
        holding.result(60)
    assert (store._connections, store._in_use) == ([], {})


def test_a_new_file_is_opened_by_many_at_once(tmp_path: Path) -> None:
    """Each of them wants to change it to WAL, which SQLite does not wait for."""
    start = threading.Barrier(8)

    def connect(path: Path) -> None:
        store = sqlite.SqliteStore(path)
        start.wait(30)
        store.connect()
        store.close()
        store.retire()

    with ThreadPoolExecutor(8) as pool:
        for number in range(25):
            path = tmp_path / f"{number}.sqlite3"
            path.touch()
            list(pool.map(connect, [path] * 8))


def test_a_full_disk_is_told_and_undoes_the_write(tmp_path: Path) -> None:
    open_store(tmp_path)
    with connection():
        fill_the_disk()


def fill_the_disk() -> None:
    with transaction():
        StoredRows.create(sha256="kept", size=1, data=b"x")
    pages = database.execute_sql("PRAGMA page_count").fetchone()[0]
    database.execute_sql(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(peewee.OperationalError) as caught, transaction():
        StoredRows.create(sha256="long", size=1, data=b"x" * 100_000)
    assert passing_failure(caught.value) == "the store's disk is full"
    database.execute_sql("PRAGMA max_page_count = 1073741823")
    with transaction():
        StoredRows.create(sha256="later", size=1, data=b"x" * 100_000)
    assert {row.sha256 for row in StoredRows.select()} == {"kept", "later"}

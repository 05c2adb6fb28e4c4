from __future__ import annotations

import stat
from pathlib import Path

import pytest

from remory_service.store.database import (
    FILE_NAME,
    StoreUnusable,
    check_store,
    connection,
    open_store,
    transaction,
)
from remory_service.store.schema import StoredRows, database


def test_only_the_owner_may_read_a_new_store(tmp_path: Path) -> None:
    open_store(tmp_path / "deep" / "data")
    with connection(), transaction():
        StoredRows.insert(sha256="0" * 64, size=1, data=b"a").execute()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep" / "data").iterdir()}
    assert stat.S_IMODE((tmp_path / "deep" / "data").stat().st_mode) == 0o700
    assert modes.keys() == {FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"}
    assert set(modes.values()) == {0o600}


def test_a_file_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    open_store(tmp_path)
    (tmp_path / FILE_NAME).chmod(0o644)
    open_store(tmp_path)
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_sqlite_is_set_as_promised(store: Path) -> None:
    settings = {name: database.obj.pragma(name) for name in ("journal_mode", "synchronous", "foreign_keys")}
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert database.obj.pragma("busy_timeout") == 30_000
    assert check_store() == []


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


def test_a_transaction_that_fails_is_undone(store: Path) -> None:
    with pytest.raises(ZeroDivisionError), transaction():
        StoredRows.insert(sha256="0" * 64, size=1, data=b"a").execute()
        raise ZeroDivisionError
    assert StoredRows.select().count() == 0

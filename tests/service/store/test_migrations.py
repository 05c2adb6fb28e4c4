from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from remory_service.store import memories
from remory_service.store.database import connection, open_store
from remory_service.store.memories import Owner
from remory_service.store.migrations import StoreTooNew, migrate, migrations
from remory_service.store.schema import Migration, StoredKey, StoredMemory, StoredRows, database
from tests.service.conftest import make_memory

OWNER = Owner("user", "session")


def test_migrations_are_numbered_from_1_without_gaps() -> None:
    assert sorted(migrations()) == list(range(1, len(migrations()) + 1))


def test_an_empty_file_goes_through_all_and_only_once(store: Path) -> None:
    assert [migration.number for migration in Migration.select()] == sorted(migrations())
    assert migrate(database.obj) == []


def test_an_existing_file_keeps_what_it_holds(tmp_path: Path) -> None:
    open_store(tmp_path)
    with connection():
        handle = memories.save(OWNER, make_memory()).handle
    open_store(tmp_path)
    with connection():
        assert memories.load(OWNER, handle) is not None


def test_a_file_of_a_later_version_is_refused_unchanged(tmp_path: Path) -> None:
    open_store(tmp_path)
    with connection():
        Migration.create(number=999, applied_at=0)
    with pytest.raises(StoreTooNew, match="999"):
        open_store(tmp_path)
    with connection():
        assert Migration.select().count() == len(migrations()) + 1


def test_processes_that_start_at_once_migrate_once(tmp_path: Path) -> None:
    script = "import sys; from pathlib import Path; from remory_service.store.database import open_store\n"
    script += "open_store(Path(sys.argv[1]))"
    starting = [subprocess.Popen([sys.executable, "-c", script, tmp_path / "data"]) for _ in range(4)]
    assert [process.wait(60) for process in starting] == [0, 0, 0, 0]
    open_store(tmp_path / "data")
    with connection():
        assert Migration.select().count() == len(migrations())


@pytest.mark.parametrize("model", [StoredRows, StoredMemory, StoredKey, Migration])
def test_models_have_the_columns_that_the_migrations_made(store: Path, model: type) -> None:
    columns = {column.name for column in database.obj.get_columns(model._meta.table_name)}
    assert columns == {field.column_name for field in model._meta.fields.values()}

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from remory_service.store import memories
from remory_service.store.database import connection, open_store
from remory_service.store.memories import Owner
from remory_service.store.migrations import StoreTooNew, migrate, migrations
from remory_service.store.postgresql import PostgresqlStore
from remory_service.store.schema import (
    Migration,
    StoredCollection,
    StoredEmbedding,
    StoredKey,
    StoredMemory,
    StoredModel,
    StoredPassage,
    StoredRows,
    database,
)
from remory_service.store.sqlite import SqliteStore
from tests.service.conftest import make_memory

OWNER = Owner("user", "session")


def test_migrations_are_numbered_from_1_without_gaps() -> None:
    numbers = sorted(migrations("sqlite"))
    assert numbers == sorted(migrations("postgresql")) == list(range(1, len(numbers) + 1))


def test_an_empty_store_goes_through_all_and_only_once(store: Path) -> None:
    assert [migration.number for migration in Migration.select()] == sorted(migrations("sqlite"))
    assert migrate(database.obj) == []


def test_an_existing_store_keeps_what_it_holds(tmp_path: Path, database_url: str | None) -> None:
    open_store(tmp_path, database_url)
    handle = memories.save(OWNER, make_memory()).handle
    open_store(tmp_path, database_url)
    assert memories.load(OWNER, handle) is not None


def test_a_store_of_a_later_version_is_refused_unchanged(tmp_path: Path, database_url: str | None) -> None:
    open_store(tmp_path, database_url)
    with connection():
        Migration.create(number=999, applied_at=0)
    with pytest.raises(StoreTooNew, match="999"):
        open_store(tmp_path, database_url)
    with connection():
        assert Migration.select().count() == len(migrations("sqlite")) + 1


def test_processes_that_start_at_once_migrate_once(tmp_path: Path, database_url: str | None) -> None:
    script = "import sys; from pathlib import Path; from remory_service.store.database import open_store\n"
    script += "open_store(Path(sys.argv[1]), sys.argv[2] or None)"
    command = [sys.executable, "-c", script, tmp_path / "data", database_url or ""]
    starting = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(60) for process in starting] == [0, 0, 0, 0]
    open_store(tmp_path / "data", database_url)
    with connection():
        assert Migration.select().count() == len(migrations("sqlite"))


def test_a_new_database_is_migrated_once_by_all_that_find_it_new_together(postgresql_url: str) -> None:
    stores = [PostgresqlStore(postgresql_url) for _ in range(6)]
    together = threading.Barrier(len(stores))

    def start(store: PostgresqlStore) -> list[int]:
        with store.connection_context():
            together.wait(60)
            return migrate(store)

    with ThreadPoolExecutor(len(stores)) as threads:
        applied = sorted(threads.map(start, stores))
    for store in stores:
        store.retire()
    assert applied == [[]] * 5 + [sorted(migrations("sqlite"))]


@pytest.mark.parametrize(
    "model",
    [StoredRows, StoredMemory, StoredKey, StoredCollection, StoredPassage, StoredModel, StoredEmbedding, Migration],
)
def test_models_have_the_columns_that_the_migrations_made(store: Path, model: type) -> None:
    columns = {column.name for column in database.obj.get_columns(model._meta.table_name)}
    assert columns == {field.column_name for field in model._meta.fields.values()}


# The statements that made SQLite stores before there was another database: they may not change under a store's feet.
_FIRST_SCHEMA_SHA256 = "caf2841499b51051302f532a30ab98d10657284c5e6d20146cde76f2d4a8160d"


def test_the_first_schema_on_sqlite_is_as_it_was_released() -> None:
    statements = "".join(statement.format_map(SqliteStore.types) for statement in migrations("sqlite")[1])
    assert hashlib.sha256(statements.encode()).hexdigest() == _FIRST_SCHEMA_SHA256

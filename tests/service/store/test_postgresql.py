from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peewee
import pytest
from playhouse.pool import MaxConnectionsExceeded

from remory_service.identity import list_keys, make_key, revoke_key
from remory_service.store import memories
from remory_service.store import postgresql as module
from remory_service.store.database import StoreUnusable, connection, open_store, store_path, transaction
from remory_service.store.failures import passing_failure
from remory_service.store.schema import StoredRows, database
from tests.databases import PASSWORD, PASSWORD_IN_URL, ROLE_WITH_PASSWORD, PostgresqlServer, connections_of, database_of
from tests.service.conftest import make_memory

LIMIT = module.MAX_CONNECTIONS
OWNER = memories.Owner("user", "session")


def open_at(url: str) -> None:
    open_store(Path("/nowhere"), url)


def unusable(url: str) -> str:
    """What is said of a store that cannot be opened, in one line."""
    with pytest.raises(StoreUnusable) as caught:
        open_at(url)
    said = str(caught.value)
    assert "\n" not in said
    return said


def failure(error: BaseException) -> str | None:
    assert isinstance(error, Exception)
    return passing_failure(error)


def setting(name: str) -> str:
    return database.execute_sql(f"SHOW {name}").fetchone()[0]


@pytest.fixture
def stoppable(postgresql: PostgresqlServer) -> Iterator[PostgresqlServer]:
    """The server, for a test to stop; it runs again afterwards. To be asked for after a database."""
    yield postgresql
    postgresql.start()


def test_a_database_leaves_the_data_folder_alone(tmp_path: Path, postgresql_url: str) -> None:
    open_store(tmp_path / "data", postgresql_url)
    memories.save(OWNER, make_memory())
    assert not (tmp_path / "data").exists()


def test_connections_are_set_as_promised(postgresql_url: str) -> None:
    open_at(postgresql_url)
    with connection():
        assert setting("application_name") == "remory"
        assert setting("client_encoding") == "UTF8"
        assert setting("synchronous_commit") == "on"
        assert setting("lock_timeout") == "30s"
        assert setting("idle_in_transaction_session_timeout") == "30s"


def test_options_in_the_url_are_kept(postgresql: PostgresqlServer, postgresql_url: str) -> None:
    postgresql.run("CREATE SCHEMA own", database_of(postgresql_url))
    open_at(f"{postgresql_url}&options=-c%20search_path%3Down&application_name=mine")
    with connection():
        assert setting("application_name") == "mine"
        assert setting("synchronous_commit") == "on"
    assert postgresql.run(
        "SELECT schemaname FROM pg_tables WHERE tablename = 'stored_rows'", database_of(postgresql_url)
    )
    assert postgresql.run("SELECT count(*) FROM own.stored_rows", database_of(postgresql_url)) == [(0,)]


def test_keys_are_made_and_revoked(tmp_path: Path, postgresql_url: str) -> None:
    make_key(tmp_path, "user", ["invoke"], postgresql_url)
    (info,) = list_keys(tmp_path, postgresql_url)
    assert (info.user, info.roles, info.revoked_at) == ("user", ("invoke",), None)
    assert revoke_key(tmp_path, info.id, postgresql_url)
    assert not revoke_key(tmp_path, info.id, postgresql_url)
    assert not store_path(tmp_path).exists()


def test_no_connection_that_died_is_given_out(postgresql_url: str, stoppable: PostgresqlServer) -> None:
    open_at(postgresql_url)
    saved = memories.save(OWNER, make_memory())
    stoppable.stop()
    with pytest.raises(peewee.OperationalError) as caught:
        memories.find(OWNER, saved.handle)
    assert failure(caught.value) == "the store's database cannot be reached at the moment"
    stoppable.start()
    assert memories.find(OWNER, saved.handle) is not None


def test_a_server_that_restarts_between_two_requests_is_not_noticed(
    postgresql_url: str, stoppable: PostgresqlServer
) -> None:
    open_at(postgresql_url)
    saved = memories.save(OWNER, make_memory())
    stoppable.stop()
    stoppable.start()
    assert memories.find(OWNER, saved.handle) is not None


def test_a_connection_that_is_cut_in_a_transaction_is_thrown_away(
    postgresql: PostgresqlServer, postgresql_url: str
) -> None:
    open_at(postgresql_url)
    with pytest.raises(peewee.DatabaseError) as caught, connection(), transaction():
        StoredRows.insert(sha256="a", size=1, data=b"a").execute()
        (pid,) = database.execute_sql("SELECT pg_backend_pid()").fetchone()
        postgresql.run(f"SELECT pg_terminate_backend({pid}, 5000)")
        StoredRows.insert(sha256="b", size=1, data=b"b").execute()
    assert failure(caught.value) == "the store's database cannot be reached at the moment"
    with connection(), transaction():
        assert StoredRows.select().count() == 0
        StoredRows.insert(sha256="c", size=1, data=b"c").execute()
    assert memories.totals() == (0, 1)


def test_a_writer_that_waits_too_long_is_told_that_the_store_is_busy(
    postgresql: PostgresqlServer, postgresql_url: str
) -> None:
    open_at(f"{postgresql_url}&options=-c%20lock_timeout%3D100ms")
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with connection(), transaction():
            held.set()
            release.wait(60)

    with ThreadPoolExecutor(1) as thread, connection():
        holding = thread.submit(hold)
        held.wait(60)
        with pytest.raises(peewee.OperationalError) as caught, transaction():
            pass
        assert failure(caught.value) == "the store is busy with another writer"
        assert StoredRows.select().count() == 0
        release.set()
        holding.result(60)
        with transaction():
            StoredRows.insert(sha256="a", size=1, data=b"a").execute()


def test_who_needs_one_connection_too_many_waits(postgresql: PostgresqlServer, postgresql_url: str) -> None:
    open_at(postgresql_url)
    all_held, release = threading.Barrier(LIMIT + 1), threading.Event()

    def hold() -> None:
        with connection():
            all_held.wait(60)
            release.wait(60)

    with ThreadPoolExecutor(LIMIT + 8) as threads:
        holding = [threads.submit(hold) for _ in range(LIMIT)]
        all_held.wait(60)
        waiting = [threads.submit(memories.totals) for _ in range(8)]
        assert connections_of(postgresql, postgresql_url) == LIMIT
        assert not any(waiter.done() for waiter in waiting)
        release.set()
        assert [waiter.result(60) for waiter in waiting] == [(0, 0)] * 8
        for holder in holding:
            holder.result(60)
    assert connections_of(postgresql, postgresql_url) == LIMIT


def test_who_waits_too_long_for_a_connection_is_told(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 1)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
    open_at(postgresql_url)
    with connection(), ThreadPoolExecutor(1) as thread, pytest.raises(MaxConnectionsExceeded) as caught:
        thread.submit(memories.totals).result(60)
    assert failure(caught.value) == "the store is busy: all its connections are in use"
    assert memories.totals() == (0, 0)


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    said = unusable(f"postgresql://user:{PASSWORD_IN_URL}@/name?host={tmp_path}&port=5433")
    assert f"PostgreSQL database name on {tmp_path} port 5433 as user cannot be used" in said
    assert PASSWORD not in said


def test_of_many_that_wait_for_a_silent_server_one_waits_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(8) as threads:
        store = module.PostgresqlStore(f"postgresql://127.0.0.1:{silent.getsockname()[1]}/name?connect_timeout=2")
        monkeypatch.setattr(module, "_SILENT_SECONDS", 1.9)
        errors = [threads.submit(store.connect).exception for _ in range(8)]
        assert all(isinstance(error(60), peewee.OperationalError) for error in errors)
        assert store.is_closed()
        silent.settimeout(0)
        silent.accept()
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.mark.parametrize("password", ["", ":wrong-word"])
def test_a_wrong_password_is_said(postgresql: PostgresqlServer, password: str) -> None:
    said = unusable(postgresql.url(user=ROLE_WITH_PASSWORD + password))
    assert "password" in said
    assert "~/.pgpass" in said
    assert "wrong-word" not in said


def test_a_database_that_is_not_there_is_said(postgresql: PostgresqlServer) -> None:
    said = unusable(postgresql.url("nothing"))
    assert 'database "nothing" does not exist' in said
    assert "createdb" in said


def test_another_encoding_is_refused(postgresql: PostgresqlServer) -> None:
    options = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    with postgresql.fresh(options) as url:
        assert "encoding is LATIN1, it must be UTF8" in unusable(url)
        assert postgresql.run("SELECT * FROM pg_tables WHERE schemaname = 'public'", database_of(url)) == []


def test_a_server_that_is_too_old_is_refused(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OLDEST_VERSION", 99)
    assert "99 is the oldest" in unusable(postgresql_url)


def test_a_driver_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "remory_service.store.postgresql")
    assert "pip install 'remory[postgresql]'" in unusable("postgresql://localhost/name")


@pytest.mark.parametrize("url", ["mysql://user:secret@host/name", "sqlite:///secret", "user:secret", "", "://secret"])
def test_another_kind_of_url_is_refused_without_repeating_it(url: str) -> None:
    said = unusable(url)
    assert "postgresql://" in said
    assert "secret" not in said


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:pass@secret@host/name",
        "postgresql://user:pass/secret@host/name",
        "postgresql://user:secret/name",
        "postgresql://user@host/name?secret=1",
        "postgresql://user:%secret@host/name",
        "postgresql://user:pass?secret@no.such.host.invalid/name",
    ],
)
def test_a_url_that_libpq_would_misread_gives_nothing_away(url: str) -> None:
    assert "secret" not in unusable(url)


def test_a_role_without_rights_is_told_which_it_needs(postgresql: PostgresqlServer, postgresql_url: str) -> None:
    url = postgresql.url(database_of(postgresql_url), f"{ROLE_WITH_PASSWORD}:{PASSWORD_IN_URL}")
    assert "GRANT CREATE ON SCHEMA" in unusable(url)


def test_a_role_that_may_make_tables_and_no_extension_is_enough(
    postgresql: PostgresqlServer, postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = database_of(postgresql_url)
    postgresql.run(f"GRANT CREATE ON SCHEMA public TO {ROLE_WITH_PASSWORD}", name)
    with caplog.at_level(logging.DEBUG):
        open_at(postgresql.url(name, f"{ROLE_WITH_PASSWORD}:{PASSWORD_IN_URL}"))
        saved = memories.save(OWNER, make_memory())
        assert memories.load(OWNER, saved.handle) is not None
        assert memories.delete(OWNER, saved.handle)
        with connection(), pytest.raises(peewee.ProgrammingError, match="permission denied"):
            database.execute_sql("CREATE EXTENSION vector")
    assert caplog.records
    assert PASSWORD not in caplog.text
    assert PASSWORD_IN_URL not in caplog.text


def test_a_password_of_the_environment_is_taken(
    postgresql: PostgresqlServer, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = database_of(postgresql_url)
    postgresql.run(f"GRANT CREATE ON SCHEMA public TO {ROLE_WITH_PASSWORD}", name)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    open_at(postgresql.url(name, ROLE_WITH_PASSWORD))
    assert memories.totals() == (0, 0)

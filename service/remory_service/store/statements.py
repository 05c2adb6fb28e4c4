"""SQL as text, for what nearly every request runs.

Peewee builds a query's SQL at each use, which for one row takes several times as long as running it: with its queries
reading a value took 0.52 ms of processor time, with these 0.16 ms. What is not run that often stays a Peewee query.
"""

from __future__ import annotations

import functools
from typing import Any

from remory_service.store.schema import database


def run(sql: str, *values: Any) -> Any:
    """A cursor over what a statement finds; its values stand for the `?` of the text. Needs a connection."""
    return database.execute_sql(_written(sql, database.param), values)


def first(sql: str, *values: Any) -> tuple[Any, ...] | None:
    """The first row that a statement finds, or None. Needs a connection."""
    return run(sql, *values).fetchone()


# Texts with a list of marks differ by its length.
@functools.lru_cache(maxsize=1024)
def _written(sql: str, placeholder: str) -> str:
    return sql.replace("?", placeholder)

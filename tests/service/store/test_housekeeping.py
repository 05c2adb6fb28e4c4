from __future__ import annotations

from pathlib import Path

import pytest

from remory_service.store import changes, entries
from remory_service.store.changes import RETENTION_MS
from remory_service.store.database import snapshot, transaction
from remory_service.store.entries import VALUE, Content, Place, Write
from remory_service.store.housekeeping import INTERVAL_MS, Housekeeper
from remory_service.store.schema import StoredChange, StoredEntry
from remory_service.store.scopes import Scope, make_scope

NOW = 1_800_000_000_000


def put(key: str, expires_at: int | None, now: int = NOW) -> None:
    with transaction():
        scope = StoredEntry.select().first()
        room = scope.scope_id if scope else make_scope(Scope("session", "s"), "u").id
        lives_ms = None if expires_at is None else expires_at - now
        entries.put(Place(room, VALUE, key), Content(b"1", lives_ms), Write("u", now))


def held() -> set[str]:
    return {entry.key for entry in StoredEntry.select().where(StoredEntry.content.is_null(False))}


def test_what_has_expired_is_emptied_and_keeps_its_revision(store: Path) -> None:
    put("dead", NOW + 5)
    put("alive", NOW + 6)
    put("for ever", None)
    Housekeeper().run(NOW + 5)
    assert held() == {"alive", "for ever"}
    assert StoredEntry.get(StoredEntry.key == "dead").revision == 1
    put("dead", None)
    assert StoredEntry.get(StoredEntry.key == "dead").revision == 2


def test_the_feed_is_pruned_from_its_beginning(store: Path) -> None:
    for age in (3, 1, 2, 0):
        put("k", None, NOW - age)
    Housekeeper().run(NOW - 2 + RETENTION_MS)
    assert [change.sequence for change in StoredChange.select()] == [2, 3, 4]
    # The third is older than the second: it stays until all before it have gone, so that no gap comes to be.
    Housekeeper().run(NOW + RETENTION_MS)
    assert [change.sequence for change in StoredChange.select()] == [4]
    assert changes.last_sequence() == 4


def test_a_backlog_is_worked_off_run_by_run(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "PURGED_AT_ONCE", 4)
    monkeypatch.setattr(changes, "PRUNED_AT_ONCE", 5)
    for index in range(10):
        put(f"k{index}", NOW + 1)
    keeper, later = Housekeeper(), NOW + RETENTION_MS + 1
    left = []
    for _ in range(4):
        keeper.run(later)
        left.append((len(held()), StoredChange.select().count()))
    assert left == [(6, 5), (2, 0), (0, 0), (0, 0)]


def test_its_failure_is_not_the_requests(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    put("k", NOW + 1)
    with snapshot():
        StoredEntry.select().count()
        Housekeeper().run(NOW + 1)
    assert "housekeeping failed" in caplog.text
    assert held() == {"k"}


def test_it_runs_once_in_an_interval(store: Path) -> None:
    keeper = Housekeeper()
    keeper.run(NOW)
    put("a", NOW + 1)
    keeper.run(NOW + INTERVAL_MS - 1)
    assert held() == {"a"}
    keeper.run(NOW + INTERVAL_MS)
    assert held() == set()

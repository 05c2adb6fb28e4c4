"""Transcripts in the store: whose they are, what goes with what, and their bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from remory_service.store import memories, transcripts
from remory_service.store.database import transaction
from remory_service.store.memories import Owner
from remory_service.store.schema import StoredContinuation, StoredTranscript
from remory_service.store.transcripts import COMPACTION, CONTINUATION, Collected
from tests.service.conftest import PREFIX, SUMMARY, make_memory

OWNER = Owner("user", "session")
ROOM = 1 << 20
ROW = 128


def save(
    history: Sequence[int] = (7, 8, 9), parents: Sequence[str] = (), limit: int = ROOM, owner: Owner = OWNER
) -> str:
    collected = Collected(history, "revision", limit)
    handle = memories.save(owner, make_memory(), parents=parents, collected=collected).handle
    assert handle is not None
    return handle


def say(handle: str, *ids: int, limit: int = ROOM, owner: Owner = OWNER) -> bool:
    return memories.keep_continuation(owner, handle, ids, limit)


def held(owner: Owner = OWNER) -> list[tuple[str, str, int]]:
    return [(info.handle, info.kind, info.tokens) for info in transcripts.page(owner.user, owner.session, 1000, 0)]


def said() -> list[tuple[list[int], list[int]]]:
    return [(line.history_ids, line.continuation_ids) for line in transcripts.lines()]


def check_total() -> None:
    sizes = [item.size for model in (StoredTranscript, StoredContinuation) for item in model.select()]
    assert transcripts.total() == sum(sizes)


def test_a_line_has_all_that_stood_before_what_was_said(store: Path) -> None:
    handle = save()
    assert list(transcripts.lines()) == []
    assert say(handle, 1, 2, 3)
    (line,) = transcripts.lines()
    assert (line.prefix_ids, line.history_ids, line.summary_ids) == (PREFIX, [7, 8, 9], SUMMARY)
    assert (line.continuation_ids, line.actor_revision) == ([1, 2, 3], "revision")
    assert held() == [(handle, COMPACTION, 3), (handle, CONTINUATION, 3)]
    assert transcripts.totals_of("user", "session") == (2, 2 * (ROW + 12))
    check_total()


def test_what_goes_on_takes_the_place_of_its_beginning(store: Path) -> None:
    handle = save()
    for ids in ((1, 2), (1, 3), (1, 2, 3, 4), (1, 2, 3), (1, 2, 3, 4, 5), (1, 2)):
        assert say(handle, *ids)
    assert said() == [([7, 8, 9], [1, 2, 3, 4, 5]), ([7, 8, 9], [1, 3])]
    check_total()


def test_what_was_said_behind_a_memory_without_a_transcript_is_not_kept(store: Path) -> None:
    plain = memories.save(OWNER, make_memory()).handle
    assert plain is not None
    assert not say(plain, 1, 2)
    assert not say("rm_none", 1, 2)
    assert not say(save(), 1, 2, owner=Owner("user", "other"))
    assert said() == []


def test_a_history_begins_with_those_of_the_memories_gone_on_from(store: Path) -> None:
    root = save([1])
    left, right = save([2], [root]), save([3], [root])
    joined = save([4], [left, right])
    say(joined, 5)
    assert said() == [([1, 2, 3, 4], [5])]
    memories.delete(OWNER, left)
    assert said() == [([1, 3, 4], [5])]


def test_a_lineage_may_be_long(store: Path) -> None:
    handle = save([0])
    with transaction():
        for number in range(1, 1200):
            handle = save([number], [handle])
    say(handle, 5)
    assert said() == [(list(range(1200)), [5])]


def test_transcripts_go_with_their_memory(store: Path) -> None:
    first, second = save(), save()
    say(first, 1)
    say(second, 2)
    assert memories.delete(OWNER, first)
    assert held() == [(second, COMPACTION, 3), (second, CONTINUATION, 1)]
    check_total()


def test_a_session_deletes_its_own_and_keeps_its_memories(store: Path) -> None:
    other = Owner("user", "other")
    mine = [save() for _ in range(3)]
    theirs, anothers = save(owner=other), save(owner=Owner("another", "session"))
    for handle in mine:
        say(handle, 1)
    assert transcripts.delete_session("user", "session") == 6
    assert held() == []
    assert transcripts.delete_session("user", "session") == 0
    assert held(other) == [(theirs, COMPACTION, 3)]
    assert held(Owner("another", "session")) == [(anothers, COMPACTION, 3)]
    assert len(memories.list_session(OWNER)) == 3
    check_total()


def test_many_are_deleted_together(store: Path) -> None:
    with transaction():
        for _ in range(230):
            save()
    assert transcripts.delete_session("user", "session") == 230
    assert transcripts.total() == 0


def test_the_oldest_are_dropped_with_what_was_said_behind_them(store: Path) -> None:
    limit = 4 * (ROW + 12)
    first, second = save(limit=limit), save(limit=limit)
    say(first, 1, 2, 3, limit=limit)
    say(second, 4, 5, 6, limit=limit)
    assert transcripts.total() == limit
    third = save(limit=limit)
    assert held() == [(third, COMPACTION, 3), (second, COMPACTION, 3), (second, CONTINUATION, 3)]
    assert not say(first, 1, 2, 3, limit=limit)
    say(third, 7, 8, 9, 10, limit=limit)
    assert held() == [(third, COMPACTION, 3), (third, CONTINUATION, 4)]
    assert len(memories.list_session(OWNER)) == 3
    check_total()


def test_what_alone_is_beyond_the_bound_drops_nothing(store: Path) -> None:
    limit = 2 * (ROW + 12)
    first = save(limit=limit)
    save(range(1, 100), limit=limit)
    assert not say(first, *range(1, 100), limit=limit)
    assert held() == [(first, COMPACTION, 3)]
    assert len(memories.list_session(OWNER)) == 2


def test_pages_go_through_all(store: Path) -> None:
    for number in range(5):
        say(save(), number)
    whole = transcripts.page("user", "session", 100, 0)
    pages = [transcripts.page("user", "session", 3, skip) for skip in range(0, 12, 3)]
    assert [info for page in pages for info in page] == whole
    assert len(whole) == 10


def test_nothing_is_kept_of_a_save_that_fails(store: Path) -> None:
    with pytest.raises(RuntimeError), transaction():
        save()
        raise RuntimeError
    assert transcripts.total() == 0 and held() == []

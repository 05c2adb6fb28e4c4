"""Histories beside the memories that stand for them: kept, inherited, and gone with the last of these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from remory.compaction.history import Chunk
from remory_service.store import memories, passages
from remory_service.store.database import transaction
from remory_service.store.memories import Owner
from remory_service.store.schema import StoredCollection, StoredPassage
from tests.service.conftest import make_memory

OWNER = Owner("user", "session")


def save(*texts: str, parents: Sequence[str] = (), owner: Owner = OWNER) -> str:
    chunks = [Chunk(tuple(range(number, number + 3)), text) for number, text in enumerate(texts)]
    handle = memories.save(owner, make_memory(), chunks, parents).handle
    assert handle is not None
    return handle


def texts_of(handle: str, owner: Owner = OWNER) -> list[str]:
    return [
        passage.text
        for collection in memories.histories_of(owner, handle)
        for passage in passages.page(collection, 100)
    ]


def test_a_history_is_kept_in_order_with_its_ids(store: Path) -> None:
    handle = save("first", "second\0", "🦀")
    assert texts_of(handle) == ["first", "second\0", "🦀"]
    page = memories.history_page(OWNER, handle, 10, 0)
    assert page is not None
    assert [chunk.ids for chunk in page] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [chunk.text for chunk in page] == ["first", "second\0", "🦀"]


def test_pages_go_through_a_whole_lineage(store: Path) -> None:
    root = save(*(f"root {number}" for number in range(450)))
    child = save("child", parents=[root])
    found: list[str] = []
    while page := memories.history_page(OWNER, child, 200, len(found)):
        found += [chunk.text for chunk in page]
    assert found == [*(f"root {number}" for number in range(450)), "child"]
    assert memories.history_page(Owner("other", "session"), child, 200, 0) is None


def test_ancestors_and_branches_are_inherited_once(store: Path) -> None:
    root = save("root")
    left, right = save("left", parents=[root]), save("right", parents=[root])
    joined = save("joined", parents=[left, right])
    assert texts_of(joined) == ["root", "left", "right", "joined"]
    assert texts_of(save(parents=[joined])) == ["root", "left", "right", "joined"]
    assert texts_of(save("again", parents=[right, joined, left])) == ["root", "right", "left", "joined", "again"]
    assert texts_of(root) == ["root"]


def test_a_history_goes_with_the_last_memory_that_has_it(store: Path) -> None:
    root = save("root")
    child = save("child", parents=[root])
    assert memories.delete(OWNER, root)
    assert texts_of(child) == ["root", "child"]
    assert memories.delete(OWNER, child)
    assert StoredPassage.select().count() == StoredCollection.select().count() == 0


def test_another_owners_memory_gives_nothing(store: Path) -> None:
    foreign = save("secret", owner=Owner("other", "session"))
    assert texts_of(save("mine", parents=[foreign, "rm_unknown"])) == ["mine"]
    assert memories.histories_of(OWNER, foreign) == []


def test_nothing_is_kept_of_a_save_that_fails(store: Path) -> None:
    with pytest.raises(RuntimeError), transaction():
        save("text")
        raise RuntimeError
    assert StoredPassage.select().count() == 0 and memories.totals() == (0, 0)

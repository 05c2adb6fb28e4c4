"""Images of the table's vectors: that they follow it, whoever writes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from remory.search import exact
from remory.search.packing import pack_vector
from remory_service.search import Searcher
from remory_service.store import entries
from remory_service.store.database import connection, transaction
from remory_service.store.entries import VECTOR, Content, Place, ScopeVectors, Write
from remory_service.store.schema import StoredEntry
from remory_service.store.scopes import Scope, make_scope

LARGE = 1 << 40


@pytest.fixture
def scope(store: Path) -> int:
    with transaction():
        return make_scope(Scope("session", "s"), "u").id


def make_scopes(names: Iterable[str]) -> list[int]:
    with transaction():
        return [make_scope(Scope("session", name), "u").id for name in names]


def put(scope: int, key: str, vector: np.ndarray | list[float], **metadata: object) -> int:
    content = Content(pack_vector(vector), dimension=len(vector), metadata=json.dumps(metadata).encode())
    with transaction():
        return entries.put(Place(scope, VECTOR, key), content, Write("u", 0))


def delete(scope: int, key: str) -> None:
    with transaction():
        assert entries.delete(Place(scope, VECTOR, key), Write("u", 0))


def keys(searcher: Searcher, scope: int, query: list[float], k: int = 1000) -> list[str]:
    return [hit.key for hit in searcher.search(ScopeVectors(scope), np.array(query, dtype=float), k).hits]


def counted(searcher: Searcher) -> int:
    return sum(image.nbytes for image in searcher._images.values())


def test_every_searcher_sees_what_was_committed(scope: int) -> None:
    searchers = [Searcher(LARGE), Searcher(LARGE)]
    steps = [
        (lambda: put(scope, "a", [1, 0]), ["a"]),
        (lambda: put(scope, "b", [1, 0.1]), ["a", "b"]),
        (lambda: put(scope, "a", [0, 1]), ["b", "a"]),
        (lambda: put(scope, "b", [1, 0, 0]), ["a"]),
        (lambda: delete(scope, "a"), []),
        (lambda: put(scope, "b", [1, 0]), ["b"]),
    ]
    for step, expected in steps:
        step()
        for searcher in [*searchers, Searcher(LARGE)]:
            assert keys(searcher, scope, [1, 0]) == expected


def test_an_image_that_missed_many_writes_catches_up(scope: int) -> None:
    random = np.random.default_rng(0)
    lasting, late = Searcher(LARGE), Searcher(LARGE)
    expected: dict[str, np.ndarray] = {}
    for _ in range(300):
        key = f"k{random.integers(40)}"
        if key in expected and random.random() < 0.3:
            delete(scope, key)
            del expected[key]
        else:
            expected[key] = random.standard_normal(random.choice([3, 4])).round(int(random.integers(1, 20)))
            put(scope, key, expected[key])
        if random.random() < 0.2:
            keys(lasting, scope, [1, 2, 3])
    for searcher in (lasting, late):
        for query in ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]):
            same = {key: vector for key, vector in expected.items() if len(vector) == len(query)}
            scores = {key: vector @ query / np.linalg.norm(vector) for key, vector in same.items()}
            assert keys(searcher, scope, query) == sorted(same, key=lambda key: (-round(scores[key], 9), key))


def test_images_over_the_budget_go_and_come_back(store: Path) -> None:
    scopes = make_scopes("abc")
    for scope in scopes:
        for index in range(50):
            put(scope, f"{scope}-{index}", [1, index])
    searcher = Searcher(1)
    for _ in range(2):
        for scope in scopes:
            assert keys(searcher, scope, [1, 0], 2) == [f"{scope}-0", f"{scope}-1"]
            assert list(searcher._images) == [ScopeVectors(scope)]


def test_an_empty_scope_has_nothing(scope: int) -> None:
    for place in (None, ScopeVectors(scope)):
        found = Searcher(LARGE).search(place, np.array([1.0]), 10)
        assert (found.hits, found.scanned, found.strategy) == ([], 0, "linear")


def test_searches_and_writes_at_once(scope: int) -> None:
    """Writers replace the vectors of fixed keys: a search finds every key once, with a score it had at some time."""
    searcher, names = Searcher(LARGE), [f"k{index}" for index in range(20)]
    for name in names:
        put(scope, name, [1, 0])
    possible = {round(1 / (1 + turn * turn) ** 0.5, 6) for turn in range(4)}
    stop = threading.Event()

    def write() -> None:
        turn = 0
        with connection():
            while not stop.is_set():
                turn += 1
                put(scope, names[turn % 20], [1, turn % 4])

    def search() -> None:
        with connection():
            for _ in range(60):
                found = searcher.search(ScopeVectors(scope), np.array([1.0, 0.0]), 100)
                assert sorted(hit.key for hit in found.hits) == sorted(names)
                assert {round(hit.score, 6) for hit in found.hits} <= possible

    with ThreadPoolExecutor(4) as pool:
        writer, *readers = pool.submit(write), *(pool.submit(search) for _ in range(3))
        try:
            for reader in readers:
                reader.result()
        finally:
            stop.set()
        writer.result()


def test_images_go_while_others_search_them(store: Path) -> None:
    """Each is over the budget alone, so every search lets the others' images go."""
    scopes = make_scopes("abc")
    for scope in scopes:
        put(scope, f"{scope}", [1, 0])
    searcher = Searcher(1)

    def search(scope: int) -> None:
        with connection():
            for turn in range(50):
                assert keys(searcher, scope, [1, 0]) == sorted([f"{scope}", *(f"{scope}-{old}" for old in range(turn))])
                put(scope, f"{scope}-{turn}", [1, 0])

    with ThreadPoolExecutor(3) as pool:
        for result in [pool.submit(search, scope) for scope in scopes]:
            result.result()
    assert counted(searcher) == searcher._held


def test_small_and_empty_images_count_too(store: Path) -> None:
    scopes = make_scopes([f"s{number}" for number in range(60)])
    for scope in scopes[::2]:
        put(scope, "k", [1.0] * 300)
    searcher = Searcher(200_000)
    for scope in scopes:
        keys(searcher, scope, [1.0] * 300)
    assert ScopeVectors(scopes[-1]) in searcher._images
    assert 10 <= len(searcher._images) <= 40
    assert counted(searcher) == searcher._held <= 200_000


def test_what_an_image_holds_follows_it(scope: int) -> None:
    """Also in dimensions that are not asked for, and when a collection shrinks."""
    searcher = Searcher(LARGE)
    keys(searcher, scope, [1.0])
    before = searcher._held
    for number in range(30):
        put(scope, f"k{number}", [1.0] * 1000)
    keys(searcher, scope, [1.0])
    assert searcher._held - before > 30 * 4000
    for number in range(30):
        put(scope, f"k{number}", [1.0, 2.0])
    keys(searcher, scope, [1.0])
    image = searcher._images[ScopeVectors(scope)]
    held = {dimension: collection.nbytes for dimension, collection in image.collections.items()}
    assert searcher._held - before == sum(held.values())


def test_a_budget_is_kept_without_asking_every_image(store: Path) -> None:
    """A search may not look at what other images hold: one that is being written is locked."""
    first, second = make_scopes("ab")
    put(first, "k", [1, 0])
    put(second, "k", [1, 0])
    searcher = Searcher(LARGE)
    keys(searcher, first, [1, 0])
    collection = searcher._images[ScopeVectors(first)].collections[2]

    def search() -> list[str]:
        with connection():
            return keys(searcher, second, [1, 0])

    with ThreadPoolExecutor(1) as pool, collection._lock:
        assert pool.submit(search).result(timeout=20) == ["k"]


def damage(scope: int, key: str, content: bytes, dimension: int = 2) -> int:
    """As a fault of the disk would leave a vector that is written now; the entry's id."""
    put(scope, key, [3, 4])
    entry = StoredEntry.get(StoredEntry.scope == scope, StoredEntry.key == key)
    StoredEntry.update(content=content, dimension=dimension).where(StoredEntry.id == entry.id).execute()
    return entry.id


@pytest.mark.parametrize("content", [b"abc", b"", bytes(8), b"\xff" * 8])
def test_a_damaged_vector_is_left_out(scope: int, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    for key in "abc":
        put(scope, key, [1, 0])
    lasting = Searcher(LARGE)
    assert keys(lasting, scope, [1, 0]) == ["a", "b", "c"]
    put(scope, "a", [1, 0])
    id = damage(scope, "b", content)
    put(scope, "c", [1, 0])
    for searcher in (lasting, Searcher(LARGE)):
        caplog.clear()
        for _ in range(2):
            assert keys(searcher, scope, [1, 0]) == ["a", "c"]
        (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert f"vector {id} of ScopeVectors(scope={scope}) is damaged" in line.getMessage()
    delete(scope, "b")
    assert keys(lasting, scope, [1, 0]) == ["a", "c"]
    put(scope, "b", [1, 0])
    assert keys(lasting, scope, [1, 0]) == ["a", "b", "c"]


def test_a_collection_gets_its_rows_in_the_order_of_their_writes(scope: int) -> None:
    """However they are packed: by that order it is known which of them a graph has."""
    for number in range(20):
        put(scope, f"k{number}", [1, 0.1 if number % 3 else 0.5])
    searcher = Searcher(LARGE)
    keys(searcher, scope, [1, 0])
    assert searcher._images[ScopeVectors(scope)].collections[2].view().sequences.tolist() == list(range(1, 21))


def test_an_image_is_read_in_pages(scope: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_FOLLOWED_AT_ONCE", 10)
    for number in range(25):
        put(scope, f"k{number:02}", [1, 0])
    pages = ScopeVectors(scope).since(0)
    assert [row[1] for row in next(pages)] == [f"k{number:02}" for number in range(10)]
    put(scope, "k00", [0, 1])
    delete(scope, "k12")
    assert [[row[1] for row in page] for page in pages] == [
        ["k10", "k11", *(f"k{number}" for number in range(13, 21))],
        ["k21", "k22", "k23", "k24", "k00", "k12"],
    ]
    assert len(keys(Searcher(LARGE), scope, [1, 0])) == 24


def test_a_closed_searcher_makes_no_graph(scope: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "GRAPH_LEAST_ROWS", 5)
    for number in range(10):
        put(scope, f"k{number}", [1, number])
    searcher = Searcher(LARGE)
    for _ in range(2):
        searcher.close()
    assert searcher.search(ScopeVectors(scope), np.array([1.0, 0.0]), 3, strategy="hnsw").strategy == "linear"
    assert searcher._builder._thread is None
    other = Searcher(LARGE)
    other.search(ScopeVectors(scope), np.array([1.0, 0.0]), 3, strategy="hnsw")
    assert other._builder._thread is not None
    for _ in range(2):
        other.close()
    other._builder._thread.join()

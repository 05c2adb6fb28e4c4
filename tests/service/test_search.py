"""Images of the table's vectors: that they follow it, whoever writes."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from remory.search.packing import pack_vector
from remory_service.search import Searcher
from remory_service.store import entries
from remory_service.store.database import connection, transaction
from remory_service.store.entries import VECTOR, Content, Place, Write
from remory_service.store.scopes import Scope, make_scope

LARGE = 1 << 40


@pytest.fixture
def scope(store: Path) -> int:
    with transaction():
        return make_scope(Scope("session", "s"), "u").id


def put(scope: int, key: str, vector: np.ndarray | list[float], **metadata: object) -> int:
    content = Content(pack_vector(vector), dimension=len(vector), metadata=json.dumps(metadata).encode())
    with transaction():
        return entries.put(Place(scope, VECTOR, key), content, Write("u", 0))


def delete(scope: int, key: str) -> None:
    with transaction():
        assert entries.delete(Place(scope, VECTOR, key), Write("u", 0))


def keys(searcher: Searcher, scope: int, query: list[float], k: int = 1000) -> list[str]:
    return [hit.key for hit in searcher.search(scope, np.array(query, dtype=float), k).hits]


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
    with transaction():
        scopes = [make_scope(Scope("session", name), "u").id for name in "abc"]
    for scope in scopes:
        for index in range(50):
            put(scope, f"{scope}-{index}", [1, index])
    searcher = Searcher(1)
    for _ in range(2):
        for scope in scopes:
            assert keys(searcher, scope, [1, 0], 2) == [f"{scope}-0", f"{scope}-1"]
            assert list(searcher._images) == [scope]


def test_an_empty_scope_has_nothing(scope: int) -> None:
    for place in (None, scope):
        found = Searcher(LARGE).search(place, np.array([1.0]), 10)
        assert (found.hits, found.scanned, found.strategy) == ([], 0, "linear")


def test_searches_and_writes_at_once(scope: int) -> None:
    """Writers replace the vectors of fixed keys: a search finds every key once, with a score it had at some time."""
    searcher, names = Searcher(LARGE), [f"k{index}" for index in range(20)]
    for name in names:
        put(scope, name, [1, 0])
    possible = {round(1 / (1 + turn * turn) ** 0.5, 6) for turn in range(4)}
    stop, problems = threading.Event(), []

    def write() -> None:
        turn = 0
        with connection():
            while not stop.is_set():
                turn += 1
                put(scope, names[turn % 20], [1, turn % 4])

    def search() -> None:
        with connection():
            for _ in range(60):
                found = searcher.search(scope, np.array([1.0, 0.0]), 100)
                if sorted(hit.key for hit in found.hits) != sorted(names):
                    problems.append([hit.key for hit in found.hits])
                if not {round(hit.score, 6) for hit in found.hits} <= possible:
                    problems.append({round(hit.score, 6) for hit in found.hits} - possible)

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=search) for _ in range(3)]
    for thread in (writer, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    writer.join()
    assert problems == []

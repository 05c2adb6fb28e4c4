from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from remory.errors import InvalidInput
from remory.search import Collection, Row
from tests.search.examples import collect, make_row, nearest, numbers


def random(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dimension))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("count", "dimension", "k"), [(1, 1, 1), (7, 3, 7), (129, 33, 10), (5000, 16, 1000), (20_000, 2, 50), (30, 5, 1000)]
)
def test_finds_the_nearest(count: int, dimension: int, k: int, dtype: Any) -> None:
    vectors, query = random(count, dimension).astype(dtype), random(1, dimension, 1)[0]
    found = collect(vectors).search(query, k)
    assert numbers(found) == nearest(vectors, query, k)
    assert (found.scanned, found.strategy) == (count, "linear")
    hit, row = found.hits[0], vectors[numbers(found)[0]].astype(np.float64)
    assert hit.score == pytest.approx(row @ query / np.linalg.norm(row) / np.linalg.norm(query), abs=1e-12)
    assert (hit.revision, hit.metadata) == (numbers(found)[0] + 1, b"{}")


def test_empty() -> None:
    collection = Collection(3)
    for strategy in (None, "linear", "hnsw"):
        found = collection.search(np.ones(3), 10, {"x": 1}, strategy)
        assert (found.hits, found.scanned, found.strategy) == ([], 0, "linear")
    assert len(collection) == 0
    assert not collection.delete(1)
    collection.set_many([], np.empty((0, 3)))
    assert len(collection) == 0


def test_equal_scores_come_in_the_order_of_their_keys() -> None:
    keys = ["b", "a", "\U00010000", "\uffff", "é", "e\u0301", "z", "", "\x00", "aa"]
    collection = Collection(2)
    collection.set_many([make_row(id, key=key or None) for id, key in enumerate(keys)], np.ones((len(keys), 2)))
    names = [hit.key for hit in collection.search(np.ones(2), 10).hits]
    assert names == sorted((key or "key-000007" for key in keys), key=lambda key: key.encode())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 10, 1000])
def test_many_copies_and_scaled_copies_tie(k: int, dtype: Any) -> None:
    """Far more rows have the same score than are asked for at first; keys fall while slots rise."""
    one = random(1, 48)[0]
    vectors = np.repeat(one[None], 6000, axis=0) * np.resize([1.0, 3.0, 0.7, 1e-5, 1e9], 6000)[:, None]
    collection = Collection(48)
    collection.set_many([make_row(id, key=f"key-{9999 - id:06}") for id in range(6000)], vectors.astype(dtype))
    found = collection.search(one, k)
    if dtype == np.float64:
        assert numbers(found) == list(range(4000, 4000 + k))
        assert {hit.score for hit in found.hits} == {1.0}
    else:
        # In float32 the scaled copies are rounded, each otherwise; the plain ones alone are the same.
        assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
        assert found.hits[-1].score > 1 - 1e-12


def test_order_below_the_resolution_of_float32() -> None:
    """3,000 vectors whose cosines differ by 1e-11, stored in a mixed order."""
    steps = np.random.default_rng(3).permutation(3000)
    vectors = np.stack([np.ones(3000), 1 + 1e-11 * steps * 2, np.zeros(3000)], axis=1)
    found = collect(vectors).search(np.array([0.0, 1.0, 0.0]), 20)
    assert numbers(found) == np.argsort(-steps)[:20].tolist()


@pytest.mark.parametrize("spread", [1e-6, 1e-8, 1e-10])
def test_near_ties_that_float32_orders_otherwise(spread: float) -> None:
    vectors, query = random(1, 24) + spread * random(4000, 24, 1), random(1, 24, 2)[0]
    for k in (1, 30, 500):
        assert numbers(collect(vectors).search(query, k)) == nearest(vectors, query, k)


def test_scores_are_those_of_the_float64_source() -> None:
    source, query = [1.0, 2.0**-40, 0.1], [1 / 3, 1.0, 0.7]
    collection = Collection(3)
    collection.set_many([make_row(0)], np.array([source]))
    exact = [Fraction(value) for value in source], [Fraction(value) for value in query]
    dot = sum(left * right for left, right in zip(*exact, strict=True))
    squares = [sum(value * value for value in values) for values in exact]
    expected = float(dot) / (float(squares[0]) * float(squares[1])) ** 0.5
    assert collection.search(np.array(query), 1).hits[0].score == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-300, 1e-40, 1e150, 1e300, 1.7e308])
def test_any_magnitude(scale: float) -> None:
    vectors = np.clip(random(50, 4), -1, 1)
    vectors[:, 0] = np.where(vectors[:, 0] < 0, -1, 1)
    scaled = vectors.copy()
    scaled[::2] *= scale
    query = random(1, 4, 1)[0]
    for given in (query, query / np.abs(query).max() * scale):
        if np.count_nonzero(given) < 4:
            continue
        found = collect(scaled).search(given, 50)
        assert all(-1 <= hit.score <= 1 for hit in found.hits)
        if scale >= 1e-300:
            assert numbers(found) == nearest(scaled, query, 50)


def test_scores_stay_within_one() -> None:
    vectors = random(300, 7)
    for query in vectors[:50]:
        assert collect(vectors).search(query, 1).hits[0].score == 1
        assert collect(-vectors).search(query, 300).hits[-1].score == -1


def test_no_score_is_a_negative_zero() -> None:
    found = collect(np.array([[0.0, 1.0], [0.0, -1.0]])).search(np.array([1.0, 0.0]), 2)
    assert [str(hit.score) for hit in found.hits] == ["0.0", "0.0"]


def test_replaced_vectors_are_found_by_their_new_value_only() -> None:
    collection = collect(np.eye(4))
    collection.set_many([make_row(1, 9, colour="red")], np.array([[0.0, 0.0, -1.0, 0.0]]))
    found = collection.search(np.array([0.0, 1.0, 0.0, 0.0]), 4)
    assert {hit.key: hit.score for hit in found.hits}["key-000001"] == 0
    assert found.scanned == len(found.hits) == len(collection) == 4
    hit = collection.search(np.array([0.0, 0.0, -1.0, 0.0]), 1).hits[0]
    assert (hit.key, hit.revision, hit.metadata, hit.score) == ("key-000001", 10, b'{"colour": "red"}', 1)


def test_the_last_of_one_id_in_a_call_stays() -> None:
    collection = Collection(2)
    collection.set_many([make_row(5, 1), make_row(5, 2)], np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert len(collection) == 1
    assert [(hit.revision, hit.score) for hit in collection.search(np.array([0.0, 1.0]), 5).hits] == [(3, 1)]


def test_deleted_rows_are_gone_and_can_come_back() -> None:
    collection = collect(np.eye(3))
    assert collection.delete(1)
    assert not collection.delete(1)
    found = collection.search(np.array([0.0, 1.0, 0.0]), 3)
    assert (numbers(found), found.scanned, len(collection)) == ([0, 2], 2, 2)
    collection.set_many([make_row(1, 7)], np.eye(3)[1:2])
    assert numbers(collection.search(np.array([0.0, 1.0, 0.0]), 1)) == [1]


def test_memory_of_dead_rows_is_given_back_and_nothing_else_changes() -> None:
    vectors = random(300, 32)
    collection = collect(vectors, lambda id: {"even": id % 2 == 0})
    before = collection.nbytes
    assert collection.search(vectors[3], 5, {"even": False}).scanned == 150
    latest = vectors
    for round in range(60):
        latest = random(300, 32, round + 1)
        rows = [make_row(id, (round + 1) * 300 + id, even=id % 2 == 0) for id in range(300)]
        collection.set_many(rows, latest)
    assert len(collection) == 300
    assert collection.nbytes < 30 * before
    found = collection.search(vectors[3], 20, {"even": True})
    assert numbers(found) == [2 * number for number in nearest(latest[::2], vectors[3], 20)]
    assert found.scanned == 150


def test_filters_come_before_selection() -> None:
    vectors, query = random(1000, 8), random(1, 8, 1)[0]
    collection = collect(vectors, lambda id: {"third": id % 3, "tags": ["x", {"y": id % 5 == 0}]})
    found = collection.search(query, 7, {"third": 1.0, "tags": ["x", {"y": True}]})
    chosen = [id for id in range(1000) if id % 3 == 1 and id % 5 == 0]
    assert numbers(found) == [chosen[number] for number in nearest(vectors[chosen], query, 7)]
    assert found.scanned == len(chosen)
    assert collection.search(query, 7, {"third": 5}).hits == []
    collection.set_many([make_row(5000, third=5)], query[None])
    assert numbers(collection.search(query, 7, {"third": 5})) == [5000]


def test_a_bad_vector_changes_nothing() -> None:
    collection = collect(np.eye(3))
    for bad, what in ((np.nan, "a NaN or an infinity"), (np.inf, "a NaN or an infinity"), (0.0, "is zero")):
        vectors = np.eye(3)
        vectors[2, 2] = bad
        with pytest.raises(InvalidInput, match=f"the vector of 'key-000002' .*{what}"):
            collection.set_many([make_row(id, 10 + id) for id in range(3)], vectors)
    assert [hit.revision for hit in collection.search(np.ones(3), 3).hits] == [1, 2, 3]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (np.array([np.nan, 1.0]), "the query has a NaN or an infinity"),
        (np.array([np.inf, 1.0]), "the query has a NaN or an infinity"),
        (np.zeros(2), "the query is zero"),
        (np.ones(3), r"the query must be \[2\], float32 or float64, got \[3\], float64"),
        (np.ones(2, dtype=np.int64), r"the query must be \[2\], float32 or float64, got \[2\], int64"),
    ],
)
def test_queries_that_cannot_be_used(query: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        collect(np.eye(2)).search(query, 1)


def test_what_does_not_fit_is_refused() -> None:
    collection = collect(np.eye(2))
    for vectors in (np.ones((1, 3)), np.ones((2, 2)), np.ones((1, 2), dtype=np.float16)):
        with pytest.raises(InvalidInput, match="vectors must be"):
            collection.set_many([make_row(0)], vectors)
    with pytest.raises(InvalidInput, match="k is 0, expected at least 1"):
        collection.search(np.ones(2), 0)
    with pytest.raises(InvalidInput, match="strategy is 'fast', expected linear or hnsw"):
        collection.search(np.ones(2), 1, strategy="fast")
    with pytest.raises(InvalidInput, match="dimension is 0, expected at least 1"):
        Collection(0)


def test_every_answer_is_a_state_that_existed() -> None:
    """Each write replaces all of a group at once, or half of it; a search that saw a part of one would show."""
    size, rounds = 40, 150
    collection = Collection(6)
    vectors = np.ones((size, 6))
    sequence, lock = iter(range(1, 10**9)), threading.Lock()

    def rows(group: int, round: int) -> list[Row]:
        first = next(sequence) * size
        return [make_row(group * size + id, first + id, key=f"{round}", group=group, round=round) for id in range(size)]

    def write(group: int) -> None:
        for round in range(1, rounds):
            with lock:
                collection.set_many(rows(group, round), vectors * (1 + group))
            if round % 10 == 0:
                collection.delete(group * size)

    for group in range(2):
        collection.set_many(rows(group, 0), vectors)

    def read(group: int) -> None:
        latest = 0
        while not all(writer.done() for writer in writers):
            found = collection.search(np.ones(6), 1000, {"group": group})
            seen = {int(hit.key) for hit in found.hits}
            expected = {size, size - 1} if seen and max(seen) % 10 == 0 else {size}
            assert len(seen) == 1
            assert len(found.hits) in expected
            assert found.scanned == len(found.hits)
            assert min(seen) >= latest
            latest = max(seen)

    with ThreadPoolExecutor(6) as pool:
        writers = [pool.submit(write, group) for group in range(2)]
        readers = [pool.submit(read, number % 2) for number in range(4)]
        for thread in (*writers, *readers):
            thread.result()
    assert len(collection) == 2 * size

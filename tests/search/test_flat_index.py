from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remory.errors import InvalidInput
from remory.ops import cosine_topk
from remory.search import FlatIndex, flat
from tests.search.flat_examples import assert_bounded, assert_same, defined, hard_vectors, index_of, vectors_of

INSTRUCTIONS = ("avx512_vnni", "avx2", "portable")


@pytest.fixture(params=INSTRUCTIONS)
def instructions(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test with each set of instructions that this processor has."""
    before = flat._index.instructions()
    if not flat._index.choose_instructions(request.param):
        pytest.skip(f"this processor has no {request.param}")
    yield request.param
    assert flat._index.choose_instructions(before)


@pytest.mark.parametrize("certified", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("queries", "count", "width", "k"),
    [
        (1, 1, 1, 1),
        (3, 129, 7, 5),
        (2, 151, 384, 151),
        (70, 1025, 3, 10),
        (5, 12, 33, 40),
        (1, 3000, 16, 1500),
        (0, 9, 8, 3),
        (2, 47, 3000, 4),
        (1, 20, 40_000, 3),
        (33, 400, 130, 20),
    ],
)
def test_equals_the_definition(
    queries: int, count: int, width: int, k: int, threads: int, certified: bool, instructions: str
) -> None:
    given, vectors = vectors_of(1, queries, width), vectors_of(2, count, width)
    assert_same(index_of(vectors, certified, threads).search(given, k), defined(given, vectors, k))


@pytest.mark.parametrize("certified", [True, False])
def test_equals_the_op_at_100_000_rows(certified: bool) -> None:
    queries, vectors = vectors_of(3, 3, 384), vectors_of(4, 100_000, 384)
    mask = np.random.default_rng(5).random(len(vectors)) < 0.1
    index = index_of(vectors, certified)
    for taking in (None, mask):
        expected = cosine_topk(
            torch.from_numpy(queries),
            torch.from_numpy(vectors),
            12,
            None if taking is None else torch.from_numpy(taking),
        )
        assert_same(index.search(queries, 12, taking), (expected[0].numpy(), expected[1].numpy()))


@pytest.mark.parametrize("width", [5, 64, 384])
def test_near_ties_and_hostile_rows(width: int, instructions: str) -> None:
    for name, queries, vectors in hard_vectors(width):
        index = index_of(vectors)
        for k in (1, 10, 100):
            try:
                assert_same(index.search(queries, k), defined(queries, vectors, k))
            except AssertionError as error:
                raise AssertionError(f"{name}, k {k}") from error


def tiled(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of two queries, more than are multiplied one by one."""
    return tuple(np.tile(array, (9, 1)) for array in arrays)


@pytest.mark.parametrize("width", [5, 64, 385])
def test_hostile_rows_without_copies(width: int) -> None:
    for name, queries, vectors in hard_vectors(width):
        index = index_of(vectors, certified=False)
        for k in (1, 10, 100):
            expected = defined(queries, vectors, k)
            try:
                assert_same(index.search(queries, k), expected)
                assert_same(index.search(*tiled(queries), k), tiled(*expected))
            except AssertionError as error:
                raise AssertionError(f"{name}, k {k}") from error


@pytest.mark.parametrize("width", [1, 3, 64, 385, 3000, 32_768])
def test_every_bound_holds(width: int, instructions: str) -> None:
    for _, queries, vectors in hard_vectors(width):
        vectors = vectors[: max(40, 200_000 // width)]
        for query in queries:
            assert_bounded(index_of(vectors).view(), query, vectors)


def test_bounds_are_tight_and_few_rows_are_scored_exactly() -> None:
    query, vectors = vectors_of(6, 1, 384), vectors_of(7, 16_000, 384)
    view = index_of(vectors).view()
    assert assert_bounded(view, query[0], vectors[:]).max() < 0.03
    ids, _, _ = view._view.bounds(query[0], 10, None, 1)
    assert 10 <= len(ids) < 200
    assert set(defined(query, vectors, 10)[1][0]) <= set(ids)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.99, 1.0])
@pytest.mark.parametrize("certified", [True, False])
def test_only_what_the_mask_lets_through(share: float, certified: bool) -> None:
    queries, vectors = vectors_of(8, 2, 24), vectors_of(9, 5003, 24)
    mask = np.random.default_rng(10).random(len(vectors)) < share
    index = index_of(vectors, certified)
    expected = defined(queries, vectors, 17, mask=mask)
    assert_same(index.search(queries, 17, mask), expected)
    assert_same(index.search(*tiled(queries), 17, mask), tiled(*expected))


def test_ids_at_and_beyond_the_masks_end_do_not_take_part() -> None:
    vectors = vectors_of(11, 40, 6)
    ids = np.concatenate([np.arange(39) * 3, [2**63 - 1]])
    index = FlatIndex(6)
    index.add(ids, vectors)
    for length in (0, 1, 50, 118):
        mask = np.ones(length, dtype=bool)
        assert_same(index.search(vectors[:1], 40, mask), defined(vectors[:1], vectors, 40, ids, mask))
    assert 2**63 - 1 in index.search(vectors[:1], 40)[1]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_writes_leave_what_a_dict_would_hold(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    width = data.draw(st.sampled_from([1, 5, 33]))
    index = FlatIndex(width, data.draw(st.booleans()), 1)
    held: dict[int, np.ndarray] = {}
    views = []
    for _ in range(data.draw(st.integers(1, 8))):
        size = int(rng.integers(1, 400))
        kind = data.draw(st.sampled_from(["add", "add", "replace", "remove"]))
        if kind == "add":
            ids = np.setdiff1d(rng.integers(0, 5000, size), list(held))
            rng.shuffle(ids)
        else:
            known = np.array(list(held), dtype=np.int64)
            ids = rng.permutation(known)[:size]
        rows = rng.standard_normal((len(ids), width), dtype=np.float32)
        if kind == "remove":
            assert index.remove(np.concatenate([ids, ids, [9999]])) == len(ids)
            for id in ids.tolist():
                del held[id]
        else:
            getattr(index, kind)(ids, rows)
            held.update(zip(ids.tolist(), rows, strict=True))
        views.append((index.view(), dict(held)))
    query = rng.standard_normal((1, width), dtype=np.float32)
    for view, state in views:
        assert len(view) == len(state)
        vectors = np.array(list(state.values()), dtype=np.float32).reshape(-1, width)
        ids = np.array(list(state), dtype=np.int64)
        assert_same(view.search(query, 20), defined(query, vectors, 20, ids))


def test_an_empty_index() -> None:
    index = FlatIndex(3)
    nothing = np.empty(0, dtype=np.int64)
    index.add(nothing, np.empty((0, 3), dtype=np.float32))
    index.replace(nothing, np.empty((0, 3), dtype=np.float32))
    assert index.remove(nothing) == 0
    assert index.remove(np.array([4])) == 0
    scores, ids = index.search(vectors_of(1, 2, 3), 4)
    assert (scores == -np.inf).all() and (ids == -1).all()
    assert (len(index), len(index.view()), index.dimension) == (0, 0, 3)


def test_slices_of_wider_arrays() -> None:
    wide, queries = vectors_of(12, 60, 20), vectors_of(13, 4, 16)
    index = FlatIndex(8)
    index.add(np.arange(120)[::2], wide[:, 3:11])
    expected = defined(queries[:, ::2], wide[:, 3:11], 9, np.arange(0, 120, 2))
    assert_same(index.search(queries[:, ::2], 9), expected)


@pytest.mark.parametrize("write", ["add", "replace"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (np.nan, "has a NaN or an infinity"),
        (np.inf, "has a NaN or an infinity"),
        (0, "is zero: it has no direction"),
    ],
)
def test_a_vector_without_a_direction_changes_nothing(write: str, value: float, words: str) -> None:
    vectors = vectors_of(14, 300, 40)
    index = FlatIndex(40)
    index.add(np.arange(100), vectors[:100])
    before = index.search(vectors[:3], 100)
    rows = vectors[100:200].copy()
    rows[17] = value
    ids = np.arange(100, 200) if write == "add" else np.arange(100)[::-1]
    with pytest.raises(InvalidInput, match=f"the vector of id {ids[17]} {words}"):
        getattr(index, write)(ids, rows)
    assert_same(index.search(vectors[:3], 100), before)
    index.add(np.arange(100, 200), vectors[100:200])
    index.replace(np.arange(100), vectors[200:300])
    expected = defined(vectors[:3], np.concatenate([vectors[200:300], vectors[100:200]]), 200)
    assert_same(index.search(vectors[:3], 200), expected)


@pytest.mark.parametrize(
    ("write", "ids", "words"),
    [
        ("add", [7, 8, -1], "id -1 is negative"),
        ("add", [7, 3, 8], "id 3 is in the index already"),
        ("add", [7, 8, 7], "id 7 is given more than once"),
        ("replace", [1, 2, -5], "id -5 is negative"),
        ("replace", [1, 2, 10], "id 10 is not in the index"),
        ("replace", [1, 2, 1], "id 1 is given more than once"),
    ],
)
def test_a_wrong_id_changes_nothing(write: str, ids: list[int], words: str) -> None:
    vectors = vectors_of(15, 10, 4)
    index = FlatIndex(4)
    index.add(np.arange(5), vectors[:5])
    with pytest.raises(InvalidInput, match=words):
        getattr(index, write)(np.array(ids), vectors[5:8])
    assert_same(index.search(vectors[:2], 9), defined(vectors[:2], vectors[:5], 9))
    index.add(np.array([7]), vectors[7:8])
    assert index.remove(np.arange(10)) == 6


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "has a NaN or an infinity"), (-np.inf, "has a NaN"), (0, "is zero: it has no direction")],
)
def test_a_query_without_a_direction_is_refused(value: float, words: str) -> None:
    queries = vectors_of(16, 40, 4)
    queries[37] = value
    with pytest.raises(InvalidInput, match=rf"queries\[37\] {words}"):
        index_of(vectors_of(17, 5, 4)).search(queries, 2)


def test_what_does_not_fit_is_refused() -> None:
    index, ids, rows = FlatIndex(4), np.arange(3), vectors_of(18, 3, 4)
    for call, words in (
        (lambda: FlatIndex(0), "dimension is 0, expected at least 1"),
        (lambda: FlatIndex(8.5), "dimension must be an integer, got float"),
        (lambda: FlatIndex(2**21), "dimension is 2097152, expected 1 to 1048576"),
        (lambda: FlatIndex(4, threads=0), "threads is 0, expected at least 1"),
        (lambda: index.add(ids, rows[:, :3]), r"vectors must be \[n, D\] = \[3, 4\], got \[3, 3\]"),
        (lambda: index.add(ids[:2], rows), r"vectors must be \[n, D\] = \[2, 4\], got \[3, 4\]"),
        (lambda: index.add(ids, rows.astype(np.float64)), "vectors must be float32, got float64"),
        (lambda: index.add(ids.astype(np.int32), rows), r"ids must be \[n\] int64, got \[3\] int32"),
        (lambda: index.search(rows[0], 1), r"queries must be \[Q, D\] = \[Q, 4\], got \[4\]"),
        (lambda: index.search(rows, 0), "k is 0, expected at least 1"),
        (lambda: index.search(rows, 1, ids), r"mask must be \[M\] bool, got \[3\] int64"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()
    assert len(index) == 0


def test_k_may_be_far_beyond_the_rows() -> None:
    vectors = vectors_of(19, 30, 4)
    scores, ids = index_of(vectors).search(vectors[:1], 100_000)
    assert scores.shape == (1, 100_000)
    assert (ids[0, 30:] == -1).all() and sorted(ids[0, :30]) == list(range(30))


def test_memory_of_dead_rows_is_given_back_and_views_keep_theirs() -> None:
    count, width = 60_000, 256
    vectors = vectors_of(20, count, width)
    index = index_of(vectors)
    full, view = index.nbytes, index.view()
    before = view.search(vectors[:2], 10)
    assert full >= vectors.nbytes
    removed = np.arange(count)[np.arange(count) % 20 != 0]
    assert index.remove(removed) == len(removed)
    assert index.nbytes < 0.2 * full
    assert_same(view.search(vectors[:2], 10), before)
    kept = np.arange(0, count, 20)
    assert_same(index.search(vectors[:2], 10), defined(vectors[:2], vectors[kept], 10, kept))

    resident = psutil.Process().memory_info().rss
    del view
    assert psutil.Process().memory_info().rss < resident - 0.8 * vectors.nbytes

    assert index.remove(kept) == len(kept)
    assert index.search(vectors[:1], 1)[1].tolist() == [[-1]]
    assert index.nbytes < 0.1 * full


def test_replacing_for_ever_takes_no_more_memory() -> None:
    vectors = vectors_of(21, 1000, 32)
    index = index_of(vectors)
    for round in range(200):
        index.replace(np.arange(1000), np.roll(vectors, round, axis=0))
    assert index.nbytes < 6 * vectors.nbytes
    assert_same(index.search(vectors[:2], 30), defined(vectors[:2], np.roll(vectors, 199, axis=0), 30))


def test_rows_that_come_one_by_one() -> None:
    vectors = vectors_of(22, 1200, 9)
    index = FlatIndex(9)
    for id, vector in enumerate(vectors):
        index.add(np.array([id]), vector[None])
    assert_same(index.search(vectors[:3], 50), defined(vectors[:3], vectors, 50))


def test_a_forked_child_has_threads_of_its_own() -> None:
    vectors = vectors_of(23, 40_000, 256)
    index = index_of(vectors)
    expected = index.search(vectors[:4], 5)
    child = os.fork()
    if child == 0:
        got = index.search(vectors[:4], 5)
        os._exit(0 if all(np.array_equal(*pair) for pair in zip(got, expected, strict=True)) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_without_copies_there_are_none() -> None:
    vectors = vectors_of(24, 2000, 64)
    assert index_of(vectors, certified=False).nbytes < index_of(vectors).nbytes - 2000 * 64
    assert not FlatIndex(40_000).certified


def run_loader(tmp_path: Path) -> str:
    """Import a copy of the loader in a package folder of its own, and return what it says."""
    package = tmp_path / "search"
    package.mkdir()
    loader = package / "flat.py"
    loader.write_text(Path(flat.__file__).read_text())
    result = subprocess.run([sys.executable, loader], capture_output=True, text=True)
    assert result.returncode == 1
    return result.stderr


def test_a_missing_module_says_what_to_do(tmp_path: Path) -> None:
    assert "_index.so is missing. Run `make setup`" in run_loader(tmp_path)


def test_a_module_that_does_not_load_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "_index.so").write_bytes(b"not a library")
    message = run_loader(tmp_path)
    assert "does not load under Python 3." in message
    assert "Build it again with `make setup`" in message

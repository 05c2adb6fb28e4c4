"""Searches beside writers: every answer is that of a state that existed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from remory.search import FlatIndex, FlatView
from tests.search.flat_examples import assert_same, index_of, vectors_of

WIDTH = 24
GROUP = 200
ROUNDS = 1000
QUERY = np.eye(1, WIDTH, dtype=np.float32)


def vector_of(version: int) -> np.ndarray:
    """Its cosine with the query tells the version."""
    vector = np.zeros(WIDTH, dtype=np.float32)
    vector[:2] = version + 1, 1000
    return vector


SCORES = {np.float32((v + 1) / np.hypot(v + 1, 1000)): v for v in range(ROUNDS + 1)}


def versions_of(view: FlatView, group: int) -> set[int]:
    """The versions of a group's vectors; the group must be there as a whole or not at all."""
    mask = np.zeros((group + 1) * GROUP, dtype=bool)
    mask[group * GROUP :] = True
    scores, ids = view.search(QUERY, GROUP, mask)
    found = ids[0][ids[0] >= 0]
    assert found.tolist() in ([], list(range(group * GROUP, (group + 1) * GROUP)))
    return {SCORES[score] for score in scores[0][: len(found)]}


@pytest.mark.parametrize("certified", [True, False])
def test_a_search_sees_one_state_that_existed(certified: bool) -> None:
    """Two writers replace a group each, a third adds and removes one, all in single calls."""
    index = FlatIndex(WIDTH, certified, threads=2)
    ids = np.arange(3 * GROUP).reshape(3, GROUP)
    rows = [np.tile(vector_of(version), (GROUP, 1)) for version in range(ROUNDS + 1)]
    for group in (0, 1):
        index.add(ids[group], rows[0])
    writing = threading.Semaphore(3)
    last_published = [0, 0]

    def replace(group: int) -> None:
        with writing:
            for version in range(1, ROUNDS + 1):
                index.replace(ids[group], rows[version])
                last_published[group] = version

    def come_and_go() -> None:
        with writing:
            for version in range(1, ROUNDS + 1):
                index.add(ids[2], rows[version])
                assert index.remove(ids[2]) == GROUP

    def search(_: int) -> int:
        seen = [0, 0]
        searches = 0
        while not done.is_set():
            least = list(last_published)
            view = index.view()
            for group in (0, 1):
                (version,) = versions_of(view, group)
                assert version >= max(seen[group], least[group])
                assert versions_of(view, group) == {version}
                seen[group] = version
            assert len(versions_of(view, 2)) == (len(view) == 3 * GROUP)
            assert len(view) in (2 * GROUP, 3 * GROUP)
            searches += 1
        return searches

    done = threading.Event()
    with ThreadPoolExecutor() as pool:
        searchers = [pool.submit(search, number) for number in range(2)]
        writers = [pool.submit(replace, 0), pool.submit(replace, 1), pool.submit(come_and_go)]
        for writer in writers:
            writer.result()
        done.set()
        assert all(searcher.result() > 0 for searcher in searchers)
    assert versions_of(index.view(), 0) == versions_of(index.view(), 1) == {ROUNDS}
    assert len(index) == 2 * GROUP


def test_a_save_beside_a_writer_holds_one_state(tmp_path: Path) -> None:
    index = FlatIndex(WIDTH)
    ids = np.arange(GROUP)
    index.add(ids, np.tile(vector_of(0), (GROUP, 1)))
    done = threading.Event()

    def replace() -> None:
        for version in range(1, ROUNDS + 1):
            index.replace(ids, np.tile(vector_of(version), (GROUP, 1)))
        done.set()

    with ThreadPoolExecutor() as pool:
        writer = pool.submit(replace)
        while not done.is_set():
            index.save(tmp_path / "index")
            assert len(versions_of(FlatIndex.load(tmp_path / "index").view(), 0)) == 1
        writer.result()


def test_searches_of_many_threads_share_the_workers() -> None:
    vectors = vectors_of(1, 20_000, 64)
    index = index_of(vectors)
    expected = index.search(vectors[:64], 10)
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: index.search(vectors[:64], 10), range(40)):
            assert_same(got, expected)


def test_the_gil_is_free_meanwhile(tmp_path: Path) -> None:
    vectors = vectors_of(2, 100_000, 128)
    index = index_of(vectors, threads=1)
    index.save(tmp_path / "index")
    ids = np.arange(len(vectors))
    calls: list[Callable[[], object]] = [
        lambda: index.search(vectors[:200], 10),
        lambda: index.save(tmp_path / "other"),
        lambda: FlatIndex.load(tmp_path / "index"),
        lambda: index.replace(ids, vectors),
        lambda: FlatIndex(128).add(ids, vectors),
    ]
    for call in calls:
        thread = threading.Thread(target=call)
        thread.start()
        turns = 0
        while thread.is_alive():
            turns += 1
        # With the GIL held there would be one turn or two: before the call and after it.
        assert turns > 100


def test_a_program_ends_while_a_daemon_thread_searches() -> None:
    """Python ends such a thread when it asks for the GIL; that must not end the process by a signal."""
    program = """
import threading, time
import numpy as np
from remory.search import FlatIndex

index = FlatIndex(64)
vectors = np.random.default_rng(0).standard_normal((20_000, 64), dtype=np.float32)
index.add(np.arange(20_000), vectors)

def search():
    while True:
        index.search(vectors[:64], 10)

for _ in range(2):
    threading.Thread(target=search, daemon=True).start()
time.sleep(0.2)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")

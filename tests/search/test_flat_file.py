from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remory.errors import DamagedIndex
from remory.search import FlatIndex
from tests.search.flat_examples import assert_same, defined, index_of, vectors_of

GOLDEN = Path(__file__).parents[1] / "data" / "flat" / "index-v1.remory"
HEADER = struct.Struct("<8sIIQQ28s")


def checksum(data: bytes) -> int:
    """CRC-32C, from its definition."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def file_of(dimension: int, rows: int, body: bytes, version: int = 1, magic: bytes = b"RemoryFI") -> bytes:
    header = HEADER.pack(magic, version, 1, dimension, rows, b"")
    data = header + struct.pack("<I", checksum(header)) + body
    return data + struct.pack("<I", checksum(data))


def golden_vectors() -> tuple[np.ndarray, np.ndarray]:
    """What the file of format version 1 was made of."""
    ids = np.array([3, 0, 7, 2**40, 12, 5, 2**63 - 1])
    vectors = ((np.arange(35).reshape(7, 5) * 37 % 101 - 50) / 8).astype(np.float32)
    vectors[2] *= np.float32(1e30)
    vectors[4] *= np.float32(1e-42)
    return ids, vectors


def test_the_checksum_is_that_of_the_standard() -> None:
    assert checksum(b"123456789") == 0xE3069283


def test_a_file_of_version_1_is_read_for_ever() -> None:
    ids, vectors = golden_vectors()
    index = FlatIndex.load(GOLDEN)
    assert (index.dimension, len(index), index.certified) == (5, 7, True)
    assert_same(index.search(vectors, 9), defined(vectors, vectors, 9, ids))


def test_the_format_is_the_one_described(tmp_path: Path) -> None:
    ids, vectors = golden_vectors()
    index = FlatIndex(5)
    index.add(np.array([1, 2]), vectors[:2])
    index.add(ids, vectors)
    index.remove(np.array([2, 1]))
    index.save(tmp_path / "index")
    written = (tmp_path / "index").read_bytes()
    assert written == file_of(5, 7, ids.tobytes() + vectors.tobytes())
    assert written == GOLDEN.read_bytes()


@pytest.mark.parametrize("certified", [True, False])
@pytest.mark.parametrize(
    ("count", "width"), [(0, 3), (1, 1), (1000, 7), (400, 384), (5000, 384), (3, 3000), (1, 200_000), (1, 600_000)]
)
def test_what_was_saved_comes_back(tmp_path: Path, count: int, width: int, certified: bool) -> None:
    vectors = vectors_of(count, count, width)
    index = index_of(vectors, certified)
    # Runs of live rows that are short and long: they are written together and alone.
    index.remove(np.concatenate([np.arange(3, count, 450), np.arange(5, min(count, 100), 7)]))
    index.save(tmp_path / "index")
    loaded = FlatIndex.load(tmp_path / "index", threads=1)
    assert (len(loaded), loaded.dimension, loaded.certified) == (len(index), width, index.certified)
    queries = vectors_of(5, 2, width)
    assert_same(loaded.search(queries, 30), index.search(queries, 30))
    loaded.add(np.array([10**6]), queries[:1])
    assert loaded.search(queries[:1], 1)[1].tolist() == [[10**6]]


def test_a_save_replaces_the_file_and_leaves_no_other(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(b"something else")
    index_of(vectors_of(1, 20, 4)).save(str(path))
    assert len(FlatIndex.load(path)) == 20
    assert list(tmp_path.iterdir()) == [path]


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    index = index_of(vectors_of(1, 20, 4))
    with pytest.raises(FileNotFoundError, match="missing/index"):
        index.save(tmp_path / "missing" / "index")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        index.save(tmp_path / "folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
    with pytest.raises(FileNotFoundError):
        FlatIndex.load(tmp_path / "missing")


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_byte_is_found(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(GOLDEN.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
    if content == GOLDEN.read_bytes():
        return
    assert_damaged(tmp_path, bytes(content))


@given(length=st.integers(0, GOLDEN.stat().st_size - 1))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_shortened_file_is_found(tmp_path: Path, length: int) -> None:
    assert_damaged(tmp_path, GOLDEN.read_bytes()[:length])


@given(content=st.binary(max_size=300))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_other_file_is_no_index(tmp_path: Path, content: bytes) -> None:
    assert_damaged(tmp_path, content)
    assert_damaged(tmp_path, GOLDEN.read_bytes() + content + b"\0")


def assert_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(content)
    with pytest.raises(DamagedIndex, match=r"damaged.* is "):
        FlatIndex.load(path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (file_of(5, 2**60, b""), "it should hold 1152921504606846976 rows of 28 bytes, and is 68 bytes long"),
        (file_of(2**62, 0, b""), "its dimension is 4611686018427387904"),
        (file_of(0, 0, b""), "its dimension is 0"),
        (file_of(2**20, 3, bytes(80)), "it should hold 3 rows of 4194312 bytes"),
        (file_of(1, 1, bytes(12), version=2), "is of format version 2; this Remory reads version 1"),
        (file_of(1, 1, bytes(12), magic=b"faissIdx"), "is not an index of Remory"),
        (file_of(1, 1, bytes(12)), "the vector of id 0 is zero"),
        (file_of(1, 1, struct.pack("<qf", -1, 1)), "id -1 is negative"),
        (file_of(1, 2, struct.pack("<qqff", 4, 4, 1, 1)), "id 4 is given more than once"),
        (file_of(1, 1, struct.pack("<qf", 4, float("nan"))), "the vector of id 4 has a NaN"),
        (b"", "it is shorter than its header"),
    ],
)
def test_what_no_save_writes_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "index").write_bytes(content)
    with pytest.raises(DamagedIndex, match=words):
        FlatIndex.load(tmp_path / "index")


SAVE_FOR_EVER = """
import sys
import numpy as np
from remory.search import FlatIndex

index = FlatIndex(64)
index.add(np.arange(100_000), np.ones((100_000, 64), dtype=np.float32))
while True:
    index.save(sys.argv[1])
    print("saved", flush=True)
"""


def test_a_kill_in_the_middle_of_a_save_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index_of(vectors_of(1, 20, 4)).save(path)
    old = path.read_bytes()
    process = subprocess.Popen([sys.executable, "-c", SAVE_FOR_EVER, path], stdout=subprocess.PIPE)
    while not (partial := list(tmp_path.glob("index.*.partial"))) or partial[0].stat().st_size == 0:
        assert process.poll() is None
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    saves = process.stdout.read().count(b"saved")
    assert saves > 0 or path.read_bytes() == old or len(FlatIndex.load(path)) == 100_000

    # And when the first save of another has surely replaced the file, each later kill leaves that one.
    process = subprocess.Popen([sys.executable, "-c", SAVE_FOR_EVER, path], stdout=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.05)
    process.kill()
    process.wait()
    assert len(FlatIndex.load(path)) == 100_000


def test_a_path_is_taken_as_the_system_has_it(tmp_path: Path) -> None:
    """File names are bytes: neither need they be UTF-8, nor may one be cut at a null character."""
    index = index_of(np.eye(3, 4, dtype=np.float32))
    (tmp_path / "a").write_bytes(b"precious")
    with pytest.raises(ValueError, match="null character"):
        index.save(tmp_path / "a\0b")
    assert (tmp_path / "a").read_bytes() == b"precious"

    path = tmp_path / "\udcff"
    index.save(path)
    assert len(FlatIndex.load(path)) == 3
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedIndex, match="is damaged"):
        FlatIndex.load(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    load = f"from remory.search import FlatIndex; FlatIndex.load({str(tmp_path / 'pipe')!r})"
    ended = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, timeout=60, check=False)
    assert "DamagedIndex" in ended.stderr

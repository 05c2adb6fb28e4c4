"""Tensors that pass through a folder, or inline: what is read is what was written, or nothing."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remory.compaction.memory import pack_rows
from remory.engines.sglang import exchange
from remory.engines.sglang.exchange import Exchange, pack
from remory.engines.sglang.protocol import Blob
from remory.errors import EngineFailed, InvalidInput


def rows(count: int = 5, seed: int = 0, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed)).to(dtype)


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("count", [1, 70])
def test_what_is_put_is_got(tmp_path: Path, dtype: torch.dtype, inline: bool, count: int) -> None:
    # A slice of a wider buffer, whose rows do not follow each other.
    tensor = torch.cat([rows(count, 1, dtype), rows(count, 2, dtype)], dim=1)[:, 1:4]
    blob = Exchange(tmp_path).put(tensor, inline=inline)
    assert (blob.inline is not None) == inline
    assert torch.equal(Exchange(tmp_path).get(blob), tensor)
    assert files(tmp_path) == (set() if inline else {f"{blob.sha256}.rows"})


def test_its_name_is_that_of_the_stored_rows(tmp_path: Path) -> None:
    assert bytes(pack(rows())) == pack_rows(rows())


def test_without_a_folder_all_is_inline() -> None:
    blob = Exchange(None).put(rows())
    assert torch.equal(Exchange(None).get(blob), rows())
    with pytest.raises(InvalidInput, match="no exchange folder"):
        Exchange(None).get(replace(blob, inline=None))


def damaged(path: Path, how: str) -> None:
    data = path.read_bytes()
    path.write_bytes({"shorter": data[:-1], "longer": data + b"\0", "another": data[::-1], "empty": b""}[how])


@pytest.mark.parametrize(("how", "words"), [("shorter", "29 bytes"), ("longer", "31 bytes"), ("empty", "0 bytes")])
def test_a_file_of_another_size_is_not_taken(tmp_path: Path, how: str, words: str) -> None:
    blob = Exchange(tmp_path).put(rows())
    damaged(tmp_path / f"{blob.sha256}.rows", how)
    with pytest.raises(InvalidInput, match=words):
        Exchange(tmp_path).get(blob)
    Exchange(tmp_path).put(rows())
    assert torch.equal(Exchange(tmp_path).get(blob), rows())


def test_a_file_of_other_bytes_is_not_taken(tmp_path: Path) -> None:
    blob = Exchange(tmp_path).put(rows())
    damaged(tmp_path / f"{blob.sha256}.rows", "another")
    with pytest.raises(InvalidInput, match="damaged"):
        Exchange(tmp_path).get(blob)
    # Whoever has the tensor can put it again.
    Exchange(tmp_path).put(rows())
    assert torch.equal(Exchange(tmp_path).get(blob), rows())


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    blob = Exchange(tmp_path).put(rows())
    (tmp_path / f"{blob.sha256}.rows").unlink()
    with pytest.raises(InvalidInput, match="not in the exchange folder"):
        Exchange(tmp_path).get(blob)


@pytest.mark.parametrize("text", ["", "no base64!", "AAAA"])
def test_what_is_no_tensor_inline_is_not_taken(text: str) -> None:
    with pytest.raises(InvalidInput):
        Exchange(None).get(Blob("0" * 64, 5, 3, inline=text))


def test_a_name_that_is_a_path_is_none() -> None:
    with pytest.raises(InvalidInput, match="64 hexadecimal"):
        Blob("../" * 20 + "etc/", 5, 3)


def test_the_oldest_go_when_the_folder_is_full(tmp_path: Path) -> None:
    """Whoever wrote them: both sides, and those before a restart, share the limit."""
    size = rows().nbytes
    first, second = Exchange(tmp_path, 3 * size), Exchange(tmp_path, 3 * size)
    blobs = []
    for number, side in enumerate((first, second, first)):
        blobs.append(side.put(rows(seed=number)))
        os.utime(tmp_path / f"{blobs[-1].sha256}.rows", (number, number))
    # Put again, so that it counts as new.
    second.put(rows(seed=0))
    blobs.append(first.put(rows(seed=3)))
    assert files(tmp_path) == {f"{blobs[number].sha256}.rows" for number in (0, 2, 3)}


def test_one_that_is_larger_than_the_limit_is_there_alone(tmp_path: Path) -> None:
    small = Exchange(tmp_path, 10)
    small.put(rows(seed=1))
    blob = small.put(rows(seed=2))
    assert torch.equal(small.get(blob), rows(seed=2))
    assert len(files(tmp_path)) == 1


class FullDisk:
    """A file system on which so many files more find no room."""

    def __init__(self, patch: pytest.MonkeyPatch, failures: int) -> None:
        self._open, self._failures = os.fdopen, failures
        patch.setattr(exchange.os, "fdopen", self.open)

    def open(self, handle: int, mode: str) -> Any:
        self._failures -= 1
        return _Full(self._open(handle, mode)) if self._failures >= 0 else self._open(handle, mode)


class _Full:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def write(self, data: bytes) -> None:
        self._stream.write(data[:7])
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        FullDisk(patch, 2)
        with pytest.raises(EngineFailed, match="No space left"):
            Exchange(tmp_path).put(rows())
    assert files(tmp_path) == set()
    assert torch.equal(Exchange(tmp_path).get(Exchange(tmp_path).put(rows())), rows())


def test_a_full_disk_gets_room_from_older_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Exchange(tmp_path).put(rows(seed=1))
    with monkeypatch.context() as patch:
        FullDisk(patch, 1)
        blob = Exchange(tmp_path).put(rows(seed=2))
    assert files(tmp_path) == {f"{blob.sha256}.rows"}
    assert torch.equal(Exchange(tmp_path).get(blob), rows(seed=2))


def test_many_at_once(tmp_path: Path) -> None:
    side = Exchange(tmp_path, 20 * rows().nbytes)

    def there_and_back(number: int) -> bool:
        tensor = rows(seed=number % 10)
        return torch.equal(side.get(side.put(tensor)), tensor)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(there_and_back, range(400)))
    assert len(files(tmp_path)) == 10

"""Tensors that the frozen actor computed for own data, kept in files: the actor never changes, so neither do they."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

Tensors = dict[str, Tensor]


class TensorCache:
    """Files of at most `limit` bytes together in `folder`; when they are full, what is asked for is computed instead.

    `identity`: all that the tensors depend on beside the token ids (actor revision, layers, dtype). What comes from a
    file is bit for bit what was computed. A damaged file is computed and written again.
    """

    def __init__(self, folder: Path, identity: str, limit: int) -> None:
        self._folder, self._identity, self._limit = folder, identity, limit
        self._used = sum(file.stat().st_size for file in folder.glob("*.safetensors")) if folder.is_dir() else 0

    def get(self, kind: str, ids: Sequence[Sequence[int]], compute: Callable[[], Tensors]) -> Tensors:
        """What `compute` gives for `ids`, on whatever device it is on or, from a file, on the CPU."""
        key = hashlib.sha256(json.dumps([self._identity, kind, [list(part) for part in ids]]).encode()).hexdigest()
        path = self._folder / f"{key}.safetensors"
        found = _read(path)
        if found is None:
            found = compute()
            self._write(path, found)
        return found

    def _write(self, path: Path, tensors: Mapping[str, Tensor]) -> None:
        stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        size = sum(tensor.nbytes for tensor in stored.values())
        if self._used + size > self._limit:
            return
        # A cache is a convenience: a full disk costs time, not the run.
        with contextlib.suppress(OSError, SafetensorError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
            os.close(handle)
            try:
                save_file(stored, scratch, {"crc32": str(_checksum(stored))})
                before = path.stat().st_size if path.exists() else 0
                Path(scratch).replace(path)
                self._used += path.stat().st_size - before
            finally:
                Path(scratch).unlink(missing_ok=True)


def _read(path: Path) -> Tensors | None:
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as stored:
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a dict
            stated = (stored.metadata() or {}).get("crc32")
    except (SafetensorError, OSError):
        return None
    return tensors if stated == str(_checksum(tensors)) else None


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes(), total)
    return total

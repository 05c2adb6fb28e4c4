"""The folder through which tensors pass between processes: binary files named by the SHA-256 of their bytes.

A file is written under a temporary name and renamed, so that a reader sees all of it or none, and the reader checks
size and hash. Where there is no common folder, the same bytes travel inline as base64.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remory.engines.sglang.protocol import Blob
from remory.errors import EngineFailed, InvalidInput

_SUFFIX = ".rows"
_NUMPY = {"bfloat16": "<i2", "float32": "<f4"}


class Exchange:
    """Gives tensors names, and tensors for names; may be used by several threads and processes at once.

    `folder` None: everything travels inline. Whoever writes removes files again, those first that were put longest ago,
    when all in the folder are more than `limit_bytes`, or than half of its file system, or when that is full.
    """

    def __init__(self, folder: Path | None, limit_bytes: int = 512 << 20) -> None:
        self.folder = folder
        self._limit = limit_bytes
        if folder is not None and folder.is_dir():
            self._limit = min(limit_bytes, shutil.disk_usage(folder).total // 2)

    def put(self, tensor: Tensor, *, inline: bool = False) -> Blob:
        """Name a tensor [R, D] in bfloat16 or float32 and make it readable for the other side.

        Raises EngineFailed when the folder takes no file.
        """
        data = pack(tensor)
        name = hashlib.sha256(data).hexdigest()
        blob = Blob(name, tensor.shape[0], tensor.shape[1], str(tensor.dtype).removeprefix("torch."))
        if inline or self.folder is None:
            return Blob(blob.sha256, blob.rows, blob.width, blob.dtype, base64.b64encode(data).decode())
        self._write(self.folder, name, data)
        return blob

    def get(self, blob: Blob) -> Tensor:
        """The tensor [R, D] of a blob, on the CPU. Raises InvalidInput when it is missing or not what it says."""
        data = self._read(blob) if blob.inline is None else _decoded(blob.inline)
        if len(data) != blob.nbytes:
            raise InvalidInput(
                f"blob {blob.sha256[:12]}… has {len(data)} bytes, {blob.rows} rows of {blob.width} in {blob.dtype} "
                f"are {blob.nbytes}"
            )
        found = hashlib.sha256(data).hexdigest()
        if found != blob.sha256:
            if blob.inline is None and self.folder is not None:
                # Whoever has the tensor would otherwise take this for what it is to write.
                (self.folder / f"{blob.sha256}{_SUFFIX}").unlink(missing_ok=True)
            raise InvalidInput(f"blob {blob.sha256[:12]}… is damaged: its bytes have the SHA-256 {found[:12]}…")
        return unpack(data, blob)

    def _write(self, folder: Path, name: str, data: bytes) -> None:
        place = folder / f"{name}{_SUFFIX}"
        try:
            # One that is there already counts as put now; one of another size is none.
            if place.is_file() and place.stat().st_size == len(data):
                os.utime(place)
                return
            self._remove_oldest(folder, self._limit - len(data))
            try:
                _write_whole(place, data)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                # Others fill this file system too.
                self._remove_oldest(folder, 0)
                _write_whole(place, data)
        except OSError as error:
            raise EngineFailed(f"rows cannot be written to the exchange folder: {error.strerror}") from error

    def _remove_oldest(self, folder: Path, room: int) -> None:
        """Remove files, the oldest first, until those that stay have no more than `room` bytes."""
        facts = []
        for file in folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):  # another process may be doing the same
                facts.append((file.stat(), file))
        total = sum(stat.st_size for stat, _ in facts)
        for stat, file in sorted(facts, key=lambda fact: fact[0].st_mtime_ns):
            if total <= room:
                return
            file.unlink(missing_ok=True)
            total -= stat.st_size

    def _read(self, blob: Blob) -> bytes:
        if self.folder is None:
            raise InvalidInput(f"blob {blob.sha256[:12]}… is not inline, and there is no exchange folder here")
        try:
            with (self.folder / f"{blob.sha256}{_SUFFIX}").open("rb") as stream:
                # One byte more than there should be shows a longer file without reading all of it.
                return stream.read(blob.nbytes + 1)
        except FileNotFoundError as error:
            raise InvalidInput(f"blob {blob.sha256[:12]}… is not in the exchange folder") from error
        except OSError as error:
            raise InvalidInput(f"blob {blob.sha256[:12]}… cannot be read: {error.strerror}") from error


def _write_whole(place: Path, data: bytes) -> None:
    handle, scratch = tempfile.mkstemp(dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(scratch).rename(place)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def pack(tensor: Tensor) -> bytes:
    """The bytes of a tensor [R, D] in bfloat16 or float32: little endian, row after row."""
    values = tensor.detach().to("cpu").contiguous()
    if values.dtype == torch.bfloat16:
        values = values.view(torch.int16)
    array = values.numpy()
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def unpack(data: bytes, blob: Blob) -> Tensor:
    """The tensor [R, D] that `pack` gave these bytes of."""
    array = np.frombuffer(bytearray(data), dtype=_NUMPY[blob.dtype])
    values = torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    if blob.dtype == "bfloat16":
        values = values.view(torch.bfloat16)
    return values.view(blob.rows, blob.width)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"a blob's inline is no base64: {error}") from error

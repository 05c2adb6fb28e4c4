"""A memory: what a compaction leaves of a session, immutable, and its form in bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from remory.compaction.pyramid import Node
from remory.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Memory:
    """Prefix, summary and rows that stand for a removed history.

    `prefix_ids` [P] and `summary_ids` [S] int64; `rows` [R, D] bfloat16 on the CPU, the nodes of `frontier` one
    behind another; node spans count raw tokens. `identity` names checkpoint and actor: another identity cannot use
    the rows. `handle` is None until a store has named it.
    """

    prefix_ids: Tensor
    summary_ids: Tensor
    rows: Tensor
    frontier: tuple[Node, ...]
    identity: str
    receipt: Mapping[str, Any]
    handle: str | None = None

    @cached_property
    def rows_sha256(self) -> str:
        """The name of the rows: SHA-256 of their bytes."""
        return hashlib.sha256(self.rows_bytes()).hexdigest()

    @property
    def source_total(self) -> int:
        """How many raw tokens the whole lineage of this memory stands for."""
        return self.frontier[-1].stop

    def named(self, handle: str) -> Memory:
        """The same memory under the handle that a store gave it."""
        return replace(self, handle=handle)

    def rows_bytes(self) -> bytes:
        """Rows as stored: bfloat16, little endian, row after row."""
        return pack_rows(self.rows)

    @staticmethod
    def from_bytes(
        *,
        prefix_ids: bytes,
        summary_ids: bytes,
        rows: bytes,
        width: int,
        frontier: Sequence[Sequence[int]],
        identity: str,
        receipt: Mapping[str, Any],
        handle: str | None = None,
    ) -> Memory:
        """Build a memory from what a store kept. `frontier` holds [start, stop, depth] of each node.

        Raises InvalidInput when the rows' bytes are no whole number of rows of `width`, or of nodes.
        """
        unpacked = unpack_rows(rows, width)
        if not frontier or unpacked.shape[0] % len(frontier):
            raise InvalidInput(f"{unpacked.shape[0]} rows do not divide into {len(frontier)} nodes")
        return Memory(
            prefix_ids=unpack_ids(prefix_ids),
            summary_ids=unpack_ids(summary_ids),
            rows=unpacked,
            frontier=tuple(Node(*node) for node in frontier),
            identity=identity,
            receipt=receipt,
            handle=handle,
        )


def pack_ids(ids: Tensor | Sequence[int]) -> bytes:
    """Token ids as little-endian int32."""
    return np.asarray(ids, dtype="<i4").tobytes()


def unpack_ids(packed: bytes) -> Tensor:
    """Token ids [N] int64 from `pack_ids`."""
    return torch.from_numpy(np.frombuffer(packed, dtype="<i4").astype(np.int64))


def pack_rows(rows: Tensor) -> bytes:
    """Rows [R, D] as little-endian bfloat16."""
    return rows.to(torch.bfloat16).contiguous().view(torch.int16).numpy().astype("<i2").tobytes()


def unpack_rows(packed: bytes, width: int) -> Tensor:
    """Rows [R, width] bfloat16 from `pack_rows`. Raises InvalidInput when the bytes are no whole number of rows."""
    if width < 1 or len(packed) % (2 * width):
        raise InvalidInput(f"{len(packed)} bytes are no whole number of bfloat16 rows of width {width}")
    values = np.frombuffer(packed, dtype="<i2").astype(np.int16)
    return torch.from_numpy(values).view(torch.bfloat16).view(-1, width)

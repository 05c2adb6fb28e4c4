"""Features kept while sessions run, so that a compaction need not read their tokens again.

Attention is causal: the features of a position depend on the ids up to it and on nothing else. So a position is named
by a running hash over them, and sequences that begin alike share what is kept of their beginning.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count, groupby
from typing import overload

import torch
from torch import Tensor

from remory.errors import InvalidInput

_KEY_BYTES = 16
# What the index takes at most beside the features: a token's key, place and share of a dictionary that has just grown;
# a segment's objects. Measured with CPython 3.11 and torch 2.13.
_TOKEN_BYTES = 256
_SEGMENT_BYTES = 832

_pack_id = struct.Struct("<q").pack

_Place = tuple[int, int]


class PrefixKeys:
    """Running keys of a token sequence: key i, of 16 bytes, names ids[0..i] and nothing else.

    A key is the BLAKE2b hash of the key before it and of the id as int64, little endian. Rows of a memory take part as
    ids of their own, beyond the vocabulary.
    """

    def __init__(self) -> None:
        self._keys: list[bytes] = []

    def extend(self, ids: Iterable[int]) -> None:
        """Append the keys of the ids that follow. Raises struct.error for an id that is no int64."""
        key = self._keys[-1] if self._keys else b""
        for token in ids:
            key = blake2b(key + _pack_id(token), digest_size=_KEY_BYTES).digest()
            self._keys.append(key)

    def __len__(self) -> int:
        return len(self._keys)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        return self._keys[index]


@dataclass(frozen=True, slots=True)
class _Segment:
    """What one record stored: features [n, F] of n keys."""

    keys: list[bytes]
    features: Tensor

    @property
    def bytes(self) -> int:
        return _segment_bytes(len(self.keys), self.features[0].nbytes)


class LiveStore:
    """Features by key, on the CPU, bounded in bytes. Not for more than one thread.

    A segment, which is what one `record` stored, is dropped as a whole, the one recorded or read longest ago first.
    `bytes` are what the features and the index take (the index by an estimate that is on the safe side); they never
    exceed `limit_bytes`.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._numbers = count()
        self._segments: OrderedDict[int, _Segment] = OrderedDict()
        # Number of the segment and row in it: a pair of integers is nothing that garbage collection has to visit.
        self._places: dict[bytes, _Place] = {}

    @property
    def tokens(self) -> int:
        """Positions whose features are there."""
        return len(self._places)

    def record(self, keys: Sequence[bytes], features: Tensor) -> None:
        """Keep a copy of the features [n, F], on any device, of the n positions that `keys` name.

        Positions that are there already keep what they have and count as used. Of what is larger than the limit by
        itself, the first positions are kept that fit. Raises InvalidInput for shapes that do not fit `keys`, or for
        another F or dtype than is held (see `clear`); nothing is changed then.
        """
        self._check(keys, features)
        self._touch(self._places[key] for key in keys if key in self._places)
        new = {key: row for row, key in enumerate(keys) if key not in self._places}
        row_bytes = features.shape[1] * features.element_size()
        fitting = max(0, (self.limit_bytes - _SEGMENT_BYTES) // (row_bytes + _TOKEN_BYTES))
        kept = list(new)[:fitting]
        if not kept:
            return
        self._make_room(_segment_bytes(len(kept), row_bytes))
        rows = torch.tensor([new[key] for key in kept])
        self._insert(_Segment(kept, features.detach().cpu().index_select(0, rows)))

    def known(self, keys: Sequence[bytes]) -> list[bool]:
        """Of each key, whether its features are there. Does not count as use."""
        return [key in self._places for key in keys]

    def read(self, keys: Sequence[bytes]) -> Tensor:
        """A copy of the features [n, F] of n >= 1 keys, on the CPU. Counts as use.

        Raises InvalidInput when there is no key, or when the features of one are not there.
        """
        places = [self._places[key] for key in keys if key in self._places]
        if not keys or len(places) < len(keys):
            raise InvalidInput(f"the features of {len(keys)} positions are wanted, those of {len(places)} are there")
        self._touch(places)
        pieces = []
        for number, run in groupby(places, key=lambda place: place[0]):
            rows = torch.tensor([row for _, row in run])
            pieces.append(self._segments[number].features.index_select(0, rows))
        return torch.cat(pieces)

    def clear(self) -> None:
        """Drop everything: features of other layers may follow."""
        self._segments.clear()
        self._places.clear()
        self.bytes = 0

    def _check(self, keys: Sequence[bytes], features: Tensor) -> None:
        if features.dim() != 2 or features.shape[0] != len(keys):
            raise InvalidInput(f"features must be [{len(keys)}, F] for {len(keys)} keys, got {[*features.shape]}")
        if not self._segments:
            return
        held = next(iter(self._segments.values())).features
        if (features.shape[1], features.dtype) != (held.shape[1], held.dtype):
            raise InvalidInput(
                f"features are {features.shape[1]} wide in {features.dtype}, those held are {held.shape[1]} wide in "
                f"{held.dtype}"
            )

    def _touch(self, places: Iterable[_Place]) -> None:
        for number in dict.fromkeys(number for number, _ in places):
            self._segments.move_to_end(number)

    def _make_room(self, needed: int) -> None:
        while self._segments and self.bytes + needed > self.limit_bytes:
            _, oldest = self._segments.popitem(last=False)
            self.bytes -= oldest.bytes
            for key in oldest.keys:
                del self._places[key]

    def _insert(self, segment: _Segment) -> None:
        number = next(self._numbers)
        self._segments[number] = segment
        self._places.update((key, (number, row)) for row, key in enumerate(segment.keys))
        self.bytes += segment.bytes


def _segment_bytes(tokens: int, row_bytes: int) -> int:
    return _SEGMENT_BYTES + tokens * (row_bytes + _TOKEN_BYTES)

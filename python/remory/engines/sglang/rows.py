"""Rows inside a worker: ids that stand for them in the prefix cache, and the rows of recent requests."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import torch
from torch import Tensor

from remory.engines.sglang.exchange import Exchange
from remory.engines.sglang.protocol import Blob
from remory.errors import EngineFailed

# Beyond every vocabulary, and the last one still fits 32 bits.
_FIRST_ID = 1 << 30
_IDS = (1 << 31) - _FIRST_ID


class RowIds:
    """Numbers for rows, so that SGLang's prefix cache, which knows ids alone, tells them apart.

    Rows of the same bytes get the same ids, any others get ids that were never given before: a cached state is found
    again only behind the very rows it was read with, while what stands before them is shared with everybody. Ids hold
    for one process, as its cache does. Ranks that see the same requests in the same order give the same ids.
    """

    def __init__(self) -> None:
        self._first: dict[Blob, int] = {}
        self._next = _FIRST_ID

    def of(self, blob: Blob) -> range:
        """The ids of a blob's rows. Raises EngineFailed when there are none left."""
        blob = replace(blob, inline=None)
        if blob not in self._first:
            if self._next + blob.rows > _FIRST_ID + _IDS:
                raise EngineFailed(f"this worker has had {_IDS} rows and has no names left: start it again")
            self._first[blob] = self._next
            self._next += blob.rows
        first = self._first[blob]
        return range(first, first + blob.rows)


class RecentRows:
    """Rows by their hash, on the device, the least used ones dropped when they are more than `limit_bytes`."""

    def __init__(self, exchange: Exchange, device: torch.device, dtype: torch.dtype, limit_bytes: int) -> None:
        self._exchange = exchange
        self._device, self._dtype = device, dtype
        self._limit = limit_bytes
        self._held: OrderedDict[Blob, Tensor] = OrderedDict()

    def get(self, blob: Blob) -> Tensor:
        """Rows [R, D] of a blob on the device, in the actor's dtype. Raises InvalidInput as `Exchange.get` does."""
        key = replace(blob, inline=None)
        if key not in self._held:
            self._held[key] = self._exchange.get(blob).to(self._device, self._dtype)
        self._held.move_to_end(key)
        rows = self._held[key]
        while len(self._held) > 1 and sum(one.nbytes for one in self._held.values()) > self._limit:
            self._held.popitem(last=False)
        return rows

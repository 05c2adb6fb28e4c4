"""Prefilled state of prompts read before, bounded in bytes.

A prompt is read in chunks whose ends depend on the prompt alone; the state of each complete chunk is kept under a
key that chains over everything before it: token ids, the rows' bytes, the actor and its dtype. So state is shared
between equal beginnings and never between different rows, and a warm prompt runs exactly the same chunks as a
cold one would from there: the answers are equal to the last bit.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from remory.engines.base import Source


def chunk_spans(length: int, cuts: Sequence[int], chunk: int) -> Iterator[tuple[int, int]]:
    """Cut [0, length) into spans of at most `chunk` tokens that end at every cut."""
    start = 0
    for cut in sorted({cut for cut in cuts if 0 < cut < length} | {length}):
        while start < cut:
            stop = min(start + chunk, cut)
            yield start, stop
            start = stop


def chunk_keys(source: Source, spans: Sequence[tuple[int, int]], seed: str) -> list[bytes]:
    """One key a span, each over all that stands before the span's end. `seed` names actor and dtype."""
    keys = []
    chain = hashlib.sha256(seed.encode()).digest()
    for start, stop in spans:
        inside = (source.positions >= start) & (source.positions < stop)
        # How many bytes of what follow comes first, so that no two spans write the same bytes.
        digest = hashlib.sha256(chain)
        digest.update(f"{start}:{stop}:{int(inside.sum())}".encode())
        digest.update(source.ids[start:stop].numpy().tobytes())
        if source.rows is not None:
            digest.update(f"{source.rows.dtype}:{source.rows.shape[1]}".encode())
            digest.update((source.positions[inside] - start).numpy().tobytes())
            digest.update(source.rows[inside].contiguous().view(torch.uint8).numpy().tobytes())
        chain = digest.digest()
        keys.append(chain)
    return keys


class PrefixCache:
    """Pieces of attention state by key, least recently used first to go. Not for more than one thread."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._pieces: OrderedDict[bytes, Tensor] = OrderedDict()

    def match(self, keys: Sequence[bytes]) -> list[Tensor]:
        """The pieces of the longest run of `keys` from the first on that is held."""
        held: list[Tensor] = []
        for key in keys:
            if key not in self._pieces:
                break
            held.append(self._pieces[key])
        # The beginning is used by more prompts than the end, so it is touched last and goes last.
        for key in reversed(keys[: len(held)]):
            self._pieces.move_to_end(key)
        return held

    def insert(self, key: bytes, piece: Tensor, before: Sequence[bytes] = ()) -> None:
        """Keep a piece; those used least recently go until the limit holds.

        `before` are the keys of the prompt's earlier pieces, without which this one is of no use: they stay, and a
        piece for which there is no room beside them is not kept.
        """
        others = [held for held in self._pieces if held not in set(before)]
        if key in self._pieces or self.bytes - self._size(others) + piece.nbytes > self.limit_bytes:
            return
        for oldest in others:
            if self.bytes + piece.nbytes <= self.limit_bytes:
                break
            self.bytes -= self._pieces.pop(oldest).nbytes
        self._pieces[key] = piece
        self.bytes += piece.nbytes

    def _size(self, keys: Iterable[bytes]) -> int:
        return sum(self._pieces[key].nbytes for key in keys)

    def clear(self) -> None:
        """Drop everything."""
        self._pieces.clear()
        self.bytes = 0

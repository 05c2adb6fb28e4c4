"""What one request collects while the actor reads it: states to return, or features until its blocks are encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from remory import ops
from remory.engines.sglang.protocol import Encode, places_of
from remory.errors import EngineFailed
from remory.network import MemoryNetwork


@dataclass(frozen=True)
class Chunk:
    """What the actor has just read of one request: tokens [start, stop) of it, at `offset` of the batch.

    `final` [T, D] are the last, normalised states of the whole batch; `layers` holds the residual stream [T, D] behind
    each captured layer.
    """

    start: int
    stop: int
    offset: int
    final: Tensor
    layers: dict[int, Tensor]


class StatesJob:
    """Collects the final states of a prompt from token `first` on, and of what is decoded behind it."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._states: list[Tensor] = []

    def take(self, chunk: Chunk) -> None:
        """Keep what is asked for of a chunk. Tokens may be read again, from an earlier one on."""
        start = max(chunk.start, self._first)
        if start >= chunk.stop:
            return
        known = self._first + sum(map(len, self._states))
        if start < known:
            self._states = [torch.cat(self._states)[: start - self._first]]
        offset = chunk.offset - chunk.start
        self._states.append(chunk.final[offset + start : offset + chunk.stop].clone())

    def result(self, tokens: int) -> Tensor:
        """States [tokens - first, D] of a sequence of which so many tokens count. Raises EngineFailed."""
        states = torch.cat(self._states) if self._states else torch.empty(0, 0)
        wanted = tokens - self._first
        if len(states) < wanted:
            raise EngineFailed(f"only {len(states)} of {wanted} states were captured")
        # An overlapping scheduler reads one token more than it says.
        return states[:wanted]


class Block:
    """A leaf: features [T, L*D] of its tokens, of which `missing` are still to come, then its rows [n, D].

    Features take their place on the device when the first of them is written. `kept` [k, L*D] on the CPU are those of
    the k tokens where `known` [T] is true, kept when the session ran.
    """

    def __init__(self, start: int, stop: int, input_depth: int) -> None:
        self.start, self.stop, self.input_depth = start, stop, input_depth
        self.missing = stop - start
        self.features: Tensor | None = None
        self.kept: Tensor | None = None
        self.known = np.zeros(stop - start, dtype=bool)
        self.rows: Tensor | None = None

    def opened(self, network: MemoryNetwork) -> Tensor:
        """Features [T, L*D] on the network's device, with those that were kept in their places."""
        if self.features is None:
            size = self.stop - self.start, network.geometry.feature_size
            self.features = torch.empty(size, dtype=network.dtype, device=network.device)
            if self.kept is not None:
                self.features[torch.from_numpy(self.known)] = self.kept.to(network.device, network.dtype)
                self.kept = None
        return self.features

    def close(self, rows: Tensor) -> None:
        """The block is encoded, and its features are needed no more."""
        self.rows, self.features, self.kept = rows, None, None


class EncodeJob:
    """The blocks of one compaction.

    `ids` are those of the prompt, with -1 where rows were injected; `embed` gives the input embeddings [n, D] at some
    of the prompt's places.
    """

    def __init__(
        self,
        order: Encode,
        network: MemoryNetwork,
        layer_ids: Sequence[int],
        summary: Tensor | None,
        ids: np.ndarray,
        embed: Callable[[np.ndarray], Tensor],
    ) -> None:
        self.network, self.summary = network, summary
        self._layer_ids = tuple(layer_ids)
        self._ids, self._embed = ids, embed
        self.places = np.asarray(places_of(order.runs), dtype=np.int64)
        self.blocks = [Block(*leaf) for leaf in order.leaves]
        self._have = np.zeros(len(self.places), dtype=bool)
        self.live_tokens = 0

    def fill(self, known: np.ndarray, features: Tensor, captured: Sequence[int]) -> None:
        """Take features [n, K*D] of the n source tokens where `known` [N] is true, kept when the session ran.

        They are on the CPU; `captured` are the K layers that they hold, in order.
        """
        columns = [list(captured).index(layer) for layer in self._layer_ids]
        parts = features.unflatten(1, (-1, self.network.geometry.hidden_size))
        if columns != list(range(parts.shape[1])):
            parts = parts[:, columns]
        counts = [int(known[block.start : block.stop].sum()) for block in self.blocks]
        for block, kept in zip(self.blocks, parts.flatten(1).split(counts), strict=True):
            block.kept, block.known = kept, known[block.start : block.stop]
            block.missing -= len(kept)
        self._have |= known
        self.live_tokens = int(known.sum())

    def take(self, chunk: Chunk) -> None:
        """Write the features of a chunk's source tokens into their blocks. Raises EngineFailed for a missing layer."""
        absent = [layer for layer in self._layer_ids if layer not in chunk.layers]
        if absent:
            raise EngineFailed(f"layers {absent} of the actor were never captured; captured are {sorted(chunk.layers)}")
        first, last = np.searchsorted(self.places, (chunk.start, chunk.stop))
        for block in self.blocks:
            low, high = max(first, block.start), min(last, block.stop)
            wanted = np.arange(low, max(low, high))
            wanted = wanted[~self._have[wanted]]
            if len(wanted):
                self._write(block, wanted, chunk)

    def _write(self, block: Block, wanted: np.ndarray, chunk: Chunk) -> None:
        features = block.opened(self.network)
        rows = torch.from_numpy(self.places[wanted] - chunk.start + chunk.offset).to(self.network.device)
        whole = wanted[-1] - wanted[0] + 1 == len(wanted)
        place = slice(int(wanted[0]) - block.start, int(wanted[-1]) + 1 - block.start)
        out = features[place] if whole else features.new_empty(len(wanted), features.shape[1])
        for column, layer in enumerate(self._layer_ids):
            ops.capture(chunk.layers[layer], None, rows, out, column)
        if not whole:
            features[torch.from_numpy(wanted - block.start)] = out
        self._have[wanted] = True
        block.missing -= len(wanted)

    def ready(self) -> list[Block]:
        """The blocks whose features are there and whose rows are not."""
        return [block for block in self.blocks if not block.missing and block.rows is None]

    def embeddings(self, block: Block) -> Tensor | None:
        """Input embeddings [T, D] of a block's tokens, if the network reads them."""
        if not self.network.geometry.reads_embeddings:
            return None
        return self._embed(self.places[block.start : block.stop])

    def token_ids(self, block: Block) -> Tensor | None:
        """Token ids [T] int64 of a block's tokens, -1 for rows, if the network reads them."""
        if not self.network.geometry.pointer_heads:
            return None
        return torch.from_numpy(self._ids[self.places[block.start : block.stop]])

    def result(self) -> Tensor:
        """Rows [blocks * n, D]. Raises EngineFailed when a block has none."""
        missing = [(block.start, block.stop, block.missing) for block in self.blocks if block.rows is None]
        if missing:
            start, stop, count = missing[0]
            raise EngineFailed(f"{len(missing)} blocks have no rows; of [{start}, {stop}) {count} features are missing")
        return torch.cat([block.rows for block in self.blocks if block.rows is not None])


def encode_blocks(work: Sequence[tuple[EncodeJob, Block]], embedded: Sequence[Tensor | None]) -> None:
    """Make the rows of blocks that share a network, of whichever requests, in one call.

    `embedded`: what `EncodeJob.embeddings` gave for each.
    """
    network = work[0][0].network
    device = network.device
    summary, summary_lengths = _ragged([job.summary for job, _ in work if job.summary is not None], device)
    ids = [job.token_ids(block) for job, block in work]
    rows = network.encode(
        _padded([block.opened(network) for _, block in work]),
        torch.tensor([block.stop - block.start for _, block in work], device=device),
        summary,
        torch.tensor([block.input_depth for _, block in work], device=device),
        embeddings=None if embedded[0] is None else _padded(embedded),
        token_ids=None if ids[0] is None else _padded(ids, -1).to(device),
        summary_lengths=summary_lengths,
    )
    for (_, block), made in zip(work, rows.to("cpu", torch.bfloat16), strict=True):
        block.close(made)


def _ragged(summaries: Sequence[Tensor], device: torch.device) -> tuple[Tensor | None, Tensor | None]:
    """Summaries [S, D] of one block each as one argument: alone or all the same one as it is, else padded."""
    if not summaries:
        return None, None
    if all(one is summaries[0] for one in summaries):
        return summaries[0], None
    return _padded(summaries), torch.tensor([len(one) for one in summaries], device=device)


def _padded(parts: Sequence[Tensor | None], value: float = 0) -> Tensor:
    """[B, T, …] from B tensors [t, …]."""
    present = [part for part in parts if part is not None]
    return torch.nn.utils.rnn.pad_sequence(present, batch_first=True, padding_value=value)

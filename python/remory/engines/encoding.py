"""The passes of one compaction over an actor, as steps between which other requests may run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from remory.engines.actor_model import ActorModel
from remory.engines.base import EncodeRequest, Leaf
from remory.engines.folding import Node, fold, levels
from remory.engines.kv import KVState
from remory.errors import EngineFailed, InvalidInput
from remory.network import MemoryNetwork

# Features of a few blocks are held at a time, so memory grows with the history only by the attention state.
_BLOCKS_AT_ONCE = 4
_CHUNK = 512


@dataclass(frozen=True)
class Prepared:
    """A checkpoint's network on the actor's device and in its dtype, and the layers whose states it reads."""

    network: MemoryNetwork
    layer_ids: tuple[int, ...]


class Encoding:
    """One compaction: the state holds the prefix, read once; every pass begins there and is cut back to it."""

    def __init__(self, actor: ActorModel, prepared: Prepared, state: KVState, request: EncodeRequest) -> None:
        self._actor = actor
        self._network = network = prepared.network
        self._layer_ids = prepared.layer_ids
        self._geometry = network.geometry
        self._state = state
        self._prefix = state.length
        self._request = request
        self._synchronise = torch.cuda.synchronize if actor.device.type == "cuda" else _nothing_to_wait_for
        self._summary: Tensor | None = None
        self._milliseconds: dict[str, float] = defaultdict(float)

    def steps(self) -> Generator[None, None, list[Tensor]]:
        """Run all passes; returns the rows [n, D] of every node left, oldest first, bfloat16 on the CPU."""
        yield from self._read_summary()
        leaves: list[Tensor] = []
        for first in range(0, len(self._request.leaves), _BLOCKS_AT_ONCE):
            leaves += yield from self._read_leaves(self._request.leaves[first : first + _BLOCKS_AT_ONCE])
        nodes = fold([Node(rows) for rows in [*self._request.kept, *leaves]], self._request.folds)
        yield from self._read_parents(nodes)
        return [node.made() for node in nodes]

    @property
    def timings_ms(self) -> dict[str, float]:
        """Milliseconds that each phase worked, without other requests' turns."""
        return dict(self._milliseconds)

    def _read_summary(self) -> Generator[None, None, None]:
        ids = self._request.summary_ids
        if ids is None or not self._geometry.summary_conditioned:
            return
        states = []
        for start in range(0, len(ids), _CHUNK):
            with self._phase("summary"):
                embeddings = self._actor.embed_ids(ids[start : start + _CHUNK])
                states.append(self._actor.read(self._state, embeddings)[0])
            yield
        # Copied, so that the network gets an ordinary dense tensor and the markers' states are freed.
        self._summary = torch.cat(states)[-self._request.summary_tokens :].to(self._network.dtype, copy=True)
        self._state.truncate(self._prefix)

    def _read_leaves(self, leaves: Sequence[Leaf]) -> Generator[None, None, list[Tensor]]:
        """Read on through these blocks and encode them in one batch."""
        batch = _Batch(self._network, [leaf.stop - leaf.start for leaf in leaves], self._actor.device)
        for index, leaf in enumerate(leaves):
            places = self._request.positions[leaf.start : leaf.stop]
            start, last = self._state.length - self._prefix, int(places[-1]) + 1
            while start < last:
                stop = min(start + _CHUNK, last)
                with self._phase("leaves"):
                    self._read_chunk(batch, index, places, start, stop)
                start = stop
                yield
        with self._phase("leaves"):
            return batch.encode(self._summary, [leaf.input_depth for leaf in leaves])

    def _read_chunk(self, batch: _Batch, index: int, places: Tensor, start: int, stop: int) -> None:
        context = self._request.context
        embeddings = self._actor.embed(context, start, stop)
        first, last = torch.searchsorted(places, torch.tensor([start, stop])).tolist()
        rows = places[first:last] - start
        with self._actor.capturing(self._layer_ids, rows, [batch.features[index, first:last]]):
            self._actor.read(self._state, embeddings)
        if batch.embeddings is not None:
            batch.embeddings[index, first:last] = embeddings[0, rows.to(self._actor.device)].to(batch.embeddings.dtype)
        if batch.token_ids is not None:
            ids = context.ids[places[first:last]].clone()
            ids[torch.isin(places[first:last], context.positions)] = -1
            batch.token_ids[index, first:last] = ids

    def _read_parents(self, nodes: list[Node]) -> Generator[None, None, None]:
        """Make the rows of all folded nodes, the lowest level first, nodes of one level in one batch."""
        self._state.truncate(self._prefix)
        for parents in levels(nodes):
            for first in range(0, len(parents), _BLOCKS_AT_ONCE):
                yield from self._read_level(parents[first : first + _BLOCKS_AT_ONCE])

    def _read_level(self, parents: Sequence[Node]) -> Generator[None, None, None]:
        sources = torch.stack([parent.source() for parent in parents])
        sources = sources.to(self._actor.device, self._actor.dtype)
        length = sources.shape[1]
        batch = _Batch(self._network, [length] * len(parents), self._actor.device)
        state = self._state.repeated(len(parents), self._prefix, self._prefix + length)
        for start in range(0, length, _CHUNK):
            stop = min(start + _CHUNK, length)
            outs = list(batch.features[:, start:stop])
            rows = torch.arange(stop - start)
            with self._phase("merge"), self._actor.capturing(self._layer_ids, rows, outs):
                self._actor.read(state, sources[:, start:stop])
            yield
        if batch.embeddings is not None:
            batch.embeddings.copy_(sources)
        with self._phase("merge"):
            encoded = batch.encode(self._summary, [parent.input_depth for parent in parents])
        for parent, rows in zip(parents, encoded, strict=True):
            parent.settle(rows)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._synchronise()  # a GPU has only been told what to do when the calls return
        self._milliseconds[name] += (time.perf_counter() - began) * 1000


class _Batch:
    """What the network reads of B blocks: features [B, T, L·D] and, where its paths need them, embeddings and ids."""

    def __init__(self, network: MemoryNetwork, lengths: Sequence[int], device: torch.device) -> None:
        geometry = network.geometry
        shape = len(lengths), max(lengths)
        self._network = network
        self._lengths = torch.tensor(lengths)
        empty = partial(torch.empty, dtype=network.dtype, device=device)
        self.features = empty(*shape, geometry.feature_size)
        self.embeddings = empty(*shape, geometry.hidden_size) if geometry.reads_embeddings else None
        self.token_ids = torch.full(shape, -1) if geometry.pointer_heads else None

    def encode(self, summary: Tensor | None, input_depths: Sequence[int]) -> list[Tensor]:
        """One call for all blocks; rows [n, D] of each, bfloat16 on the CPU."""
        device = self.features.device
        token_ids = None if self.token_ids is None else self.token_ids.to(device)
        try:
            rows = self._network.encode(
                self.features,
                self._lengths.to(device),
                summary,
                torch.tensor(input_depths, device=device),
                embeddings=self.embeddings,
                token_ids=token_ids,
            )
        except InvalidInput as error:
            # The caller's input was checked before: what the network refuses here, the actor has made.
            raise EngineFailed(f"the actor's states cannot be encoded: {error}") from error
        return list(rows.to("cpu", torch.bfloat16))


def _nothing_to_wait_for() -> None:
    """A CPU has done its work when the call returns."""

"""The actor's attention state: buffers that grow in place, can be cut back, and are copied out in pieces."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

_GROWTH_TOKENS = 256


class _Layer(CacheLayerMixin):
    """Keys and values of one layer, [B, KV, capacity, d] each, the first `length` positions filled."""

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self._keys = key_states.new_empty(_with_tokens(key_states, self.capacity))
        self._values = value_states.new_empty(_with_tokens(value_states, self.capacity))
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        stop = self.length + key_states.shape[2]
        if not self.is_initialized:
            self.capacity = max(self.capacity, stop)
            self.lazy_initialization(key_states, value_states)
        elif stop > self.capacity:
            self._grow(stop)
        self._keys[:, :, self.length : stop] = key_states
        self._values[:, :, self.length : stop] = value_states
        self.length = stop
        return self.span(0, stop)

    def span(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Views of the keys and values [B, KV, stop - start, d] of some positions."""
        return self._keys[:, :, start:stop], self._values[:, :, start:stop]

    def _grow(self, needed: int) -> None:
        keys, values = self.span(0, self.length)
        self.capacity = max(needed, self.capacity + _GROWTH_TOKENS)
        self.lazy_initialization(keys, values)
        self._keys[:, :, : self.length] = keys
        self._values[:, :, : self.length] = values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


class KVState(Cache):
    """Attention state of B sequences of equal length over all layers of an actor.

    `capacity` tokens are reserved at once; more grows in steps. Unlike a cache that concatenates, a decode step
    moves only its own token.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        self._layers = [_Layer(capacity) for _ in range(layers)]
        super().__init__(layers=list(self._layers))

    @property
    def length(self) -> int:
        """Tokens read so far."""
        return self._layers[0].length

    def truncate(self, length: int) -> None:
        """Forget everything from position `length` on."""
        for layer in self._layers:
            layer.length = min(layer.length, length)

    def copy_out(self, start: int, stop: int) -> Tensor:
        """The state of positions [start, stop) as one tensor [layers, 2, B, KV, stop - start, d]."""
        return torch.stack([torch.stack(layer.span(start, stop)) for layer in self._layers])

    def append(self, piece: Tensor) -> None:
        """Put a piece from `copy_out` behind what is there."""
        for layer, (keys, values) in zip(self._layers, piece, strict=True):
            layer.update(keys, values)

    def repeated(self, batch: int, length: int, capacity: int) -> KVState:
        """A new state of `batch` sequences that all begin with the first `length` positions of this one."""
        copy = KVState(len(self._layers), capacity)
        for mine, theirs in zip(self._layers, copy._layers, strict=True):
            keys, values = mine.span(0, length)
            theirs.update(keys.expand(batch, -1, -1, -1), values.expand(batch, -1, -1, -1))
        return copy


def _with_tokens(states: Tensor, tokens: int) -> tuple[int, int, int, int]:
    batch, heads, _, width = states.shape
    return batch, heads, tokens, width

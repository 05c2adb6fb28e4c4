"""Bytes and operations that a piece of work takes at least, whoever does it.

Every input is counted as read once and every result as written once, at their own widths; a multiplication and an
addition are two operations. What an implementation moves or computes beyond that is its own affair and shows as a
lower rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remory.network import Geometry

_INDEX_BYTES = 8
_SCORE_AND_ID_BYTES = 12


@dataclass(frozen=True)
class Amount:
    bytes: int = 0
    flops: int = 0


def copy_amount(nbytes: int) -> Amount:
    """A copy of `nbytes`: each is read and written."""
    return Amount(bytes=2 * nbytes)


def product_amount(m: int, n: int, k: int) -> Amount:
    """A matrix product [m, k] · [k, n]."""
    return Amount(flops=2 * m * n * k)


def capture_amount(rows: int, width: int, read_itemsize: int, write_itemsize: int, residual: bool = True) -> Amount:
    """Chosen rows of the hidden states, and of the residual, read; one layer's features written."""
    read = (2 if residual else 1) * read_itemsize
    return Amount(bytes=rows * (width * (read + write_itemsize) + _INDEX_BYTES))


def inject_amount(rows: int, width: int, read_itemsize: int, write_itemsize: int) -> Amount:
    return Amount(bytes=rows * (width * (read_itemsize + write_itemsize) + _INDEX_BYTES))


def topk_amount(queries: int, rows: int, dimension: int, itemsize: int, k: int, mask_bytes: int = 0) -> Amount:
    """`rows`: the vectors that take part. Their norms are not counted: some ways are given unit vectors."""
    moved = rows * dimension * itemsize + queries * (dimension * itemsize + k * _SCORE_AND_ID_BYTES) + mask_bytes
    return Amount(bytes=moved, flops=2 * queries * rows * dimension)


def visible_pairs(block: int, ratio: int, window: int, tokens: int) -> tuple[int, int]:
    """Of one block with `tokens` source tokens: pairs of a slot and a token it sees, and of a slot and a slot it sees.

    Coordinates are doubled, as in `slot_attention`: an anchor may be a half-integer.
    """
    anchors = [first + min(first + ratio, block) - 1 for first in range(0, block, ratio)]
    source = sum(abs(2 * token - anchor) < window for anchor in anchors for token in range(tokens))
    slots = sum(abs(other - anchor) < window for anchor in anchors for other in anchors)
    return source, slots


def attention_amount(
    blocks: int, heads: int, kv_heads: int, head_dim: int, itemsize: int, block: int, ratio: int, window: int
) -> Amount:
    """`slot_attention` over full blocks: scores and weighted sums of the pairs that are visible."""
    slots = -(-block // ratio)
    pairs = sum(visible_pairs(block, ratio, window, block))
    moved = 2 * slots * heads * head_dim + 2 * (block + slots) * kv_heads * head_dim
    return Amount(bytes=blocks * moved * itemsize, flops=4 * blocks * heads * head_dim * pairs)


def encode_amount(
    geometry: Geometry, blocks: int, tokens: int, summary_rows: int, itemsize: int, own_summaries: bool = False
) -> Amount:
    """`encode` of blocks of `tokens` source tokens; `summary_rows` are those of the summary that all blocks see, or,
    with `own_summaries`, those of all blocks' summaries together. Each row is projected once.

    Counted are matrix products, attention over visible pairs, and the convolution of a salient base: not norms,
    rotations and the like, which add a few operations an element.
    """
    g = geometry
    width, source, slots = g.hidden_size, blocks * tokens, blocks * g.slots
    queries, keys = g.num_attention_heads * g.head_dim, g.num_key_value_heads * g.head_dim
    source_pairs, slot_pairs = visible_pairs(g.block_tokens, g.compression_ratio, g.local_window, tokens)
    inner_layers = g.num_hidden_layers - 1

    flops = 2 * source * width * g.feature_size
    every_layer = 2 * slots * width * (2 * queries + 2 * keys + 3 * g.intermediate_size)
    flops += g.num_hidden_layers * every_layer + inner_layers * 2 * source * width * 2 * keys
    flops += 4 * queries * blocks * (inner_layers * (source_pairs + slot_pairs) + g.slots**2)
    if g.summary_conditioned:
        projections = 2 * width * (slots * 2 * queries + summary_rows * 2 * keys)
        seen = g.slots * summary_rows * (1 if own_summaries else blocks)
        flops += inner_layers * (projections + 4 * queries * seen)
    if g.salience_channels:
        channels = g.salience_channels
        flops += 2 * source * channels * (2 * width + 2 * g.salience_reach + 1 + channels + 1)
    if g.pointer_heads:
        pointer = g.pointer_heads * g.pointer_head_dim
        flops += (
            2 * width * pointer * (slots + source) + 2 * (pointer + g.pointer_heads * width) * blocks * source_pairs
        )
        flops += 2 * slots * g.pointer_heads * width * width

    weights = sum(_product(shape) for name, shape in g.tensor_shapes().items() if name != "pointer.idf")
    read = source * (g.feature_size + (width if g.reads_embeddings else 0)) + summary_rows * width + weights
    return Amount(bytes=(read + slots * width) * itemsize, flops=flops)


def _product(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size

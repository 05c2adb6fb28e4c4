"""`slot_attention` beside its definition, SDPA with a mask, flex_attention and torch.compile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from bench.kernels.amounts import attention_amount
from bench.kernels.ceilings import product_ceiling
from bench.kernels.comparison import require_close
from bench.kernels.work import Case, Context, Way, Work
from torch import Tensor

from remory import ops

DTYPES = (torch.float32, torch.bfloat16)
_HEADS, _KV_HEADS, _HEAD_DIM = 9, 3, 64
_BLOCK, _RATIO = 1024, 16


def cases(context: Context) -> Iterator[Case]:
    shapes = [(1, 256), (16, 256), (16, 2 * _BLOCK)]
    if context.is_cuda:
        shapes.append((128, 256))
    for dtype in DTYPES:
        for blocks, window in shapes[:1] if context.quick else shapes:
            yield _case(blocks, window, dtype)


def _case(blocks: int, window: int, dtype: torch.dtype) -> Case:
    def prepare(context: Context) -> Work:
        slots = _BLOCK // _RATIO
        q = torch.randn(blocks, slots, _HEADS, _HEAD_DIM, device=context.device).to(dtype)
        shape = blocks, _BLOCK + slots, _KV_HEADS, _HEAD_DIM
        k, v = (torch.randn(shape, device=context.device).to(dtype) for _ in range(2))
        lengths = torch.full((blocks,), _BLOCK, device=context.device)
        anchors = 2 * torch.arange(0, _BLOCK, _RATIO, device=context.device) + _RATIO - 1
        places = torch.cat([2 * torch.arange(_BLOCK, device=context.device), anchors])
        heads_first = [x.transpose(1, 2) for x in (q, k, v)]
        mask = (places[None] - anchors[:, None]).abs() < window

        def op() -> Tensor:
            return ops.slot_attention(q, k, v, lengths, _BLOCK, _RATIO, window)

        def definition() -> Tensor:
            return ops.slot_attention_plain(q, k, v, lengths, _BLOCK, _RATIO, window)

        def sdpa() -> Tensor:
            return torch.nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=mask, enable_gqa=True)

        torch.compiler.reset()
        return Work(
            op,
            attention_amount(blocks, _HEADS, _KV_HEADS, _HEAD_DIM, dtype.itemsize, _BLOCK, _RATIO, window),
            product_ceiling(dtype, context),
            [
                Way("definition", definition),
                Way("SDPA, mask", sdpa),
                Way("flex_attention", _flex(heads_first, places, anchors, window), compiled=True),
                Way("torch.compile", torch.compile(definition, dynamic=False), compiled=True),
            ],
            check=lambda: require_close(op(), definition(), dtype),
        )

    words = f"{blocks} x {_BLOCK}, window {window}"
    return Case("slot_attention", words, dtype, prepare, {"blocks": blocks, "window": window})


def _flex(heads_first: list[Tensor], places: Tensor, anchors: Tensor, window: int) -> Any:
    """The block mask is made beforehand, as a caller with fixed geometry would; the first call compiles."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def visible(batch: Tensor, head: Tensor, slot: Tensor, key: Tensor) -> Tensor:
        return (places[key] - anchors[slot]).abs() < window

    blocks = create_block_mask(visible, None, None, len(anchors), len(places), device=str(places.device))
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(*heads_first, block_mask=blocks, enable_gqa=True)

"""Attention of a block's slots over its source tokens and slots, each slot through its own window."""

from __future__ import annotations

import torch
from torch import Tensor

from remory.ops.library import ops, use_plain


def slot_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, block: int, ratio: int, window: int) -> Tensor:
    """Attended values [B, n, H, d] of the n = ceil(block / ratio) slots of B blocks, in the dtype of q.

    q [B, n, H, d]; k and v [B, T+n, KV, d], H a multiple of KV; float32 or bfloat16, all alike. Keys t < T are source
    tokens, key T+j is slot j. lengths [B] int64: source tokens t >= lengths[b] do not exist, whatever they hold.

    Slot i stands for the tokens [i * ratio, min((i+1) * ratio, block)); its anchor a_i is their middle. It sees source
    token t iff |t - a_i| < window / 2 and slot j iff |a_j - a_i| < window / 2, hence always itself. Scores are scaled
    by d^-0.5; softmax and sums are float32. With T = 0 and window = 2 * block every slot sees all slots.

    Raises RuntimeError with the numbers when shapes, dtypes, devices, lengths or the geometry do not fit. On a GPU
    heads have at most 256 dimensions, and a length out of range stops the kernel: the next call that waits for the GPU
    raises, and the process needs a new CUDA context.
    """
    if use_plain(q, k, v):
        return slot_attention_plain(q, k, v, lengths, block, ratio, window)
    return ops.slot_attention(q, k, v, lengths, block, ratio, window)


def slot_attention_plain(
    q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, block: int, ratio: int, window: int
) -> Tensor:
    """The definition of `slot_attention`, by a mask over all keys; computed in float32, or float64 if given it."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    visible = _visible(lengths, k.shape[1], block, ratio, window)
    # A key that no slot sees may hold anything, even a NaN, which a share of zero would not remove.
    seen = visible.any(dim=1)[:, :, None, None]
    group = q.shape[2] // k.shape[2]
    keys = torch.where(seen, k, 0).to(dtype).repeat_interleave(group, dim=2)
    values = torch.where(seen, v, 0).to(dtype).repeat_interleave(group, dim=2)
    scores = torch.einsum("bnhd,bkhd->bhnk", q.to(dtype), keys) * q.shape[3] ** -0.5
    shares = scores.masked_fill(~visible[:, None], float("-inf")).softmax(dim=-1)
    return torch.einsum("bhnk,bkhd->bnhd", shares, values).to(q.dtype)


def _visible(lengths: Tensor, keys: int, block: int, ratio: int, window: int) -> Tensor:
    """[B, n, keys] which keys each slot sees. Coordinates are doubled: an anchor may be a half-integer."""
    first = torch.arange(0, block, ratio, device=lengths.device)
    anchors = first + (first + ratio).clamp(max=block) - 1
    tokens = torch.arange(keys - len(first), device=lengths.device)
    near = (torch.cat([2 * tokens, anchors])[None, :] - anchors[:, None]).abs() < window
    is_token = tokens[None, :] < lengths[:, None]
    is_slot = torch.ones(len(lengths), len(first), dtype=torch.bool, device=lengths.device)
    return near[None] & torch.cat([is_token, is_slot], dim=1)[:, None]


@torch.library.register_fake("remory::slot_attention")
def _(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, block: int, ratio: int, window: int) -> Tensor:
    return q.new_empty(q.shape)

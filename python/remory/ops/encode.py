"""The whole memory network for a batch of blocks in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from remory.ops.encode_plain import encode_plain
from remory.ops.library import ops, use_plain, without_autocast


def encode(
    features: Tensor,
    lengths: Tensor,
    summary: Tensor | None,
    weights: Sequence[Tensor],
    input_depths: Tensor,
    heads: int,
    kv_heads: int,
    head_dim: int,
    layers: int,
    block: int,
    ratio: int,
    window: int,
    eps: float,
    theta: float,
    summary_conditioned: bool,
    tail: bool,
    salient: bool,
    pointer_heads: int,
    pointer_head_dim: int,
    embeddings: Tensor | None = None,
    idf: Tensor | None = None,
    summary_lengths: Tensor | None = None,
) -> Tensor:
    """Rows [B, n, D] of B blocks, n = ceil(block / ratio), in the dtype of the features.

    All tensors but the integer ones and `idf` are float32, or all bfloat16; sums, norms and softmax are float32, and
    so are the slots' states from layer to layer.

    features [B, T, L*D]: block b has lengths[b] source tokens, 1 to T, and T is at most `block`; what lies beyond a
    block's length may be anything and changes nothing. lengths [B] int64. input_depths [B] int64: rows of the depth
    table (0 for raw tokens). weights: in the order of `Geometry.tensor_shapes()`. embeddings [B, T, D], the source's
    input embeddings, are needed by `tail`, by `salient` and by a pointer; idf [B, T] by a pointer, which has
    `pointer_heads` > 0.

    A summary is given exactly when `summary_conditioned`: [S, D] for all blocks alike, or [B, S, D] with
    summary_lengths [B] int64, of which block b sees its own first summary_lengths[b] rows, 1 to S; what lies beyond
    may be anything and changes nothing.

    heads, kv_heads, head_dim, layers, eps (of all norms) and theta (of the rotations) are the network's; block, ratio
    and window place the slots as in `slot_attention`. The definition is `encode_plain`.

    Raises RuntimeError with the tensor's name and the numbers when anything does not fit. On a GPU heads have at most
    256 dimensions, and a length or a depth out of range stops the kernel: the next call that waits for the GPU raises,
    and the process needs a new CUDA context.
    """
    compute = encode_plain if use_plain(features, summary, embeddings, idf, *weights) else _encode
    return compute(
        features,
        lengths,
        summary,
        list(weights),
        input_depths,
        heads,
        kv_heads,
        head_dim,
        layers,
        block,
        ratio,
        window,
        eps,
        theta,
        summary_conditioned,
        tail,
        salient,
        pointer_heads,
        pointer_head_dim,
        embeddings,
        idf,
        summary_lengths=summary_lengths,
    )


def _encode(features: Tensor, *others: Any, **named: Any) -> Tensor:
    # The kernels know two dtypes, and its matrix products must not come in a third.
    with without_autocast(features.device):
        return ops.encode(features, *others, **named)


@torch.library.register_fake("remory::encode")
def _(
    features: Tensor,
    lengths: Tensor,
    summary: Tensor | None,
    weights: Sequence[Tensor],
    input_depths: Tensor,
    heads: int,
    kv_heads: int,
    head_dim: int,
    layers: int,
    block: int,
    ratio: int,
    window: int,
    eps: float,
    theta: float,
    summary_conditioned: bool,
    tail: bool,
    salient: bool,
    pointer_heads: int,
    pointer_head_dim: int,
    embeddings: Tensor | None = None,
    idf: Tensor | None = None,
    summary_lengths: Tensor | None = None,
) -> Tensor:
    slots = -(-block // ratio)
    return features.new_empty((features.shape[0], slots, weights[0].shape[0]))

"""Features of chosen tokens, written where the memory network reads them."""

from __future__ import annotations

import torch
from torch import Tensor

from remory.ops.library import ops, use_plain

_kernel = ops.capture.default


def capture(hidden: Tensor, residual: Tensor | None, rows: Tensor, out: Tensor, layer: int) -> None:
    """out[:, layer * D : (layer + 1) * D] = (hidden + residual)[rows], in one pass.

    hidden [T, D] and residual [T, D] or None: float32 or bfloat16, both alike; rows [N] int64 in [0, T), in any
    order; out [N, L*D] float32 or bfloat16. The sum is made in float32, then cast to the dtype of out. hidden,
    residual and out may be slices of wider tensors.

    Raises RuntimeError with the numbers, before anything is written, when shapes, dtypes or devices do not fit, a row
    is out of range, or `layer` is not one of the L that out has room for. On a GPU a row out of range is found by the
    kernel, which stops: the next call that waits for the GPU raises, and the process needs a new CUDA context.
    """
    if use_plain(hidden, residual, out):
        capture_plain(hidden, residual, rows, out, layer)
    else:
        _kernel(hidden, residual, rows, out, layer)
        # The dispatcher does not: without it autograd would go on with what is no longer what it saved.
        torch.autograd.graph.increment_version(out)


def capture_plain(hidden: Tensor, residual: Tensor | None, rows: Tensor, out: Tensor, layer: int) -> None:
    """The definition of `capture`."""
    states = hidden[rows].float()
    if residual is not None:
        states = states + residual[rows].float()
    width = hidden.shape[1]
    out[:, layer * width : (layer + 1) * width] = states


@torch.library.register_fake("remory::capture")
def _(hidden: Tensor, residual: Tensor | None, rows: Tensor, out: Tensor, layer: int) -> None:
    return None

"""Rows of a memory, put in the place of the embeddings of placeholder tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from remory.ops.library import ops, use_plain

_kernel = ops.inject.default


def inject(embeddings: Tensor, rows: Tensor, positions: Tensor) -> None:
    """embeddings[positions] = rows, cast, in place.

    embeddings [T, D] and rows [R, D]: float32 or bfloat16; positions [R] int64 in [0, T), all different, or -1 for a
    row that lies outside this chunk and is left out. embeddings and rows may be slices of wider tensors.

    Raises RuntimeError with the numbers, before anything is written, when shapes, dtypes or devices do not fit, or a
    position is out of range or occurs twice. On a GPU a position out of range is found by the kernel, which stops: the
    next call that waits for the GPU raises, and the process needs a new CUDA context; and of rows with one position
    any may stay.
    """
    if use_plain(embeddings, rows):
        inject_plain(embeddings, rows, positions)
    else:
        _kernel(embeddings, rows, positions)
        # The dispatcher does not: without it autograd would go on with what is no longer what it saved.
        torch.autograd.graph.increment_version(embeddings)


def inject_plain(embeddings: Tensor, rows: Tensor, positions: Tensor) -> None:
    """The definition of `inject`."""
    inside = positions >= 0
    embeddings[positions[inside]] = rows[inside].to(embeddings.dtype)


@torch.library.register_fake("remory::inject")
def _(embeddings: Tensor, rows: Tensor, positions: Tensor) -> None:
    return None

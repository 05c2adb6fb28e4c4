"""What the machine reaches with the threads the ops get: copying, reading, and multiplying matrices.

Each case runs its own ceiling by turns with everything else, so that a noisy neighbour slows both.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from functools import partial

import torch
from bench.kernels.amounts import Amount, copy_amount, product_amount
from bench.kernels.work import Case, Ceiling, Context, Shelf, Work, name_of
from torch import Tensor

_LONG_BYTES, _QUICK_LONG_BYTES = 512 << 20, 32 << 20
_SIDE, _QUICK_SIDE, _CUDA_SIDE = 2048, 512, 8192
_shelf = Shelf()


def copy_ceiling(amount: Amount, context: Context) -> Ceiling:
    """A copy that moves as many bytes, half of them read and half written."""
    nbytes = max(amount.bytes // 2, 4) // 4 * 4
    source = torch.ones(nbytes // 4, device=context.device)
    out = torch.empty_like(source)
    return Ceiling("copy", lambda: out.copy_(source), copy_amount(nbytes))


def read_ceiling(values: Tensor) -> Ceiling:
    """A sum over the same memory, taken as float32 so that no conversion holds it up."""
    flat = values.reshape(-1)
    numbers = flat.view(torch.float32) if flat.nbytes % 4 == 0 else flat.view(torch.uint8)
    return Ceiling("read", numbers.sum, Amount(bytes=values.nbytes))


def product_ceiling(dtype: torch.dtype, context: Context) -> Ceiling:
    """A square matrix product large enough for full speed, by whichever way is fastest here."""
    side = _side(context)
    call = _shelf.take("product", (dtype, side, context.device), lambda: _fastest(_products(dtype, side, context)))
    return Ceiling("product", call, product_amount(side, side, side))


def _products(dtype: torch.dtype, side: int, context: Context) -> Iterator[Callable[[], object]]:
    """torch's own product; on a CPU oneDNN's too, and one in float32, which may be faster than narrower numbers."""
    for tried in (dtype,) if context.is_cuda else dict.fromkeys((dtype, torch.float32)):
        left, right = (torch.randn(side, side, device=context.device).to(tried) for _ in range(2))
        yield partial(torch.matmul, left, right.T, out=torch.empty_like(left))
        if not context.is_cuda and torch.backends.mkldnn.is_available() and tried != torch.float16:
            yield partial(torch.ops.mkldnn._linear_pointwise, left, right, None, "none", [], "")


def _fastest(ways: Iterator[Callable[[], object]]) -> Callable[[], object]:
    def seconds(way: Callable[[], object]) -> float:
        way()
        return min(timeit.repeat(way, number=1, repeat=3))

    found = list(ways)
    return found[0] if len(found) == 1 else min(found, key=seconds)


def cases(context: Context) -> Iterator[Case]:
    """The ceilings themselves, as the first lines."""
    nbytes = _QUICK_LONG_BYTES if context.quick else _LONG_BYTES

    def of(ceiling: Ceiling) -> Work:
        return Work(ceiling.call, ceiling.amount, ceiling)

    def copy(context: Context) -> Work:
        return of(copy_ceiling(Amount(bytes=2 * nbytes), context))

    def read(context: Context) -> Work:
        return of(read_ceiling(torch.ones(nbytes // 4, device=context.device)))

    words = f"{nbytes >> 20} MiB"
    yield Case("copy", words, torch.float32, copy, group="ceilings")
    yield Case("read", words, torch.float32, read, group="ceilings")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):

        def product(context: Context, dtype: torch.dtype = dtype) -> Work:
            return of(product_ceiling(dtype, context))

        words = " x ".join([str(_side(context))] * 3)
        yield Case("product", words, dtype, product, {"dtype": name_of(dtype)}, group="ceilings")


def _side(context: Context) -> int:
    if context.quick:
        return _QUICK_SIDE
    return _CUDA_SIDE if context.is_cuda else _SIDE

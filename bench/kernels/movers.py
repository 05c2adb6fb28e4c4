"""`capture` and `inject`: rows that are moved, at best at the speed of a copy."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from bench.kernels.amounts import capture_amount, inject_amount
from bench.kernels.ceilings import copy_ceiling
from bench.kernels.comparison import require_close
from bench.kernels.work import Case, Context, Way, Work

from remory import ops

DTYPES = (torch.float32, torch.bfloat16)
_LAYERS, _LAYER = 3, 1


def cases(context: Context) -> Iterator[Case]:
    shapes = [(1024, 576), (16384, 576), (4096, 5120)]
    if context.is_cuda:
        shapes.append((65536, 5120))
    if context.quick:
        shapes = shapes[:1]
    for dtype in DTYPES:
        for tokens, width in shapes:
            yield _capture_case(tokens, width, dtype)
    for dtype in DTYPES:
        for tokens, width in shapes:
            yield _inject_case(tokens, width, dtype)


def _capture_case(tokens: int, width: int, dtype: torch.dtype) -> Case:
    """One layer of three; every other token is source."""

    def prepare(context: Context) -> Work:
        hidden, residual = (torch.randn(tokens, width, device=context.device).to(dtype) for _ in range(2))
        rows = torch.arange(0, tokens, 2, device=context.device)
        out = torch.zeros(len(rows), _LAYERS * width, dtype=dtype, device=context.device)
        place = out[:, _LAYER * width : (_LAYER + 1) * width]

        def index_select() -> None:
            torch.add(hidden.index_select(0, rows), residual.index_select(0, rows), out=place)

        def definition() -> None:
            ops.capture_plain(hidden, residual, rows, out, _LAYER)

        def op() -> None:
            ops.capture(hidden, residual, rows, out, _LAYER)

        def check() -> None:
            op()
            require_close(place, hidden[rows].double() + residual[rows].double(), dtype)

        torch.compiler.reset()
        amount = capture_amount(len(rows), width, dtype.itemsize, dtype.itemsize)
        return Work(
            op,
            amount,
            copy_ceiling(amount, context),
            [
                Way("torch eager", index_select),
                Way("definition", definition),
                Way("torch.compile", torch.compile(index_select, dynamic=False), compiled=True),
            ],
            check=check,
        )

    words = f"{tokens // 2:,} of {tokens:,} rows, {width} wide"
    return Case("capture", words, dtype, prepare, {"tokens": tokens, "width": width})


def _inject_case(tokens: int, width: int, dtype: torch.dtype) -> Case:
    """Stored bfloat16 rows, half as many as the chunk has tokens, at random places."""

    def prepare(context: Context) -> Work:
        embeddings = torch.randn(tokens, width, device=context.device).to(dtype)
        rows = torch.randn(tokens // 2, width, device=context.device).bfloat16()
        positions = torch.randperm(tokens, device=context.device)[: len(rows)]

        def index_copy() -> None:
            embeddings.index_copy_(0, positions, rows.to(dtype))

        def definition() -> None:
            ops.inject_plain(embeddings, rows, positions)

        def op() -> None:
            ops.inject(embeddings, rows, positions)

        def check() -> None:
            op()
            require_close(embeddings[positions], rows, dtype)

        torch.compiler.reset()
        amount = inject_amount(len(rows), width, rows.itemsize, dtype.itemsize)
        return Work(
            op,
            amount,
            copy_ceiling(amount, context),
            [
                Way("index_copy_", index_copy),
                Way("definition", definition),
                Way("torch.compile", torch.compile(index_copy, dynamic=False), compiled=True),
            ],
            check=check,
        )

    words = f"{tokens // 2:,} rows into {tokens:,}, {width} wide"
    return Case("inject", words, dtype, prepare, {"tokens": tokens, "width": width})

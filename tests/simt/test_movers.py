from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from remory import ops
from tests.ops.comparison import inside_wider

DTYPES = (torch.float32, torch.bfloat16)


def make_capture(
    tokens: int, width: int, count: int, layers: int, dtype: torch.dtype, out_dtype: torch.dtype
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(tokens * width + count)
    hidden = torch.randn(tokens, width, generator=generator).to(dtype)
    residual = torch.randn(tokens, width, generator=generator).to(dtype)
    rows = torch.randint(0, max(tokens, 1), (count,), generator=generator)
    out = torch.randn(count, layers * width, generator=generator).to(out_dtype)
    return [hidden, residual, rows, out]


def make_inject(tokens: int, width: int, count: int, dtype: torch.dtype, row_dtype: torch.dtype) -> list[Tensor]:
    """Rows at random different positions, every third of them outside this chunk."""
    generator = torch.Generator().manual_seed(tokens * width + count)
    embeddings = torch.randn(tokens, width, generator=generator).to(dtype)
    rows = torch.randn(count, width, generator=generator).to(row_dtype)
    positions = torch.randperm(tokens, generator=generator)[:count]
    positions[1::3] = -1
    return [embeddings, rows, positions]


@pytest.mark.parametrize(("dtype", "out_dtype"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize(
    ("tokens", "width", "count", "layers"),
    [(1, 1, 1, 1), (3, 129, 5, 3), (151, 64, 151, 2), (40, 24, 129, 4), (5, 576, 0, 3), (0, 16, 0, 1), (3, 4104, 2, 1)],
)
@pytest.mark.parametrize("with_residual", [True, False])
def test_capture_equals_the_definition(
    simt: Any,
    tokens: int,
    width: int,
    count: int,
    layers: int,
    dtype: torch.dtype,
    out_dtype: torch.dtype,
    with_residual: bool,
) -> None:
    hidden, residual, rows, out = make_capture(tokens, width, count, layers, dtype, out_dtype)
    added = residual if with_residual else None
    for layer in range(layers):
        expected = out.clone()
        ops.capture_plain(hidden, added, rows, expected, layer)
        simt.capture(hidden, added, rows, out, layer)
        assert torch.equal(out, expected)


@pytest.mark.parametrize(("dtype", "row_dtype"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize(
    ("tokens", "width", "count"),
    [(1, 1, 1), (3, 129, 3), (151, 64, 64), (1025, 7, 129), (5, 576, 0), (0, 16, 0), (3, 4104, 2)],
)
def test_inject_equals_the_definition(
    simt: Any, tokens: int, width: int, count: int, dtype: torch.dtype, row_dtype: torch.dtype
) -> None:
    embeddings, rows, positions = make_inject(tokens, width, count, dtype, row_dtype)
    expected = embeddings.clone()
    ops.inject_plain(expected, rows, positions)
    simt.inject(embeddings, rows, positions)
    assert torch.equal(embeddings, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [17, 64])
def test_capture_of_slices(simt: Any, dtype: torch.dtype, width: int) -> None:
    """Rows that no packet fits, and nothing written beside them."""
    hidden, residual, rows, out = make_capture(31, width, 12, 2, dtype, dtype)
    expected = out.clone()
    ops.capture_plain(hidden, residual, rows, expected, 1)
    wide_out = inside_wider(out)
    simt.capture(inside_wider(hidden), inside_wider(residual), rows, wide_out, 1)
    assert torch.equal(wide_out, expected)
    assert wide_out._base is not None
    assert wide_out._base.isnan().sum() == wide_out._base.numel() - wide_out.numel()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [19, 64])
def test_inject_of_slices(simt: Any, dtype: torch.dtype, width: int) -> None:
    embeddings, rows, positions = make_inject(40, width, 11, dtype, dtype)
    expected = embeddings.clone()
    ops.inject_plain(expected, rows, positions)
    wide = inside_wider(embeddings)
    simt.inject(wide, inside_wider(rows), positions)
    assert torch.equal(wide, expected)
    assert wide._base is not None
    assert wide._base.isnan().sum() == wide._base.numel() - wide.numel()


@pytest.mark.parametrize("dtype", DTYPES)
def test_packets_with_a_rest(simt: Any, dtype: torch.dtype) -> None:
    """Rows that begin at a packet and end amid one: the rest goes one by one, and no further."""
    generator = torch.Generator().manual_seed(5)
    wide = torch.randn(20, 64, generator=generator).to(dtype)
    hidden, added = wide[:, :43], wide[:, 16:59]
    out = torch.full((6, 64), float("nan"), dtype=dtype)
    rows = torch.tensor([19, 0, 3, 3, 7, 11])
    simt.capture(hidden, added, rows, out[:, :43], 0)
    expected = torch.empty(6, 43, dtype=dtype)
    ops.capture_plain(hidden, added, rows, expected, 0)
    assert torch.equal(out[:, :43], expected)
    assert out[:, 43:].isnan().all()


def test_many_rows(simt_once: Any) -> None:
    """More rows than the grid has groups."""
    hidden, _, rows, out = make_capture(70_000, 3, 70_000, 2, torch.float32, torch.bfloat16)
    expected = out.clone()
    ops.capture_plain(hidden, None, rows, expected, 1)
    simt_once.capture(hidden, None, rows, out, 1)
    assert torch.equal(out, expected)

    embeddings, values, positions = make_inject(70_000, 3, 70_000, torch.bfloat16, torch.float32)
    expected = embeddings.clone()
    ops.inject_plain(expected, values, positions)
    simt_once.inject(embeddings, values, positions)
    assert torch.equal(embeddings, expected)


@pytest.mark.parametrize("width", [4, 32])
def test_nan_infinity_and_signed_zero_pass_through(simt_once: Any, width: int) -> None:
    row = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    hidden = row.repeat(2, width // 4)
    out = torch.empty(1, width, dtype=torch.bfloat16)
    simt_once.capture(hidden, None, torch.tensor([1]), out, 0)
    assert torch.equal(out.isnan(), hidden[:1].isnan())
    assert torch.equal(out.nan_to_num(nan=7.0), hidden[:1].bfloat16().nan_to_num(nan=7.0))
    assert torch.equal(out.signbit()[:, 3::4], torch.ones(1, width // 4, dtype=torch.bool))


@pytest.mark.parametrize("bad", [6, -1, 2**40])
def test_capture_of_a_row_out_of_range(simt: Any, bad: int) -> None:
    out = torch.zeros(1, 4)
    with pytest.raises(RuntimeError, match="capture: a row is out of range"):
        simt.capture(torch.ones(6, 4), None, torch.tensor([bad]), out, 0)
    assert not out.any()


@pytest.mark.parametrize("bad", [6, -2, 2**40])
def test_inject_at_a_position_out_of_range(simt: Any, bad: int) -> None:
    embeddings = torch.zeros(6, 4)
    with pytest.raises(RuntimeError, match="inject: a position is out of range"):
        simt.inject(embeddings, torch.ones(1, 4), torch.tensor([bad]))
    assert not embeddings.any()


def test_arguments_are_checked_as_on_the_cpu(simt_once: Any) -> None:
    """One case an op: the checks themselves are shared, and tested in tests/ops."""
    with pytest.raises(RuntimeError, match=r"capture: residual must be \[T, D\] = \[6, 4\], got \[6, 5\]"):
        simt_once.capture(torch.ones(6, 4), torch.ones(6, 5), torch.tensor([0]), torch.zeros(1, 4), 0)
    with pytest.raises(RuntimeError, match="inject: rows must be contiguous in its last dimension"):
        simt_once.inject(torch.zeros(6, 4), torch.ones(4, 2).T, torch.tensor([0, 1]))


def test_opcheck(simt_once: Any) -> None:
    for dtype in DTYPES:
        hidden, residual, rows, out = make_capture(9, 5, 4, 2, dtype, torch.float32)
        torch.library.opcheck(simt_once.capture.default, (hidden, residual, rows, out, 1))
        torch.library.opcheck(simt_once.inject.default, tuple(make_inject(9, 5, 4, dtype, torch.float32)))

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from remory import ops
from tests.ops.comparison import inside_wider

DTYPES = (torch.float32, torch.bfloat16)


def make(tokens: int, width: int, count: int, layers: int, dtype: torch.dtype, out_dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(tokens * width + count)
    hidden = torch.randn(tokens, width, generator=generator).to(dtype)
    residual = torch.randn(tokens, width, generator=generator).to(dtype)
    rows = torch.randint(0, max(tokens, 1), (count,), generator=generator)
    out = torch.randn(count, layers * width, generator=generator).to(out_dtype)
    return [hidden, residual, rows, out]


@pytest.mark.parametrize(("dtype", "out_dtype"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize(
    ("tokens", "width", "count", "layers"),
    [
        (1, 1, 1, 1),
        (3, 129, 5, 3),
        (151, 64, 151, 2),
        (1025, 7, 129, 4),
        (5, 576, 0, 3),
        (0, 16, 0, 1),
        (70_000, 3, 70_000, 2),
    ],
)
@pytest.mark.parametrize("with_residual", [True, False])
def test_equals_the_definition(
    tokens: int, width: int, count: int, layers: int, dtype: torch.dtype, out_dtype: torch.dtype, with_residual: bool
) -> None:
    hidden, residual, rows, out = make(tokens, width, count, layers, dtype, out_dtype)
    added = residual if with_residual else None
    for layer in range(layers):
        expected = out.clone()
        ops.capture_plain(hidden, added, rows, expected, layer)
        ops.capture(hidden, added, rows, out, layer)
        assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_wider_tensors(dtype: torch.dtype) -> None:
    hidden, residual, rows, out = make(31, 17, 12, 2, dtype, dtype)
    expected = out.clone()
    ops.capture_plain(hidden, residual, rows, expected, 1)
    wide_out = inside_wider(out)
    ops.capture(inside_wider(hidden), inside_wider(residual), rows, wide_out, 1)
    assert torch.equal(wide_out, expected)
    assert wide_out._base is not None
    assert wide_out._base.isnan().sum() == wide_out._base.numel() - wide_out.numel()


@pytest.mark.parametrize(("dtype", "out_dtype"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize("with_residual", [True, False])
@pytest.mark.parametrize("left", [0, 1])
def test_outputs_larger_than_the_caches(
    dtype: torch.dtype, out_dtype: torch.dtype, with_residual: bool, left: int
) -> None:
    """More than 4 MB, which are written past the caches where the rows of `out` are aligned: not with a column left."""
    width, count = 2088, 1030
    hidden, residual, rows, _ = make(601, width, count, 1, dtype, out_dtype)
    added = residual if with_residual else None
    wide = torch.full((count, 2 * width + left), 7, dtype=out_dtype)
    expected = wide.clone()
    ops.capture_plain(hidden, added, rows, expected[:, left:], 1)
    ops.capture(hidden, added, rows, wide[:, left:], 1)
    assert torch.equal(wide, expected)


def test_nan_and_infinity_pass_through() -> None:
    hidden = torch.tensor([[float("nan"), float("inf"), -float("inf"), 3.4e38]])
    out = torch.empty(1, 4, dtype=torch.bfloat16)
    ops.capture(hidden, None, torch.tensor([0]), out, 0)
    assert torch.equal(out.isnan(), hidden.isnan())
    assert out[0, 1:].tolist() == [float("inf"), -float("inf"), float("inf")]


def test_gradient_takes_the_definition() -> None:
    hidden = torch.randn(5, 4, requires_grad=True)
    out = torch.zeros(2, 8)
    ops.capture(hidden, None, torch.tensor([1, 1]), out, 1)
    out.sum().backward()
    assert hidden.grad is not None
    assert hidden.grad.sum(dim=1).tolist() == [0, 8, 0, 0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"residual": torch.zeros(6, 5)},
            r"residual must be \[T, D\] = \[6, 4\], got \[6, 5\]: dimension 1 \(D\) is 5, expected 4",
        ),
        ({"residual": torch.zeros(6, 4).bfloat16()}, "residual must be float32 as hidden is, got bfloat16"),
        ({"hidden": torch.zeros(6, 4).half(), "residual": None}, "hidden must be float32 or bfloat16, got float16"),
        ({"hidden": torch.zeros(6)}, r"hidden must be \[T, D\], got \[6\]: 1 dimensions, expected 2"),
        ({"hidden": torch.zeros(4, 6).T}, "hidden must be contiguous in its last dimension, got strides"),
        ({"rows": torch.tensor([0, 6])}, r"rows\[1\] is 6, expected 0 to 5"),
        ({"rows": torch.tensor([-1, 0])}, r"rows\[0\] is -1, expected 0 to 5"),
        ({"rows": torch.tensor([0, 1], dtype=torch.int32)}, "rows must be int64, got int32"),
        (
            {"rows": torch.tensor([0, 1, 2])},
            r"out must be \[N, L\*D\] = \[3, L\*D\], got \[2, 8\]: dimension 0 \(N\) is 2, expected 3",
        ),
        (
            {"rows": torch.zeros(4, dtype=torch.int64)[::2]},
            r"rows must be contiguous, got sizes \[2\] with strides \[2\]",
        ),
        ({"out": torch.zeros(2, 7)}, r"out \[N, L\*D\] is 7 wide, expected a multiple of D = 4"),
        ({"layer": 2}, "layer is 2, expected 0 to 1"),
        ({"layer": -1}, "layer is -1, expected 0 to 1"),
    ],
)
def test_bad_input_changes_nothing(change: dict, message: str) -> None:
    arguments = {
        "hidden": torch.ones(6, 4),
        "residual": torch.ones(6, 4),
        "rows": torch.tensor([0, 1]),
        "out": torch.zeros(2, 8),
        "layer": 0,
        **change,
    }
    with pytest.raises(RuntimeError, match=f"capture: {message}"):
        ops.capture(**arguments)
    assert not arguments["out"].any()


def test_opcheck() -> None:
    for dtype in DTYPES:
        hidden, residual, rows, out = make(9, 5, 4, 2, dtype, torch.float32)
        torch.library.opcheck(torch.ops.remory.capture.default, (hidden, residual, rows, out, 1))
        torch.library.opcheck(torch.ops.remory.capture.default, (hidden, None, rows, out, 0))


def test_autograd_is_told_that_out_was_written() -> None:
    out, weight = torch.randn(2, 8), torch.randn(2, 8, requires_grad=True)
    product = (out * weight).sum()
    ops.capture(torch.randn(4, 8), None, torch.tensor([1, 2]), out, 0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()

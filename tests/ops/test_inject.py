from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from remory import ops
from tests.ops.comparison import inside_wider

DTYPES = (torch.float32, torch.bfloat16)


def make(tokens: int, width: int, count: int, dtype: torch.dtype, row_dtype: torch.dtype) -> list[Tensor]:
    """Rows at random different positions, every third of them outside this chunk."""
    generator = torch.Generator().manual_seed(tokens * width + count)
    embeddings = torch.randn(tokens, width, generator=generator).to(dtype)
    rows = torch.randn(count, width, generator=generator).to(row_dtype)
    positions = torch.randperm(tokens, generator=generator)[:count]
    positions[1::3] = -1
    return [embeddings, rows, positions]


@pytest.mark.parametrize(("dtype", "row_dtype"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize(
    ("tokens", "width", "count"),
    [(1, 1, 1), (3, 129, 3), (151, 64, 64), (1025, 7, 129), (5, 576, 0), (0, 16, 0), (70_000, 3, 70_000)],
)
def test_equals_the_definition(tokens: int, width: int, count: int, dtype: torch.dtype, row_dtype: torch.dtype) -> None:
    embeddings, rows, positions = make(tokens, width, count, dtype, row_dtype)
    expected = embeddings.clone()
    ops.inject_plain(expected, rows, positions)
    ops.inject(embeddings, rows, positions)
    assert torch.equal(embeddings, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_wider_tensors(dtype: torch.dtype) -> None:
    embeddings, rows, positions = make(40, 19, 11, dtype, dtype)
    expected = embeddings.clone()
    ops.inject_plain(expected, rows, positions)
    wide = inside_wider(embeddings)
    ops.inject(wide, inside_wider(rows), positions)
    assert torch.equal(wide, expected)
    assert wide._base is not None
    assert wide._base.isnan().sum() == wide._base.numel() - wide.numel()


@pytest.mark.parametrize(("dtype", "row_dtype"), list(itertools.product(DTYPES, DTYPES)))
@pytest.mark.parametrize("left", [0, 1])
def test_rows_larger_than_the_caches(dtype: torch.dtype, row_dtype: torch.dtype, left: int) -> None:
    """More than 4 MB, which are written past the caches where the embeddings are aligned: not with a column left."""
    width = 2088
    _, rows, positions = make(1201, width, 1030, dtype, row_dtype)
    wide = torch.full((1201, width + 8 * left), 7, dtype=dtype)
    expected = wide.clone()
    ops.inject_plain(expected[:, left : left + width], rows, positions)
    ops.inject(wide[:, left : left + width], rows, positions)
    assert torch.equal(wide, expected)


@pytest.mark.parametrize("tokens", [1, 8, 63, 64, 65, 129])
def test_every_position_is_told_from_its_neighbours(tokens: int) -> None:
    generator = torch.Generator().manual_seed(tokens)
    rows = torch.randn(tokens, 3, generator=generator)
    positions = torch.randperm(tokens, generator=generator)
    embeddings = torch.zeros(tokens, 3)
    ops.inject(embeddings, rows, positions)
    assert torch.equal(embeddings[positions], rows)


@pytest.mark.parametrize("place", [0, 7, 8, 62, 63, 64, 127, 128])
def test_a_position_given_twice_far_apart(place: int) -> None:
    embeddings = torch.zeros(129, 3)
    positions = torch.cat([torch.arange(129), torch.full((40,), -1), torch.tensor([place])])
    with pytest.raises(RuntimeError, match=f"inject: positions holds {place} more than once"):
        ops.inject(embeddings, torch.ones(len(positions), 3), positions)
    assert not embeddings.any()


def test_all_rows_outside_the_chunk() -> None:
    embeddings = torch.randn(4, 3)
    before = embeddings.clone()
    ops.inject(embeddings, torch.randn(5, 3), torch.full((5,), -1))
    assert torch.equal(embeddings, before)


def test_gradient_takes_the_definition() -> None:
    rows = torch.randn(3, 4, requires_grad=True)
    embeddings = torch.zeros(6, 4)
    ops.inject(embeddings, rows, torch.tensor([5, -1, 0]))
    embeddings.sum().backward()
    assert rows.grad is not None
    assert rows.grad.sum(dim=1).tolist() == [4, 0, 4]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": torch.tensor([0, 6])}, r"positions\[1\] is 6, expected -1 to 5"),
        ({"positions": torch.tensor([0, -2])}, r"positions\[1\] is -2, expected -1 to 5"),
        ({"positions": torch.tensor([3, 3])}, "positions holds 3 more than once"),
        ({"positions": torch.tensor([1, 2], dtype=torch.int32)}, "positions must be int64, got int32"),
        (
            {"positions": torch.tensor([1])},
            r"positions must be \[R\] = \[2\], got \[1\]: dimension 0 \(R\) is 1, expected 2",
        ),
        (
            {"rows": torch.ones(2, 5)},
            r"rows must be \[R, D\] = \[2, 4\], got \[2, 5\]: dimension 1 \(D\) is 5, expected 4",
        ),
        ({"rows": torch.ones(2, 4).double()}, "rows must be float32 or bfloat16, got float64"),
        ({"rows": torch.ones(4, 2).T}, "rows must be contiguous in its last dimension"),
        ({"embeddings": torch.zeros(6, 4).half()}, "embeddings must be float32 or bfloat16, got float16"),
    ],
)
def test_bad_input_changes_nothing(change: dict, message: str) -> None:
    arguments = {
        "embeddings": torch.zeros(6, 4),
        "rows": torch.ones(2, 4),
        "positions": torch.tensor([1, 2]),
        **change,
    }
    with pytest.raises(RuntimeError, match=f"inject: {message}"):
        ops.inject(**arguments)
    assert not arguments["embeddings"].any()


def test_opcheck() -> None:
    for dtype in DTYPES:
        torch.library.opcheck(torch.ops.remory.inject.default, tuple(make(9, 5, 4, dtype, torch.float32)))


def test_autograd_is_told_that_embeddings_were_written() -> None:
    embeddings, weight = torch.randn(4, 8), torch.randn(4, 8, requires_grad=True)
    product = (embeddings * weight).sum()
    ops.inject(embeddings, torch.randn(1, 8), torch.tensor([1]))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()

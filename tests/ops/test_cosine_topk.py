from __future__ import annotations

import pytest
import torch
from torch import Tensor

from remory import ops
from remory.errors import InvalidInput
from remory.ops.cosine_topk import score_error
from tests.ops.comparison import inside_wider

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
INFINITY = float("inf")


def make(queries: int, count: int, width: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(queries + count * width)
    given = torch.randn(queries, width, generator=generator).to(dtype)
    return given, torch.randn(count, width, generator=generator).to(dtype)


def defined(queries: Tensor, vectors: Tensor, mask: Tensor | None) -> Tensor:
    """Cosines [Q, N] float64, -inf where the mask is false."""
    cosines = torch.nn.functional.cosine_similarity(queries.double()[:, None], vectors.double()[None], dim=2, eps=0)
    return cosines if mask is None else cosines.masked_fill(~mask, -INFINITY)


def assert_exact(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None = None) -> None:
    """Scores are those of the float64 definition, gathered values too, and equal scores are in the order of the ids."""
    scores, ids = ops.cosine_topk(queries, vectors, k, mask)
    assert (scores.dtype, ids.dtype) == (torch.float32, torch.int64)
    assert scores.shape == ids.shape == (len(queries), k)
    cosines = defined(queries, vectors, mask)
    count = min(k, len(vectors) if mask is None else int(mask.sum()))
    assert (ids[:, count:] == -1).all()
    assert (scores[:, count:] == -INFINITY).all()

    scores, ids = scores[:, :count], ids[:, :count]
    assert (ids >= 0).all()
    assert all(len(set(row)) == count for row in ids.tolist())
    error = score_error(vectors.shape[1])
    torch.testing.assert_close(scores.double(), cosines.gather(1, ids), atol=error, rtol=0)
    torch.testing.assert_close(scores.double(), cosines.sort(descending=True).values[:, :count], atol=error, rtol=0)
    falls, same = scores[:, 1:] < scores[:, :-1], scores[:, 1:] == scores[:, :-1]
    assert (falls | (same & (ids[:, 1:] > ids[:, :-1]))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "count", "width", "k"),
    [
        (1, 1, 1, 1),
        (3, 129, 7, 5),
        (2, 151, 384, 151),
        (1, 70_000, 5, 33),
        (129, 1025, 3, 10),
        (5, 12, 33, 40),
        (1, 3000, 16, 1500),
        (4, 0, 8, 3),
        (0, 9, 8, 3),
        (2, 20, 70_000, 4),
    ],
)
def test_equals_the_definition(queries: int, count: int, width: int, k: int, dtype: torch.dtype) -> None:
    assert_exact(*make(queries, count, width, dtype), k)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99, 1.0])
def test_only_what_the_mask_lets_through(share: float) -> None:
    queries, vectors = make(3, 20_011, 24)
    mask = torch.rand(len(vectors), generator=torch.Generator().manual_seed(3)) < share
    assert_exact(queries, vectors, 17, mask)


def test_what_the_mask_leaves_out_may_hold_anything() -> None:
    queries, vectors = make(1, 6, 4)
    vectors[0], vectors[2], vectors[5] = float("nan"), 0, INFINITY
    mask = torch.tensor([False, True, False, True, True, False])
    assert set(ops.cosine_topk(queries, vectors, 6, mask)[1][0, :3].tolist()) == {1, 3, 4}


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_wider_tensors(dtype: torch.dtype) -> None:
    queries, vectors = make(3, 157, 19, dtype)
    expected = ops.cosine_topk(queries, vectors, 11)
    got = ops.cosine_topk(inside_wider(queries), inside_wider(vectors), 11)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 32, 129, 385])
@pytest.mark.parametrize("queries", [1, 2, 5])
def test_equal_vectors_come_in_the_order_of_their_ids(queries: int, width: int, dtype: torch.dtype) -> None:
    given, one = make(queries, 1, width, dtype)
    scores, ids = ops.cosine_topk(given, one.repeat(9001, 1), 700)
    assert torch.equal(ids, torch.arange(700).expand(queries, -1))
    assert all(len(row.unique()) == 1 for row in scores)


def test_equal_vectors_across_the_boundary() -> None:
    query, vectors = make(1, 5000, 48)
    vectors[torch.arange(3, 5000, 7)] = query + 0.1 * vectors[3]
    vectors[4000] = vectors[17] = query[0] * 2
    scores, ids = ops.cosine_topk(query, vectors, 100)
    assert ids[0].tolist() == [17, 4000, *(row for row in range(3, 5000, 7) if row not in (17, 4000))][:100]
    assert scores[0, :2].tolist() == [1, 1]


def test_mixed_dtypes() -> None:
    query, vectors = make(2, 300, 20)
    assert_exact(query, vectors.bfloat16(), 9)
    assert_exact(query.half(), vectors, 9)


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e-12, 1e18, 1e30, 2e37])
def test_norms_that_float32_cannot_square(scale: float) -> None:
    query, vectors = make(1, 400, 12)
    assert_exact(query * scale, vectors, 50)
    assert_exact(query, vectors * scale, 400)
    vectors[::3] *= scale
    assert_exact(query, vectors, 50)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_the_precision_set_for_products_changes_nothing(precision: str) -> None:
    queries, vectors = make(3, 5000, 64)
    expected = ops.cosine_topk(queries, vectors, 20)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        got = ops.cosine_topk(queries, vectors, 20)
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


def test_gradient() -> None:
    query, vectors = (tensor.requires_grad_() for tensor in make(1, 30, 6))
    scores, ids = ops.cosine_topk(query, vectors, 2)
    scores.sum().backward()
    assert query.grad is not None
    assert vectors.grad is not None
    assert sorted(vectors.grad.abs().sum(dim=1).nonzero()[:, 0].tolist()) == sorted(ids[0].tolist())


@pytest.mark.parametrize("value", [float("nan"), INFINITY, -INFINITY])
@pytest.mark.parametrize("dtype", DTYPES)
def test_not_finite_is_refused(value: float, dtype: torch.dtype) -> None:
    queries, vectors = make(2, 9000, 4, dtype)
    vectors[8765, 3] = value
    with pytest.raises(InvalidInput, match=r"cosine_topk: vectors\[8765\] has a NaN or an infinity"):
        ops.cosine_topk(queries, vectors, 3)
    queries[1, 0] = value
    with pytest.raises(InvalidInput, match=r"cosine_topk: queries\[1\] has a NaN or an infinity"):
        ops.cosine_topk(queries, vectors, 3)


def test_a_vector_without_a_direction_is_refused() -> None:
    queries, vectors = make(2, 50, 4)
    vectors[20] = 0
    mask = torch.ones(50, dtype=torch.bool)
    mask[3] = False
    with pytest.raises(InvalidInput, match=r"cosine_topk: vectors\[20\] is zero: it has no direction"):
        ops.cosine_topk(queries, vectors, 3, mask)
    queries[0] = 0
    with pytest.raises(InvalidInput, match=r"cosine_topk: queries\[0\] is zero"):
        ops.cosine_topk(queries, vectors, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": torch.ones(4)}, r"queries must be \[Q, D\], got \[4\]: 1 dimensions, expected 2"),
        ({"vectors": torch.ones(6, 4).double()}, "vectors must be float32, bfloat16 or float16, got float64"),
        (
            {"vectors": torch.ones(6, 5)},
            r"vectors must be \[N, D\] = \[N, 4\], got \[6, 5\]: dimension 1 \(D\) is 5, expected 4",
        ),
        (
            {"vectors": torch.ones(4, 6).T},
            r"vectors must be contiguous in its last dimension, got strides \[1, 6\]",
        ),
        ({"mask": torch.ones(6)}, "mask must be bool, got float32"),
        ({"mask": torch.ones(5, dtype=torch.bool)}, r"mask must be \[N\] = \[6\], got \[5\]"),
        ({"k": 0}, "k is 0, expected at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict, message: str) -> None:
    arguments = {"queries": torch.ones(2, 4), "vectors": torch.ones(6, 4), "k": 3, **change}
    with pytest.raises(RuntimeError, match=f"cosine_topk: {message}"):
        ops.cosine_topk(**arguments)


def test_the_processs_default_dtype_does_not_matter() -> None:
    """A library that loads a model changes it for all threads meanwhile."""
    queries, vectors = torch.randn(2, 16, dtype=torch.float32), torch.randn(50, 16, dtype=torch.float32)
    expected = ops.cosine_topk(queries, vectors, 5)
    for dtype in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            scores, ids = ops.cosine_topk(queries, vectors, 5)
        finally:
            torch.set_default_dtype(torch.float32)
        assert scores.dtype == torch.float32
        assert torch.equal(scores, expected[0]) and torch.equal(ids, expected[1])

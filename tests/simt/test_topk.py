"""The CUDA kernels of cosine_topk, run by the emulation, beside float64 and the plain definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from remory import ops
from tests.ops.comparison import inside_wider

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
INFINITY = float("inf")
NAN = float("nan")


def make(queries: int, count: int, width: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(queries + count * width)
    given = torch.randn(queries, width, generator=generator).to(dtype)
    return given, torch.randn(count, width, generator=generator).to(dtype)


def in_bits(mask: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(mask.to(torch.uint8), (0, -len(mask) % 8)).view(-1, 8)
    return (padded << torch.arange(8)).sum(dim=1).to(torch.uint8)


def defined(queries: Tensor, vectors: Tensor, mask: Tensor | None) -> Tensor:
    """Cosines [Q, N] float64, -inf where the mask is false."""
    given, rows = (tensor.double() / tensor.double().norm(dim=1, keepdim=True) for tensor in (queries, vectors))
    cosines = given @ rows.T
    return cosines if mask is None else cosines.masked_fill(~mask, -INFINITY)


def assert_exact(simt: Any, queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None = None) -> None:
    """Scores are float64's, rounded; no vector that was left out is better; equal scores are in the order of ids; and
    the plain definition answers the same."""
    scores, ids = simt.cosine_topk(queries, vectors, k, mask)
    assert (scores.dtype, ids.dtype) == (torch.float32, torch.int64)
    assert scores.shape == ids.shape == (len(queries), k)
    expected = ops.cosine_topk_plain(queries, vectors, k, mask)
    torch.testing.assert_close(scores, expected[0], atol=2.0**-24, rtol=0)
    # A score at the edge between two float32 may be rounded either way, and then change places with its neighbour.
    assert (ids != expected[1]).float().mean() < 0.01 or torch.equal(ids, expected[1])

    cosines = defined(queries, vectors, mask)
    count = min(k, len(vectors) if mask is None else int(mask.sum()))
    assert (ids[:, count:] == -1).all()
    assert (scores[:, count:] == -INFINITY).all()
    scores, ids = scores[:, :count], ids[:, :count]
    assert ((ids >= 0) & (ids < len(vectors))).all()
    assert all(len(set(row)) == count for row in ids.tolist())
    torch.testing.assert_close(scores.double(), cosines.gather(1, ids), atol=2.0**-24, rtol=0)
    best = cosines.topk(count).values
    torch.testing.assert_close(scores.double(), best, atol=2.0**-24, rtol=0)
    falls, same = scores[:, 1:] < scores[:, :-1], scores[:, 1:] == scores[:, :-1]
    assert (falls | (same & (ids[:, 1:] > ids[:, :-1]))).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "count", "width", "k"),
    [
        (1, 1, 1, 1),
        (3, 129, 7, 5),
        (2, 151, 384, 151),
        (129, 301, 3, 10),
        (5, 12, 33, 40),
        (9, 1025, 8, 300),
        (4, 0, 8, 3),
        (0, 9, 8, 3),
    ],
)
def test_equals_the_definition(simt: Any, queries: int, count: int, width: int, k: int, dtype: torch.dtype) -> None:
    assert_exact(simt, *make(queries, count, width, dtype), k)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "count", "width", "k"), [(1, 70_000, 5, 33), (40, 20, 5_000, 4), (2, 9, 70_000, 4)]
)
def test_many_vectors_and_wide_ones(
    simt_once: Any, queries: int, count: int, width: int, k: int, dtype: torch.dtype
) -> None:
    assert_exact(simt_once, *make(queries, count, width, dtype), k)


# A tile of queries is chosen by their number and k: all tiles, from both sides of where they change.
@pytest.mark.parametrize(
    ("queries", "k"),
    [
        *((queries, 10) for queries in (1, 2, 4, 5, 8, 9, 16, 17, 32, 33)),
        *((33, k) for k in (1, 128, 129, 256, 257, 512, 513, 1024)),
        (1, 1024),
    ],
)
def test_every_layout(simt_once: Any, queries: int, k: int) -> None:
    assert_exact(simt_once, *make(queries, 1733, 12), k)


def test_a_query_has_one_answer_in_any_batch(simt_once: Any) -> None:
    queries, vectors = make(40, 700, 36)
    scores, ids = simt_once.cosine_topk(queries, vectors, 20)
    for count in (1, 3, 8, 16, 33):
        alone = simt_once.cosine_topk(queries[:count], vectors, 20)
        assert torch.equal(alone[0], scores[:count])
        assert torch.equal(alone[1], ids[:count])


@pytest.mark.parametrize("queries", [1, 3, 17])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99, 1.0])
def test_only_what_the_mask_lets_through(simt: Any, queries: int, share: float) -> None:
    given, vectors = make(queries, 2011, 24)
    mask = torch.rand(len(vectors), generator=torch.Generator().manual_seed(3)) < share
    assert_exact(simt, given, vectors, 17, mask)
    expected = simt.cosine_topk(given, vectors, 17, mask)
    for other in (in_bits(mask), inside_wider(mask, fill=True), torch.stack([mask, ~mask], dim=1)[:, 0]):
        got = simt.cosine_topk(given, vectors, 17, other)
        assert torch.equal(got[0], expected[0])
        assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [16, 19])
def test_rows_that_do_not_start_on_16_bytes(simt_once: Any, width: int, dtype: torch.dtype) -> None:
    queries, vectors = make(3, 157, width, dtype)
    expected = simt_once.cosine_topk(queries, vectors, 11)
    got = simt_once.cosine_topk(inside_wider(queries), inside_wider(vectors), 11)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


def test_rows_far_apart_and_one_row_many_times(simt_once: Any) -> None:
    queries, vectors = make(2, 300, 16)
    assert_exact(simt_once, queries[::2], vectors[::3], 11)
    scores, ids = simt_once.cosine_topk(queries, vectors[:1].expand(900, -1), 5)
    assert ids.tolist() == [[0, 1, 2, 3, 4]] * 2
    assert all(len(row.unique()) == 1 for row in scores)


def test_queries_and_vectors_of_other_dtypes(simt_once: Any) -> None:
    queries, vectors = make(2, 300, 20)
    for given in DTYPES:
        for held in DTYPES:
            assert_exact(simt_once, queries.to(given), vectors.to(held), 9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 32, 129, 385])
@pytest.mark.parametrize("queries", [1, 2, 9])
def test_equal_vectors_come_in_the_order_of_their_ids(
    simt_once: Any, queries: int, width: int, dtype: torch.dtype
) -> None:
    given, one = make(queries, 1, width, dtype)
    scores, ids = simt_once.cosine_topk(given, one.repeat(901, 1), 700)
    assert torch.equal(ids, torch.arange(700).expand(queries, -1))
    assert all(len(row.unique()) == 1 for row in scores)


@pytest.mark.parametrize("queries", [1, 20])
def test_equal_vectors_across_slices(simt: Any, queries: int) -> None:
    given, vectors = make(queries, 3000, 8)
    vectors[torch.arange(3, 3000, 7)] = given[0] + 0.1 * vectors[3]
    vectors[2400] = vectors[17] = given[0] * 2
    scores, ids = simt.cosine_topk(given, vectors, 100)
    assert ids[0].tolist() == [17, 2400, *(row for row in range(3, 3000, 7) if row not in (17, 2400))][:100]
    assert scores[0, :2].tolist() == [1, 1]


@pytest.mark.parametrize("k", [1, 10, 100, 1000])
@pytest.mark.parametrize("queries", [1, 9])
@pytest.mark.parametrize("descending", [False, True])
def test_scores_in_order(simt_once: Any, queries: int, k: int, descending: bool) -> None:
    """Rising scores are all better than what was kept before."""
    first, last = (0.01, 1.5) if descending else (1.5, 0.01)
    angles = torch.linspace(first, last, 2500, dtype=torch.float64)
    vectors = torch.stack([angles.cos(), angles.sin()], dim=1).float()
    given = torch.tensor([[1.0, 0.0]]).repeat(queries, 1)
    assert_exact(simt_once, given, vectors, k)
    expected = torch.arange(k) if descending else torch.arange(2499, 2499 - k, -1)
    assert torch.equal(simt_once.cosine_topk(given, vectors, k)[1], expected.expand(queries, -1))


def test_near_ties_are_ranked_as_in_float64(simt_once: Any) -> None:
    """Cosines that differ by a few of float32's last places, less than float32 sums are off by."""
    generator = torch.Generator().manual_seed(5)
    query = torch.nn.functional.normalize(torch.randn(1, 96, generator=generator), dim=1)
    aside = torch.randn(1200, 96, generator=generator)
    aside = torch.nn.functional.normalize(aside - (aside @ query.T) * query, dim=1)
    vectors = query + (0.5 + 5e-6 * torch.rand(1200, 1, generator=generator)) * aside
    exact = defined(query, vectors, None)[0].float()
    assert 5 < len(exact.unique()) < 50
    expected = exact.sort(descending=True, stable=True)
    scores, ids = simt_once.cosine_topk(query, vectors, 1000)
    assert torch.equal(scores[0], expected.values[:1000])
    assert torch.equal(ids[0], expected.indices[:1000])


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e-12, 1e18, 1e30, 2e37])
def test_norms_that_float32_cannot_square(simt_once: Any, scale: float) -> None:
    query, vectors = make(1, 400, 12)
    assert_exact(simt_once, query * scale, vectors, 50)
    assert_exact(simt_once, query, vectors * scale, 400)
    vectors[::3] *= scale
    assert_exact(simt_once, query, vectors, 50)


def test_zero_and_negative_zero_are_equal(simt_once: Any) -> None:
    """A cosine below what float32 holds rounds to zero with its sign."""
    scores, ids = simt_once.cosine_topk(
        torch.tensor([[1.0, 0.0]]), torch.tensor([[-1e-40, 1e30], [1e-40, 1e30], [-1e-40, 1e30]]), 3
    )
    assert scores.tolist() == [[0, 0, 0]]
    assert ids.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("value", [NAN, -INFINITY, 0.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lowest_vector_without_a_direction_is_reported(
    simt: Any, queries: int, value: float, dtype: torch.dtype
) -> None:
    given, vectors = make(queries, 1500, 4, dtype)
    wrong = [3, 700, 701, 1400]
    for row in wrong:
        vectors[row] = value
    mask = torch.ones(1500, dtype=torch.bool)
    for row in wrong:
        scores, ids = simt.cosine_topk(given, vectors, 3, mask)
        assert scores[:, 0].isnan().all()
        assert ids[:, 0].tolist() == [row] * queries
        mask[row] = False
    scores, ids = simt.cosine_topk(given, vectors, 3, mask)
    assert scores.isfinite().all()
    assert not set(ids.flatten().tolist()) & set(wrong)


@pytest.mark.parametrize("value", [NAN, INFINITY, 0.0])
@pytest.mark.parametrize("count", [0, 300])
def test_a_query_without_a_direction_is_reported(simt_once: Any, count: int, value: float) -> None:
    queries, vectors = make(20, count, 4)
    expected = simt_once.cosine_topk(queries, vectors, 3)
    wrong = [2, 19]
    queries[wrong] = value
    scores, ids = simt_once.cosine_topk(queries, vectors, 3)
    assert scores[wrong, 0].isnan().all()
    assert ids[wrong, 0].tolist() == [-1, -1]
    right = [query for query in range(20) if query not in wrong]
    assert torch.equal(scores[right], expected[0][right])
    assert torch.equal(ids[right], expected[1][right])


def test_no_columns_are_no_direction(simt_once: Any) -> None:
    scores, ids = simt_once.cosine_topk(torch.ones(2, 0), torch.ones(5, 0), 2)
    assert scores[:, 0].isnan().all()
    assert ids[:, 0].tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vectors": torch.ones(6, 4).double()}, "vectors must be float32, bfloat16 or float16, got float64"),
        ({"vectors": torch.ones(6, 5)}, r"vectors must be \[N, D\] = \[N, 4\], got \[6, 5\]"),
        ({"mask": torch.ones(5, dtype=torch.bool)}, r"mask must be \[N\] = \[6\], got \[5\]"),
        ({"k": 0}, "k is 0, expected at least 1"),
        ({"k": 1025}, "k is 1025, expected 1 to 1024"),
    ],
)
def test_what_does_not_fit_is_refused(simt_once: Any, change: dict, message: str) -> None:
    arguments = {"queries": torch.ones(2, 4), "vectors": torch.ones(6, 4), "k": 3, "mask": None, **change}
    with pytest.raises(RuntimeError, match=f"cosine_topk: {message}"):
        simt_once.cosine_topk(*arguments.values())

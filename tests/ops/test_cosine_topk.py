from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor

from remory import ops
from remory.errors import InvalidInput
from remory.ops.cosine_topk import score_error
from tests.ops.comparison import inside_wider

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
INFINITY = float("inf")

Topk = Callable[..., tuple[Tensor, Tensor]]


@pytest.fixture(params=[ops.cosine_topk, ops.cosine_topk_plain], ids=["kernel", "plain"])
def topk(request: pytest.FixtureRequest) -> Topk:
    """The op, which runs the kernel, and its definition."""
    return request.param


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def make(queries: int, count: int, width: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(queries + count * width)
    given = torch.randn(queries, width, generator=generator).to(dtype)
    return given, torch.randn(count, width, generator=generator).to(dtype)


def defined(queries: Tensor, vectors: Tensor, mask: Tensor | None) -> Tensor:
    """Cosines [Q, N] float64, -inf where the mask is false."""
    cosines = torch.nn.functional.cosine_similarity(queries.double()[:, None], vectors.double()[None], dim=2, eps=0)
    return cosines if mask is None else cosines.masked_fill(~mask, -INFINITY)


def as_bits(mask: Tensor) -> Tensor:
    """A mask [N] bool as [ceil(N / 8)] uint8, the lowest bit first."""
    return torch.from_numpy(np.packbits(mask.numpy(), bitorder="little"))


def assert_exact(topk: Topk, queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None = None) -> None:
    """Scores are those of the float64 definition, gathered values too, and equal scores are in the order of the ids."""
    scores, ids = topk(queries, vectors, k, mask)
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
def test_equals_the_definition(topk: Topk, queries: int, count: int, width: int, k: int, dtype: torch.dtype) -> None:
    assert_exact(topk, *make(queries, count, width, dtype), k)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.99, 1.0])
def test_only_what_the_mask_lets_through(topk: Topk, share: float) -> None:
    queries, vectors = make(3, 20_011, 24)
    mask = torch.rand(len(vectors), generator=torch.Generator().manual_seed(3)) < share
    assert_exact(topk, queries, vectors, 17, mask)
    expected, got = topk(queries, vectors, 17, mask), topk(queries, vectors, 17, as_bits(mask))
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 129, 151, 2100])
def test_bits_are_the_bools(topk: Topk, count: int) -> None:
    queries, vectors = make(2, count, 6)
    for seed in range(4):
        mask = torch.rand(count, generator=torch.Generator().manual_seed(seed)) < 0.3
        expected, got = topk(queries, vectors, 5, mask), topk(queries, vectors, 5, as_bits(mask))
        assert torch.equal(got[0], expected[0])
        assert torch.equal(got[1], expected[1])


def test_a_mask_out_of_a_wider_tensor(topk: Topk) -> None:
    queries, vectors = make(1, 157, 5)
    mask = torch.rand(157, generator=torch.Generator().manual_seed(1)) < 0.5
    strided = torch.stack([mask, ~mask], dim=1)[:, 0]
    assert torch.equal(topk(queries, vectors, 100, strided)[1], topk(queries, vectors, 100, mask)[1])


def test_what_the_mask_leaves_out_may_hold_anything(topk: Topk) -> None:
    queries, vectors = make(1, 6, 4)
    vectors[0], vectors[2], vectors[5] = float("nan"), 0, INFINITY
    mask = torch.tensor([False, True, False, True, True, False])
    for given in (mask, as_bits(mask)):
        assert set(topk(queries, vectors, 6, given)[1][0, :3].tolist()) == {1, 3, 4}


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_wider_tensors(topk: Topk, dtype: torch.dtype) -> None:
    queries, vectors = make(3, 157, 19, dtype)
    expected = topk(queries, vectors, 11)
    got = topk(inside_wider(queries), inside_wider(vectors), 11)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 32, 129, 385])
@pytest.mark.parametrize("queries", [1, 2, 5])
def test_equal_vectors_come_in_the_order_of_their_ids(topk: Topk, queries: int, width: int, dtype: torch.dtype) -> None:
    given, one = make(queries, 1, width, dtype)
    scores, ids = topk(given, one.repeat(9001, 1), 700)
    assert torch.equal(ids, torch.arange(700).expand(queries, -1))
    assert all(len(row.unique()) == 1 for row in scores)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("queries", [1, 9, 33])
def test_copies_of_three_vectors(topk: Topk, queries: int, dtype: torch.dtype) -> None:
    """Every row ties with thousands, long after float32 bounds have ceased to tell them apart; one late row wins."""
    given, three = make(queries, 3, 77, dtype)
    vectors = three.repeat(4000, 1)
    vectors[11_111] = given[0]
    scores, ids = topk(given, vectors, 10)
    best = defined(given, three, None).max(dim=1)
    expected = best.indices[:, None] + 3 * torch.arange(10)
    wins = defined(given, given[:1], None)[:, 0] > best.values
    expected[wins] = torch.cat([torch.full((queries, 1), 11_111), expected[:, :9]], dim=1)[wins]
    assert torch.equal(ids, expected)
    assert scores[0, 0] == 1
    assert all(len(row.unique()) == 1 for row in scores[:, 1:])


def test_equal_vectors_across_the_boundary(topk: Topk) -> None:
    query, vectors = make(1, 5000, 48)
    vectors[torch.arange(3, 5000, 7)] = query + 0.1 * vectors[3]
    vectors[4000] = vectors[17] = query[0] * 2
    scores, ids = topk(query, vectors, 100)
    assert ids[0].tolist() == [17, 4000, *(row for row in range(3, 5000, 7) if row not in (17, 4000))][:100]
    assert scores[0, :2].tolist() == [1, 1]


def test_mixed_dtypes(topk: Topk) -> None:
    query, vectors = make(2, 300, 20)
    assert_exact(topk, query, vectors.bfloat16(), 9)
    assert_exact(topk, query.half(), vectors, 9)


@pytest.mark.parametrize("scale", [1e-44, 1e-30, 1e-12, 1e18, 1e30, 2e37])
def test_norms_that_float32_cannot_square(topk: Topk, scale: float) -> None:
    query, vectors = make(1, 400, 12)
    assert_exact(topk, query * scale, vectors, 50)
    assert_exact(topk, query, vectors * scale, 400)
    vectors[::3] *= scale
    assert_exact(topk, query, vectors, 50)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_the_precision_set_for_products_changes_nothing(topk: Topk, precision: str) -> None:
    queries, vectors = make(3, 5000, 64)
    expected = topk(queries, vectors, 20)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        got = topk(queries, vectors, 20)
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(got[0], expected[0])
    assert torch.equal(got[1], expected[1])


def test_gradient(topk: Topk) -> None:
    query, vectors = (tensor.requires_grad_() for tensor in make(1, 30, 6))
    scores, ids = topk(query, vectors, 2)
    scores.sum().backward()
    assert query.grad is not None
    assert vectors.grad is not None
    assert sorted(vectors.grad.abs().sum(dim=1).nonzero()[:, 0].tolist()) == sorted(ids[0].tolist())


@pytest.mark.parametrize("value", [float("nan"), INFINITY, -INFINITY])
@pytest.mark.parametrize("dtype", DTYPES)
def test_not_finite_is_refused(topk: Topk, value: float, dtype: torch.dtype) -> None:
    queries, vectors = make(2, 9000, 4, dtype)
    vectors[8765, 3] = value
    with pytest.raises(InvalidInput, match=r"cosine_topk: vectors\[8765\] has a NaN or an infinity"):
        topk(queries, vectors, 3)
    queries[1, 0] = value
    with pytest.raises(InvalidInput, match=r"cosine_topk: queries\[1\] has a NaN or an infinity"):
        topk(queries, vectors, 3)


def test_a_vector_without_a_direction_is_refused(topk: Topk) -> None:
    queries, vectors = make(2, 50, 4)
    vectors[20] = 0
    mask = torch.ones(50, dtype=torch.bool)
    mask[3] = False
    with pytest.raises(InvalidInput, match=r"cosine_topk: vectors\[20\] is zero: it has no direction"):
        topk(queries, vectors, 3, mask)
    queries[0] = 0
    with pytest.raises(InvalidInput, match=r"cosine_topk: queries\[0\] is zero"):
        topk(queries, vectors, 3)


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
        ({"mask": torch.ones(6, dtype=torch.uint8)}, r"mask must be \[ceil\(N/8\)\] = \[1\], got \[6\]"),
        ({"k": 0}, "k is 0, expected at least 1"),
        ({"vectors": [[1.0] * 4]}, "vectors must be a torch.Tensor, got list"),
    ],
)
def test_what_does_not_fit_is_refused(topk: Topk, change: dict, message: str) -> None:
    arguments = {"queries": torch.ones(2, 4), "vectors": torch.ones(6, 4), "k": 3, **change}
    with pytest.raises(RuntimeError, match=f"cosine_topk: {message}"):
        topk(**arguments)


def test_the_processs_default_dtype_does_not_matter(topk: Topk) -> None:
    """A library that loads a model changes it for all threads meanwhile."""
    queries, vectors = torch.randn(2, 16, dtype=torch.float32), torch.randn(50, 16, dtype=torch.float32)
    expected = topk(queries, vectors, 5)
    for dtype in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            scores, ids = topk(queries, vectors, 5)
        finally:
            torch.set_default_dtype(torch.float32)
        assert scores.dtype == torch.float32
        assert torch.equal(scores, expected[0]) and torch.equal(ids, expected[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("queries", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 65, 260])
def test_any_number_of_queries(topk: Topk, queries: int, dtype: torch.dtype) -> None:
    assert_exact(topk, *make(queries, 155, 37, dtype), 6)


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 144, 255, 257, 1000])
@pytest.mark.parametrize("queries", [1, 7])
def test_any_dimension(topk: Topk, queries: int, width: int) -> None:
    assert_exact(topk, *make(queries, 151, width), 9)


@pytest.mark.parametrize("queries", [1, 32])
@pytest.mark.parametrize("k", [1, 10, 999, 1000])
def test_scores_that_ascend(topk: Topk, queries: int, k: int) -> None:
    """Every vector is better than all before, so that nothing can be left out early."""
    given = make(queries, 1, 8)[0]
    given[:, 0] = 1
    angles = torch.linspace(1.5, 0.01, 20_000, dtype=torch.float64)
    vectors = torch.zeros(20_000, 8)
    vectors[:, 0], vectors[:, 1] = angles.cos(), angles.sin()
    given[:, 1] = 0
    assert topk(given, vectors, k)[1].tolist() == [list(range(19_999, 19_999 - k, -1))] * queries
    assert_exact(topk, given, vectors, k)


def exact_cosines(query: Tensor, vectors: Tensor) -> list[float]:
    """Cosines to the last bit of float64 or nearly so: products of float32 are exact in it, and fsum rounds once."""
    one = query.double().tolist()

    def dot(left: list[float], right: list[float]) -> float:
        return math.fsum(a * b for a, b in zip(left, right, strict=True))

    rows = vectors.double().tolist()
    return [dot(row, one) / math.sqrt(dot(row, row)) / math.sqrt(dot(one, one)) for row in rows]


@pytest.mark.parametrize("queries", [1, 6])
@pytest.mark.parametrize("k", [1, 20, 200])
def test_near_ties(topk: Topk, queries: int, k: int) -> None:
    """Scores around the k-th differ by about 1e-9 of themselves, far below what float32 sums can tell: those that round
    to one float32 are in the order of their ids, the others in that of their exact cosines."""
    generator = torch.Generator().manual_seed(k)
    query, vectors = make(1, 4000, 64)
    base = query[0] + 0.5 * vectors[0]
    near = 0.9 * vectors / vectors.norm(dim=1, keepdim=True) + 0.01 * base
    chosen = torch.randperm(4000, generator=generator)[:400]
    near[chosen] = base
    # One unit in the last place of an element moves the cosine by about 1e-9.
    near[chosen, torch.randint(64, (400,), generator=generator)] *= 1 + 2.0**-23
    exact = torch.tensor(exact_cosines(query[0], near), dtype=torch.float64)
    assert exact[chosen].unique().numel() > 50
    assert exact[chosen].max() - exact[chosen].min() < 1e-8
    assert exact.sort().values[-400:].min() == exact[chosen].min()

    expected = exact.float()
    order = expected.sort(descending=True, stable=True).indices[:k]
    scores, ids = topk(query.repeat(queries, 1), near, k)
    assert torch.equal(ids, order.expand(queries, -1))
    assert torch.equal(scores, expected[order].expand(queries, -1))


@pytest.mark.parametrize("queries", [1, 6])
def test_permuted_copies_tie(topk: Topk, queries: int) -> None:
    """With a query that is the same in all dimensions, every permutation of a vector has the same cosine; float32 sums
    of them differ."""
    one = torch.randn(96, generator=torch.Generator().manual_seed(4)) + 0.5
    copies = torch.stack([one[torch.randperm(96, generator=torch.Generator().manual_seed(i))] for i in range(3000)])
    scores, ids = topk(torch.ones(queries, 96), copies, 500)
    assert torch.equal(ids, torch.arange(500).expand(queries, -1))
    assert scores.unique().numel() == 1


@pytest.mark.parametrize("queries", [1, 6])
def test_scaled_copies_tie(topk: Topk, queries: int) -> None:
    """A power of two changes nothing but the exponent, whether or not float32 can square the norm."""
    given, one = make(queries, 1, 40)
    scales = 2.0 ** torch.randint(-100, 100, (5000, 1), generator=torch.Generator().manual_seed(2))
    scores, ids = topk(given, one * scales, 300)
    assert torch.equal(ids, torch.arange(300).expand(queries, -1))
    assert all(len(row.unique()) == 1 for row in scores)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("queries", [1, 40])
def test_threads_change_nothing(set_threads: Callable[[int], None], threads: int, queries: int) -> None:
    given, vectors = make(queries, 20_011, 24)
    vectors[torch.arange(0, 20_000, 19)] = given[0]
    set_threads(threads)
    scores, ids = ops.cosine_topk(given, vectors, 700)
    set_threads(1)
    expected = ops.cosine_topk(given, vectors, 700)
    assert torch.equal(scores, expected[0])
    assert torch.equal(ids, expected[1])
    assert ids[0].tolist() == list(range(0, 700 * 19, 19))


def test_calls_at_once() -> None:
    inputs = [make(queries, 9000 + queries, 33) for queries in (1, 2, 5, 17, 33)] * 4
    expected = [ops.cosine_topk(*given, 50) for given in inputs]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda given: ops.cosine_topk(*given, 50), inputs))
    for got, wanted in zip(results, expected, strict=True):
        assert torch.equal(got[0], wanted[0])
        assert torch.equal(got[1], wanted[1])


def test_the_kernel_reports_in_band() -> None:
    """A GPU cannot raise without waiting, so no kernel does: a NaN in front tells, and the id says which row."""
    queries, vectors = make(40, 5000, 12)
    vectors[4321], vectors[77], vectors[3] = float("nan"), 0, INFINITY
    queries[5] = 0
    mask = torch.ones(5000, dtype=torch.bool)
    mask[3] = False
    scores, ids = torch.ops.remory.cosine_topk(queries, vectors, 2, mask)
    assert scores[:, 0].isnan().all()
    assert ids[:, 0].tolist() == [77] * 5 + [-1] + [77] * 34
    scores, ids = torch.ops.remory.cosine_topk(queries, vectors[:77], 2, mask[:77])
    assert scores[:, 0].isnan().nonzero().tolist() == [[5]]
    assert ids[5, 0] == -1


def test_the_largest_float16_numbers_are_not_infinite(topk: Topk) -> None:
    queries, vectors = make(3, 500, 20, torch.float16)
    vectors[::5] = (vectors[::5].sign() * 65504).half()
    vectors[::7] *= 2.0**-20
    vectors[vectors.eq(0).all(dim=1)] = 1
    assert_exact(topk, queries, vectors, 400)


def test_more_than_the_kernel_serves_is_the_definition() -> None:
    queries, vectors = make(2, 1200, 8)
    with pytest.raises(RuntimeError, match="cosine_topk: k is 1001, expected 1 to 1000"):
        torch.ops.remory.cosine_topk(queries, vectors, 1001)
    assert_exact(ops.cosine_topk, queries, vectors, 1001)


@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype: torch.dtype) -> None:
    queries, vectors = make(3, 40, 9, dtype)
    mask = torch.arange(40) % 3 > 0
    for given in (None, mask, as_bits(mask)):
        torch.library.opcheck(torch.ops.remory.cosine_topk.default, (queries, vectors, 4, given))


@pytest.mark.parametrize("level", ["baseline", "v3", "v4"])
def test_every_level_of_instructions(level: str) -> None:
    """The kernel takes the best level that the processor has; REMORY_CPU asks for a lower one."""
    some = "kernel and (number_of_queries or three_vectors or dimension or kernel-20 or largest_float16)"
    command = [sys.executable, "-m", "pytest", __file__, "-k", some, "-x", "-p", "no:cacheprovider"]
    result = subprocess.run(command, env={**os.environ, "REMORY_CPU": level}, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-2000:]


def test_autocast_changes_no_answer() -> None:
    """Its products in bfloat16 would be further off than what is kept to be scored exactly."""
    generator = torch.Generator().manual_seed(0)
    vectors, queries = torch.randn(4000, 64, generator=generator), torch.randn(2, 64, generator=generator)
    expected = ops.cosine_topk(queries, vectors, 1001)
    with torch.autocast("cpu", torch.bfloat16):
        scores, ids = ops.cosine_topk(queries, vectors, 1001)
    assert torch.equal(ids, expected[1])
    assert torch.equal(scores, expected[0])


@pytest.mark.parametrize("k", [3, 1001])
def test_empty_tensors_from_numpy_are_taken(k: int) -> None:
    """Their strides are zeros."""
    empty = torch.from_numpy(np.empty((0, 64), dtype=np.float32))
    scores, ids = ops.cosine_topk(torch.ones(2, 64), empty, k)
    assert scores.isneginf().all()
    assert (ids == -1).all()
    assert ops.cosine_topk(empty, torch.ones(2, 64), k)[0].shape == (0, k)

"""The CUDA kernel of `slot_attention`, run by the emulation, against its definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from remory.ops import slot_attention_plain
from tests.ops.comparison import assert_close, inside_wider
from tests.ops.test_slot_attention import make

DTYPES = (torch.float32, torch.bfloat16)


def define(inputs: tuple[Tensor, ...], *geometry: int) -> Tensor:
    q, k, v, lengths = inputs
    return slot_attention_plain(q.double(), k.double(), v.double(), lengths, *geometry)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("lengths", "tokens", "block", "ratio", "window", "heads", "kv_heads", "head_dim"),
    [
        ([1], 1, 1, 1, 1, 1, 1, 1),
        ([3], 3, 3, 2, 6, 2, 1, 3),
        ([129, 1, 64], 129, 129, 16, 258, 4, 2, 16),
        ([151, 0], 151, 151, 8, 33, 9, 3, 64),
        ([50, 17], 50, 50, 7, 20, 6, 1, 20),
        ([40], 40, 40, 40, 80, 5, 5, 8),
        ([24, 24], 24, 24, 1, 5, 7, 1, 17),
        # Every width of the kernel, with and without packets, and the most dimensions a head may have.
        ([70, 33], 70, 70, 8, 60, 4, 2, 128),
        ([70], 70, 70, 8, 60, 4, 2, 130),
        ([70], 70, 70, 8, 140, 2, 1, 256),
        ([40], 40, 40, 8, 80, 2, 1, 255),
    ],
)
def test_equals_the_definition(
    simt: Any,
    dtype: torch.dtype,
    lengths: list[int],
    tokens: int,
    block: int,
    ratio: int,
    window: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
) -> None:
    inputs = make(lengths, tokens, -(-block // ratio), heads, kv_heads, head_dim, dtype)
    assert_close(simt.slot_attention(*inputs, block, ratio, window), define(inputs, block, ratio, window))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", [1, 31, 256, 1 << 30])
def test_long_ragged_blocks(simt_once: Any, dtype: torch.dtype, window: int) -> None:
    inputs = make([1025, 1, 512, 1000], 1025, 65, 6, 2, 40, dtype)
    assert_close(simt_once.slot_attention(*inputs, 1025, 16, window), define(inputs, 1025, 16, window))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("blocks", [1, 9])
def test_few_and_many_blocks_share_their_warps_differently(simt: Any, dtype: torch.dtype, blocks: int) -> None:
    inputs = make([45 - 5 * b for b in range(blocks)], 45, 5, 4, 2, 16, dtype)
    together = simt.slot_attention(*inputs, 45, 10, 40)
    assert_close(together, define(inputs, 45, 10, 40))
    alone = simt.slot_attention(*(tensor[:1] for tensor in inputs), 45, 10, 40)
    assert_close(alone[0], together[0].float())


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_source_all_slots_see_each_other(simt: Any, dtype: torch.dtype) -> None:
    inputs = make([0, 0], 0, 13, 4, 2, 16, dtype)
    assert_close(simt.slot_attention(*inputs, 100, 8, 200), define(inputs, 100, 8, 200))


def test_a_slot_that_sees_only_itself_returns_its_value(simt_once: Any) -> None:
    q, k, v, lengths = make([0, 0, 0], 30, 4, 3, 1, 8, torch.float32)
    assert_close(simt_once.slot_attention(q, k, v, lengths, 30, 8, 1), v[:, 30:].expand(-1, -1, 3, -1))


def test_scores_far_apart_do_not_overflow(simt_once: Any) -> None:
    q, k, v, lengths = make([300], 300, 5, 2, 1, 16, torch.float32)
    inputs = (q * 1000, k, v, lengths)
    out = simt_once.slot_attention(*inputs, 300, 60, 600)
    assert out.isfinite().all()
    torch.testing.assert_close(out.double(), define(inputs, 300, 60, 600), rtol=0, atol=5e-3)


def test_what_is_no_number_stays_with_those_who_see_it(simt_once: Any) -> None:
    q, k, v, lengths = make([64], 64, 8, 2, 1, 16, torch.float32)
    k[0, 60], v[0, 3] = float("nan"), float("inf")
    out = simt_once.slot_attention(q, k, v, lengths, 64, 8, 16)
    assert out[0, 7].isnan().all()
    assert not out[0, 0].isfinite().any()
    assert out[0, 4].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_wider_tensors(simt_once: Any, dtype: torch.dtype) -> None:
    q, k, v, lengths = make([21, 9], 21, 3, 4, 2, 16, dtype)
    expected = simt_once.slot_attention(q, k, v, lengths, 21, 8, 12)
    sliced = simt_once.slot_attention(inside_wider(q), inside_wider(k), inside_wider(v), lengths, 21, 8, 12)
    assert torch.equal(sliced, expected)
    fused = torch.cat([k, v], dim=3)
    assert torch.equal(simt_once.slot_attention(q, fused[..., :16], fused[..., 16:], lengths, 21, 8, 12), expected)


def test_no_blocks(simt_once: Any) -> None:
    assert simt_once.slot_attention(*make([], 8, 2, 2, 1, 4, torch.float32), 8, 4, 16).shape == (0, 2, 2, 4)


@pytest.mark.parametrize("length", [-1, 22])
def test_a_length_out_of_range_traps(simt_once: Any, length: int) -> None:
    q, k, v, lengths = make([21, 9], 21, 3, 4, 2, 16, torch.float32)
    lengths[1] = length
    with pytest.raises(RuntimeError, match="slot_attention: a length is out of range"):
        simt_once.slot_attention(q, k, v, lengths, 21, 8, 12)


def test_heads_have_a_limit(simt_once: Any) -> None:
    with pytest.raises(RuntimeError, match="heads have 257 dimensions, expected at most 256 on CUDA"):
        simt_once.slot_attention(*make([4], 4, 2, 1, 1, 257, torch.float32), 4, 2, 8)

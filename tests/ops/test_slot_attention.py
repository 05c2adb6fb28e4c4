from __future__ import annotations

import pytest
import torch
from torch import Tensor

from remory import ops
from tests.ops.comparison import assert_close, inside_wider

DTYPES = (torch.float32, torch.bfloat16)
NAN = float("nan")


def make(
    lengths: list[int], tokens: int, slots: int, heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random q, k, v, lengths; keys and values beyond a block's length are NaN, so that whoever reads them shows."""
    generator = torch.Generator().manual_seed(len(lengths) + tokens + slots)
    q = torch.randn(len(lengths), slots, heads, head_dim, generator=generator)
    k = torch.randn(len(lengths), tokens + slots, kv_heads, head_dim, generator=generator)
    v = torch.randn(len(lengths), tokens + slots, kv_heads, head_dim, generator=generator)
    for block, length in enumerate(lengths):
        k[block, length:tokens] = NAN
        v[block, length:tokens] = NAN
    return q.to(dtype), k.to(dtype), v.to(dtype), torch.tensor(lengths, dtype=torch.int64)


def attend_one_by_one(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor, block: int, ratio: int, window: int) -> Tensor:
    """The text of the network's definition, slot by slot and head by head, in float64."""
    slots, tokens = q.shape[1], k.shape[1] - q.shape[1]
    anchors = [(i * ratio + min((i + 1) * ratio, block) - 1) / 2 for i in range(slots)]
    out = torch.empty(q.shape, dtype=torch.float64)
    for b, length in enumerate(lengths.tolist()):
        for i, anchor in enumerate(anchors):
            seen = [t for t in range(length) if abs(t - anchor) < window / 2]
            seen += [tokens + j for j, other in enumerate(anchors) if abs(other - anchor) < window / 2]
            for head in range(q.shape[2]):
                kv_head = head // (q.shape[2] // k.shape[2])
                scores = k[b, seen, kv_head].double() @ q[b, i, head].double() * q.shape[3] ** -0.5
                out[b, i, head] = scores.softmax(dim=0) @ v[b, seen, kv_head].double()
    return out


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
    ],
)
def test_equals_the_text_of_the_definition(
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
    expected = attend_one_by_one(*inputs, block, ratio, window)
    assert_close(ops.slot_attention(*inputs, block, ratio, window), expected)
    assert_close(ops.slot_attention_plain(*inputs, block, ratio, window), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", [1, 2, 31, 256, 2050, 1 << 30])
def test_long_ragged_blocks(dtype: torch.dtype, window: int) -> None:
    q, k, v, lengths = make([1025, 1, 512, 1000], 1025, 65, 6, 2, 40, dtype)
    expected = ops.slot_attention_plain(q.double(), k.double(), v.double(), lengths, 1025, 16, window)
    assert_close(ops.slot_attention(q, k, v, lengths, 1025, 16, window), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_without_source_all_slots_see_each_other(dtype: torch.dtype) -> None:
    q, k, v, lengths = make([0, 0], 0, 13, 4, 2, 16, dtype)
    scores = torch.einsum("bnhd,bkhd->bhnk", q.double(), k.double().repeat_interleave(2, dim=2)) / 4
    expected = torch.einsum("bhnk,bkhd->bnhd", scores.softmax(-1), v.double().repeat_interleave(2, dim=2))
    assert_close(ops.slot_attention(q, k, v, lengths, 100, 8, 200), expected)


def test_a_slot_that_sees_only_itself_returns_its_value() -> None:
    q, k, v, lengths = make([0, 0, 0], 30, 4, 3, 1, 8, torch.float32)
    out = ops.slot_attention(q, k, v, lengths, 30, 8, 1)
    assert_close(out, v[:, 30:].expand(-1, -1, 3, -1))


def test_scores_far_apart_do_not_overflow() -> None:
    q, k, v, lengths = make([300], 300, 5, 2, 1, 16, torch.float32)
    inputs = (q * 1000, k, v, lengths)
    expected = ops.slot_attention_plain(q.double() * 1000, k.double(), v.double(), lengths, 300, 60, 600)
    out = ops.slot_attention(*inputs, 300, 60, 600)
    assert out.isfinite().all()
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=5e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_of_wider_tensors(dtype: torch.dtype) -> None:
    q, k, v, lengths = make([21, 9], 21, 3, 4, 2, 10, dtype)
    expected = ops.slot_attention(q, k, v, lengths, 21, 8, 12)
    out = ops.slot_attention(inside_wider(q), inside_wider(k), inside_wider(v), lengths, 21, 8, 12)
    assert torch.equal(out, expected)
    fused = torch.cat([k, v], dim=3)
    assert torch.equal(ops.slot_attention(q, fused[..., :10], fused[..., 10:], lengths, 21, 8, 12), expected)


def test_a_block_does_not_depend_on_its_batch() -> None:
    q, k, v, lengths = make([33, 7, 40], 40, 5, 4, 2, 12, torch.float32)
    together = ops.slot_attention(q, k, v, lengths, 40, 8, 24)
    for b in range(3):
        alone = ops.slot_attention(q[b : b + 1], k[b : b + 1], v[b : b + 1], lengths[b : b + 1], 40, 8, 24)
        assert torch.equal(alone[0], together[b])


def test_no_blocks() -> None:
    assert ops.slot_attention(*make([], 8, 2, 2, 1, 4, torch.float32), 8, 4, 16).shape == (0, 2, 2, 4)


def test_gradient_takes_the_definition() -> None:
    q, k, v, lengths = make([9, 5], 9, 3, 2, 1, 4, torch.float32)
    q.requires_grad_()
    ops.slot_attention(q, k, v, lengths, 9, 3, 8).sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
    assert q.grad.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"q": torch.zeros(2, 4, 4, 8)},
            r"q must be \[B, n, H, d\] = \[2, 3, H, d\], got \[2, 4, 4, 8\]: dimension 1 \(n\) is 4, expected 3",
        ),
        (
            {"k": torch.zeros(2, 23, 2, 7)},
            r"k must be .*= \[2, 23, 2, 8\], got \[2, 23, 2, 7\]: dimension 3 \(d\) is 7, expected 8",
        ),
        ({"v": torch.zeros(2, 22, 2, 8)}, r"v must be .*dimension 1 \(T\+n\) is 22, expected 23"),
        ({"k": torch.zeros(2, 2, 2, 8), "v": torch.zeros(2, 2, 2, 8)}, "holds 2 keys, expected at least the n = 3"),
        ({"k": torch.zeros(2, 23, 3, 8), "v": torch.zeros(2, 23, 3, 8)}, "H = 4 heads, expected a multiple of KV = 3"),
        ({"v": torch.zeros(2, 23, 2, 8).bfloat16()}, "v must be float32 as q is, got bfloat16"),
        ({"q": torch.zeros(2, 3, 8, 4).transpose(2, 3)}, "q must be contiguous in its last dimension"),
        ({"lengths": torch.tensor([20, 21])}, r"lengths\[1\] is 21, expected 0 to 20"),
        ({"lengths": torch.tensor([-1, 3])}, r"lengths\[0\] is -1, expected 0 to 20"),
        ({"lengths": torch.tensor([1])}, r"lengths must be \[B\] = \[2\], got \[1\]"),
        ({"window": 0}, "window is 0, expected 1 to"),
        ({"ratio": 0}, "ratio is 0, expected at least 1"),
        ({"block": 0}, "block is 0, expected at least 1"),
    ],
)
def test_bad_input(change: dict, message: str) -> None:
    arguments = {
        "q": torch.zeros(2, 3, 4, 8),
        "k": torch.zeros(2, 23, 2, 8),
        "v": torch.zeros(2, 23, 2, 8),
        "lengths": torch.tensor([20, 5]),
        "block": 20,
        "ratio": 8,
        "window": 16,
        **change,
    }
    with pytest.raises(RuntimeError, match=f"slot_attention: .*{message}"):
        ops.slot_attention(**arguments)


def test_opcheck() -> None:
    for dtype in DTYPES:
        inputs = make([11, 2], 11, 3, 4, 2, 6, dtype)
        torch.library.opcheck(torch.ops.remory.slot_attention.default, (*inputs, 11, 4, 8))

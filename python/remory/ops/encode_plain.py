"""The memory network in plain torch: the definition that every kernel of `encode` is compared with.

Differentiable in every weight and every floating-point input. Matrix products run in the weights' dtype; norms,
softmax, rotations and the final sum accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class _Attention:
    """Projections and per-head norm weights of one attention: q, k, v, o and q_norm, k_norm."""

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    q_norm: Tensor
    k_norm: Tensor


@dataclass(frozen=True)
class _Layer:
    input_norm: Tensor
    post_norm: Tensor
    attention: _Attention
    gate: Tensor
    up: Tensor
    down: Tensor


@dataclass(frozen=True)
class _SummaryAttention:
    query_norm: Tensor
    summary_norm: Tensor
    attention: _Attention
    gate: Tensor


@dataclass(frozen=True)
class _Pointer:
    q: Tensor
    k: Tensor
    value: Tensor
    idf_scale: Tensor
    group_bonus: Tensor
    mean: Tensor


@dataclass(frozen=True)
class _Salience:
    """What chooses the tokens that rows start from: projections [C, D], taps [2K+1, C], mix [C, C], score [C]."""

    source: Tensor
    lexical: Tensor
    taps: Tensor
    mix: Tensor
    score: Tensor


@dataclass(frozen=True)
class _Weights:
    fc: Tensor
    hidden_norm: Tensor
    mask: Tensor
    depth: Tensor | None
    norm: Tensor
    rms: Tensor
    layers: list[_Layer]
    summary: list[_SummaryAttention]
    base_gate: Tensor | None
    salience: _Salience | None
    pointer: _Pointer | None


@dataclass(frozen=True)
class _Slots:
    """Where a block's slots lie. Distances are doubled so that half-integer anchors stay integers."""

    block: int
    ratio: int
    device: torch.device

    @property
    def first(self) -> Tensor:
        """[n] the first token of each slot's group."""
        return torch.arange(0, self.block, self.ratio, device=self.device)

    @property
    def doubled_anchors(self) -> Tensor:
        """[n] twice the middle of each slot's group: first plus last token."""
        return self.first + (self.first + self.ratio).clamp(max=self.block) - 1

    @property
    def positions(self) -> Tensor:
        """[n] RoPE positions, floor(anchor + 0.5)."""
        return (self.doubled_anchors + 1) // 2

    def near(self, doubled_coordinates: Tensor, window: int) -> Tensor:
        """[n, K] whether each coordinate (given doubled) lies strictly within half a window of each anchor."""
        return (doubled_coordinates[None, :] - self.doubled_anchors[:, None]).abs() < window

    def holds(self, tokens: int) -> Tensor:
        """[n, T] whether a token belongs to the slot's own group."""
        coordinates = torch.arange(tokens, device=self.device)
        return (coordinates // self.ratio)[None, :] == torch.arange(len(self.first), device=self.device)[:, None]


def encode_plain(
    features: Tensor,
    lengths: Tensor,
    summary: Tensor | None,
    weights: Sequence[Tensor],
    input_depths: Tensor,
    heads: int,
    kv_heads: int,
    head_dim: int,
    layers: int,
    block: int,
    ratio: int,
    window: int,
    eps: float,
    theta: float,
    summary_conditioned: bool,
    tail: bool,
    salient: bool,
    pointer_heads: int,
    pointer_head_dim: int,
    embeddings: Tensor | None = None,
    idf: Tensor | None = None,
    kept: Tensor | None = None,
    summary_lengths: Tensor | None = None,
) -> Tensor:
    """Rows [B, n, D] of B blocks, n = ceil(block / ratio), in the dtype of the weights.

    features [B, T, L*D]: block b has `lengths[b]` source tokens, 1 to T, and T is at most `block`; what lies beyond a
    block's length is never used. lengths and input_depths [B] int64. A summary is given exactly when
    `summary_conditioned`: [S, D] for all blocks alike, or [B, S, D] with summary_lengths [B] int64, of which block b
    sees its own first `summary_lengths[b]` rows, 1 to S. weights: in the order of `Geometry.tensor_shapes()`.
    embeddings [B, T, D] are needed by `tail`, by `salient` and by a pointer, idf [B, T] by a pointer only
    (`pointer_heads` > 0).

    A slot in whose window no source token lies takes nothing from the pointer. With `salient` the slots sit at the
    tokens that `keep` chooses, or at `kept` [B, n] int64 (ascending, below the block's length) where it is given.
    Raises ValueError when an input that the network needs is absent, or when summary and summary_lengths do not go
    together.
    """
    if summary_conditioned and summary is None:
        raise ValueError("a summary-conditioned network needs the summary's states")
    if (summary is not None and summary.dim() == 3) != (summary_lengths is not None):
        raise ValueError("a summary [B, S, D] of each block's own comes with summary_lengths, and no other does")
    if (tail or salient or pointer_heads) and embeddings is None:
        raise ValueError("a network with a base or a pointer needs the source tokens' embeddings")
    if pointer_heads and idf is None:
        raise ValueError("a network with a pointer needs the source tokens' inverse document frequencies")

    w = _name_weights(weights, layers, summary_conditioned, tail, salient, pointer_heads > 0)
    dtype = w.fc.dtype
    slots = _Slots(block, ratio, features.device)
    tokens = torch.arange(features.shape[1], device=features.device)
    valid = tokens[None, :] < lengths[:, None]

    # Zeros instead of whatever lies beyond a block's length: a masked-out NaN would still spoil the weighted sum.
    features = torch.where(valid[..., None], features, 0).to(dtype)
    source = _rms_norm(features @ w.fc.T, w.hidden_norm, eps)
    hidden = w.mask.expand(features.shape[0], len(slots.first), -1)
    if w.depth is not None:
        hidden = hidden + w.depth[input_depths][:, None, :]

    source_visible = slots.near(2 * tokens, window) & valid[:, None, :]
    slot_visible = slots.near(slots.doubled_anchors, window).expand(len(lengths), -1, -1)
    visible = torch.cat([source_visible, slot_visible], dim=2)
    positions = torch.cat([tokens, slots.positions])
    rope = _rotation(positions, head_dim, theta)
    slot_rope = _rotation(slots.positions, head_dim, theta)
    groups = slots.holds(len(tokens)).expand(len(lengths), -1, -1)
    if w.salience is not None and embeddings is not None:
        embeddings = torch.where(valid[..., None], embeddings, 0)
        if kept is None:
            kept = keep(_salience(source, embeddings, valid, w.salience, w.rms), lengths, len(slots.first))
        hidden = hidden + source.gather(1, kept[..., None].expand(-1, -1, source.shape[2]))
        positions = torch.cat([tokens.expand(len(lengths), -1), kept], dim=1)
        rope, slot_rope = _rotation(positions, head_dim, theta), _rotation(kept, head_dim, theta)
        groups = _following(kept, lengths, len(tokens))
    summary_visible = None
    if summary is not None and summary_lengths is not None:
        rows_seen = torch.arange(summary.shape[1], device=summary.device) < summary_lengths[:, None]
        summary = torch.where(rows_seen[..., None], summary, 0)
        summary_visible = rows_seen[:, None]

    for index, layer in enumerate(w.layers):
        x = _rms_norm(hidden, layer.input_norm, eps)
        last = index == layers - 1
        hidden = hidden + _attend(
            x,
            x if last else torch.cat([source, x], dim=1),
            layer.attention,
            (heads, kv_heads, head_dim),
            eps,
            visible=None if last else visible,
            rotations=(slot_rope, slot_rope if last else rope),
        )
        if summary is not None and index < len(w.summary):
            cross = w.summary[index]
            given = _rms_norm(summary.to(dtype), cross.summary_norm, eps).expand(len(lengths), -1, -1)
            query = _rms_norm(hidden, cross.query_norm, eps)
            attended = _attend(query, given, cross.attention, (heads, kv_heads, head_dim), eps, visible=summary_visible)
            hidden = hidden + torch.tanh(cross.gate) * attended
        y = _rms_norm(hidden, layer.post_norm, eps)
        hidden = hidden + (F.silu(y @ layer.gate.T) * (y @ layer.up.T)) @ layer.down.T

    state = _rms_norm(hidden, w.norm, eps)
    rows = state.float() * w.rms.float()
    if embeddings is None or not (tail or salient or pointer_heads):
        return rows.to(dtype)

    if w.base_gate is not None:
        first = _tail(lengths, len(slots.first)) if kept is None else kept
        base = embeddings.gather(1, first[..., None].expand(-1, -1, embeddings.shape[2]))
        rows = base.float() + w.base_gate.float() * rows
    if w.pointer is not None and idf is not None:
        embeddings = torch.where(valid[..., None], embeddings, 0)
        shape = (pointer_heads, pointer_head_dim)
        rows = rows + _point(state, source, w.pointer, shape, embeddings, idf, source_visible, groups)
    return (_normalise(rows, eps) * w.rms.float()).to(dtype)


def score_salience(
    features: Tensor,
    lengths: Tensor,
    embeddings: Tensor,
    weights: Sequence[Tensor],
    *,
    layers: int,
    eps: float,
    summary_conditioned: bool,
    pointer_heads: int,
    **_: object,
) -> Tensor:
    """[B, T] float32: how much each source token asks to be kept; -inf beyond a block's length.

    Arguments as in `encode_plain`, of a network with `salient`; the others of its arguments are passed over.
    """
    w = _name_weights(weights, layers, summary_conditioned, False, True, pointer_heads > 0)
    assert w.salience is not None
    valid = torch.arange(features.shape[1], device=features.device)[None, :] < lengths[:, None]
    source = _rms_norm(torch.where(valid[..., None], features, 0).to(w.fc.dtype) @ w.fc.T, w.hidden_norm, eps)
    return _salience(source, torch.where(valid[..., None], embeddings, 0), valid, w.salience, w.rms)


def keep(scores: Tensor, lengths: Tensor, slots: int) -> Tensor:
    """[B, n] int64, ascending: the n tokens of each block with the highest scores [B, T], equal ones the earlier first.

    A block of fewer tokens keeps them all, the first one repeated in front.
    """
    order = scores.sort(dim=1, descending=True, stable=True).indices[:, :slots]
    if order.shape[1] < slots:
        order = F.pad(order, (0, slots - order.shape[1]))
    kept = torch.where(torch.arange(slots, device=scores.device) < lengths[:, None], order, 0)
    return kept.sort(dim=1).values


def _name_weights(
    weights: Sequence[Tensor], layers: int, summarised: bool, tail: bool, salient: bool, pointer: bool
) -> _Weights:
    """Give the flat list its names; the order is that of `Geometry.tensor_shapes()`."""
    take = iter(weights)
    fc, hidden_norm, mask = next(take), next(take), next(take)
    depth = next(take) if summarised else None
    norm, rms = next(take), next(take)
    return _Weights(
        fc,
        hidden_norm,
        mask,
        depth,
        norm,
        rms,
        layers=[_take_layer(take) for _ in range(layers)],
        summary=[_take_summary_attention(take) for _ in range(layers - 1)] if summarised else [],
        base_gate=next(take) if tail or salient else None,
        salience=_Salience(*(next(take) for _ in range(5))) if salient else None,
        pointer=_Pointer(*(next(take) for _ in range(6))) if pointer else None,
    )


def _take_layer(take: Iterator[Tensor]) -> _Layer:
    input_norm, post_norm = next(take), next(take)
    attention = _Attention(*(next(take) for _ in range(6)))
    return _Layer(input_norm, post_norm, attention, *(next(take) for _ in range(3)))


def _take_summary_attention(take: Iterator[Tensor]) -> _SummaryAttention:
    query_norm, summary_norm, q_norm, k_norm = (next(take) for _ in range(4))
    q, k, v, o = (next(take) for _ in range(4))
    return _SummaryAttention(query_norm, summary_norm, _Attention(q, k, v, o, q_norm, k_norm), next(take))


def _normalise(x: Tensor, eps: float) -> Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return (_normalise(x, eps) * weight.float()).to(x.dtype)


def _rotation(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines in float32 of angles computed in float64.

    [K, head_dim / 2], or [B, 1, K, head_dim / 2] for positions [B, K] that differ from block to block.
    """
    exponents = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float64) / head_dim
    angles = positions.double()[..., None] * theta**-exponents
    if positions.dim() == 2:
        angles = angles[:, None]
    return angles.cos().float(), angles.sin().float()


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate [B, H, K, d] by the half-split convention: dimension i is paired with i + d/2."""
    cos, sin = rotation
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """[B, K, heads * d] to [B, heads, K, d]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _attend(
    queries: Tensor,
    keys: Tensor,
    w: _Attention,
    shape: tuple[int, int, int],
    eps: float,
    *,
    visible: Tensor | None = None,
    rotations: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
) -> Tensor:
    """Grouped-query attention of [B, n, D] over [B, K, D]; visible [B, n or 1, K], all when None."""
    heads, kv_heads, head_dim = shape
    q = _rms_norm(_split_heads(queries @ w.q.T, heads), w.q_norm, eps)
    k = _rms_norm(_split_heads(keys @ w.k.T, kv_heads), w.k_norm, eps)
    v = _split_heads(keys @ w.v.T, kv_heads)
    if rotations is not None:
        q, k = _rotate(q, rotations[0]), _rotate(k, rotations[1])
    group = heads // kv_heads
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = (q @ k.transpose(2, 3)).float() * head_dim**-0.5
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None], float("-inf"))
    attended = scores.softmax(dim=-1).to(v.dtype) @ v
    return attended.transpose(1, 2).flatten(2) @ w.o.T


def _tail(lengths: Tensor, slots: int) -> Tensor:
    """[B, n] each block's last n tokens, the first one repeated where there are fewer."""
    offsets = torch.arange(slots, device=lengths.device) - slots
    return (lengths[:, None] + offsets[None, :]).clamp(min=0)


def _salience(source: Tensor, embeddings: Tensor, valid: Tensor, w: _Salience, rms: Tensor) -> Tensor:
    """[B, T] float32: two layers over each token and its K neighbours on both sides; -inf where not valid."""
    channels = source @ w.source.T + (embeddings.float() / rms.float()).to(source.dtype) @ w.lexical.T
    channels = torch.where(valid[..., None], channels, 0)
    near = F.conv1d(channels.mT, w.taps.T[:, None], padding=len(w.taps) // 2, groups=channels.shape[2]).mT
    scores = F.silu(F.silu(near) @ w.mix.T) @ w.score
    return scores.float().masked_fill(~valid, float("-inf"))


def _following(kept: Tensor, lengths: Tensor, tokens: int) -> Tensor:
    """[B, n, T] whether a token belongs to a slot's own group: the kept token and what follows it up to the next."""
    ends = torch.cat([kept[:, 1:], lengths[:, None]], dim=1)
    place = torch.arange(tokens, device=kept.device)
    return (place >= kept[..., None]) & (place < ends[..., None])


def _point(
    state: Tensor,
    source: Tensor,
    w: _Pointer,
    shape: tuple[int, int],
    embeddings: Tensor,
    idf: Tensor,
    visible: Tensor,
    groups: Tensor,
) -> Tensor:
    """[B, n, D] float32: what the copy path adds to each row, summed over its heads."""
    heads, head_dim = shape
    q, k = _split_heads(state @ w.q.T, heads), _split_heads(source @ w.k.T, heads)
    scores = (q @ k.transpose(2, 3)).float() * head_dim**-0.5
    scores = scores + w.idf_scale.float()[None, :, None, None] * idf.float()[:, None, None, :]
    scores = scores + w.group_bonus.float()[None, :, None, None] * groups[:, None]
    # The lowest finite score instead of -inf: a slot that sees nothing gets a finite softmax, which the mask zeroes.
    scores = scores.masked_fill(~visible[:, None], torch.finfo(torch.float32).min)
    share = scores.softmax(dim=-1) * visible[:, None]
    copied = share @ (embeddings.float() - w.mean.float())[:, None]
    return torch.einsum("bhnd,hed->bne", copied, w.value.float())

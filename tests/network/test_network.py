from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from remory.errors import InvalidInput
from remory.network import MemoryNetwork
from remory.ops.encode_plain import keep

MakeNetwork = Callable[..., MemoryNetwork]

POINTER = {"pointer_heads": 2, "pointer_head_dim": 4, "vocabulary": 10}
SALIENT = {"base": "salient", "salience_channels": 9, "salience_reach": 2, "local_window": 100}
VARIANTS = [
    pytest.param({}, id="summary"),
    pytest.param({"summary_conditioned": False}, id="no-summary"),
    pytest.param({"base": "tail"}, id="tail"),
    pytest.param(POINTER, id="pointer"),
    pytest.param({"base": "tail", **POINTER}, id="tail-pointer"),
    pytest.param({"summary_conditioned": False, "base": "tail", "num_hidden_layers": 2}, id="two-layers"),
    pytest.param(SALIENT, id="salient"),
    pytest.param({"summary_conditioned": False, **SALIENT, **POINTER}, id="salient-pointer"),
]


SALIENCE_WEIGHTS = [f"salience.{name}" for name in ("source.weight", "lexical.weight", "taps", "mix.weight", "score")]


def relative_error(got: Tensor, expected: Tensor) -> float:
    return ((got.double() - expected.double()).norm() / expected.double().norm()).item()


def as_fast(run: Callable[[], Tensor]) -> Tensor:
    with torch.no_grad():
        return run()


@pytest.mark.parametrize("gradients", [False, True], ids=["op", "plain"])
def test_golden_cases_give_their_rows(golden: Any, gradients: bool) -> None:
    network = MemoryNetwork(golden.config)
    network.load_state_dict(golden.weights)
    with torch.set_grad_enabled(gradients):
        rows = network(golden.features, golden.summary, golden.config["input_depth"])
    assert rows.requires_grad == gradients
    assert rows.shape == golden.rows.shape
    assert relative_error(rows.detach(), golden.rows) < 1e-4


@pytest.mark.parametrize("variant", VARIANTS)
def test_op_and_plain_path_agree(make_network: MakeNetwork, blocks: Any, variant: dict[str, Any]) -> None:
    network = make_network(**variant)
    plain = blocks.encode(network)
    fast = as_fast(lambda: blocks.encode(network))
    assert plain.requires_grad
    assert not fast.requires_grad
    assert plain.isfinite().all()
    assert relative_error(fast, plain.detach()) < 1e-4


# Where scores are nearly equal a salient base may keep other tokens in bfloat16: the next test holds them fixed, and
# the op's own choice is compared with its definition in tests/ops.
@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if "salient" not in str(variant.id)])
def test_bfloat16_stays_near_float32(make_network: MakeNetwork, blocks: Any, variant: dict[str, Any]) -> None:
    network = make_network(**variant).to(torch.bfloat16)
    plain = blocks.encode(network)
    fast = as_fast(lambda: blocks.encode(network))
    exact = as_fast(lambda: blocks.encode(network.float()))
    assert plain.dtype == fast.dtype == torch.bfloat16
    assert relative_error(fast, exact) < 2e-2
    assert relative_error(plain.detach(), exact) < 2e-2


@pytest.mark.parametrize("variant", [SALIENT, {**SALIENT, **POINTER}], ids=["salient", "salient-pointer"])
def test_bfloat16_at_the_same_tokens_stays_near_float32(
    make_network: MakeNetwork, blocks: Any, variant: dict[str, Any]
) -> None:
    network = make_network(**variant).to(torch.bfloat16)
    kept = chosen(network, blocks)
    plain = blocks.encode(network, kept)
    assert plain.dtype == torch.bfloat16
    assert as_fast(lambda: blocks.encode(network)).isfinite().all()
    assert relative_error(plain.detach(), as_fast(lambda: blocks.encode(network.float(), kept))) < 2e-2


def test_a_dtype_without_kernels_runs_in_plain_torch(make_network: MakeNetwork, blocks: Any) -> None:
    network = make_network(base="tail", **POINTER)
    exact = as_fast(lambda: blocks.encode(network))
    half = as_fast(lambda: blocks.encode(network.half()))
    assert half.dtype == torch.float16
    assert relative_error(half, exact) < 5e-3


@pytest.mark.parametrize("gradients", [False, True], ids=["op", "plain"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_of_ragged_blocks_gives_the_rows_of_each_alone(
    make_network: MakeNetwork, blocks: Any, variant: dict[str, Any], gradients: bool
) -> None:
    network = make_network(**variant)
    geometry = network.geometry
    with torch.set_grad_enabled(gradients):
        together = blocks.encode(network).detach()
        for block, length in enumerate(blocks.lengths.tolist()):
            alone = network(
                blocks.features[block, :length],
                blocks.summary if geometry.summary_conditioned else None,
                int(blocks.input_depths[block]),
                blocks.embeddings[block, :length] if geometry.reads_embeddings else None,
                blocks.token_ids[block, :length] if geometry.pointer_heads else None,
            )
            assert relative_error(together[block], alone.detach()) < 1e-5


SUMMARY_LENGTHS = [1, 3, 17]


def with_own_summaries(blocks: Any) -> Any:
    """The same blocks, each with a summary of its own; NaN lies beyond a summary's length."""
    summary = torch.randn(3, 17, 24, generator=torch.Generator().manual_seed(6))
    for rows, length in zip(summary, SUMMARY_LENGTHS, strict=True):
        rows[length:] = float("nan")
    return replace(blocks, summary=summary, summary_lengths=torch.tensor(SUMMARY_LENGTHS))


@pytest.mark.parametrize("gradients", [False, True], ids=["op", "plain"])
@pytest.mark.parametrize("variant", [v for v in VARIANTS if "summary_conditioned" not in v.values[0]])
def test_blocks_with_summaries_of_their_own_give_the_rows_of_each_alone(
    make_network: MakeNetwork, blocks: Any, variant: dict[str, Any], gradients: bool
) -> None:
    network, mixed = make_network(**variant), with_own_summaries(blocks)
    geometry = network.geometry
    with torch.set_grad_enabled(gradients):
        together = mixed.encode(network).detach()
        for block, length in enumerate(blocks.lengths.tolist()):
            alone = network(
                blocks.features[block, :length],
                mixed.summary[block, : SUMMARY_LENGTHS[block]],
                int(blocks.input_depths[block]),
                blocks.embeddings[block, :length] if geometry.reads_embeddings else None,
                blocks.token_ids[block, :length] if geometry.pointer_heads else None,
            )
            assert relative_error(together[block], alone.detach()) < 1e-5


def test_own_summaries_keep_given_tokens_and_any_dtype(make_network: MakeNetwork, blocks: Any) -> None:
    network, mixed = make_network(**SALIENT), with_own_summaries(blocks)
    exact = as_fast(lambda: mixed.encode(network))
    kept = chosen(network, blocks)
    assert relative_error(as_fast(lambda: mixed.encode(network, kept)), exact) < 1e-4
    assert relative_error(as_fast(lambda: mixed.encode(network.half(), kept)), exact) < 5e-3


def test_gradients_reach_own_summaries(make_network: MakeNetwork, blocks: Any) -> None:
    network, mixed = make_network(), with_own_summaries(blocks)
    mixed.summary.requires_grad_()
    mixed.encode(network).square().mul(torch.arange(24)).sum().backward()
    for gradient, length in zip(mixed.summary.grad, SUMMARY_LENGTHS, strict=True):
        assert gradient[:length].abs().amax(dim=1).min() > 0
        assert not gradient[length:].any()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_reach_every_parameter(make_network: MakeNetwork, blocks: Any, variant: dict[str, Any]) -> None:
    network = make_network(**variant)
    rows = blocks.encode(network)
    weights = torch.randn(rows.shape, generator=torch.Generator().manual_seed(4))
    (rows * weights).sum().backward()
    if network.geometry.base == "salient":
        # Which tokens are kept has no slope: these weights learn from the scores alone.
        assert all(network.get_parameter(name).grad is None for name in SALIENCE_WEIGHTS)
        scores = network.score_salience(blocks.features, blocks.lengths, blocks.embeddings)
        scores[scores.isfinite()].square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name
    statistics = {"output_embedding_rms"} | (
        {"pointer.mean", "pointer.idf"} if network.geometry.pointer_heads else set()
    )
    assert {name for name, _ in network.named_buffers()} == statistics


def test_gradients_reach_the_inputs(make_network: MakeNetwork, blocks: Any) -> None:
    network = make_network(base="tail", **POINTER).requires_grad_(False)
    features, embeddings, summary = (
        tensor.nan_to_num().requires_grad_() for tensor in (blocks.features, blocks.embeddings, blocks.summary)
    )
    rows = network.encode(features, blocks.lengths, summary, blocks.input_depths, embeddings, blocks.token_ids)
    rows.square().mul(torch.arange(24)).sum().backward()
    for tensor in (features, embeddings, summary):
        assert tensor.grad is not None
        assert tensor.grad.abs().max() > 0
    assert features.grad is not None
    assert not features.grad[1, 1:].any()


def test_training_lowers_a_loss(make_network: MakeNetwork, blocks: Any) -> None:
    network = make_network(base="tail", **POINTER)
    generator = torch.Generator().manual_seed(5)
    target = 0.3 * torch.randn(3, network.geometry.slots, 24, generator=generator)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = (blocks.encode(network) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("gradients", [False, True], ids=["op", "plain"])
def test_with_the_gate_shut_rows_are_the_last_tokens_embeddings(
    make_network: MakeNetwork, blocks: Any, gradients: bool
) -> None:
    network = make_network(base="tail")
    torch.nn.init.zeros_(network.get_parameter("base_gate"))
    with torch.set_grad_enabled(gradients):
        rows = blocks.encode(network).detach()
    slots = network.geometry.slots
    # Where a block has fewer tokens than slots the first one is repeated.
    last = {0: list(range(43, 50)), 1: [0] * slots, 2: list(range(16, 23))}
    for block, tokens in last.items():
        kept = blocks.embeddings[block, tokens]
        expected = 0.3 * kept / (kept.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        torch.testing.assert_close(rows[block], expected, rtol=1e-5, atol=1e-6)


def chosen(network: MemoryNetwork, blocks: Any) -> Tensor:
    """[B, n] the tokens with the highest scores."""
    scores = network.score_salience(blocks.features, blocks.lengths, blocks.embeddings)
    return keep(scores, blocks.lengths, network.geometry.slots)


def as_rows(vectors: Tensor) -> Tensor:
    """Scaled to the size of embeddings, which is 0.3 here."""
    return 0.3 * vectors / (vectors.square().mean(-1, keepdim=True) + 1e-6).sqrt()


@pytest.mark.parametrize("gradients", [False, True], ids=["op", "plain"])
def test_with_the_gate_shut_rows_are_the_embeddings_of_the_best_tokens(
    make_network: MakeNetwork, blocks: Any, gradients: bool
) -> None:
    network = make_network(**SALIENT)
    torch.nn.init.zeros_(network.get_parameter("base_gate"))
    with torch.set_grad_enabled(gradients):
        rows = blocks.encode(network).detach()
    for block, tokens in enumerate(chosen(network, blocks)):
        torch.testing.assert_close(rows[block], as_rows(blocks.embeddings[block, tokens]), rtol=1e-5, atol=1e-6)


def test_given_tokens_take_the_place_of_the_best(make_network: MakeNetwork, blocks: Any) -> None:
    network = make_network(**SALIENT, **POINTER)
    best = chosen(network, blocks)
    rows = blocks.encode(network)
    assert torch.equal(blocks.encode(network, best), rows)
    others = best.clone()
    others[0] = torch.arange(2, 44, 6)
    changed = as_fast(lambda: blocks.encode(network, others))
    assert relative_error(changed[0], rows[0].detach()) > 0.1
    assert relative_error(changed[1:], rows[1:].detach()) < 1e-5


def test_scores_follow_their_formula(make_network: MakeNetwork, blocks: Any) -> None:
    network = make_network(**SALIENT)
    w = {name: tensor.double() for name, tensor in network.state_dict().items()}
    got = as_fast(lambda: network.score_salience(blocks.features, blocks.lengths, blocks.embeddings))
    assert got.dtype == torch.float32
    for block, length in enumerate(blocks.lengths.tolist()):
        channels = []
        for feature, embedding in zip(blocks.features[block, :length], blocks.embeddings[block, :length], strict=True):
            projected = w["fc.weight"] @ feature.double()
            source = projected / (projected.square().mean() + 1e-6).sqrt() * w["hidden_norm.weight"]
            lexical = embedding.double() / w["output_embedding_rms"]
            channels.append(w["salience.source.weight"] @ source + w["salience.lexical.weight"] @ lexical)
        for token in range(length):
            near = range(max(token - 2, 0), min(token + 3, length))
            mixed = sum((w["salience.taps"][t - token + 2] * channels[t] for t in near), torch.zeros(9).double())
            second = w["salience.mix.weight"] @ torch.nn.functional.silu(mixed)
            expected = w["salience.score"] @ torch.nn.functional.silu(second)
            assert got[block, token].item() == pytest.approx(expected.item(), rel=1e-4, abs=1e-6)
        assert (got[block, length:] == float("-inf")).all()


@pytest.mark.parametrize("gradients", [False, True], ids=["op", "plain"])
def test_a_slots_own_group_reaches_to_the_next_kept_token(
    make_network: MakeNetwork, blocks: Any, gradients: bool
) -> None:
    """With a bonus that outweighs all scores, and scores that are all equal, a slot copies the mean of its group."""
    network = make_network(**SALIENT, **POINTER)
    w = network.state_dict()
    for name in ("base_gate", "pointer.q_proj.weight", "pointer.idf_scale"):
        w[name].zero_()
    w["pointer.group_bonus"].fill_(1000.0)
    with torch.set_grad_enabled(gradients):
        rows = blocks.encode(network).detach()
    value = w["pointer.value"].sum(dim=0)
    for block, tokens in enumerate(chosen(network, blocks)):
        length = int(blocks.lengths[block])
        for slot, token in enumerate(tokens.tolist()):
            end = int(tokens[slot + 1]) if slot + 1 < len(tokens) else length
            # The first token, repeated where there are fewer tokens than slots, has no group of its own: all count.
            group = slice(token, end) if token < end else slice(0, length)
            copied = value @ (blocks.embeddings[block, group].mean(dim=0) - w["pointer.mean"])
            expected = as_rows(blocks.embeddings[block, token] + copied)
            torch.testing.assert_close(rows[block, slot], expected, rtol=1e-4, atol=1e-5)


KEPT = torch.tensor([[3, 9, 15, 21, 27, 33, 39], [0] * 7, [1, 2, 3, 5, 8, 13, 22]])


@pytest.mark.parametrize(
    ("base", "kept", "words"),
    [
        ({"base": "tail"}, KEPT, "a network with base 'tail' keeps no tokens"),
        (SALIENT, KEPT[:, 1:], "kept must be [3, 7] int64, got [3, 6] torch.int64"),
        (SALIENT, KEPT.int(), "kept must be [3, 7] int64, got [3, 7] torch.int32"),
        (SALIENT, KEPT - 1, "kept must be at least 0, got -1 to 38"),
        (SALIENT, KEPT + 1, "below each block's length; it does not in blocks [1, 2]"),
        (
            SALIENT,
            KEPT.flip(1),
            "kept must ascend, below each block's length; it does not in blocks [0, 2]",
        ),
    ],
)
def test_tokens_that_cannot_be_kept_are_refused(
    make_network: MakeNetwork, blocks: Any, base: dict[str, Any], kept: Tensor, words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        blocks.encode(make_network(**base), kept)
    assert words in str(caught.value)


def test_only_a_salient_network_scores_tokens(make_network: MakeNetwork, blocks: Any) -> None:
    with pytest.raises(InvalidInput, match="a network with base 'tail' scores no tokens"):
        make_network(base="tail").score_salience(blocks.features, blocks.lengths, blocks.embeddings)
    with pytest.raises(InvalidInput, match=r"embeddings must be \[3, 50, 24\], got \[3, 49, 24\]"):
        make_network(**SALIENT).score_salience(blocks.features, blocks.lengths, blocks.embeddings[:, 1:])


@pytest.mark.parametrize("gradients", [False, True], ids=["op", "plain"])
@pytest.mark.parametrize("base", [None, "tail"])
def test_added_paths_follow_their_formula(
    make_network: MakeNetwork, blocks: Any, base: str | None, gradients: bool
) -> None:
    network = make_network(base=base, **POINTER)
    without = make_network()
    without.load_state_dict(network.state_dict(), strict=False)
    published = as_fast(lambda: blocks.encode(without))
    with torch.set_grad_enabled(gradients):
        rows = blocks.encode(network).detach()
    for block in range(3):
        expected = _added_paths(network, blocks, block, published[block])
        assert relative_error(rows[block], expected) < 1e-4


def _added_paths(network: MemoryNetwork, blocks: Any, block: int, published: Tensor) -> Tensor:
    """The sum of base, network and pointer, written out slot by slot and token by token in float64."""
    geometry = network.geometry
    w = {name: tensor.double() for name, tensor in network.state_dict().items()}
    length, rms = int(blocks.lengths[block]), w["output_embedding_rms"]
    features, embeddings = blocks.features[block, :length].double(), blocks.embeddings[block, :length].double()
    projected = features @ w["fc.weight"].T
    source = projected / (projected.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w["hidden_norm.weight"]
    heads, width = geometry.pointer_heads, geometry.pointer_head_dim
    rows = []
    for slot, r in enumerate(published.double()):
        start = slot * geometry.compression_ratio
        stop = min(start + geometry.compression_ratio, geometry.block_tokens)
        anchor = (start + stop - 1) / 2
        row = r
        if geometry.base == "tail":
            row = embeddings[max(length - geometry.slots + slot, 0)] + w["base_gate"] * r
        seen = [t for t in range(length) if abs(t - anchor) < geometry.local_window / 2]
        query = (w["pointer.q_proj.weight"] @ (r / rms)).view(heads, width)
        for head in range(heads if seen else 0):
            logits = []
            for t in seen:
                key = (w["pointer.k_proj.weight"] @ source[t]).view(heads, width)[head]
                token = int(blocks.token_ids[block, t])
                idf = w["pointer.idf"][token] if token >= 0 else 0.0
                bonus = w["pointer.group_bonus"][head] if start <= t < stop else 0.0
                logits.append(query[head] @ key / math.sqrt(width) + w["pointer.idf_scale"][head] * idf + bonus)
            share = torch.stack(logits).softmax(0)
            copied = share @ (embeddings[seen] - w["pointer.mean"])
            row = row + w["pointer.value"][head] @ copied
        rows.append(row / (row.square().mean() + 1e-6).sqrt() * rms)
    return torch.stack(rows)


def test_initialisation_is_seeded_and_as_documented(make_geometry: Callable[..., Any]) -> None:
    geometry = make_geometry(base="tail", **POINTER)
    first, again, other = (
        MemoryNetwork(geometry, output_embedding_rms=0.3, summary_gate_init=0.2, seed=seed).state_dict()
        for seed in (7, 7, 8)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["fc.weight"], other["fc.weight"])
    assert abs(first["fc.weight"].std().item() - 0.02) < 2e-3
    assert all((tensor == 1).all() for name, tensor in first.items() if name.endswith("norm.weight"))
    assert first["summary_attention.1.gate"].item() == pytest.approx(0.2)
    assert first["base_gate"].item() == 0
    assert first["output_embedding_rms"].item() == pytest.approx(0.3)
    assert torch.equal(first["pointer.value"], 0.35 * torch.eye(24).expand(2, -1, -1))
    assert first["pointer.idf_scale"].tolist() == pytest.approx([0.3, 0.3])
    assert first["pointer.group_bonus"].tolist() == [2, 2]


def test_initialisation_of_what_chooses_tokens(make_geometry: Callable[..., Any]) -> None:
    geometry = make_geometry(**{**SALIENT, "salience_channels": 50, "salience_reach": 12})
    drawn = MemoryNetwork(geometry, seed=7).state_dict()
    own = drawn["salience.taps"][12]
    others = torch.cat([drawn["salience.taps"][:12], drawn["salience.taps"][13:]])
    assert abs(own.mean().item() - 1) < 0.02
    assert abs(others.mean().item()) < 0.002
    for tensor in (others, own, *(drawn[name] for name in SALIENCE_WEIGHTS if name != "salience.taps")):
        assert 0.01 < tensor.std().item() < 0.03
    assert drawn["base_gate"].item() == 0


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("features of another width", {"features": torch.zeros(3, 50, 24)}, "features must be [B, T, 48]"),
    ("no block", {"features": torch.zeros(0, 5, 48)}, "lengths must be [0] int64"),
    ("no token", {"features": torch.zeros(3, 0, 48)}, "1 to 50 source tokens, got 0"),
    ("more tokens than a block", {"features": torch.zeros(3, 51, 48)}, "1 to 50 source tokens, got 51"),
    (
        "lengths of another dtype",
        {"lengths": torch.tensor([50, 1, 23], dtype=torch.int32)},
        "lengths must be [3] int64",
    ),
    ("an empty block", {"lengths": torch.tensor([50, 0, 23])}, "lengths must be within 1 to 50, got 0 to 50"),
    ("a length past the tokens", {"lengths": torch.tensor([50, 1, 51])}, "lengths must be within 1 to 50, got 1 to 51"),
    (
        "a depth past the table",
        {"input_depths": torch.tensor([0, 3, 1])},
        "input_depths must be within 0 to 2, got 0 to 3",
    ),
    ("a negative depth", {"input_depths": torch.tensor([0, -1, 1])}, "input_depths must be within 0 to 2, got -1 to 1"),
    ("no summary", {"summary": None}, "conditioned on a summary, but none was given"),
    ("an empty summary", {"summary": torch.zeros(0, 24)}, "summary must be [S, 24] with S at least 1, got [0, 24]"),
    ("a summary of another width", {"summary": torch.zeros(5, 25)}, "summary must be [S, 24]"),
    ("a summary without its block", {"summary": torch.zeros(2, 5, 24)}, "summary must be [S, 24] or [3, S, 24] with"),
    ("own summaries of no row", {"summary": torch.zeros(3, 0, 24)}, "with S at least 1, got [3, 0, 24]"),
    ("own summaries of another width", {"summary": torch.zeros(3, 5, 25)}, "with S at least 1, got [3, 5, 25]"),
    (
        "own summaries without lengths",
        {"summary": torch.zeros(3, 5, 24)},
        "summary [3, 5, 24] needs summary_lengths [3] int64, got none",
    ),
    (
        "lengths of a shared summary",
        {"summary_lengths": torch.tensor([5, 5, 5])},
        "summary_lengths belong to a summary [3, S, 24], got [5, 24]",
    ),
    (
        "a summary's length too few",
        {"summary": torch.zeros(3, 5, 24), "summary_lengths": torch.tensor([5, 1])},
        "summary_lengths must be [3] int64, got [2]",
    ),
    (
        "a summary of length 0",
        {"summary": torch.zeros(3, 5, 24), "summary_lengths": torch.tensor([5, 0, 1])},
        "summary_lengths must be within 1 to 5, got 0 to 5",
    ),
    (
        "a length past the summary",
        {"summary": torch.zeros(3, 5, 24), "summary_lengths": torch.tensor([5, 6, 1])},
        "summary_lengths must be within 1 to 5, got 1 to 6",
    ),
    ("no embeddings", {"embeddings": None}, "embeddings must be [3, 50, 24], got none"),
    ("embeddings of another width", {"embeddings": torch.zeros(3, 50, 23)}, "got [3, 50, 23]"),
    ("no token ids", {"token_ids": None}, "token_ids must be [3, 50] int64, got none"),
    (
        "a token past the table",
        {"token_ids": torch.full((3, 50), 10)},
        "token_ids must be within -1 to 9, got 10 to 10",
    ),
]


@pytest.mark.parametrize(("change", "words"), [pytest.param(*case[1:], id=case[0]) for case in REFUSALS])
def test_inputs_that_do_not_fit_are_refused_with_the_numbers(
    make_network: MakeNetwork, blocks: Any, change: dict[str, Any], words: str
) -> None:
    network = make_network(base="tail", **POINTER)
    with pytest.raises(InvalidInput) as caught:
        as_fast(lambda: replace(blocks, **change).encode(network))
    assert words in str(caught.value)


def test_an_unconditioned_network_refuses_a_summary_and_takes_any_depth(make_network: MakeNetwork, blocks: Any) -> None:
    network = make_network(summary_conditioned=False)
    with torch.no_grad():
        deep = network(blocks.features[0], input_depth=70)
        assert torch.equal(deep, network(blocks.features[0]))
        with pytest.raises(InvalidInput, match="not conditioned on a summary"):
            network(blocks.features[0], blocks.summary)
        with pytest.raises(InvalidInput, match=r"summary_lengths belong to a summary \[3, S, 24\], got none"):
            replace(blocks, summary_lengths=torch.tensor([1, 1, 1])).encode(network)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_not_finite_give_no_rows(make_network: MakeNetwork, blocks: Any, value: float) -> None:
    network = make_network()
    features = blocks.features.clone()
    features[2, 4, 5] = value
    with pytest.raises(InvalidInput, match=r"rows of blocks \[2\] are not finite"):
        as_fast(lambda: replace(blocks, features=features).encode(network))

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from remory import ops
from remory.ops.encode_plain import keep, score_salience
from tests.ops.comparison import assert_close, inside_wider
from tests.ops.conftest import Network

DTYPES = (torch.float32, torch.bfloat16)
VECTORS = Path(__file__).parents[1] / "data" / "vectors"
MakeNetwork = Callable[..., Network]

TAIL = {"tail": True}
SALIENT = {"salient": True, "window": 100}
POINTER = {"pointer_heads": 3, "pointer_head_dim": 10}
UNCONDITIONED = {"summary_conditioned": False}
OWN_SUMMARY_NETWORKS: list[dict[str, Any]] = [
    {},
    {**TAIL, **POINTER},
    {**SALIENT, **POINTER},
    {"layers": 1},
    {"window": 1},
]


def upcast(inputs: dict[str, Any]) -> dict[str, Any]:
    """The same values in float32, for a reference of bfloat16 inputs."""

    def wide(value: Any) -> Any:
        return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value

    return {name: [wide(t) for t in value] if name == "weights" else wide(value) for name, value in inputs.items()}


def with_own_summaries(inputs: dict[str, Any], lengths: list[int], beyond: float = float("nan")) -> dict[str, Any]:
    """The same blocks, each with a summary of its own of the given number of rows; `beyond` fills what lies behind."""
    width, dtype = inputs["summary"].shape[1], inputs["features"].dtype
    summary = torch.randn(len(lengths), 17, width, generator=torch.Generator().manual_seed(7)).to(dtype)
    for rows, length in zip(summary, lengths, strict=True):
        rows[length:] = beyond
    return {**inputs, "summary": summary, "summary_lengths": torch.tensor(lengths, dtype=torch.int64)}


def weights_in_order(weights: dict[str, Tensor], layers: int) -> list[Tensor]:
    """The golden cases' weights by name, put into the order of a checkpoint."""
    projections = [f"{name}_proj.weight" for name in "qkvo"]
    norms = ["q_norm.weight", "k_norm.weight"]
    names = ["fc.weight", "hidden_norm.weight", "mask_embedding", "depth_embedding.weight", "norm.weight"]
    names.append("output_embedding_rms")
    for layer in range(layers):
        names += [f"layers.{layer}.{name}.weight" for name in ("input_layernorm", "post_attention_layernorm")]
        names += [f"layers.{layer}.self_attn.{name}" for name in projections + norms]
        names += [f"layers.{layer}.mlp.{name}_proj.weight" for name in ("gate", "up", "down")]
    for layer in range(layers - 1):
        cross = ["query_norm.weight", "summary_norm.weight", *norms, *projections, "gate"]
        names += [f"summary_attention.{layer}.{name}" for name in cross]
    return [weights[name] for name in names if name in weights]


def load_golden(path: Path) -> tuple[dict[str, Any], Tensor]:
    """Arguments of `encode` for one block, padded with NaN to its full length, and the expected rows."""
    with safe_open(path, framework="pt") as stored:
        config = json.loads(stored.metadata()["config"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
    weights = {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")}
    features = tensors["features"]
    padding = torch.full((config["block_tokens"] - len(features), features.shape[1]), float("nan"))
    arguments = {
        "features": torch.cat([features, padding])[None],
        "lengths": torch.tensor([len(features)]),
        "summary": tensors.get("summary"),
        "weights": weights_in_order(weights, config["num_hidden_layers"]),
        "input_depths": torch.tensor([config["input_depth"]]),
        "heads": config["num_attention_heads"],
        "kv_heads": config["num_key_value_heads"],
        "head_dim": config["head_dim"],
        "layers": config["num_hidden_layers"],
        "block": config["block_tokens"],
        "ratio": config["compression_ratio"],
        "window": config["local_window"],
        "eps": config["rms_norm_eps"],
        "theta": config["rope_theta"],
        "summary_conditioned": config["summary_conditioned"],
        "tail": False,
        "salient": False,
        "pointer_heads": 0,
        "pointer_head_dim": 0,
    }
    return arguments, tensors["rows"]


def base_at(inputs: dict[str, Any]) -> int:
    """The base gate's place among the weights; behind it stand the five of a salient base."""
    behind = (7 if inputs["pointer_heads"] else 0) + (5 if inputs["salient"] else 0)
    return len(inputs["weights"]) - behind - 1


def kept_by_op(inputs: dict[str, Any]) -> Tensor:
    """[B, n] the tokens that the op starts rows from: with a shut gate and no pointer rows are their embeddings."""
    weights = list(inputs["weights"])
    weights[base_at(inputs)] = torch.zeros_like(weights[base_at(inputs)])
    without = weights[:-7] if inputs["pointer_heads"] else weights
    rows = ops.encode(**{**inputs, "weights": without, "pointer_heads": 0}).float()
    embeddings = inputs["embeddings"].float()
    cosines = torch.cosine_similarity(rows[:, :, None], embeddings[:, None], dim=-1).nan_to_num(-2)
    best, kept = cosines.max(dim=-1)
    torch.testing.assert_close(best, torch.ones_like(best), rtol=0, atol=1e-3)
    return kept


def define(inputs: dict[str, Any]) -> Tensor:
    """The definition's rows in float32. From bfloat16 projections the op may keep other tokens where scores are nearly
    equal (`test_bfloat16_keeps_the_best_within_rounding`), so the definition starts from the op's."""
    wide = upcast(inputs)
    if inputs["salient"] and inputs["features"].dtype == torch.bfloat16:
        wide["kept"] = kept_by_op(inputs)
    return ops.encode_plain(**wide)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Loops are cut into parts where there are threads to share them; two cut the second of three blocks inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("path", sorted(VECTORS.glob("*.safetensors")), ids=lambda path: path.stem)
def test_golden_rows(path: Path) -> None:
    arguments, rows = load_golden(path)
    assert_close(ops.encode(**arguments)[0], rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "overrides",
    [
        {},
        UNCONDITIONED,
        TAIL,
        POINTER,
        {**TAIL, **POINTER},
        {**TAIL, **POINTER, **UNCONDITIONED},
        {"layers": 1},
        {"layers": 1, **UNCONDITIONED, **POINTER},
        {"window": 1},
        {"window": 1, **POINTER},
        {"window": 100, **POINTER},
        {"ratio": 50},
        {"ratio": 1, "window": 3, **TAIL},
        {"heads": 5, "kv_heads": 1, "head_dim": 2},
        {"width": 129, "captured": 1, "intermediate": 151, "heads": 3, "kv_heads": 3, "head_dim": 34, **POINTER},
        SALIENT,
        {**SALIENT, **POINTER},
        {**SALIENT, **POINTER, **UNCONDITIONED},
        {**SALIENT, "ratio": 1},
        {**SALIENT, "ratio": 50, **POINTER},
        {**SALIENT, "layers": 1, **POINTER},
        {**SALIENT, "channels": 1, "reach": 60},
        {**SALIENT, "width": 129, "captured": 1, "heads": 3, "kv_heads": 3, "head_dim": 34, "channels": 37, **POINTER},
    ],
    ids=str,
)
def test_equals_the_definition(make_network: MakeNetwork, dtype: torch.dtype, overrides: dict) -> None:
    inputs = make_network(**overrides).make_inputs([50, 1, 23, 7], 50, dtype)
    assert_close(ops.encode(**inputs), define(inputs))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("base", [{"window": 151, **TAIL}, {**SALIENT, "window": 2050, "channels": 64, "reach": 12}])
def test_long_blocks(make_network: MakeNetwork, dtype: torch.dtype, base: dict) -> None:
    network = make_network(block=1025, ratio=16, **base, **POINTER)
    inputs = network.make_inputs([1025, 1024, 129], 1025, dtype)
    assert_close(ops.encode(**inputs), define(inputs))


@pytest.mark.parametrize("base", [TAIL, SALIENT], ids=str)
def test_slices_of_wider_tensors(make_network: MakeNetwork, base: dict) -> None:
    inputs = make_network(**base, **POINTER).make_inputs([50, 31], 50)
    sliced = {name: inside_wider(inputs[name]) for name in ("features", "summary", "embeddings", "idf")}
    weights = [inside_wider(weight) if weight.dim() == 2 else weight for weight in inputs["weights"]]
    # The vectors among the weights are read as a whole; the depth table and the taps are two of them.
    for whole in (3, base_at(inputs) + 3) if inputs["salient"] else (3,):
        weights[whole] = inputs["weights"][whole]
    assert_close(ops.encode(**{**inputs, **sliced, "weights": weights}), ops.encode(**inputs))


@pytest.mark.parametrize("base", [TAIL, SALIENT], ids=str)
def test_a_block_does_not_depend_on_its_batch(make_network: MakeNetwork, base: dict) -> None:
    inputs = make_network(**base, **POINTER).make_inputs([50, 31, 2], 50)
    together = ops.encode(**inputs)
    by_block = ("features", "lengths", "input_depths", "embeddings", "idf")
    for b in range(3):
        alone = ops.encode(**{**inputs, **{name: inputs[name][b : b + 1] for name in by_block}})
        assert_close(alone[0], together[b])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("overrides", OWN_SUMMARY_NETWORKS, ids=str)
def test_own_summaries_equal_the_definition(make_network: MakeNetwork, dtype: torch.dtype, overrides: dict) -> None:
    inputs = with_own_summaries(make_network(**overrides).make_inputs([50, 23, 7], 50, dtype), [1, 3, 17])
    assert_close(ops.encode(**inputs), define(inputs))


@pytest.mark.parametrize("run", [ops.encode, ops.encode_plain], ids=["op", "plain"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("overrides", OWN_SUMMARY_NETWORKS, ids=str)
def test_own_summaries_give_the_rows_of_each_block_alone(
    make_network: MakeNetwork, dtype: torch.dtype, overrides: dict, run: Callable[..., Tensor]
) -> None:
    inputs = with_own_summaries(make_network(**overrides).make_inputs([50, 23, 7], 50, dtype), [1, 3, 17])
    together = run(**inputs)
    by_block = ("features", "lengths", "input_depths", "embeddings", "idf")
    for b, length in enumerate([1, 3, 17]):
        one = {name: inputs[name][b : b + 1] for name in by_block if inputs[name] is not None}
        alone = {**inputs, **one, "summary": inputs["summary"][b, :length], "summary_lengths": None}
        assert_close(together[b], run(**alone)[0])


@pytest.mark.parametrize("run", [ops.encode, ops.encode_plain], ids=["op", "plain"])
def test_what_lies_beyond_a_summary_changes_nothing(make_network: MakeNetwork, run: Callable[..., Tensor]) -> None:
    inputs = make_network().make_inputs([50, 23, 7], 50)
    rows = run(**with_own_summaries(inputs, [1, 3, 17], float("nan")))
    assert rows.isfinite().all()
    for beyond in (0.0, 1e30, float("inf")):
        assert torch.equal(run(**with_own_summaries(inputs, [1, 3, 17], beyond)), rows)


def test_own_summaries_that_are_slices_of_wider_tensors(make_network: MakeNetwork) -> None:
    inputs = with_own_summaries(make_network().make_inputs([50, 23, 7], 50), [1, 3, 17])
    assert_close(ops.encode(**{**inputs, "summary": inside_wider(inputs["summary"])}), ops.encode(**inputs))
    shared = inputs["summary"][2].expand(3, -1, -1)
    rows = ops.encode(**{**inputs, "summary": shared, "summary_lengths": torch.tensor([17, 17, 17])})
    assert_close(rows, ops.encode(**{**inputs, "summary": inputs["summary"][2], "summary_lengths": None}))


def test_the_definition_wants_own_summaries_and_their_lengths_together(make_network: MakeNetwork) -> None:
    shared = make_network().make_inputs([50, 23, 7], 50)
    own = with_own_summaries(shared, [1, 3, 17])
    for inputs in ({**own, "summary_lengths": None}, {**own, "summary": shared["summary"]}):
        with pytest.raises(ValueError, match="comes with summary_lengths, and no other does"):
            ops.encode_plain(**inputs)


def test_gradient_reaches_own_summaries(make_network: MakeNetwork) -> None:
    inputs = with_own_summaries(make_network().make_inputs([50, 23, 7], 50), [1, 3, 17])
    summary = inputs["summary"].requires_grad_()
    ops.encode(**inputs).square().mul(torch.arange(24)).sum().backward()
    for gradient, length in zip(summary.grad, [1, 3, 17], strict=True):
        assert gradient[:length].isfinite().all()
        assert gradient[:length].any(dim=1).all()
        assert not gradient[length:].any()


def test_depth_and_summary_matter(make_network: MakeNetwork) -> None:
    inputs = make_network().make_inputs([50, 50], 50)
    rows = ops.encode(**inputs)
    assert not torch.allclose(rows, ops.encode(**{**inputs, "input_depths": torch.tensor([1, 1])}), atol=1e-3)
    assert not torch.allclose(rows, ops.encode(**{**inputs, "summary": -inputs["summary"]}), atol=1e-3)


def test_shut_gates_leave_the_last_embeddings(make_network: MakeNetwork) -> None:
    inputs = make_network(**TAIL, **UNCONDITIONED).make_inputs([50, 3], 50)
    inputs["weights"][-1].zero_()
    rows = ops.encode(**inputs)
    expected = torch.stack([inputs["embeddings"][0, 43:], inputs["embeddings"][1, [0, 0, 0, 0, 0, 1, 2]]])
    cosine = torch.cosine_similarity(rows, expected, dim=-1)
    torch.testing.assert_close(cosine, torch.ones_like(cosine))


@pytest.mark.parametrize("lengths", [[50, 50], [50, 23, 7, 3, 1]], ids=str)
def test_the_tokens_with_the_highest_scores_are_kept(make_network: MakeNetwork, lengths: list[int]) -> None:
    inputs = make_network(**SALIENT, **POINTER).make_inputs(lengths, 50)
    scores = score_salience(**inputs)
    kept = kept_by_op(inputs)
    assert torch.equal(kept, keep(scores, inputs["lengths"], 7))
    for length, row, tokens in zip(lengths, scores, kept, strict=True):
        best = sorted(range(length), key=lambda token: -row[token])[:7]
        assert tokens.tolist() == [0] * (7 - len(best)) + sorted(best)
        assert not row[length:].isfinite().any()


def test_bfloat16_keeps_the_best_within_rounding(make_network: MakeNetwork) -> None:
    network = make_network(block=1025, ratio=16, channels=64, reach=12, **{**SALIENT, "window": 2050})
    inputs = network.make_inputs([1025, 700], 1025, torch.bfloat16)
    exact, kept = score_salience(**upcast(inputs)), kept_by_op(inputs)
    for b, length in enumerate(inputs["lengths"].tolist()):
        scores, chosen = exact[b, :length], torch.zeros(length, dtype=torch.bool)
        chosen[kept[b]] = True
        assert chosen.sum() == 65
        # A projection is off by up to 2^-9 of its size, a score by some of these.
        rounding = 2**-6 * scores.square().mean().sqrt()
        assert scores[chosen].min() > scores[~chosen].max() - rounding
        assert scores.std() > 20 * rounding


def scored_by_first_entry(inputs: dict[str, Any], wanted: list[float]) -> dict[str, Any]:
    """Inputs of one channel in which a token's score grows with the first entry of its embedding, set to `wanted`."""
    at = base_at(inputs)
    source, lexical, taps, mix, score = inputs["weights"][at + 1 : at + 6]
    inputs["weights"][5].fill_(1.0)
    for tensor in (source, lexical, taps):
        tensor.zero_()
    lexical[0, 0] = taps[len(taps) // 2, 0] = mix[0, 0] = score[0] = 1
    inputs["embeddings"][0, : len(wanted), 0] = torch.tensor(wanted)
    return inputs


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        ([5.0] * 12, range(7)),
        ([0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0], range(7)),
        ([1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0], [0, 1, 3, 5, 7, 9, 11]),
        ([9.0, 1.0, 8.0, 1.0, 7.0, 1.0, 6.0, 1.0, 5.0, 1.0, 4.0, 1.0, 3.0], [0, 2, 4, 6, 8, 10, 12]),
        ([3.0, 2.0, 1.0], [0, 0, 0, 0, 0, 1, 2]),
    ],
)
def test_of_equal_scores_the_earlier_token_is_kept(
    make_network: MakeNetwork, dtype: torch.dtype, wanted: list[float], kept: list[int]
) -> None:
    inputs = make_network(**SALIENT, channels=1).make_inputs([len(wanted)], 50, dtype)
    inputs = scored_by_first_entry(inputs, wanted)
    assert kept_by_op(inputs).tolist() == [list(kept)]
    assert keep(score_salience(**inputs), inputs["lengths"], 7).tolist() == [list(kept)]


def test_scores_that_are_no_numbers_are_kept_as_in_the_definition(make_network: MakeNetwork) -> None:
    inputs = make_network(**SALIENT).make_inputs([50, 50], 50)
    inputs["embeddings"][0, 20] = float("nan")
    rows = ops.encode(**inputs)
    # Two neighbours on each side lose their scores with it and are kept too; its own row alone is spoilt.
    assert rows.isnan().all(dim=-1).sum(dim=-1).tolist() == [1, 0]
    assert_close(rows, ops.encode_plain(**inputs))


def test_given_tokens_take_the_place_of_the_best(make_network: MakeNetwork) -> None:
    inputs = make_network(**SALIENT, **POINTER).make_inputs([50, 9], 50)
    best = keep(score_salience(**inputs), inputs["lengths"], 7)
    rows = ops.encode_plain(**inputs)
    assert torch.equal(ops.encode_plain(**inputs, kept=best), rows)
    others = torch.stack([torch.arange(3, 45, 6), torch.arange(1, 8)])
    assert not torch.allclose(ops.encode_plain(**inputs, kept=others), rows, atol=1e-2)


@pytest.mark.parametrize("base", [TAIL, SALIENT], ids=str)
def test_no_blocks(make_network: MakeNetwork, base: dict) -> None:
    inputs = make_network(**base, **POINTER).make_inputs([], 50)
    assert ops.encode(**inputs).shape == (0, 7, 24)
    assert ops.encode(**with_own_summaries(inputs, [])).shape == (0, 7, 24)


def test_gradient_takes_the_definition(make_network: MakeNetwork) -> None:
    inputs = make_network(**TAIL).make_inputs([50, 9], 50)
    for weight in inputs["weights"]:
        weight.requires_grad_()
    ops.encode(**inputs).sum().backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in inputs["weights"])
    with torch.no_grad():
        assert not ops.encode(**inputs).requires_grad


CHANGES: list[tuple[dict[str, Any], str]] = [
    (
        {"features": torch.zeros(2, 50, 40)},
        r"fc\.weight\) must be .* dimension 1 \(L\*D\) is 48, expected 40",
    ),
    ({"features": torch.zeros(2, 51, 48)}, r"holds T = 51 source tokens, expected at most block = 50"),
    ({"features": torch.zeros(2, 50, 48).double()}, "features must be float32 or bfloat16, got float64"),
    ({"features": torch.zeros(2, 50, 48).bfloat16()}, r"fc\.weight\) must be bfloat16 as features is, got float32"),
    ({"lengths": torch.tensor([50, 0])}, r"lengths\[1\] is 0, expected 1 to 50"),
    ({"lengths": torch.tensor([51, 1])}, r"lengths\[0\] is 51, expected 1 to 50"),
    ({"lengths": torch.tensor([50.0, 1.0])}, "lengths must be int64, got float32"),
    ({"lengths": torch.tensor([50])}, r"lengths must be \[B\] = \[2\], got \[1\]"),
    ({"input_depths": torch.tensor([0, 3])}, r"input_depths\[1\] is 3, expected 0 to 2"),
    ({"input_depths": torch.tensor([-1, 0])}, r"input_depths\[0\] is -1, expected 0 to 2"),
    ({"summary": None}, "summary is missing; it is needed when summary_conditioned"),
    ({"summary": torch.zeros(4, 23)}, r"summary must be \[S, D\] = .* is 23, expected 24"),
    ({"summary": torch.zeros(0, 24)}, "the rows of summary, is 0, expected at least 1"),
    ({"summary": torch.zeros(2, 4, 24)}, r"summary_lengths is missing; it is needed with a summary \[B, S, D\]"),
    ({"summary_lengths": torch.tensor([5, 5])}, r"summary_lengths is given, expected only with a summary \[B, S, D\]"),
    (
        {"summary": torch.zeros(3, 4, 24), "summary_lengths": torch.tensor([4, 1])},
        r"summary must be \[B, S, D\] = \[2, S, 24\], got \[3, 4, 24\]: dimension 0 \(B\) is 3, expected 2",
    ),
    (
        {"summary": torch.zeros(2, 4, 23), "summary_lengths": torch.tensor([4, 1])},
        r"summary must be \[B, S, D\] = .* dimension 2 \(D\) is 23, expected 24",
    ),
    (
        {"summary": torch.zeros(2, 0, 24), "summary_lengths": torch.tensor([0, 0])},
        "the rows of summary, is 0, expected at least 1",
    ),
    (
        {"summary": torch.zeros(2, 1, 4, 24)},
        r"summary must be \[S, D\] = \[S, 24\], got \[2, 1, 4, 24\]: 4 dimensions, expected 2",
    ),
    (
        {"summary": torch.zeros(2, 4, 24).bfloat16(), "summary_lengths": torch.tensor([4, 1])},
        "summary must be float32 as features is, got bfloat16",
    ),
    (
        {"summary": torch.zeros(2, 4, 24), "summary_lengths": torch.tensor([4, 1, 1])},
        r"summary_lengths must be \[B\] = \[2\], got \[3\]",
    ),
    (
        {"summary": torch.zeros(2, 4, 24), "summary_lengths": torch.tensor([4, 1], dtype=torch.int32)},
        "summary_lengths must be int64, got int32",
    ),
    (
        {"summary": torch.zeros(2, 4, 24), "summary_lengths": torch.tensor([4, 0])},
        r"summary_lengths\[1\] is 0, expected 1 to 4",
    ),
    (
        {"summary": torch.zeros(2, 4, 24), "summary_lengths": torch.tensor([5, 1])},
        r"summary_lengths\[0\] is 5, expected 1 to 4",
    ),
    ({"embeddings": None}, "embeddings is missing; it is needed with tail, with salient or with a pointer"),
    ({"salient": True}, "tail and salient exclude each other"),
    ({"embeddings": torch.zeros(2, 49, 24)}, r"embeddings must be \[B, T, D\] = \[2, 50, 24\], got \[2, 49, 24\]"),
    ({"idf": None}, "idf is missing; it is needed with a pointer"),
    ({"idf": torch.zeros(2, 49)}, r"idf must be \[B, T\] = \[2, 50\], got \[2, 49\]"),
    ({"heads": 3}, "heads is 3, expected a multiple of kv_heads = 2"),
    ({"head_dim": 5}, "head_dim is 5, expected a positive even number"),
    ({"layers": 0}, "layers is 0, expected at least 1"),
    ({"layers": 4}, r"weights\[41\] \(layers\.3\.self_attn\.q_proj\.weight\) must be"),
    ({"tail": False}, r"weights\[\d+\] \(pointer\.q_proj\.weight\) must be"),
    ({"window": 0}, "window is 0, expected 1 to"),
    ({"theta": 0.0}, "theta is 0, expected a positive number"),
    ({"eps": -1.0}, "eps is -1, expected at least 0"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_bad_input(make_network: MakeNetwork, change: dict, message: str) -> None:
    inputs = make_network(**TAIL, **POINTER).make_inputs([50, 9], 50)
    with pytest.raises(RuntimeError, match=f"encode: .*{message}"):
        ops.encode(**{**inputs, **change})


def test_wrong_weights_are_named(make_network: MakeNetwork) -> None:
    inputs = make_network(**UNCONDITIONED).make_inputs([50], 50)
    weights = inputs["weights"]
    with pytest.raises(RuntimeError, match="weights holds 39 tensors, expected 38 for this geometry"):
        ops.encode(**{**inputs, "weights": [*weights, weights[0]]})
    with pytest.raises(RuntimeError, match=r"weights holds 37 tensors, .* needs layers\.2\.mlp\.down_proj\.weight"):
        ops.encode(**{**inputs, "weights": weights[:-1]})
    with pytest.raises(RuntimeError, match=r"down_proj\.weight\) must be \[D, M\] = \[24, 20\], got \[20, 24\]"):
        ops.encode(**{**inputs, "weights": [*weights[:-1], weights[-1].T.contiguous()]})
    with pytest.raises(RuntimeError, match="a summary is given, but the geometry is not summary_conditioned"):
        ops.encode(**{**inputs, "summary": torch.zeros(2, 24)})
    with pytest.raises(RuntimeError, match="summary_lengths is given, expected only with a summary"):
        ops.encode(**{**inputs, "summary_lengths": torch.tensor([1])})


@pytest.mark.parametrize(
    ("weight", "shape", "message"),
    [
        (1, (18, 23), r"\(salience\.source\.weight\) must be \[C, D\] = .* is 23, expected 24"),
        (2, (17, 24), r"\(salience\.lexical\.weight\) must be \[C, D\] = .* is 17, expected 18"),
        (3, (5, 17), r"\(salience\.taps\) must be \[taps, C\] = .* is 17, expected 18"),
        (3, (4, 18), r"salience\.taps \[taps, C\] holds 4 taps, expected an odd number"),
        (3, (0, 18), r"salience\.taps \[taps, C\] holds 0 taps, expected an odd number"),
        (4, (18, 17), r"\(salience\.mix\.weight\) must be \[C, C\] = .* is 17, expected 18"),
        (5, (17,), r"\(salience\.score\) must be \[C\] = .* is 17, expected 18"),
    ],
)
def test_wrong_weights_of_a_salient_base(
    make_network: MakeNetwork, weight: int, shape: tuple[int, ...], message: str
) -> None:
    inputs = make_network(**SALIENT).make_inputs([50], 50)
    inputs["weights"][base_at(inputs) + weight] = torch.zeros(shape)
    with pytest.raises(RuntimeError, match=f"encode: .*{message}"):
        ops.encode(**inputs)


def test_a_salient_base_needs_embeddings(make_network: MakeNetwork) -> None:
    inputs = make_network(**SALIENT).make_inputs([50], 50)
    with pytest.raises(RuntimeError, match="embeddings is missing; it is needed with tail, with salient"):
        ops.encode(**{**inputs, "embeddings": None})


@pytest.mark.parametrize(
    "overrides", [{}, {**TAIL, **POINTER, **UNCONDITIONED}, {**SALIENT, **POINTER}, SALIENT], ids=str
)
def test_opcheck(make_network: MakeNetwork, overrides: dict) -> None:
    for dtype in DTYPES:
        inputs = make_network(**overrides).make_inputs([50, 7], 50, dtype)
        torch.library.opcheck(torch.ops.remory.encode.default, (), inputs)
        if inputs["summary"] is not None:
            torch.library.opcheck(torch.ops.remory.encode.default, (), with_own_summaries(inputs, [17, 3]))


@pytest.mark.parametrize("own", DTYPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_no_row(make_network: MakeNetwork, own: torch.dtype, dtype: torch.dtype) -> None:
    """The kernels read every product in the dtype of the features, and know no float16."""
    inputs = make_network(**SALIENT, **POINTER).make_inputs([50, 7], 50, own)
    expected = ops.encode(**inputs)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        assert torch.equal(ops.encode(**inputs), expected)


def test_tensors_without_data_have_rows_of_the_right_shape(make_network: MakeNetwork) -> None:
    inputs = make_network().make_inputs([50, 7], 50)

    def on_meta(value: Any) -> Any:
        return value.to("meta") if isinstance(value, Tensor) else value

    bare = {name: [*map(on_meta, value)] if name == "weights" else on_meta(value) for name, value in inputs.items()}
    assert ops.encode(**bare).shape == ops.encode(**inputs).shape

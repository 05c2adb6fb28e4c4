from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import pytest

from remory.errors import InvalidInput
from remory.network import Geometry, MemoryNetwork

QWEN: dict[str, Any] = {
    "hidden_size": 5120,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 17408,
    "num_hidden_layers": 5,
    "layers_captured": 5,
    "block_tokens": 1024,
    "compression_ratio": 16,
    "local_window": 2048,
    "max_depth": 8,
    "summary_conditioned": True,
}
GLM: dict[str, Any] = {
    **QWEN,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 6,
    "summary_conditioned": False,
}


def test_the_published_qwen_network_has_97_tensors_and_1_9_billion_parameters() -> None:
    shapes = {name: tuple(t.shape) for name, t in MemoryNetwork(QWEN, device="meta").state_dict().items()}
    assert len(shapes) == 97
    assert round(sum(map(prod, shapes.values())) / 1e9, 1) == 1.9
    assert shapes["fc.weight"] == (5120, 25600)
    assert shapes["depth_embedding.weight"] == (8, 5120)
    assert shapes["layers.4.self_attn.o_proj.weight"] == (5120, 4096)
    assert shapes["layers.4.mlp.down_proj.weight"] == (5120, 17408)
    assert shapes["summary_attention.3.k_proj.weight"] == (1024, 5120)
    assert shapes["summary_attention.3.gate"] == (1,)
    assert shapes["output_embedding_rms"] == ()


def test_the_published_glm_network_knows_no_summary_and_no_depth() -> None:
    shapes = {name: tuple(t.shape) for name, t in MemoryNetwork(GLM, device="meta").state_dict().items()}
    assert len(shapes) == 5 + 6 * 11
    assert shapes["fc.weight"] == (4096, 20480)
    assert not [name for name in shapes if "summary" in name or "depth" in name]


def test_names_and_shapes_are_those_of_the_golden_cases(golden: Any) -> None:
    shapes = Geometry.from_mapping(golden.config).tensor_shapes()
    assert shapes == {name: tuple(tensor.shape) for name, tensor in golden.weights.items()}


def test_base_and_pointer_come_last(make_geometry: Callable[..., Geometry]) -> None:
    geometry = make_geometry(base="tail", pointer_heads=2, pointer_head_dim=4, vocabulary=9)
    added = list(geometry.tensor_shapes())[len(make_geometry().tensor_shapes()) :]
    assert added == [
        "base_gate",
        "pointer.q_proj.weight",
        "pointer.k_proj.weight",
        "pointer.value",
        "pointer.idf_scale",
        "pointer.group_bonus",
        "pointer.mean",
        "pointer.idf",
    ]


def test_what_chooses_tokens_stands_between_base_and_pointer(make_geometry: Callable[..., Geometry]) -> None:
    pointer = {"pointer_heads": 2, "pointer_head_dim": 4, "vocabulary": 9}
    geometry = make_geometry(base="salient", salience_channels=5, salience_reach=2, local_window=100, **pointer)
    shapes = geometry.tensor_shapes()
    assert list(shapes)[len(make_geometry().tensor_shapes()) :][:7] == [
        "base_gate",
        "salience.source.weight",
        "salience.lexical.weight",
        "salience.taps",
        "salience.mix.weight",
        "salience.score",
        "pointer.q_proj.weight",
    ]
    assert shapes["salience.source.weight"] == shapes["salience.lexical.weight"] == (5, 24)
    assert (shapes["salience.taps"], shapes["salience.mix.weight"], shapes["salience.score"]) == ((5, 5), (5, 5), (5,))
    assert geometry.reads_embeddings


@pytest.mark.parametrize(("block", "ratio", "slots"), [(1024, 16, 64), (50, 8, 7), (8, 8, 1), (9, 8, 2)])
def test_a_block_gives_as_many_rows_as_groups_begin_in_it(
    make_geometry: Callable[..., Geometry], block: int, ratio: int, slots: int
) -> None:
    assert make_geometry(block_tokens=block, compression_ratio=ratio).slots == slots


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"hidden_size": 0}, "hidden_size must be positive, got 0"),
        ({"hidden_size": 1 << 40}, "hidden_size must be at most 16777216, got 1099511627776"),
        ({"num_hidden_layers": 2000}, "num_hidden_layers must be within 2 to 1024, got 2000"),
        ({"num_hidden_layers": 1}, "num_hidden_layers must be within 2 to 1024, got 1"),
        ({"hidden_size": "24"}, "hidden_size must be an integer, got '24'"),
        ({"hidden_size": True}, "hidden_size must be an integer, got True"),
        ({"summary_conditioned": 1}, "summary_conditioned must be true or false, got 1"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps must be positive, got nan"),
        ({"rope_theta": float("inf")}, "rope_theta must be positive, got inf"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
        ({"head_dim": 7}, "head_dim must be even to be rotated, got 7"),
        ({"compression_ratio": 51}, "compression_ratio 51 exceeds block_tokens 50"),
        ({"base": "mean"}, "base must be null, 'tail' or 'salient', got 'mean'"),
        ({"base": "salient", "local_window": 100}, "salience_channels and salience_reach of at least 1, got (0, 0)"),
        (
            {"base": "salient", "salience_channels": 5, "salience_reach": -1, "local_window": 100},
            "salience_channels and salience_reach of at least 1, got (5, -1)",
        ),
        (
            {"base": "salient", "salience_channels": 5, "salience_reach": 2, "local_window": 99},
            "needs a local_window of at least 100 (twice block_tokens), got 99",
        ),
        ({"base": "tail", "salience_channels": 5}, "salience_reach belong to base 'salient', got (5, 0)"),
        ({"salience_reach": 2}, "salience_reach belong to base 'salient', got (0, 2)"),
        ({"salience_channels": True}, "salience_channels must be an integer, got True"),
        ({"pointer_heads": 2}, "pointer_heads, pointer_head_dim and vocabulary of at least 1, got (2, 0, 0)"),
        (
            {"pointer_heads": -1, "pointer_head_dim": 4, "vocabulary": 9},
            "pointer_heads, pointer_head_dim and vocabulary of at least 1, got (-1, 4, 9)",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_the_numbers(
    make_geometry: Callable[..., Geometry], overrides: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_geometry(**overrides)
    assert words in str(caught.value)


def test_unknown_and_missing_fields_are_named() -> None:
    with pytest.raises(InvalidInput, match="unknown fields colour"):
        Geometry.from_mapping({**QWEN, "colour": 1})
    with pytest.raises(InvalidInput, match="head_dim"):
        Geometry.from_mapping({name: value for name, value in QWEN.items() if name != "head_dim"})

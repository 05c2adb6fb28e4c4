from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from remory.errors import CheckpointError
from remory.network import MemoryNetwork, load_checkpoint, save_checkpoint

CONFIG: dict[str, Any] = {
    "schema": "remory.memory.v1",
    "target_model": "an actor",
    "target_revision": "1",
    "compressor": {
        "target_hidden_size": 24,
        "hidden_size": 24,
        "target_layer_ids": [1, 3],
        "compression_ratio": 8,
        "local_window": 20,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "intermediate_size": 20,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "output_embedding_rms": 0.3,
        "max_depth": 3,
        "summary_gate_init": 0.4,
        "base": "tail",
        "pointer": {"heads": 2, "head_dim": 4, "vocabulary": 10},
        "trained": True,
    },
    "residual": {"block_tokens": 48, "compression_ratio": 8, "memory_budget": 60},
    "summary_contract": {
        "end_token_id": 2,
        "student_summary_before_ids": [3, 4],
        "student_summary_after_ids": [5],
        "student_memory_before_ids": [6],
        "student_memory_after_ids": [],
        "prompt": "Summarise.",
        "output_schema": {"type": "object"},
    },
}
NETWORK = {"block_tokens": 48, "base": "tail", "pointer_heads": 2, "pointer_head_dim": 4, "vocabulary": 10}
SALIENCE = {"base": "salient", "salience_channels": 5, "salience_reach": 2, "local_window": 96}


def changed(path: str, value: Any) -> dict[str, Any]:
    """CONFIG with the value at a dotted path replaced, or taken out when it is `...`."""
    config = copy.deepcopy(CONFIG)
    *parents, key = path.split(".")
    section = config
    for parent in parents:
        section = section[parent]
    if value is ...:
        del section[key]
    else:
        section[key] = value
    return config


def salient() -> dict[str, Any]:
    """CONFIG with rows that start from tokens of the network's choice."""
    config = copy.deepcopy(CONFIG)
    config["compressor"] |= {"base": "salient", "salience": {"channels": 5, "reach": 2}, "local_window": 96}
    return config


def write_folder(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """A checkpoint folder with a manifest that is right for its files, whatever they hold."""
    folder.mkdir(exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    sign(folder)


def sign(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    canonical = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    manifest = {
        "config_sha256": hashlib.sha256(canonical.encode()).hexdigest(),
        "safetensors_sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


def refusal(folder: Path, **options: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(folder, **options)
    return str(caught.value)


@pytest.fixture
def network(make_network: Callable[..., MemoryNetwork]) -> MemoryNetwork:
    return make_network(**NETWORK)


@pytest.fixture
def folder(tmp_path: Path, network: MemoryNetwork) -> Path:
    path = tmp_path / "memory-a"
    save_checkpoint(path, network, CONFIG)
    return path


class TestRoundTrip:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_tensors_come_back_bit_for_bit(self, tmp_path: Path, network: MemoryNetwork, dtype: torch.dtype) -> None:
        network = network.to(dtype)
        save_checkpoint(tmp_path / "a", network, CONFIG)
        loaded = load_checkpoint(tmp_path / "a").network
        assert loaded.dtype == dtype
        expected, got = network.state_dict(), loaded.state_dict()
        assert expected.keys() == got.keys()
        assert all(torch.equal(expected[name], got[name]) for name in expected)

    def test_saving_what_was_loaded_gives_the_same_identity(self, tmp_path: Path, folder: Path) -> None:
        first = load_checkpoint(folder)
        save_checkpoint(tmp_path / "b", first.network, first.config)
        assert load_checkpoint(tmp_path / "b").identity("r") == first.identity("r")

    def test_a_salient_network_comes_back_with_what_chooses_its_tokens(
        self, tmp_path: Path, make_network: Callable[..., MemoryNetwork]
    ) -> None:
        network = make_network(**{**NETWORK, **SALIENCE})
        save_checkpoint(tmp_path / "a", network, salient())
        checkpoint = load_checkpoint(tmp_path / "a")
        assert checkpoint.geometry == network.geometry
        assert (checkpoint.geometry.salience_channels, checkpoint.geometry.salience_reach) == (5, 2)
        expected, got = network.state_dict(), checkpoint.network.state_dict()
        assert list(expected) == list(got)
        assert "salience.taps" in got
        assert all(torch.equal(expected[name], got[name]) for name in expected)

    def test_what_the_folder_says_is_what_the_checkpoint_says(self, folder: Path) -> None:
        checkpoint = load_checkpoint(folder)
        assert checkpoint.config == CONFIG
        assert checkpoint.name == "memory-a"
        assert checkpoint.schema == "remory.memory.v1"
        assert checkpoint.strategy == "reencode"
        assert checkpoint.layer_ids == (1, 3)
        assert (checkpoint.block_tokens, checkpoint.ratio, checkpoint.memory_budget) == (48, 8, 60)
        assert checkpoint.trained
        assert checkpoint.feature_view is None
        assert checkpoint.geometry.base == "tail"
        assert checkpoint.geometry.rms_norm_eps == 1e-6
        assert checkpoint.geometry.rope_theta == 1e7
        contract = checkpoint.contract
        assert contract.end_token_id == 2
        assert contract.summary_before_ids == (3, 4)
        assert contract.memory_after_ids == ()
        assert contract.prompt == "Summarise."
        assert contract.output_schema == {"type": "object"}

    def test_the_dtype_can_be_chosen(self, folder: Path) -> None:
        tensors = load_checkpoint(folder, dtype=torch.bfloat16).network.state_dict()
        assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}

    def test_a_loaded_network_does_not_follow_its_file(self, folder: Path) -> None:
        network = load_checkpoint(folder).network
        before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
        with (folder / "model.safetensors").open("r+b") as stream:
            stream.write(b"\xff" * (folder / "model.safetensors").stat().st_size)
        assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


class TestPublishedForms:
    """config.json as the Qwen and GLM checkpoints have it: no base, no pointer, and nothing said of training."""

    def published(self, schema: str | None) -> dict[str, Any]:
        config = changed("schema", ...)
        for key in ("base", "pointer", "trained"):
            del config["compressor"][key]
        if schema:
            config["schema"] = schema
            config["feature_view"] = "decoder_block_attn_hc_collapsed_input"
        return config

    def test_without_schema_it_is_summary_conditioned_and_reencodes(
        self, tmp_path: Path, make_network: Callable[..., MemoryNetwork]
    ) -> None:
        write_folder(tmp_path / "qwen", self.published(None), make_network(block_tokens=48).state_dict())
        checkpoint = load_checkpoint(tmp_path / "qwen")
        assert checkpoint.geometry.summary_conditioned
        assert (checkpoint.schema, checkpoint.strategy, checkpoint.trained) == (None, "reencode", True)

    def test_glm_has_no_summary_and_keeps_its_frontier(
        self, tmp_path: Path, make_network: Callable[..., MemoryNetwork]
    ) -> None:
        config = self.published("remory_glm53_local_evaluation_v1")
        network = make_network(block_tokens=48, summary_conditioned=False)
        write_folder(tmp_path / "glm", config, network.state_dict())
        checkpoint = load_checkpoint(tmp_path / "glm")
        assert not checkpoint.geometry.summary_conditioned
        assert checkpoint.strategy == "frontier"
        assert checkpoint.feature_view == "decoder_block_attn_hc_collapsed_input"

    def test_ours_without_a_summary_gate_is_not_conditioned(
        self, tmp_path: Path, make_network: Callable[..., MemoryNetwork]
    ) -> None:
        config = changed("compressor.summary_gate_init", None)
        save_checkpoint(tmp_path / "a", make_network(**NETWORK, summary_conditioned=False), config)
        assert load_checkpoint(tmp_path / "a").strategy == "frontier"

    def test_ours_may_state_its_strategy(self, tmp_path: Path, make_network: Callable[..., MemoryNetwork]) -> None:
        for name, conditioned, strategy in [("a", True, "frontier"), ("b", True, "reencode"), ("c", False, "frontier")]:
            config = changed("residual.strategy", strategy)
            if not conditioned:
                del config["compressor"]["summary_gate_init"]
            save_checkpoint(tmp_path / name, make_network(**NETWORK, summary_conditioned=conditioned), config)
            checkpoint = load_checkpoint(tmp_path / name)
            assert checkpoint.strategy == strategy
            assert checkpoint.geometry.summary_conditioned is conditioned
            assert checkpoint.config["residual"]["strategy"] == strategy

    def test_a_network_that_reads_no_summary_cannot_reencode(
        self, tmp_path: Path, make_network: Callable[..., MemoryNetwork]
    ) -> None:
        config = changed("residual.strategy", "reencode")
        del config["compressor"]["summary_gate_init"]
        network = make_network(**NETWORK, summary_conditioned=False)
        write_folder(tmp_path / "a", config, network.state_dict())
        assert "only a network that reads the summary can fold old memory into new" in refusal(tmp_path / "a")
        with pytest.raises(CheckpointError, match="only a network that reads the summary"):
            save_checkpoint(tmp_path / "b", network, config)

    @pytest.mark.parametrize("schema", [None, "remory_glm53_local_evaluation_v1"])
    @pytest.mark.parametrize("strategy", ["frontier", "reencode"])
    def test_the_published_forms_state_no_strategy(
        self, tmp_path: Path, make_network: Callable[..., MemoryNetwork], schema: str | None, strategy: str
    ) -> None:
        config = self.published(schema)
        config["residual"] = {**config["residual"], "strategy": strategy}
        network = make_network(block_tokens=48, summary_conditioned=schema is None)
        write_folder(tmp_path / "a", config, network.state_dict())
        assert "residual.strategy belongs to the schema remory.memory.v1" in refusal(tmp_path / "a")

    def test_layer_types_may_be_written_short(self, tmp_path: Path, network: MemoryNetwork) -> None:
        save_checkpoint(tmp_path / "a", network, changed("compressor.layer_types", ["sliding", "sliding", "full"]))
        assert load_checkpoint(tmp_path / "a").geometry == network.geometry


class TestIdentity:
    def test_it_changes_with_configuration_weights_actor_and_revision(
        self, tmp_path: Path, network: MemoryNetwork, folder: Path
    ) -> None:
        identities = [load_checkpoint(folder).identity("1"), load_checkpoint(folder).identity("2")]
        save_checkpoint(tmp_path / "prompt", network, changed("summary_contract.prompt", "Sum up."))
        save_checkpoint(tmp_path / "strategy", network, changed("residual.strategy", "frontier"))
        save_checkpoint(tmp_path / "actor", network, changed("target_model", "another actor"))
        with torch.no_grad():
            network.get_parameter("fc.weight")[0, 0] += 1
        save_checkpoint(tmp_path / "weights", network, CONFIG)
        names = ("prompt", "strategy", "actor", "weights")
        identities += [load_checkpoint(tmp_path / name).identity("1") for name in names]
        assert len(set(identities)) == 6
        assert all(len(identity) == 64 and int(identity, 16) for identity in identities)

    def test_it_does_not_depend_on_place_spacing_or_key_order(self, folder: Path) -> None:
        before = load_checkpoint(folder).identity("1")
        (folder / "config.json").write_text(json.dumps(dict(reversed(CONFIG.items()))))
        assert load_checkpoint(folder.rename(folder.with_name("elsewhere"))).identity("1") == before


class TestActor:
    def test_a_fitting_actor_is_accepted(self, folder: Path) -> None:
        load_checkpoint(folder).check_actor(width=24, layers=4, vocabulary=10)

    @pytest.mark.parametrize(
        ("sizes", "words"),
        [
            ({"width": 32, "layers": 4, "vocabulary": 10}, "for an actor of width 24, this one has 32"),
            ({"width": 24, "layers": 3, "vocabulary": 10}, "reads layer 3 (from 0), the actor has 3 layers"),
            ({"width": 24, "layers": 4, "vocabulary": 6}, "uses token id 6, the actor's vocabulary has 6"),
            ({"width": 24, "layers": 4, "vocabulary": 12}, "counts 10 tokens, the actor's vocabulary has 12"),
        ],
    )
    def test_another_is_refused_with_the_numbers(self, folder: Path, sizes: dict[str, int], words: str) -> None:
        with pytest.raises(CheckpointError) as caught:
            load_checkpoint(folder).check_actor(**sizes)
        assert words in str(caught.value)


class TestDamagedFolders:
    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        assert "no checkpoint folder at" in refusal(tmp_path / "nothing")

    @pytest.mark.parametrize("name", ["config.json", "manifest.json", "model.safetensors"])
    def test_a_missing_file_is_named(self, folder: Path, name: str) -> None:
        (folder / name).unlink()
        assert f"has no {name}" in refusal(folder)

    @pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "weights.pkl", "last.ckpt"])
    def test_a_pickle_is_refused_by_name_and_never_loaded(self, folder: Path, name: str) -> None:
        (folder / "model.safetensors").unlink()
        trap = folder.with_name("sprung")
        (folder / name).write_bytes(pickle.dumps(Trap(trap)))
        assert f"holds {name} instead of model.safetensors; pickles are never loaded" in refusal(folder)
        assert not trap.exists()

    def test_a_pickle_under_the_name_of_the_weights_is_never_loaded(self, folder: Path) -> None:
        trap = folder.with_name("sprung")
        (folder / "model.safetensors").write_bytes(pickle.dumps(Trap(trap)))
        sign(folder)
        assert "model.safetensors is damaged" in refusal(folder)
        assert not trap.exists()

    def test_one_changed_byte_of_the_weights(self, folder: Path) -> None:
        content = bytearray((folder / "model.safetensors").read_bytes())
        content[-1] ^= 1
        (folder / "model.safetensors").write_bytes(content)
        message = refusal(folder)
        assert message.startswith(f"model.safetensors has SHA-256 {hashlib.sha256(content).hexdigest()}")
        assert "manifest.json states safetensors_sha256" in message

    def test_a_changed_configuration(self, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps(changed("residual.memory_budget", 61)))
        message = refusal(folder)
        assert message.startswith("config.json has SHA-256 ")
        assert "manifest.json states config_sha256" in message

    @pytest.mark.parametrize("key", ["config_sha256", "safetensors_sha256"])
    def test_a_manifest_without_a_digest(self, folder: Path, key: str) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, key: None}))
        assert f"states {key} None" in refusal(folder)

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"{", "config.json is not JSON"),
            (b"\xff\xfe\xfd", "config.json is not JSON"),
            (b"[" * 200_000, "config.json is not JSON"),
            (b"[]", "config.json must hold an object"),
            (b'{"a": NaN}', "NaN is not allowed"),
            (b" " * (16 << 20) + b"{}", "config.json has 16777218 bytes, at most 16777216 are read"),
        ],
        ids=["broken", "no text", "deep", "a list", "NaN", "huge"],
    )
    def test_a_configuration_that_is_not_a_json_object(self, folder: Path, content: bytes, words: str) -> None:
        (folder / "config.json").write_bytes(content)
        assert words in refusal(folder)


class Trap:
    """A pickle that leaves a file behind when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class TestDamagedWeights:
    """Files whose digests are right, as one who wants to do harm would write them."""

    @pytest.mark.parametrize("kept", [0, 7, 8, 100, -1])
    def test_truncated(self, folder: Path, kept: int) -> None:
        content = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(content[:kept])
        sign(folder)
        assert "model.safetensors is damaged" in refusal(folder)

    def test_a_header_that_claims_terabytes(self, folder: Path) -> None:
        content = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes((1 << 42).to_bytes(8, "little") + content[8:])
        sign(folder)
        assert "model.safetensors is damaged" in refusal(folder)

    def test_a_tensor_that_claims_terabytes(self, folder: Path) -> None:
        header = {"fc.weight": {"dtype": "F32", "shape": [1 << 20, 1 << 20], "data_offsets": [0, 1 << 42]}}
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(64))
        sign(folder)
        assert "model.safetensors is damaged" in refusal(folder)

    def test_a_configuration_that_claims_terabytes(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        write_folder(folder, changed("compressor.intermediate_size", 1 << 24), tensors)
        assert "layers.0.mlp.gate_proj.weight must be [16777216, 24] by config.json" in refusal(folder)

    def test_missing_and_unexpected_tensors_are_named(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["summary_attention.2.gate"] = tensors.pop("summary_attention.1.gate")
        del tensors["norm.weight"]
        write_folder(folder, CONFIG, tensors)
        message = refusal(folder)
        assert "lacks norm.weight, summary_attention.1.gate and has unexpected summary_attention.2.gate" in message

    def test_a_wrong_shape_is_named_with_both_shapes(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["mask_embedding"] = tensors["mask_embedding"][0]
        write_folder(folder, CONFIG, tensors)
        words = "mask_embedding must be [1, 1, 24] by config.json, model.safetensors has [1, 24]"
        assert words in refusal(folder)

    def test_a_dtype_that_is_no_float_is_named(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["base_gate"] = tensors["base_gate"].to(torch.int32)
        write_folder(folder, CONFIG, tensors)
        assert "base_gate must be one of BF16, F16, F32, got I32" in refusal(folder)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    def test_a_value_that_is_not_finite_is_named(self, folder: Path, value: float) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["layers.1.mlp.up_proj.weight"][3, 4] = value
        write_folder(folder, CONFIG, tensors)
        words = "layers.1.mlp.up_proj.weight holds values that are not finite"
        assert words in refusal(folder)
        assert words in refusal(folder, device="meta")

    def test_a_value_that_overflows_the_asked_dtype_is_named(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["pointer.mean"][0] = 1e6
        write_folder(folder, CONFIG, tensors)
        load_checkpoint(folder, dtype=torch.bfloat16)
        assert "pointer.mean holds values that are not finite as torch.float16" in refusal(folder, dtype=torch.float16)

    def test_an_embedding_size_that_is_not_positive(self, folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        tensors["output_embedding_rms"] = torch.tensor(0.0)
        write_folder(folder, CONFIG, tensors)
        assert "output_embedding_rms must be positive, got 0.0" in refusal(folder)


CONFIG_FAULTS: list[tuple[str, Any, str]] = [
    ("schema", "remory.memory.v2", "schema: Input should be"),
    ("target_model", ..., "target_model: Field required"),
    ("compressor", ..., "compressor: Field required"),
    ("compressor.hidden_size", 32, "hidden_size 32 differs from target_hidden_size 24"),
    ("compressor.head_dim", "6", "compressor.head_dim: Input should be a valid integer"),
    ("compressor.head_dim", 0, "compressor.head_dim: Input should be greater than 0"),
    ("compressor.head_dim", 7, "head_dim must be even to be rotated, got 7"),
    ("compressor.local_window", -20, "compressor.local_window: Input should be greater than 0"),
    ("compressor.num_key_value_heads", 3, "num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
    ("compressor.num_hidden_layers", 4, "layer_types names 3 layers of 4"),
    ("compressor.layer_types", ["sliding", "full", "full"], "layer_types must be sliding but for the last"),
    ("compressor.target_layer_ids", [], "compressor.target_layer_ids: Tuple should have at least 1 item"),
    ("compressor.target_layer_ids", [3, 1], "target_layer_ids must ascend, got [3, 1]"),
    ("compressor.target_layer_ids", [1, 1], "target_layer_ids must ascend, got [1, 1]"),
    (
        "compressor.target_layer_ids",
        [-1, 1],
        "compressor.target_layer_ids.0: Input should be greater than or equal to 0",
    ),
    ("compressor.compression_ratio", 4, "compression_ratio is 4 in compressor and 8 in residual"),
    ("compressor.output_embedding_rms", 0, "compressor.output_embedding_rms: Input should be greater than 0"),
    ("compressor.rms_norm_eps", 0.0, "compressor.rms_norm_eps: Input should be greater than 0"),
    ("compressor.base", "mean", "base must be null, 'tail' or 'salient', got 'mean'"),
    ("compressor.base", "salient", "needs salience_channels and salience_reach of at least 1, got (0, 0)"),
    ("compressor.salience", {"channels": 5, "reach": 2}, "salience_reach belong to base 'salient', got (5, 2)"),
    ("compressor.salience", {"channels": 5}, "compressor.salience.reach: Field required"),
    ("compressor.salience", {"channels": 5, "reach": 0}, "compressor.salience.reach: Input should be greater than 0"),
    ("compressor.salience", {"channels": "5", "reach": 2}, "compressor.salience.channels: Input should be a valid int"),
    ("compressor.pointer", {"heads": 2}, "compressor.pointer.head_dim: Field required"),
    ("compressor.trained", ..., "compressor.trained must be stated"),
    ("residual.block_tokens", 50, "block_tokens 50 is not a multiple of compression_ratio 8"),
    ("residual.memory_budget", 5, "memory_budget 5 is less than the 6 rows of one block"),
    ("residual.strategy", "keep", "residual.strategy: Input should be 'reencode' or 'frontier'"),
    ("summary_contract.end_token_id", -1, "summary_contract.end_token_id: Input should be greater than or equal to 0"),
    ("summary_contract.student_memory_before_ids", ..., "student_memory_before_ids: Field required"),
    ("summary_contract.prompt", "", "summary_contract.prompt: String should have at least 1 character"),
    ("summary_contract.output_schema", "{}", "summary_contract.output_schema: Input should be"),
    ("feature_view", "decoder_block_attn_hc_collapsed_input", "feature_view belongs to the schema"),
]


@pytest.mark.parametrize(("path", "value", "words"), CONFIG_FAULTS)
def test_a_configuration_that_does_not_hold_together_is_refused(
    folder: Path, path: str, value: Any, words: str
) -> None:
    write_folder(folder, changed(path, value), load_file(folder / "model.safetensors"))
    message = refusal(folder)
    assert message.startswith("config.json: ")
    assert words in message


class TestSaving:
    def test_a_configuration_of_another_reach_is_refused(
        self, tmp_path: Path, make_network: Callable[..., MemoryNetwork]
    ) -> None:
        config = salient()
        config["compressor"]["salience"]["reach"] = 3
        with pytest.raises(CheckpointError, match="salience_reach=3"):
            save_checkpoint(tmp_path / "a", make_network(**{**NETWORK, **SALIENCE}), config)

    def test_a_configuration_of_another_network_is_refused(self, tmp_path: Path, network: MemoryNetwork) -> None:
        with pytest.raises(CheckpointError, match="intermediate_size=21"):
            save_checkpoint(tmp_path / "a", network, changed("compressor.intermediate_size", 21))
        assert not list(tmp_path.iterdir())

    def test_weights_that_are_not_finite_are_refused(self, tmp_path: Path, network: MemoryNetwork) -> None:
        torch.nn.init.constant_(network.get_parameter("norm.weight"), float("nan"))
        with pytest.raises(CheckpointError, match=r"norm\.weight holds values that are not finite"):
            save_checkpoint(tmp_path / "a", network, CONFIG)
        assert not list(tmp_path.iterdir())

    def test_a_value_that_json_cannot_hold_is_refused(self, tmp_path: Path, network: MemoryNetwork) -> None:
        with pytest.raises(CheckpointError, match="cannot be written as JSON"):
            save_checkpoint(tmp_path / "a", network, changed("note", float("nan")))

    def test_a_folder_that_exists_is_left_as_it_is(self, folder: Path, network: MemoryNetwork) -> None:
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        with pytest.raises(CheckpointError, match="exists already"):
            save_checkpoint(folder, network, CONFIG)
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before

    def test_nothing_else_is_left_beside_the_folder(self, folder: Path) -> None:
        assert [path.name for path in folder.parent.iterdir()] == [folder.name]
        assert sorted(path.name for path in folder.iterdir()) == ["config.json", "manifest.json", "model.safetensors"]
        assert len({path.stat().st_mode for path in folder.iterdir()}) == 1

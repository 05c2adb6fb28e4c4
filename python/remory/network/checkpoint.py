"""A checkpoint folder: config.json, manifest.json, model.safetensors. Nothing in it is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from remory.errors import CheckpointError
from remory.network.config import CheckpointConfig, Strategy, SummaryContract, read_config
from remory.network.geometry import Geometry
from remory.network.network import MemoryNetwork

_CONFIG = "config.json"
_MANIFEST = "manifest.json"
_WEIGHTS = "model.safetensors"
_PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"})
_FLOATS = frozenset({"F32", "BF16", "F16"})
# A configuration is a few kilobytes; this only keeps a foreign file from being read whole.
_LARGEST_JSON = 16 << 20


@dataclass(frozen=True)
class Checkpoint:
    """A memory network and all that its use depends on. `config` and `manifest` are the folder's JSON as read."""

    network: MemoryNetwork
    config: dict[str, Any]
    manifest: dict[str, Any]
    path: Path
    settings: CheckpointConfig

    @property
    def geometry(self) -> Geometry:
        return self.network.geometry

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def schema(self) -> str | None:
        """None for the published Qwen form."""
        return self.settings.schema_name

    @property
    def strategy(self) -> Strategy:
        return self.settings.strategy

    @property
    def layer_ids(self) -> tuple[int, ...]:
        """The actor's decoder layers, from 0, whose states make up a feature."""
        return self.settings.compressor.target_layer_ids

    @property
    def feature_view(self) -> str | None:
        """None: a layer's output. Else the published name of the place in the layer where features are taken."""
        return self.settings.feature_view

    @property
    def block_tokens(self) -> int:
        return self.geometry.block_tokens

    @property
    def ratio(self) -> int:
        return self.geometry.compression_ratio

    @property
    def memory_budget(self) -> int:
        """The most rows a frontier may hold."""
        return self.settings.residual.memory_budget

    @property
    def trained(self) -> bool:
        return self.settings.trained

    @property
    def contract(self) -> SummaryContract:
        return self.settings.summary_contract

    def identity(self, actor_revision: str) -> str:
        """SHA-256 (hex) of configuration, weights, actor and its revision: memory belongs to exactly one."""
        return _digest(
            {
                "config_sha256": self.manifest["config_sha256"],
                "safetensors_sha256": self.manifest["safetensors_sha256"],
                "actor": self.settings.target_model,
                "revision": actor_revision,
            }
        )

    def check_actor(self, *, width: int, layers: int, vocabulary: int) -> None:
        """Raise CheckpointError unless an actor of these sizes can use the rows and give the features."""
        expected = self.geometry.hidden_size
        if width != expected:
            raise CheckpointError(f"checkpoint {self.name} is for an actor of width {expected}, this one has {width}")
        if self.layer_ids[-1] >= layers:
            raise CheckpointError(
                f"checkpoint {self.name} reads layer {self.layer_ids[-1]} (from 0), the actor has {layers} layers"
            )
        if self.contract.largest_token_id >= vocabulary:
            raise CheckpointError(
                f"checkpoint {self.name} uses token id {self.contract.largest_token_id}, "
                f"the actor's vocabulary has {vocabulary}"
            )
        table = self.geometry.vocabulary
        if table and table != vocabulary:
            raise CheckpointError(
                f"checkpoint {self.name} counts {table} tokens, the actor's vocabulary has {vocabulary}"
            )


def embedded_checkpoint(*, trained: bool = True) -> Path:
    """The packaged checkpoint for the embedded actor, SmolLM2-135M-Instruct.

    The untrained one keeps the last tokens of each block: what a trained one is to be compared with.
    """
    return Path(__file__).parent.parent / "checkpoints" / ("smollm2-135m" if trained else "smollm2-135m-tail")


def load_checkpoint(
    folder: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype | None = None
) -> Checkpoint:
    """Read a checkpoint folder; `dtype` None keeps the dtype of its `fc.weight`. On the device "meta" nothing is kept.

    Both digests of the manifest, the configuration, and every tensor's name and shape are verified before a tensor is
    read, and every tensor must be finite. Raises CheckpointError that names what is wrong.
    """
    path = Path(folder)
    _check_files(path)
    config, manifest = _read_json(path / _CONFIG), _read_json(path / _MANIFEST)
    _check_digest(manifest, "config_sha256", _digest(config), _CONFIG)
    settings, geometry = read_config(_canonical(config))
    _check_digest(manifest, "safetensors_sha256", _file_digest(path / _WEIGHTS), _WEIGHTS)
    network = MemoryNetwork(geometry, device="meta")
    network.load_state_dict(_read_tensors(path / _WEIGHTS, geometry, torch.device(device), dtype), assign=True)
    return Checkpoint(network, config, manifest, path, settings)


def save_checkpoint(folder: str | Path, network: MemoryNetwork, config: Mapping[str, Any]) -> None:
    """Write a checkpoint folder that must not exist yet; it appears whole or not at all.

    `config` is the content of config.json. Raises CheckpointError when it does not describe this network, when a
    tensor is not finite, or when the folder exists.
    """
    path = Path(folder)
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in network.state_dict().items()}
    _, geometry = read_config(_canonical(config))
    if geometry != network.geometry:
        raise CheckpointError(f"config.json describes {geometry}, the network is {network.geometry}")
    for name, tensor in tensors.items():
        _check_values(name, tensor)
    if path.exists():
        raise CheckpointError(f"{path} exists already")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        made = Path(scratch) / path.name
        made.mkdir()
        save_file(tensors, made / _WEIGHTS)
        manifest = {"config_sha256": _digest(config), "safetensors_sha256": _file_digest(made / _WEIGHTS)}
        _write_json(made / _CONFIG, config)
        _write_json(made / _MANIFEST, manifest)
        # safetensors writes for its owner only; the weights are as public as their description.
        (made / _WEIGHTS).chmod((made / _CONFIG).stat().st_mode)
        made.rename(path)


def _check_files(path: Path) -> None:
    if not path.is_dir():
        raise CheckpointError(f"no checkpoint folder at {path}")
    if not (path / _WEIGHTS).is_file():
        pickles = sorted(file.name for file in path.iterdir() if file.suffix in _PICKLES)
        if pickles:
            raise CheckpointError(f"{path} holds {', '.join(pickles)} instead of {_WEIGHTS}; pickles are never loaded")
    for name in (_CONFIG, _MANIFEST, _WEIGHTS):
        if not (path / name).is_file():
            raise CheckpointError(f"{path} has no {name}")


def _read_json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LARGEST_JSON:
        raise CheckpointError(f"{path.name} has {path.stat().st_size} bytes, at most {_LARGEST_JSON} are read")
    try:
        value = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path.name} must hold an object")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not allowed")


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")


def _canonical(value: Mapping[str, Any]) -> str:
    """Canonical JSON: sorted keys, no spaces, ASCII. Raises CheckpointError for what JSON cannot hold."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"{_CONFIG} cannot be written as JSON: {error}") from error


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(value).encode("ascii")).hexdigest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _check_digest(manifest: Mapping[str, Any], key: str, found: str, name: str) -> None:
    stated = manifest.get(key)
    if stated != found:
        raise CheckpointError(f"{name} has SHA-256 {found}, {_MANIFEST} states {key} {stated!r}")


def _read_tensors(path: Path, geometry: Geometry, device: torch.device, dtype: torch.dtype | None) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as stored:
            _check_header(stored, geometry.tensor_shapes())
            dtype = dtype or stored.get_tensor("fc.weight").dtype
            tensors = {}
            for name in geometry.tensor_shapes():
                # A copy: what safetensors gives is mapped from the file and would follow its fate.
                tensor = stored.get_tensor(name)
                tensors[name] = tensor.to(device, dtype, copy=True)
                _check_values(name, tensor.to(dtype) if device.type == "meta" else tensors[name])
            return tensors
    except SafetensorError as error:
        raise CheckpointError(f"{path.name} is damaged: {error}") from error


def _check_header(stored: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Compare names, shapes and dtypes with what the configuration asks for, before any tensor is read."""
    names = set(stored.keys())
    missing, unexpected = sorted(shapes.keys() - names), sorted(names - shapes.keys())
    if missing or unexpected:
        faults = [
            f"{word} {', '.join(tensors)}"
            for word, tensors in (("lacks", missing), ("has unexpected", unexpected))
            if tensors
        ]
        raise CheckpointError(f"{_WEIGHTS} {' and '.join(faults)}")
    for name, shape in shapes.items():
        view = stored.get_slice(name)
        if tuple(view.get_shape()) != shape:
            raise CheckpointError(f"{name} must be {list(shape)} by config.json, {_WEIGHTS} has {view.get_shape()}")
        if view.get_dtype() not in _FLOATS:
            raise CheckpointError(f"{name} must be one of {', '.join(sorted(_FLOATS))}, got {view.get_dtype()}")


def _check_values(name: str, tensor: Tensor) -> None:
    if not tensor.isfinite().all():
        raise CheckpointError(f"{name} holds values that are not finite as {tensor.dtype}")
    if name == "output_embedding_rms" and not tensor > 0:
        raise CheckpointError(f"{name} must be positive, got {tensor.item()}")

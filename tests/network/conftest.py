"""Golden cases and small networks, shared by the tests of the memory network."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from remory.network import Geometry, MemoryNetwork

VECTORS = Path(__file__).parent.parent / "data" / "vectors"


@dataclass(frozen=True)
class Golden:
    """One golden case: the flat configuration with `input_depth`, weights by name, inputs and expected rows."""

    config: dict[str, Any]
    weights: dict[str, Tensor]
    features: Tensor
    summary: Tensor | None
    rows: Tensor


@pytest.fixture(params=sorted(path.stem for path in VECTORS.glob("*.safetensors")))
def golden(request: pytest.FixtureRequest) -> Golden:
    with safe_open(VECTORS / f"{request.param}.safetensors", framework="pt") as stored:
        config = json.loads(stored.metadata()["config"])
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
    weights = {name.removeprefix("weights."): t for name, t in tensors.items() if name.startswith("weights.")}
    return Golden(config, weights, tensors["features"], tensors.get("summary"), tensors["rows"])


@pytest.fixture
def make_geometry() -> Callable[..., Geometry]:
    """Builds a small geometry; keywords override its fields."""

    def make(**overrides: Any) -> Geometry:
        fields = {
            "hidden_size": 24,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 6,
            "intermediate_size": 20,
            "num_hidden_layers": 3,
            "layers_captured": 2,
            "block_tokens": 50,
            "compression_ratio": 8,
            "local_window": 20,
            "max_depth": 3,
            "summary_conditioned": True,
        }
        return Geometry(**{**fields, **overrides})

    return make


@pytest.fixture
def make_network(make_geometry: Callable[..., Geometry]) -> Callable[..., MemoryNetwork]:
    """Builds a small network in which no gate is shut and no statistic is constant; keywords as `make_geometry`."""

    def make(**overrides: Any) -> MemoryNetwork:
        network = MemoryNetwork(make_geometry(**overrides), output_embedding_rms=0.3, summary_gate_init=0.4, seed=1)
        generator = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for name, tensor in network.state_dict().items():
                if name != "output_embedding_rms":
                    tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
        return network

    return make


@dataclass(frozen=True)
class Blocks:
    """Three ragged blocks; what lies beyond a block's length is NaN, so that whoever reads it is found out."""

    features: Tensor
    lengths: Tensor
    summary: Tensor
    input_depths: Tensor
    embeddings: Tensor
    token_ids: Tensor
    summary_lengths: Tensor | None = None

    def encode(self, network: MemoryNetwork, kept: Tensor | None = None) -> Tensor:
        geometry = network.geometry
        return network.encode(
            self.features,
            self.lengths,
            self.summary if geometry.summary_conditioned else None,
            self.input_depths,
            self.embeddings if geometry.reads_embeddings else None,
            self.token_ids if geometry.pointer_heads else None,
            kept,
            self.summary_lengths,
        )


@pytest.fixture
def blocks(make_geometry: Callable[..., Geometry]) -> Blocks:
    geometry = make_geometry()
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor([50, 1, 23])
    beyond = torch.arange(50)[None, :] >= lengths[:, None]
    features = torch.randn(3, 50, geometry.feature_size, generator=generator)
    embeddings = 0.3 * torch.randn(3, 50, geometry.hidden_size, generator=generator)
    features[beyond] = float("nan")
    embeddings[beyond] = float("nan")
    token_ids = torch.randint(-1, 10, (3, 50), generator=generator)
    summary = torch.randn(5, geometry.hidden_size, generator=generator)
    return Blocks(features, lengths, summary, torch.tensor([0, 2, 1]), embeddings, token_ids)

"""Small memory networks as `encode` takes them: a list of weights and the numbers of a geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor


@dataclass(frozen=True)
class Network:
    """Sizes of a network and of its captured features; `geometry` is what `encode` takes by name."""

    width: int = 24
    captured: int = 2
    intermediate: int = 20
    depths: int = 3
    channels: int = 18
    reach: int = 2
    geometry: dict[str, Any] = field(
        default_factory=lambda: {
            "heads": 4,
            "kv_heads": 2,
            "head_dim": 6,
            "layers": 3,
            "block": 50,
            "ratio": 8,
            "window": 20,
            "eps": 1e-6,
            "theta": 1e4,
            "summary_conditioned": True,
            "tail": False,
            "salient": False,
            "pointer_heads": 0,
            "pointer_head_dim": 0,
        }
    )

    def weight_shapes(self) -> list[tuple[int, ...]]:
        """In the order of a checkpoint; vectors of norms are [x], matrices [out, in]."""
        g, width, middle = self.geometry, self.width, self.intermediate
        queries, keys = g["heads"] * g["head_dim"], g["kv_heads"] * g["head_dim"]
        norms = [(g["head_dim"],), (g["head_dim"],)]
        projections = [(queries, width), (keys, width), (keys, width), (width, queries)]
        shapes: list[tuple[int, ...]] = [(width, self.captured * width), (width,), (1, 1, width)]
        shapes += [(self.depths, width)] if g["summary_conditioned"] else []
        shapes += [(width,), ()]
        layer = [(width,), (width,), *projections, *norms, (middle, width), (middle, width), (width, middle)]
        shapes += layer * g["layers"]
        if g["summary_conditioned"]:
            shapes += [(width,), (width,), *norms, *projections, (1,)] * (g["layers"] - 1)
        shapes += [(1,)] if g["tail"] or g["salient"] else []
        if g["salient"]:
            channels, taps = self.channels, 2 * self.reach + 1
            shapes += [(channels, width), (channels, width), (taps, channels), (channels, channels), (channels,)]
        if (heads := g["pointer_heads"]) > 0:
            pointer = heads * g["pointer_head_dim"]
            shapes += [(pointer, width), (pointer, width), (heads, width, width), (heads,), (heads,), (width,), (11,)]
        return shapes

    def make_weights(self, dtype: torch.dtype) -> list[Tensor]:
        """Random ones in which no gate is shut and no norm is trivial."""
        generator = torch.Generator().manual_seed(1)

        def make(shape: tuple[int, ...]) -> Tensor:
            noise = torch.randn(shape, generator=generator)
            return (noise * shape[-1] ** -0.5 if len(shape) > 1 else 0.8 + 0.2 * noise).to(dtype)

        return [make(shape) for shape in self.weight_shapes()]

    def make_inputs(
        self, lengths: list[int], tokens: int, dtype: torch.dtype = torch.float32, summary_rows: int = 5
    ) -> dict[str, Any]:
        """Keyword arguments of `encode`; beyond a block's length everything is NaN, so that whoever reads it shows."""
        g = self.geometry
        generator = torch.Generator().manual_seed(len(lengths) + tokens)
        beyond = torch.arange(tokens)[None, :] >= torch.tensor(lengths, dtype=torch.int64)[:, None]

        def make(*shape: int) -> Tensor:
            values = torch.randn(len(lengths), tokens, *shape, generator=generator)
            values[beyond] = float("nan")
            return values.to(dtype)

        reads_embeddings = g["tail"] or g["salient"] or g["pointer_heads"] > 0
        summary = torch.randn(summary_rows, self.width, generator=generator).to(dtype)
        return {
            "features": make(self.captured * self.width),
            "lengths": torch.tensor(lengths, dtype=torch.int64),
            "summary": summary if g["summary_conditioned"] else None,
            "weights": self.make_weights(dtype),
            "input_depths": torch.arange(len(lengths)) % self.depths,
            **g,
            "embeddings": make(self.width) if reads_embeddings else None,
            "idf": make().float().abs() if g["pointer_heads"] else None,
        }


@pytest.fixture
def make_network() -> Callable[..., Network]:
    """Builds a network of 24 dimensions; keywords override its sizes and its geometry."""

    def make(**overrides: Any) -> Network:
        network = Network()
        names = ("width", "captured", "intermediate", "channels", "reach")
        sizes = {name: overrides.pop(name) for name in names if name in overrides}
        return replace(network, **sizes, geometry={**network.geometry, **overrides})

    return make

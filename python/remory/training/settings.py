"""What a training run is: network, curriculum, losses. Read from a JSON file, or one of the presets that ship."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from remory.errors import InvalidInput

_PRESETS = Path(__file__).with_name("presets")
Size = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NetworkSettings(_Section):
    """The network's own sizes; width and vocabulary are the actor's. `layers`: the actor's layers it reads, from 0."""

    layers: tuple[int, ...]
    block_tokens: Size = 1024
    ratio: Size = 16
    memory_budget: Size = 512
    depth: Size = 2
    heads: Size = 9
    kv_heads: Size = 3
    head_dim: Size = 64
    intermediate: Size = 1024
    max_depth: Size = 8
    pointer_heads: Size = 3
    pointer_head_dim: Size = 64
    salience_channels: Size = 256
    salience_reach: Size = 12


class StageSettings(_Section):
    """Part of the curriculum: `steps` of `batch` sessions of `tokens` (a multiple of the ratio, at most a block).

    `questions` are asked of each. `hints` goes linearly from 1 to 0 over this many steps: the share of a session's
    marked words that are kept whatever the network scores them. `continuations`: share of sessions on which the text
    that follows, and text that has nothing to do with it, are read behind the memory.
    """

    steps: Size
    batch: Size
    tokens: Size
    questions: Size
    hints: Annotated[int, Field(ge=0)] = 0
    continuations: Share = 0.25
    second_compactions: Share = 0.0


class LossSettings(_Section):
    """Weights of the losses, each a mean over tokens in nats."""

    answer: Weight = 1.0
    salience: Weight = 1.0
    continuation: Weight = 0.1
    unrelated: Weight = 0.1


class TrainingSettings(_Section):
    network: NetworkSettings
    stages: tuple[StageSettings, ...]
    losses: LossSettings = LossSettings()
    learning_rate: Annotated[float, Field(gt=0)] = 8e-4
    warmup: Size = 50
    weight_decay: Weight = 0.01
    base_gate: float = 0.05
    pointer_copy: float = 0.05
    seed: int = 0

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def stage_at(self, step: int) -> tuple[StageSettings, int]:
        """The stage that a step (from 0) belongs to, and how many of the stage's steps came before."""
        for stage in self.stages:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        raise IndexError(f"the run has {self.steps} steps")


def preset_names() -> list[str]:
    """The presets that ship, sorted."""
    return sorted(path.stem for path in _PRESETS.glob("*.json"))


def load_settings(source: str | Path, changes: dict[str, Any] | None = None) -> TrainingSettings:
    """Settings from a preset's name or a JSON file; `changes` replace top-level keys.

    Raises InvalidInput when there is no such file or it does not fit.
    """
    path = _PRESETS / f"{source}.json"
    if not path.is_file():
        path = Path(source)
    if not path.is_file():
        raise InvalidInput(
            f"no settings at {source}: name a JSON file or one of the presets {', '.join(preset_names())}"
        )
    try:
        return TrainingSettings.model_validate(json.loads(path.read_text()) | (changes or {}))
    except (ValueError, ValidationError) as error:
        raise InvalidInput(f"{path.name}: {error}") from error

"""What a training run is: network, curriculum, losses. Read from a JSON file, or one of the presets that ship."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from remory.errors import InvalidInput

_PRESETS = Path(__file__).with_name("presets")
# Where memory is encoded again, a second compaction's block holds the first one's summary and rows too: so much of it
# is left for the summary.
SUMMARY_TOKENS = 80
# So many blocks become one where merging is trained.
CHILDREN = 4
Size = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NetworkSettings(_Section):
    """The network's own sizes; width and vocabulary are the actor's. `layers`: the actor's layers it reads, from 0.

    `strategy`: what a later compaction does with the memory before it. "frontier" keeps its rows as they are, adds
    those of the new history, and merges the oldest when `memory_budget` is full; "reencode" reads them as source again.
    """

    layers: tuple[int, ...]
    strategy: Literal["frontier", "reencode"] = "frontier"
    block_tokens: Size = 1024
    ratio: Size = 16
    memory_budget: Size = 2048
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

    @model_validator(mode="after")
    def _check(self) -> NetworkSettings:
        if not self.layers or list(self.layers) != sorted(set(self.layers)) or self.layers[0] < 0:
            raise ValueError(f"layers must ascend from 0 on and be at least one, got {list(self.layers)}")
        if self.block_tokens % self.ratio:
            raise ValueError(f"block_tokens {self.block_tokens} is not a multiple of ratio {self.ratio}")
        rows = self.block_tokens // self.ratio
        # A frontier that may not even hold the blocks of one merge is full for good after them.
        nodes = self.ratio + 1 if self.strategy == "frontier" else 1
        if self.memory_budget < nodes * rows:
            raise ValueError(
                f"memory_budget {self.memory_budget} is less than {nodes} x {rows} rows (block_tokens "
                f"{self.block_tokens}, ratio {self.ratio}, strategy {self.strategy})"
            )
        if self.depth < 2:
            raise ValueError(f"depth must be at least 2, got {self.depth}: the last layer reads no history")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim must be even, got {self.head_dim}")
        return self


class StageSettings(_Section):
    """Part of the curriculum: `steps` of `batch` sessions of `tokens` (a multiple of the ratio, at most a block).

    `questions` are asked of each; with none the frozen actor reads nothing behind the memory, and only the choice of
    tokens is trained. `pool`: so many sessions are drawn from again and again, with other questions each time, and
    their features are kept; 0 means new ones always. `hints` goes linearly from 1 to 0 over this many steps: the share
    of a session's marked words that are kept whatever the network scores them. `continuations`: share of sessions on
    which the text that follows is read behind the memory; text that has nothing to do with it always is. `written`:
    share of sessions that were written one by one (see written.py) instead of generated. `merges`: share of steps,
    of those without a second compaction, whose sessions are encoded as four blocks at a quarter of the ratio, which are
    then merged: as many rows in two steps. `rate`: times the run's learning rate.
    """

    steps: Size
    batch: Size
    tokens: Annotated[int, Field(ge=32)]
    questions: Annotated[int, Field(ge=0)]
    pool: Annotated[int, Field(ge=0)] = 0
    hints: Annotated[int, Field(ge=0)] = 0
    continuations: Share = 0.25
    second_compactions: Share = 0.0
    written: Share = 0.0
    merges: Share = 0.0
    rate: Annotated[float, Field(gt=0)] = 1.0

    def part_tokens(self, parts: int, strategy: str) -> tuple[int, ...]:
        """Most tokens of each compaction's new history. One that reads the memory before again has less room."""
        read_again = self.tokens // 8 + SUMMARY_TOKENS if strategy == "reencode" else 0
        return (self.tokens, *[self.tokens - read_again] * (parts - 1))


class LossSettings(_Section):
    """Weights of the losses, each a mean over tokens in nats.

    `following`: the text that follows, mostly as divergence from what the actor says that has read the whole history;
    `unrelated`: text that has nothing to do with it, mostly as divergence from what it says without any memory.
    """

    answer: Weight = 1.0
    salience: Weight = 1.0
    following: Weight = 0.5
    unrelated: Weight = 0.5


class TrainingSettings(_Section):
    """A whole run.

    `base_gate` and `pointer_copy`: how much of the network's output and of its copy path rows begin with. `strength`:
    times the copy path in the checkpoint: less of it carries less, and disturbs unrelated text less. `blur`: the
    share of features and of tokens that the choice of tokens does not see in training. `statistics_sessions`: generated
    sessions in which tokens are counted for their rarity. `stop_after`: the run ends after so many steps, early, while
    the learning rate is still that of the whole.
    """

    network: NetworkSettings
    stages: Annotated[tuple[StageSettings, ...], Field(min_length=1)]
    losses: LossSettings = LossSettings()
    learning_rate: Annotated[float, Field(gt=0)] = 8e-4
    warmup: Size = 50
    weight_decay: Weight = 0.01
    base_gate: float = 0.05
    pointer_copy: float = 0.05
    strength: Annotated[float, Field(gt=0, le=1)] = 1.0
    blur: Annotated[float, Field(ge=0, lt=1)] = 0.0
    seed: int = 0
    statistics_sessions: Size = 200
    stop_after: Size | None = None

    @model_validator(mode="after")
    def _check(self) -> TrainingSettings:
        if self.stop_after and self.stop_after > self.scheduled_steps:
            raise ValueError(f"stop_after {self.stop_after} is more than the stages' {self.scheduled_steps} steps")
        sizes = self.network
        for number, stage in enumerate(self.stages, 1):
            if stage.tokens % sizes.ratio:
                raise ValueError(f"stage {number}: tokens {stage.tokens} is not a multiple of ratio {sizes.ratio}")
            if stage.tokens > sizes.block_tokens:
                raise ValueError(f"stage {number}: tokens {stage.tokens} exceeds block_tokens {sizes.block_tokens}")
            # The children's rows, CHILDREN * tokens / ratio, must fit a child's block of tokens / CHILDREN.
            if stage.merges and (sizes.ratio % CHILDREN or sizes.ratio < CHILDREN**2 or sizes.max_depth < 2):
                raise ValueError(
                    f"stage {number}: merges need a ratio of at least {CHILDREN**2} that is a multiple of {CHILDREN}, "
                    f"and a max_depth of at least 2, got {sizes.ratio} and {sizes.max_depth}"
                )
            if not stage.second_compactions or sizes.strategy == "frontier":
                continue
            left = stage.part_tokens(2, sizes.strategy)[1]
            if left < stage.tokens // 4:
                raise ValueError(
                    f"stage {number}: tokens {stage.tokens} leaves {left} for the new history of second "
                    f"compactions, behind {SUMMARY_TOKENS} of summary and {stage.tokens // 8} of rows"
                )
            if sizes.ratio < 8 or sizes.max_depth < 2:
                raise ValueError(
                    f"stage {number}: second compactions need a ratio of at least 8 and a max_depth of at least 2, "
                    f"got {sizes.ratio} and {sizes.max_depth}"
                )
        return self

    @property
    def scheduled_steps(self) -> int:
        """How many steps the stages have, which the learning rate's cosine is laid over."""
        return sum(stage.steps for stage in self.stages)

    @property
    def steps(self) -> int:
        """How many steps the run takes."""
        return self.stop_after or self.scheduled_steps

    def samples_after(self, step: int) -> int:
        """How many samples the steps from `step` (from 0) to the end take."""
        begin, samples = 0, 0
        for stage in self.stages:
            end = begin + stage.steps
            samples += max(min(end, self.steps) - max(begin, step), 0) * stage.batch
            begin = end
        return samples

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
        stated = json.loads(path.read_text())
        if not isinstance(stated, dict):
            raise InvalidInput(f"{path.name} must hold an object, got a {type(stated).__name__}")
        return TrainingSettings.model_validate(stated | (changes or {}))
    except ValidationError as error:
        raise InvalidInput(f"{path.name}: {_describe(error)}") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidInput(f"{path.name} is not JSON: {error}") from error


def _describe(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False)
    return "; ".join(
        ": ".join(filter(None, [".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")]))
        for fault in faults
    )

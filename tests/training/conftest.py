from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from remory.training.settings import TrainingSettings, load_settings
from remory.training.trainer import Trainer

SIZES: dict[str, Any] = {
    "layers": [1, 2],
    "block_tokens": 512,
    "ratio": 4,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 16,
    "intermediate": 64,
    "pointer_heads": 2,
    "pointer_head_dim": 16,
    "salience_channels": 16,
    "salience_reach": 2,
}
STAGE: dict[str, Any] = {"steps": 2, "batch": 1, "tokens": 64, "questions": 2, "continuations": 1.0, "hints": 99}


def describe(*, stage: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Settings for the tiny actors as a JSON file holds them."""
    stages = [STAGE | (stage or {})]
    return {"network": SIZES, "stages": stages, "seed": 3, "statistics_sessions": 1} | changes


def make_settings(**changes: Any) -> TrainingSettings:
    return TrainingSettings.model_validate(describe(**changes))


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(describe()))
    assert load_settings(path) == make_settings()
    return path


def read_state(folder: Path) -> dict[str, Any]:
    """All tensors of a run's state: network and optimiser."""
    return load_file(folder / Trainer.STATE)


def same(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(first[name].equal(second[name]) for name in first)

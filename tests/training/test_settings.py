"""Settings: the preset that ships, and what is refused with the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remory.errors import InvalidInput
from remory.training.settings import load_settings, preset_names
from tests.training.conftest import SIZES, STAGE, describe, make_settings


def test_the_presets_fit_themselves() -> None:
    assert "embedded" in preset_names()
    settings = load_settings("embedded", {"seed": 7})
    assert settings.seed == 7 and settings.steps > 0
    assert all(stage.tokens == settings.network.block_tokens for stage in settings.stages)


@pytest.mark.parametrize(
    ("network", "stage", "message"),
    [
        ({"layers": [2, 1]}, {}, r"layers must ascend.*\[2, 1\]"),
        ({"layers": []}, {}, "at least one"),
        ({"block_tokens": 500}, {}, "block_tokens 500 is not a multiple of ratio 16"),
        ({"memory_budget": 16, "strategy": "reencode"}, {}, "memory_budget 16 is less than 1 x 32 rows"),
        ({"memory_budget": 512}, {}, "memory_budget 512 is less than 17 x 32 rows"),
        ({"strategy": "forget"}, {}, "network.strategy: .*'frontier' or 'reencode'"),
        ({"depth": 1}, {}, "depth must be at least 2, got 1"),
        ({"heads": 3, "kv_heads": 2}, {}, "heads 3 is not a multiple of kv_heads 2"),
        ({"head_dim": 15}, {}, "head_dim must be even, got 15"),
        ({}, {"tokens": 72}, "stage 1: tokens 72 is not a multiple of ratio 16"),
        ({}, {"tokens": 16}, "stages.0.tokens: .*greater than or equal to 32"),
        ({}, {"tokens": 1024}, "stage 1: tokens 1024 exceeds block_tokens 512"),
        ({"strategy": "reencode"}, {"second_compactions": 0.5}, "stage 1: tokens 64 leaves -24 for the new history"),
        ({"ratio": 8}, {"merges": 0.5}, "stage 1: merges need a ratio of at least 16 .* got 8"),
        ({}, {"batch": 0}, "stages.0.batch: .*greater than 0"),
        ({"width": 3}, {}, "network.width: Extra inputs"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(tmp_path: Path, network, stage, message: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(describe(network=SIZES | {"ratio": 16} | network, stages=[STAGE | stage])))
    with pytest.raises(InvalidInput, match=f"settings.json: .*{message}"):
        load_settings(path)


@pytest.mark.parametrize("text", ["{", "[]", '{"stages": []}'])
def test_files_that_hold_no_settings(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="settings.json"):
        load_settings(path)
    with pytest.raises(InvalidInput, match="no settings at .*embedded"):
        load_settings(tmp_path / "absent.json")


def test_stages_follow_each_other() -> None:
    settings = make_settings(stages=[STAGE | {"batch": 4}, STAGE | {"steps": 3, "batch": 2}])
    assert [settings.stage_at(step)[1] for step in range(5)] == [0, 1, 0, 1, 2]
    assert [settings.samples_after(step) for step in range(6)] == [14, 10, 6, 4, 2, 0]
    assert settings.stages[0].part_tokens(2, "frontier") == (64, 64)
    assert settings.stages[0].model_copy(update={"tokens": 512}).part_tokens(2, "reencode") == (512, 512 - 64 - 80)
    stopped = settings.model_copy(update={"stop_after": 3})
    assert [stopped.samples_after(step) for step in range(6)] == [10, 6, 2, 0, 0, 0]

"""The trained checkpoint that comes with the package: what it is, and that its rows carry their own session."""

from __future__ import annotations

import pytest
import torch

from remory.actors import embedded_actor, load_tokenizer
from remory.network import Checkpoint, embedded_checkpoint, load_checkpoint
from remory.training.actor import TrainingActor
from remory.training.check import Check
from remory.training.objective import Objective
from remory.training.phrasing import Phrasing
from remory.training.settings import LossSettings, load_settings


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint(embedded_checkpoint())


def test_it_is_what_the_preset_describes(checkpoint: Checkpoint) -> None:
    sizes = load_settings("embedded").network
    geometry = checkpoint.geometry
    assert checkpoint.name == "smollm2-135m" and checkpoint.trained and geometry.base == "salient"
    assert checkpoint.layer_ids == sizes.layers
    assert (checkpoint.strategy, checkpoint.memory_budget) == (sizes.strategy, sizes.memory_budget)
    assert (checkpoint.block_tokens, checkpoint.ratio) == (sizes.block_tokens, sizes.ratio) == (1024, 16)
    assert (geometry.salience_channels, geometry.salience_reach) == (sizes.salience_channels, sizes.salience_reach)
    assert geometry.pointer_heads == sizes.pointer_heads and geometry.intermediate_size == sizes.intermediate
    assert sum(file.stat().st_size for file in embedded_checkpoint().iterdir()) <= 32 << 20
    assert f"{load_settings('embedded').steps} steps" in (embedded_checkpoint() / "README.md").read_text()


def test_its_rows_carry_their_own_session(checkpoint: Checkpoint) -> None:
    """Another session's rows must be worth clearly less, or the network has only learned what answers look like."""
    phrasing = Phrasing(load_tokenizer(embedded_actor()))
    actor = TrainingActor(embedded_actor(), checkpoint.layer_ids, "cpu")
    objective = Objective(actor, checkpoint.config["summary_contract"], LossSettings(), checkpoint.strategy)
    # Of so short blocks one session fits: another's memory would be its own.
    assert not Check(phrasing, 128).samples
    with torch.autocast("cpu", torch.bfloat16):
        found = Check(phrasing).run(checkpoint.network.float(), objective)
    # Measured: 3.27 and 5.26 nats a token, and 0.020 in unrelated text.
    assert found["loss"] < found["loss_other"] - 1.0
    assert found["harm"] < 0.1

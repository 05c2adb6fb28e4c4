"""What each part of a trained network is worth, on the development sets: `python -m bench.memory.ablations`.

The same weights with parts switched off, at other ratios, and with blocks merged; answers are given (teacher forcing),
so this takes some minutes. Every line stands beside the same with another session's memory, and with what the memory
costs in unrelated text. `remory eval` measures generated answers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from remory import actors
from remory.network import Checkpoint, MemoryNetwork, embedded_checkpoint, load_checkpoint
from remory.training.actor import TrainingActor
from remory.training.check import Check
from remory.training.objective import Objective
from remory.training.phrasing import Phrasing
from remory.training.settings import LossSettings

_RATIOS = (16, 8, 4)


@contextlib.contextmanager
def without(network: MemoryNetwork, *names: str) -> Iterator[None]:
    """The network with these parameters at zero."""
    before = {name: network.get_parameter(name).detach().clone() for name in names}
    with torch.no_grad():
        for name in names:
            network.get_parameter(name).zero_()
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                network.get_parameter(name).copy_(value)


@contextlib.contextmanager
def at_ratio(network: MemoryNetwork, ratio: int, block: int | None = None) -> Iterator[None]:
    """The network with so many source tokens to a row, and to a block: no weight depends on either."""
    before = network.geometry
    network.geometry = replace(before, compression_ratio=ratio, block_tokens=block or before.block_tokens)
    try:
        yield
    finally:
        network.geometry = before


def measure(checkpoint: Checkpoint, actor_folder: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """A name and the check's figures for each variant."""
    phrasing = Phrasing(actors.load_tokenizer(actor_folder))
    actor = TrainingActor(actor_folder, checkpoint.layer_ids, "cpu")
    contract = checkpoint.config["summary_contract"]
    objective = Objective(actor, contract, LossSettings(), checkpoint.strategy)
    check = Check(phrasing, checkpoint.block_tokens)
    network = checkpoint.network.float()
    with torch.autocast("cpu", torch.bfloat16):
        yield "full history", check.run_full(actor)
        for ratio in _RATIOS:
            with at_ratio(network, ratio):
                yield f"{ratio} : 1, all of it", check.run(network, objective)
                with without(network, "base_gate", "pointer.value"):
                    yield f"{ratio} : 1, the kept tokens alone", check.run(network, objective)
        with at_ratio(network, 16), without(network, "pointer.value"):
            yield "16 : 1, without the copy path", check.run(network, objective)
        with at_ratio(network, 16), without(network, "base_gate"):
            yield "16 : 1, without the network's output", check.run(network, objective)
        with at_ratio(network, 4, network.geometry.block_tokens // 4):
            yield "16 : 1, four blocks at 4 : 1 merged", check.run(network, objective, merged=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=embedded_checkpoint())
    parser.add_argument("--model", help="default: the embedded actor")
    options = parser.parse_args()
    checkpoint = load_checkpoint(options.checkpoint)
    print(f"{'':36}  loss  right   another's: loss  right    harm")
    figures = {}
    for name, found in measure(checkpoint, actors.resolve_actor(options.model)):
        figures[name] = found
        other = (
            f"{found['loss_other']:17.2f}  {found['exact_other']:5.0%}  {found['harm']:+.3f}" if "harm" in found else ""
        )
        print(f"{name:36}  {found['loss']:.2f}  {found['exact']:5.0%}{other}", flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

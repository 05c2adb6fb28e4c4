"""The training loop: deterministic by seed and step, so that a run that was interrupted goes on exactly."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from remory import actors
from remory.errors import CheckpointError
from remory.network import MemoryNetwork, save_checkpoint
from remory.network.config import SCHEMA, read_config
from remory.training.actor import TrainingActor
from remory.training.contract import write_contract
from remory.training.objective import Objective
from remory.training.phrasing import Phrasing
from remory.training.samples import draw_sample
from remory.training.settings import TrainingSettings
from remory.training.statistics import measure_statistics

_CLIP = 1.0
_STATE = "state.safetensors"
_LOWEST_RATE = 0.05


@dataclass(frozen=True)
class Progress:
    """One finished step (from 1): its losses in nats and shares of 1, and seconds since the run began or went on."""

    step: int
    steps: int
    figures: dict[str, float]
    samples: int
    seconds: float


class Trainer:
    """One run in one folder, which holds its state from step to step.

    `folder` may hold an interrupted run of the same settings and actor: then it goes on from there. Raises InvalidInput
    for an actor that cannot be trained for and CheckpointError for a state of other settings.
    """

    def __init__(self, folder: Path, actor_folder: Path, settings: TrainingSettings, device: str = "cpu") -> None:
        self.folder, self.settings = folder, settings
        self.phrasing = Phrasing(actors.load_tokenizer(actor_folder))
        self.actor = TrainingActor(actor_folder, settings.network.layers, device)
        self.config, self.network = self._begin(actor_folder)
        self._geometry = self.network.geometry
        self.objective = Objective(self.actor, self.config["summary_contract"], settings.losses)
        groups = [(self._parameters(decays=True), settings.weight_decay), (self._parameters(decays=False), 0.0)]
        self.optimiser = torch.optim.AdamW(
            [{"params": parameters, "weight_decay": decay} for parameters, decay in groups],
            lr=settings.learning_rate,
            betas=(0.9, 0.98),
        )
        self.step = 0
        if (folder / _STATE).is_file():
            self._load_state()

    def run(self) -> Iterator[Progress]:
        """Train to the end, a step at a time."""
        began, samples = time.monotonic(), 0
        while self.step < self.settings.steps:
            figures, count = self._train_step(self.step)
            samples += count
            self.step += 1
            yield Progress(self.step, self.settings.steps, figures, samples, time.monotonic() - began)

    def save_state(self) -> None:
        """Write network, optimiser and step; the file appears whole or the one before stays."""
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"{key}.{name}"] = value.reshape(1) if value.dim() == 0 else value
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = self.folder / f".{_STATE}"
        facts = {"step": str(self.step), "settings": self._identity()}
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, scratch, facts)
        scratch.replace(self.folder / _STATE)

    def save_checkpoint(self, folder: Path) -> None:
        """Write the network as it is now as a checkpoint in bfloat16. Raises CheckpointError when the folder exists."""
        network = MemoryNetwork(self._geometry, dtype=torch.bfloat16)
        network.load_state_dict(self.network.state_dict())
        save_checkpoint(folder, network, self.config)

    def _begin(self, actor_folder: Path) -> tuple[dict[str, Any], MemoryNetwork]:
        settings = self.settings
        statistics = measure_statistics(self.phrasing, self.actor.embedding.weight, settings.seed)
        config = self._describe(actor_folder, statistics["rms"])
        _, geometry = read_config(json.dumps(config))
        network = MemoryNetwork(
            geometry, output_embedding_rms=statistics["rms"], seed=settings.seed, device=self.actor.device
        )
        with torch.no_grad():
            network.get_parameter("base_gate").fill_(settings.base_gate)
            # Rows begin as the kept tokens alone: what is added to them at random only blurs them.
            network.get_parameter("pointer.value").mul_(settings.pointer_copy / 0.35)
            network.get_buffer("pointer.idf").copy_(statistics["idf"])
            network.get_buffer("pointer.mean").copy_(statistics["mean"])
        return config, network

    def _describe(self, actor_folder: Path, rms: float) -> dict[str, Any]:
        """The content of the checkpoint's config.json."""
        sizes = self.settings.network
        return {
            "schema": SCHEMA,
            "target_model": actors.actor_name(actor_folder),
            "target_revision": actors.actor_revision(actor_folder),
            "compressor": {
                "target_hidden_size": self.actor.width,
                "hidden_size": self.actor.width,
                "target_layer_ids": list(sizes.layers),
                "compression_ratio": sizes.ratio,
                "local_window": 2 * sizes.block_tokens,
                "num_hidden_layers": sizes.depth,
                "num_attention_heads": sizes.heads,
                "num_key_value_heads": sizes.kv_heads,
                "head_dim": sizes.head_dim,
                "intermediate_size": sizes.intermediate,
                "layer_types": ["sliding_attention"] * (sizes.depth - 1) + ["full_attention"],
                "output_embedding_rms": rms,
                "max_depth": sizes.max_depth,
                "summary_gate_init": 0.0,
                "base": "salient",
                "salience": {"channels": sizes.salience_channels, "reach": sizes.salience_reach},
                "pointer": {
                    "heads": sizes.pointer_heads,
                    "head_dim": sizes.pointer_head_dim,
                    "vocabulary": self.actor.vocabulary,
                },
                "trained": True,
            },
            "residual": {
                "block_tokens": sizes.block_tokens,
                "compression_ratio": sizes.ratio,
                "memory_budget": sizes.memory_budget,
            },
            "summary_contract": write_contract(self.phrasing),
        }

    def _parameters(self, decays: bool) -> list[torch.nn.Parameter]:
        """Matrices decay; norms, gates and other vectors do not."""
        return [p for p in self.network.parameters() if (p.dim() > 1) == decays]

    def _train_step(self, step: int) -> tuple[dict[str, float], int]:
        stage, place = self.settings.stage_at(step)
        r = random.Random(f"{self.settings.seed}:{step}")
        parts = 2 if r.random() < stage.second_compactions else 1
        # No weight depends on the length of a block, so short blocks can come first.
        self.network.geometry = replace(self._geometry, block_tokens=stage.tokens)
        samples = [
            draw_sample(f"{self.settings.seed}:{step}:{number}", stage, parts, self.phrasing)
            for number in range(stage.batch)
        ]
        hints = max(0.0, 1 - place / stage.hints) if stage.hints else 0.0
        rate = self._rate(step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        with self._precision():
            loss, figures = self.objective.compute(self.network, samples, hints, r)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        self.optimiser.step()
        return figures | {"loss": float(loss.detach()), "gradient": float(norm), "rate": rate}, len(samples)

    def _rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to a twentieth."""
        settings = self.settings
        warm = min(1.0, (step + 1) / settings.warmup)
        share = step / max(settings.steps, 1)
        return settings.learning_rate * warm * (_LOWEST_RATE + (1 - _LOWEST_RATE) * (1 + math.cos(math.pi * share)) / 2)

    def _precision(self) -> Any:
        if self.actor.dtype == torch.bfloat16:
            return torch.autocast(self.actor.device.type, torch.bfloat16)
        return nullcontext()

    def _identity(self) -> str:
        return json.dumps([self.settings.model_dump(), self.config["target_revision"]], sort_keys=True)

    def _load_state(self) -> None:
        with safe_open(self.folder / _STATE, framework="pt") as stored:
            facts = stored.metadata()
            if facts.get("settings") != self._identity():
                raise CheckpointError(f"{self.folder} holds a run of other settings or of another actor")
            tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a dict
        self.network.load_state_dict(
            {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
        )
        for name, parameter in self.network.named_parameters():
            if f"exp_avg.{name}" in tensors:
                self.optimiser.state[parameter] = {
                    "step": tensors[f"step.{name}"][0],
                    "exp_avg": tensors[f"exp_avg.{name}"].to(parameter.device),
                    "exp_avg_sq": tensors[f"exp_avg_sq.{name}"].to(parameter.device),
                }
        self.step = int(facts["step"])

"""The training loop: deterministic by seed and step, so that a run that was interrupted goes on exactly."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from remory import actors
from remory.errors import CheckpointError, InvalidInput
from remory.network import MemoryNetwork, load_checkpoint, save_checkpoint
from remory.network.config import SCHEMA, read_config
from remory.training.actor import TrainingActor
from remory.training.cache import TensorCache
from remory.training.check import Check
from remory.training.contract import write_contract
from remory.training.documents import Documents, read_documents
from remory.training.objective import Objective
from remory.training.phrasing import Phrasing
from remory.training.samples import Sample, draw_sample
from remory.training.settings import CHILDREN, StageSettings, TrainingSettings
from remory.training.sources import Own, Sources
from remory.training.statistics import generated_messages, measure_rms, measure_statistics, own_messages

_CLIP = 1.0
# No weight depends on these: a network may go on at another ratio.
_FREE = ("block_tokens", "compression_ratio", "local_window")
_LOWEST_RATE = 0.05
# Room for the prefix in front of a session, the summary and what is read behind it.
_AROUND = 512


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

    `folder` may hold an interrupted run of the same settings, actor, dtype, own data and start: then it goes on from
    there. `start`: a checkpoint whose weights the network begins with. `droppable`: a context for work that may be left
    by an exception at any point, after which the trainer is as it was before the step. Raises InvalidInput for an actor
    or own data that cannot be trained with and CheckpointError for a state or a start that does not fit.
    """

    STATE = "state.safetensors"

    def __init__(
        self,
        folder: Path,
        actor_folder: Path,
        settings: TrainingSettings,
        device: str = "cpu",
        *,
        dtype: torch.dtype | None = None,
        own: Own | None = None,
        start: Path | None = None,
        droppable: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.folder, self.settings = folder, settings
        self._droppable = droppable
        self.phrasing = Phrasing(actors.load_tokenizer(actor_folder))
        self.actor = TrainingActor(actor_folder, settings.network.layers, device, dtype)
        self._check_context()
        self._revision = actors.actor_revision(actor_folder)
        documents = read_documents(own.paths, self.phrasing, self.actor.vocabulary, self._revision) if own else None
        self.data = self._name_data(own, documents, start)
        rms = measure_rms(self.actor.embedding.weight)
        self.config = self._describe(actor_folder, rms)
        self._geometry = read_config(json.dumps(self.config))[1]
        self.network = MemoryNetwork(
            self._geometry, output_embedding_rms=rms, seed=settings.seed, device=self.actor.device
        )
        # Twice: the sessions of second compactions are others.
        held = max(1, *(2 * stage.pool for stage in settings.stages))
        self.objective = Objective(
            self.actor,
            self.config["summary_contract"],
            settings.losses,
            settings.network.strategy,
            held,
            settings.blur,
        )
        groups = [(self._parameters(decays=True), settings.weight_decay), (self._parameters(decays=False), 0.0)]
        self.optimiser = torch.optim.AdamW(
            [{"params": parameters, "weight_decay": decay} for parameters, decay in groups],
            lr=settings.learning_rate,
            betas=(0.9, 0.98),
        )
        self.step, self.samples, self.seconds = 0, 0, 0.0
        if self.has_state(folder):
            self._load_state()
        else:
            self._begin(documents, own.share if own else 0.0, start)
        self._share = own.share if own else 0.0
        self._sources = self._open_sources(own, documents) if own and documents else None

    @staticmethod
    def has_state(folder: Path) -> bool:
        """Whether a folder holds the state of a run."""
        return (folder / Trainer.STATE).is_file()

    def run(self) -> Iterator[Progress]:
        """Train to the end, a step at a time."""
        before = self.seconds
        began, samples = time.monotonic(), 0
        while self.step < self.settings.steps:
            figures, count = self._train_step(self.step)
            samples += count
            self.step += 1
            self.samples += count
            self.seconds = before + time.monotonic() - began
            yield Progress(self.step, self.settings.steps, figures, samples, time.monotonic() - began)

    def check(self, check: Check) -> dict[str, float]:
        """Figures of the development sets with the network as a checkpoint would have it now; see `Check.run`."""
        self.network.geometry = self._geometry
        # A signal waits until the copy path has its own strength again.
        with self._delivered(), self._droppable(), self._precision():
            return check.run(self.network, self.objective)

    def check_full(self, check: Check) -> dict[str, float]:
        """The same with the whole history in place of a memory; see `Check.run_full`."""
        with self._droppable(), self._precision():
            return check.run_full(self.actor)

    def save_state(self) -> None:
        """Write network, optimiser and step; the file appears whole or the one before stays.

        Raises OSError, with what went wrong.
        """
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                tensors[f"{key}.{name}"] = value.reshape(1) if value.dim() == 0 else value
        facts = {
            "step": str(self.step),
            "samples": str(self.samples),
            "seconds": str(self.seconds),
            "settings": json.dumps([self.settings.model_dump(), self._revision], sort_keys=True),
            "data": json.dumps(self.data, sort_keys=True),
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = self.folder / f".{self.STATE}"
        try:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, scratch, facts)
            with scratch.open("rb") as written:
                os.fsync(written.fileno())
            scratch.replace(self.folder / Trainer.STATE)
        except SafetensorError as error:
            raise OSError(str(error)) from error
        finally:
            scratch.unlink(missing_ok=True)

    def save_checkpoint(self, folder: Path, card: str | None = None) -> None:
        """Write the network as it is now as a checkpoint in bfloat16, with a model card (README.md) if there is one.

        The folder appears whole, in place of one that was there. Raises CheckpointError or OSError.
        """
        network = MemoryNetwork(self._geometry, dtype=torch.bfloat16)
        with self._delivered():
            network.load_state_dict(self.network.state_dict())
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
            made = Path(scratch) / folder.name
            try:
                save_checkpoint(made, network, self.config)
            except SafetensorError as error:
                raise OSError(str(error)) from error
            if card is not None:
                (made / "README.md").write_text(card)
            if folder.exists():
                folder.rename(Path(scratch) / "before")
            made.rename(folder)

    @contextmanager
    def _delivered(self) -> Iterator[None]:
        """The network with the copy path at the strength that its checkpoint has."""
        copied = self.network.get_parameter("pointer.value")
        trained = copied.detach().clone()
        with torch.no_grad():
            copied.mul_(self.settings.strength)
        try:
            yield
        finally:
            with torch.no_grad():
                copied.copy_(trained)

    @torch.no_grad()
    def _begin(self, documents: Documents | None, share: float, start: Path | None) -> None:
        """A fresh network, or the one of a checkpoint. What it is told of the text fits the actor in both cases."""
        settings, network = self.settings, self.network
        revision = self._start_from(start) if start else None
        if revision != self._revision:
            messages = own_messages(documents.documents) if documents else iter(())
            if share < 1:
                generated = generated_messages(self.phrasing, settings.seed, settings.statistics_sessions)
                messages = itertools.chain(generated, messages)
            idf, mean = measure_statistics(messages, self.actor.embedding.weight)
            network.get_buffer("pointer.idf").copy_(idf)
            network.get_buffer("pointer.mean").copy_(mean)
        if revision is None:
            network.get_parameter("base_gate").fill_(settings.base_gate)
            # Rows begin as the kept tokens alone: what is added to them at random only blurs them.
            network.get_parameter("pointer.value").mul_(settings.pointer_copy / 0.35)

    def _start_from(self, folder: Path) -> str:
        """Take over a checkpoint's weights; the revision of the actor that they were trained for."""
        found = load_checkpoint(folder, self.actor.device, torch.float32)
        layers = self.settings.network.layers
        if found.layer_ids != layers:
            raise CheckpointError(f"{folder} reads the layers {list(found.layer_ids)}, the settings say {list(layers)}")
        stated, needed = asdict(found.geometry), asdict(self._geometry)
        differing = [
            f"{name} {stated[name]} instead of {needed[name]}"
            for name in needed
            if stated[name] != needed[name] and name not in _FREE
        ]
        if differing:
            raise CheckpointError(f"{folder} does not fit the settings and the actor: it has {', '.join(differing)}")
        rms = self.network.get_buffer("output_embedding_rms").clone()
        self.network.load_state_dict(found.network.state_dict())
        self.network.get_buffer("output_embedding_rms").copy_(rms)
        # What is delivered is then what was there.
        self.network.get_parameter("pointer.value").div_(self.settings.strength)
        return found.settings.target_revision

    def _name_data(self, own: Own | None, documents: Documents | None, start: Path | None) -> dict[str, Any]:
        """All that steps depend on beside settings and actor, as a state states it."""
        return {
            "dtype": str(self.actor.dtype).removeprefix("torch."),
            "own data": documents.digest if documents else None,
            "share": own.share if own else 0.0,
            "start": load_checkpoint(start).manifest["safetensors_sha256"] if start else None,
        }

    def _open_sources(self, own: Own, documents: Documents) -> Sources:
        identity = json.dumps([self._revision, self.settings.network.layers, self.data["dtype"]])
        cache = TensorCache(own.cache, identity, own.cache_bytes)
        idf = self.network.get_buffer("pointer.idf")
        return Sources(documents, self.phrasing, self.actor, cache, idf, self.settings.network.ratio)

    def _check_context(self) -> None:
        longest = max(
            sum(stage.part_tokens(2 if stage.second_compactions else 1, self.settings.network.strategy))
            for stage in self.settings.stages
        )
        if longest + _AROUND > self.actor.context_length:
            raise InvalidInput(
                f"sessions of {longest} tokens and {_AROUND} around them are to be read; the actor's context has "
                f"{self.actor.context_length}"
            )

    def _describe(self, actor_folder: Path, rms: float) -> dict[str, Any]:
        """The content of the checkpoint's config.json."""
        sizes = self.settings.network
        return {
            "schema": SCHEMA,
            "target_model": actors.actor_name(actor_folder),
            "target_revision": self._revision,
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
                "strategy": sizes.strategy,
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
        merged = parts == 1 and stage.merges > 0 and r.random() < stage.merges
        # No weight depends on the length of a block, so short blocks can come first.
        shrunk = CHILDREN if merged else 1
        self.network.geometry = replace(
            self._geometry,
            block_tokens=stage.tokens // shrunk,
            compression_ratio=self._geometry.compression_ratio // shrunk,
        )
        rate = stage.rate * self._rate(step)
        hints = max(0.0, 1 - place / stage.hints) if stage.hints else 0.0
        with self._droppable():
            samples = [self._draw(stage, step, number, parts, r) for number in range(stage.batch)]
            with self._precision():
                loss, figures = self.objective.compute(self.network, samples, hints, r, stage.questions, merged)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), _CLIP)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        return figures | {"loss": float(loss.detach()), "gradient": float(norm), "rate": rate}, len(samples)

    def _draw(self, stage: StageSettings, step: int, number: int, parts: int, r: random.Random) -> Sample:
        rooms = stage.part_tokens(parts, self.settings.network.strategy)
        visit = f"{self.settings.seed}:{step}:{number}"
        session = f"{self.settings.seed}:pool:{r.randrange(stage.pool)}" if stage.pool else visit
        if self._sources and random.Random(f"{visit}:source").random() < self._share:
            return self._sources.draw(f"{visit}:own", stage, rooms)
        return draw_sample(session, visit, stage, rooms, self.phrasing)

    def _rate(self, step: int) -> float:
        """Linear warm-up, then a cosine down to a twentieth."""
        settings = self.settings
        warm = min(1.0, (step + 1) / settings.warmup)
        share = step / settings.scheduled_steps
        return settings.learning_rate * warm * (_LOWEST_RATE + (1 - _LOWEST_RATE) * (1 + math.cos(math.pi * share)) / 2)

    def _precision(self) -> Any:
        if self.actor.dtype == torch.bfloat16:
            return torch.autocast(self.actor.device.type, torch.bfloat16)
        return nullcontext()

    def _load_state(self) -> None:
        path = self.folder / Trainer.STATE
        try:
            with safe_open(path, framework="pt") as stored:
                facts = stored.metadata() or {}
                self._check_state(facts)
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a dict
        except SafetensorError as error:
            raise CheckpointError(f"{path} is damaged ({error}); --restart begins again") from error
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
        self.samples, self.seconds = int(facts.get("samples", 0)), float(facts.get("seconds", 0))

    def _check_state(self, facts: Mapping[str, str]) -> None:
        """Raise CheckpointError unless a state is one of this very run."""
        try:
            stated, revision = json.loads(facts["settings"])
            settings = TrainingSettings.model_validate(stated)
            data = {"own data": None, "share": 0.0, "start": None, **json.loads(facts.get("data", "{}"))}
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"{self.folder} holds a state that this version cannot read: {error}") from error
        ours, theirs = self.settings.model_dump(), settings.model_dump()
        # How far it is to go changes no step: a run may be stopped earlier, or go on beyond.
        differing = [name for name in ours if ours[name] != theirs[name] and name != "stop_after"]
        differing += ["actor"] if revision != self._revision else []
        differing += [name for name in data if data[name] != self.data.get(name)]
        if differing:
            raise CheckpointError(
                f"{self.folder} holds a run with other {', '.join(differing)}: give the same as before, another --out, "
                "or --restart to begin again"
            )

"""`remory train`: runs a trainer in a folder, shows how it goes, and stops it without losing anything."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from remory import actors
from remory.errors import InvalidInput, RemoryError
from remory.training import curves
from remory.training.card import write_card
from remory.training.check import Check
from remory.training.interruption import Interruption, Stopped
from remory.training.journal import Journal, Record
from remory.training.settings import TrainingSettings, load_settings, preset_names
from remory.training.sources import Own
from remory.training.trainer import Progress as Step
from remory.training.trainer import Trainer

CHECKPOINT, LOG = "checkpoint", "log.jsonl"
_LOG_EVERY = 10
_DEFAULT_SHARE = 0.5
_SECONDS_A_MINUTE = 60
_PLAIN_WIDTH = 150


def run(options: argparse.Namespace) -> int:
    """Train as the command line asks for it; returns the exit code. Raises RemoryError or OSError."""
    began = time.monotonic()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    with Interruption() as interruption:
        try:
            with interruption.droppable():
                settings, own = _load_settings(options), _own(options)
                options.out.mkdir(parents=True, exist_ok=True)
            with _lock(options.out):
                with interruption.droppable():
                    trainer = _open(options, settings, own, interruption, console)
                _Run(options, trainer, interruption, console, began).go()
        except Stopped:
            return interruption.exit_code
    return 0


def _load_settings(options: argparse.Namespace) -> TrainingSettings:
    changes = {} if options.seed is None else {"seed": options.seed}
    if options.preset is not None and options.preset not in preset_names():
        raise InvalidInput(f"there is no preset {options.preset!r}: choose from {', '.join(preset_names())}")
    return load_settings(options.preset or options.config, changes)


def _own(options: argparse.Namespace) -> Own | None:
    share = options.share if options.share is not None else _DEFAULT_SHARE if options.sources else 0.0
    if share and not options.sources:
        raise InvalidInput(f"--share {share:g} says how much comes from --from, but there is no --from")
    if not share:
        return None
    cache = options.cache or options.out / "cache"
    return Own(tuple(options.sources), share, cache, options.cache_bytes)


def _open(
    options: argparse.Namespace,
    settings: TrainingSettings,
    own: Own | None,
    interruption: Interruption,
    console: Console,
) -> Trainer:
    folder = options.out
    if options.restart:
        _clear(folder)
    elif not Trainer.has_state(folder) and (folder / CHECKPOINT).exists():
        raise InvalidInput(f"{folder} holds a checkpoint but no state to go on from: give another --out, or --restart")
    actor = actors.resolve_actor(options.model, console.print)
    console.print(f"training for {actors.actor_name(actor)} in {folder}")
    trainer = Trainer(
        folder,
        actor,
        settings,
        options.device,
        dtype=None if options.dtype is None else getattr(torch, options.dtype),
        own=own,
        start=options.start,
        droppable=interruption.droppable,
    )
    if trainer.step:
        console.print(f"going on after step {trainer.step:,} of {settings.steps:,}")
    return trainer


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Two processes on one run would overwrite each other's state."""
    with (folder / ".lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RemoryError(f"another process is training in {folder}") from error
        yield


def _clear(folder: Path) -> None:
    """Delete what a run leaves behind, but nothing else and not the cache, which stays valid."""
    for name in (Trainer.STATE, LOG, curves.FILE):
        (folder / name).unlink(missing_ok=True)
    if (folder / CHECKPOINT).is_dir():
        shutil.rmtree(folder / CHECKPOINT)


class _Run:
    """One process's part of a run."""

    def __init__(
        self, options: argparse.Namespace, trainer: Trainer, interruption: Interruption, console: Console, began: float
    ) -> None:
        self._options, self._trainer, self._interruption, self._console = options, trainer, interruption, console
        self._folder: Path = options.out
        self._began = began
        self._journal = Journal(self._folder / LOG)
        self._check = Check(trainer.phrasing, trainer.settings.network.block_tokens) if options.check_every else None
        self._saved, self._saved_at = (trainer.step if trainer.has_state(self._folder) else -1), time.monotonic()
        self._figures: dict[str, list[float]] = defaultdict(list)
        self._window = (time.monotonic(), 0)
        self._check_seconds, self._step_seconds = 0.0, 0.0
        self._progress = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=trainer.settings.steps, completed=trainer.step, figures="")

    def go(self) -> None:
        """Train until the end, the time or a signal; then save, and unless it was a signal write the checkpoint."""
        try:
            with self._progress:
                self._journal.rewind(self._trainer.step if self._trainer.has_state(self._folder) else None)
                self._measure_start()
                self._train()
                if self._check:
                    self._run_check()
            self._save()
            self._write_checkpoint()
        except Stopped:
            self._save()
            again = "the same command without --restart" if self._options.restart else "the same command"
            self._console.print(f"stopped and saved after step {self._trainer.step:,}; {again} goes on from there")
            raise
        except OSError as error:
            raise RemoryError(self._describe(error)) from error

    def _train(self) -> None:
        before = time.monotonic()
        for step in self._trainer.run():
            now = time.monotonic()
            self._step_seconds, before = max(self._step_seconds * 0.9, now - before), now
            self._note(step)
            if step.step % _LOG_EVERY == 0 or step.step == step.steps:
                self._log(step)
            if self._check and step.step % self._options.check_every == 0:
                self._run_check()
            if time.monotonic() - self._saved_at >= self._options.save_every:
                self._save()
            self._interruption.check()
            if self._time_is_up() and step.step < step.steps:
                if self._figures:
                    self._log(step)
                self._say(f"stopping after step {step.step:,} of {step.steps:,}: {self._options.minutes:g} minutes")
                return
            before = time.monotonic()

    def _measure_start(self) -> None:
        """The figures to compare with: the whole history read, and the network as it begins."""
        if self._check is None:
            return
        if not self._check.samples:
            self._say("fewer than three development sessions fit a block of this network: there will be no checks")
            self._check = None
            return
        if self._journal.full() is None:
            full = self._trainer.check_full(self._check)
            self._journal.append({"full": _round(full)})
            self._say(f"development sets, whole history: {_tell(full)}")
        if self._trainer.step == 0:
            self._run_check()

    def _run_check(self) -> None:
        step = self._trainer.step
        if self._check is None or any(check["step"] == step for check in self._journal.checks()):
            return
        began = time.monotonic()
        figures = self._trainer.check(self._check)
        self._check_seconds = time.monotonic() - began
        self._journal.append({"step": step, "check": _round(figures)})
        self._say(
            f"development sets after step {step:,}: {_tell(figures)}; {_tell(figures, '_other')} with another's; "
            f"harm {figures['harm']:+.3f}"
        )
        self._draw()

    def _note(self, step: Step) -> None:
        for name, value in step.figures.items():
            self._figures[name].append(value)
        seconds, samples = time.monotonic() - self._window[0], step.samples - self._window[1]
        rate = samples / seconds if seconds else 0.0
        figures = {name: values[-1] for name, values in self._figures.items()}
        shown = [f"{name} {figures[name]:.3f}" for name in ("loss", "answer") if name in figures]
        shown += [f"{rate:.2f} samples/s", f"{_clock(self._left(step))} left"]
        self._progress.update(self._task, completed=step.step, figures="  ".join(shown))

    def _log(self, step: Step) -> None:
        now = time.monotonic()
        seconds, samples = now - self._window[0], step.samples - self._window[1]
        means = {name: sum(values) / len(values) for name, values in self._figures.items()}
        record = {"step": step.step, "seconds": self._trainer.seconds, "samples_per_second": samples / seconds}
        self._journal.append(_round(record | means))
        if not self._console.is_terminal:
            told = "  ".join(f"{name} {means[name]:.3f}" for name in ("loss", "answer", "exact") if name in means)
            self._say(
                f"step {step.step:,} of {step.steps:,}  {told}  {samples / seconds:.2f} samples/s  "
                f"{_clock(self._left(step))} left"
            )
        self._figures.clear()
        self._window = (now, step.samples)

    def _left(self, step: Step) -> float:
        """Seconds that are left, from the mean step of this process, or until the time is up."""
        done = step.seconds / max(step.samples, 1) * self._trainer.settings.samples_after(step.step)
        if self._options.minutes is None:
            return done
        return min(done, self._options.minutes * _SECONDS_A_MINUTE - (time.monotonic() - self._began))

    def _time_is_up(self) -> bool:
        """Whether another step, and the check at the end, would take longer than was given."""
        if self._options.minutes is None:
            return False
        needed = time.monotonic() - self._began + self._step_seconds + self._check_seconds
        return needed > self._options.minutes * _SECONDS_A_MINUTE

    def _save(self) -> None:
        if self._trainer.step != self._saved:
            try:
                self._trainer.save_state()
            except OSError as error:
                raise RemoryError(self._describe(error)) from error
            self._saved = self._trainer.step
        self._saved_at = time.monotonic()

    def _write_checkpoint(self) -> None:
        checks = self._journal.checks()
        card = write_card(self._trainer, checks[-1] if checks else None, self._journal.full())
        self._trainer.save_checkpoint(self._folder / CHECKPOINT, card)
        self._draw()
        steps = f"{self._trainer.step:,} of {self._trainer.settings.steps:,} steps"
        self._console.print(f"{steps}; checkpoint in {self._folder / CHECKPOINT}: remory serve --checkpoint takes it")

    def _draw(self) -> None:
        if curves.can_draw():
            curves.draw_curves(self._journal, self._folder / curves.FILE)

    def _describe(self, error: OSError) -> str:
        """What a failed write means: nothing that was saved is lost."""
        kept = f"the state after step {self._saved:,} stays" if self._saved >= 0 else "no state was saved yet"
        return (
            f"could not write into {self._folder} after step {self._trainer.step:,}: {error}; {kept}. "
            "Make room and give the same command again"
        )

    def _say(self, text: str) -> None:
        self._progress.console.print(text)


def _round(record: Record) -> Record:
    """Six significant digits; steps stay whole."""
    return {name: value if isinstance(value, int) else float(f"{value:.6g}") for name, value in record.items()}


def _tell(figures: Record, suffix: str = "") -> str:
    return f"{figures['exact' + suffix]:.1%} right, loss {figures['loss' + suffix]:.2f}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(max(int(seconds), 0), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"

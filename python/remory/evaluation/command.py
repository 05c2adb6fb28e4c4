"""`remory eval`: plays sets of sessions on a server and shows what its memory carries."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from remory.client import Client
from remory.demo import SUMMARY_SAMPLING
from remory.errors import InvalidInput, RemoryError
from remory.evaluation.player import Plan, Player
from remory.evaluation.plots import can_plot, write_plots
from remory.evaluation.report import print_report, write_markdown
from remory.evaluation.results import FILE, Results
from remory.evaluation.sets import SessionSet, held_out_sets, load_set
from remory.local_server import serving

TABLE = "table.md"
_QUICK_SESSIONS, _QUICK_QUESTIONS = 2, 2
_PLAIN_WIDTH = 150
# Nothing here recalls from a history, so our own server need not keep it.
_SERVE = ("--no-keep-history",)

Record = dict[str, Any]


def run(options: argparse.Namespace) -> int:
    """Evaluate as the command line asks for it; returns the exit code. Raises RemoryError."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    sets = _load_sets(options.set)
    plan = _plan(options)
    count = options.sessions or (_QUICK_SESSIONS if options.quick else None)
    with serving(options, console, "eval", _SERVE) as url, _client(url, options.key) as client:
        info = client.info()
        if info["checkpoint"] is None:
            raise RemoryError(f"{client.base_url} serves without a memory checkpoint: start it with --checkpoint")
        results = Results(_settings(sets, plan, info), info, options.out, options.seed)
        _play(console, client, sets, plan, count, results)
    figures = results.figures()
    print_report(console, figures)
    if options.out is not None:
        _write(console, results, figures, options.out)
    return 0


def _load_sets(names: Sequence[str] | None) -> list[SessionSet]:
    chosen = list(dict.fromkeys(names or held_out_sets()))
    if not chosen:
        raise InvalidInput("this package comes without held-out sets: name one with --set")
    sets = [load_set(name) for name in chosen]
    told = [one.name for one in sets]
    if len(set(told)) < len(told):
        raise InvalidInput(
            f"two sets call themselves {max(told, key=told.count)!r}: their results could not be told apart"
        )
    return sets


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(options.arms, options.stages, _QUICK_QUESTIONS if options.quick else None)


def _settings(sets: Sequence[SessionSet], plan: Plan, info: Record) -> Record:
    """All that a session's figures depend on. The number of sessions does not belong to it: more may follow later."""
    return {
        "sets": {one.name: one.sha256 for one in sets},
        "arms": list(plan.arms),
        "stages": list(plan.stages),
        "questions_per_part": plan.questions_per_part,
        "summary_sampling": SUMMARY_SAMPLING,
        "actor": info["actor"]["revision"],
        "dtype": info["actor"]["dtype"],
        "checkpoint": info["checkpoint"]["identity"],
    }


@contextmanager
def _client(url: str, key: str | None) -> Iterator[Client]:
    """A client with a session of its own, whose memories are gone at the end."""
    with Client(url, session=f"eval-{secrets.token_hex(4)}", key=key) as client:
        try:
            yield client
        finally:
            # What ended the evaluation may have been the server's end; that is what is to be told.
            with suppress(RemoryError):
                for memory in client.memories():
                    client.delete(memory["handle"])


def _play(
    console: Console, client: Client, sets: Sequence[SessionSet], plan: Plan, count: int | None, results: Results
) -> None:
    todo = [
        (one, place)
        for one in sets
        for place in range(len(one.sessions[:count]))
        if plan.stages_of(one, place) and not results.has(one.name, one.sessions[place].id)
    ]
    if results.sessions:
        played = "1 session was" if len(results.sessions) == 1 else f"{len(results.sessions)} sessions were"
        console.print(f"{played} played before; {len(todo)} are left")
    if not todo and not results.sessions:
        raise InvalidInput(f"no session has as many parts as the first stage, {min(plan.stages)}, asks for")
    with _showing_progress(console, sum(plan.requests(one, place) for one, place in todo)) as progress:
        for one in sets:
            player = Player(client, results.server, one, plan, progress.tick)
            for place in (place for other, place in todo if other is one):
                progress.begin(f"{one.name}, {one.sessions[place].id}")
                results.add(player.play(place))
                progress.end()


class _Progress:
    """Where the evaluation stands: a bar on a terminal, else a line for each session."""

    def __init__(self, console: Console, bar: Progress, total: int):
        self._console, self._bar, self._total = console, bar, total
        self._task = bar.add_task("", total=total, left="")
        self._began = time.monotonic()
        self._done = 0
        self._name = ""

    def begin(self, name: str) -> None:
        self._name = name
        self._bar.update(self._task, description=name)

    def tick(self) -> None:
        self._done += 1
        self._bar.update(self._task, completed=self._done, left=self._left())

    def end(self) -> None:
        if not self._console.is_terminal:
            spent = _minutes(time.monotonic() - self._began)
            self._console.print(f"{self._name} is done after {spent}; {self._left()}")

    def _left(self) -> str:
        spent = time.monotonic() - self._began
        return f"about {_minutes(spent / self._done * max(self._total - self._done, 0))} left" if self._done else ""


@contextmanager
def _showing_progress(console: Console, total: int) -> Iterator[_Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _Progress(console, bar, total)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _write(console: Console, results: Results, figures: Record, folder: Path) -> None:
    results.save()
    (folder / TABLE).write_text(write_markdown(figures))
    written = [folder / FILE, folder / TABLE]
    if can_plot():
        written += write_plots(figures, folder)
    else:
        console.print("There are no pictures, for matplotlib is not installed: pip install 'remory[plots]'")
    console.print(f"Written: {', '.join(map(str, written))}")

"""`remory reembed`: its bar, its lines and its exit code."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from remory.language.embedder import EndpointEmbedder, load_embedder
from remory_service.config import Endpoint
from remory_service.reembedding import Progress, Reembedding, prune, stored_vectors
from remory_service.store.database import StoreUnusable, close_store, open_store, store_path

LINE_SECONDS = 10
_STOPPED = 130


def run(data: Path, store: str | None, chosen: str | Endpoint | None, device: str, pruning: bool) -> int:
    """Bring a store over to the chosen embedding model; returns the exit code.

    1 when the model refused some texts, 130 when it was stopped. Progress goes to stderr, the result to stdout. Raises
    InvalidInput, EmbedderFailed, StoreUnusable or, with `pruning`, StillLacking.
    """
    told = Console(stderr=True, highlight=False, markup=False)
    if store is None and not store_path(data).exists():
        raise StoreUnusable(f"there is no store at {store_path(data)}: name its folder with --data")
    open_store(data, store)
    try:
        embedder = _load(chosen, device)
        work = Reembedding(embedder)
        try:
            with _Display(told) as display:
                work.run(display)
        except KeyboardInterrupt:
            told.print(f"stopped with {work.progress.done:,} passages done and about {work.progress.left:,} left")
            return _STOPPED
        if work.progress.refused:
            told.print(f"the model refused {work.progress.refused:,} texts: {work.progress.reason}")
        _finish(embedder.model, work.progress, pruning)
    finally:
        close_store()
    return 1 if work.progress.refused else 0


class _Display:
    """Shows progress: a bar on a terminal, else a line now and then. Called with each progress."""

    def __init__(self, console: Console):
        self._console = console
        self._began = self._told = time.monotonic()
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task("passages", total=None)

    def __enter__(self) -> _Display:
        self._bars.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        self._bars.update(self._task, completed=progress.done, total=progress.done + progress.left)
        now = time.monotonic()
        if self._bars.disable and now - self._told >= LINE_SECONDS:
            self._told = now
            self._console.print(_line(progress, now - self._began))


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        rate = task.finished_speed or task.speed
        return Text("" if rate is None else f"{rate:,.0f} a second")


def _line(progress: Progress, seconds: float) -> str:
    rate = progress.done / seconds if seconds else 0.0
    left = f", about {progress.left / rate:,.0f} s left" if rate else ""
    return f"{progress.done:,} of {progress.done + progress.left:,} passages, {rate:,.1f} a second{left}"


def _finish(model: str, progress: Progress, pruning: bool) -> None:
    shown = Console(highlight=False, markup=False)
    shown.print(f"{progress.done:,} passages got a vector of {model}")
    if pruning:
        shown.print(f"{prune(model):,} vectors of other models were removed")
    models = Table("model", "dimension", "passages", title="vectors in the store", title_justify="left")
    for stored in stored_vectors():
        models.add_row(stored.model, str(stored.dimension), f"{stored.passages:,}")
    shown.print(models)


def _load(chosen: str | Endpoint | None, device: str) -> Any:
    if isinstance(chosen, Endpoint):
        return EndpointEmbedder(chosen.url, chosen.model, chosen.key)
    return load_embedder(chosen, device)

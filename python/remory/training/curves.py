"""curves.png of a run: its losses, and how many questions of the development set it answers; needs matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from remory.training.journal import Journal, Record

FILE = "curves.png"
_LOSSES = {
    "answer": "answers",
    "salience": "choice of tokens",
    "continuation": "text that follows",
    "distilled": "text that follows, own data",
    "unrelated": "unrelated text",
}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_curves(journal: Journal, path: Path) -> None:
    """Write the picture, in place of one that is there. Raises OSError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.6), layout="constrained")
    losses, checks = figure.subplots(1, 2)
    _draw_losses(losses, journal.steps())
    _draw_checks(checks, journal.checks(), journal.full())
    scratch = path.with_name(f".{path.name}")
    figure.savefig(scratch, dpi=130, format="png")
    scratch.replace(path)


def _draw_losses(axes: Any, records: list[Record]) -> None:
    for number, (name, label) in enumerate(_LOSSES.items()):
        points = [(record["step"], record[name]) for record in records if name in record]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, color=f"C{number}", linewidth=1.2)
    axes.set(title="training", xlabel="step", ylabel="loss, nats a token")
    _finish(axes)


def _draw_checks(axes: Any, checks: list[Record], full: Record | None) -> None:
    steps = [check["step"] for check in checks]
    for name, label, colour in (("exact", "own memory", "C0"), ("exact_other", "another session's memory", "C3")):
        axes.plot(steps, [100 * check[name] for check in checks], "o-", label=label, color=colour, markersize=3)
    if full:
        axes.axhline(100 * full["exact"], label="whole history", color="C2", linestyle="--")
    axes.set(title="development set", xlabel="step", ylabel="answers exactly right, %")
    _finish(axes)
    axes.set_ylim(0, max(axes.get_ylim()[1], 5.0))


def _finish(axes: Any) -> None:
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)

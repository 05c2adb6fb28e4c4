"""curves.png of a run: its losses, and what it makes of the development sets' questions; needs matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from remory.training.journal import Journal, Record

FILE = "curves.png"
_LOSSES = {
    "answer": "answers",
    "salience": "choice of tokens",
    "following": "text that follows",
    "unrelated": "unrelated text",
}


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_curves(journal: Journal, path: Path) -> None:
    """Write the picture, in place of one that is there. Raises OSError."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15.0, 4.6), layout="constrained")
    losses, answers, right = figure.subplots(1, 3)
    _draw_losses(losses, journal.steps())
    _draw_checks(answers, journal, "loss", "loss of the answers, nats a token", 1)
    _draw_checks(right, journal, "exact", "answers exactly right, %", 100)
    right.set_ylim(0, max(right.get_ylim()[1], 5.0))
    scratch = path.with_name(f".{path.name}")
    figure.savefig(scratch, dpi=110, format="png")
    scratch.replace(path)


def _draw_losses(axes: Any, records: list[Record]) -> None:
    for number, (name, label) in enumerate(_LOSSES.items()):
        points = [(record["step"], record[name]) for record in records if name in record]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, color=f"C{number}", linewidth=1.2)
    axes.set(title="training", xlabel="step", ylabel="loss, nats a token")
    _finish(axes)


def _draw_checks(axes: Any, journal: Journal, name: str, label: str, unit: int) -> None:
    checks, full = journal.checks(), journal.full()
    steps = [check["step"] for check in checks]
    for suffix, words, colour in (("", "own memory", "C0"), ("_other", "another session's memory", "C3")):
        axes.plot(steps, [unit * check[name + suffix] for check in checks], "o-", label=words, color=colour, ms=3)
    if full:
        axes.axhline(unit * full[name], label="whole history", color="C2", linestyle="--")
    axes.set(title="development sets", xlabel="step", ylabel=label)
    _finish(axes)


def _finish(axes: Any) -> None:
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)

"""Pictures of an evaluation; they need matplotlib (the extra `plots`)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from remory.evaluation import arms
from remory.evaluation.aggregates import ALL

Record = dict[str, Any]

BY_STAGE, BY_AGE = "exact_match_by_stage.png", "exact_match_by_age.png"


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def write_plots(results: Record, folder: Path) -> list[Path]:
    """Both pictures as PNG files in an existing folder; their paths."""
    from matplotlib.figure import Figure

    written = []
    for name, draw, size in ((BY_STAGE, _draw_stages, (10.0, 5.0)), (BY_AGE, _draw_ages, (10.0, 5.0))):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure, results["aggregates"][ALL])
        figure.savefig(folder / name, dpi=130)
        written.append(folder / name)
    return written


def _draw_stages(figure: Any, stages: Record) -> None:
    axes = figure.subplots()
    names = _names(stages)
    width = 0.8 / len(names)
    for place, arm in enumerate(names):
        drawn = [
            (spot, stage["arms"][arm]["exact_match"])
            for spot, stage in enumerate(stages.values())
            if arm in stage["arms"]
        ]
        spots = [spot + (place - (len(names) - 1) / 2) * width for spot, _ in drawn]
        heights, errors = _bars([one for _, one in drawn])
        axes.bar(spots, heights, width, yerr=errors, capsize=3, label=arms.LABELS[arm], color=_colour(arm))
    axes.set_xticks(range(len(stages)), [_stage_words(number, stage) for number, stage in stages.items()])
    _finish(axes, "")


def _draw_ages(figure: Any, stages: Record) -> None:
    grid = figure.subplots(1, len(stages), sharey=True, squeeze=False)[0]
    for axes, (number, stage) in zip(grid, stages.items(), strict=True):
        for arm in _names(stages):
            if arm in stage["arms"]:
                ages = {age: one["exact_match"] for age, one in stage["arms"][arm]["by_age"].items()}
                heights, errors = _bars(list(ages.values()))
                axes.errorbar(
                    list(ages), heights, yerr=errors, capsize=3, marker="o", label=arms.LABELS[arm], color=_colour(arm)
                )
        axes.set_title(_stage_words(number, stage), fontsize=9)
        axes.tick_params(axis="x", labelrotation=45)
        _finish(axes, "tokens between the answer and the end of what was removed", legend=axes is grid[0])


def _names(stages: Record) -> list[str]:
    return [arm for arm in arms.ARMS if any(arm in stage["arms"] for stage in stages.values())]


def _bars(figures: list[Record]) -> tuple[list[float], list[list[float]]]:
    """Heights in percent, and how far the interval reaches below and above (0 where there is none)."""
    heights = [100 * (one["value"] or 0.0) for one in figures]
    pairs = [(one["low"], one["high"]) for one in figures]
    below = [0.0 if low is None else height - 100 * low for height, (low, _) in zip(heights, pairs, strict=True)]
    above = [0.0 if high is None else 100 * high - height for height, (_, high) in zip(heights, pairs, strict=True)]
    return heights, [[max(value, 0.0) for value in side] for side in (below, above)]


def _colour(arm: str) -> str:
    return f"C{arms.ARMS.index(arm)}"


def _stage_words(number: str, stage: Record) -> str:
    return f"after {number} compaction{'' if number == '1' else 's'}\n1 row for {stage['ratio']:.0f} tokens"


def _finish(axes: Any, label: str, legend: bool = True) -> None:
    axes.set_ylim(0, 100)
    axes.set_ylabel("right, %")
    axes.set_xlabel(label, fontsize=9)
    axes.grid(axis="y", alpha=0.3)
    if legend:
        axes.legend(fontsize=7)

"""Pictures of a run; they need matplotlib (the extra `plots`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.kernels.figures import Figure, Run
from bench.kernels.fit import fit_exponent
from bench.kernels.table import growth_of, mean_speed_up

_COLOURS = {"float32": "#3b6fb6", "bfloat16": "#d9822b", "float16": "#5a9e6f"}
_BAR_HEIGHT = 0.24


def can_plot() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def write_plots(run: Run, folder: Path) -> list[Path]:
    """Speed-ups, shares of the ceilings, and a picture of each growth, as PNG in an existing folder; their paths."""
    ops, growth = run.of_group("ops"), run.of_group("growth")
    written = []
    with_gain = [figure for figure in ops if figure.speed_up is not None]
    if with_gain:
        mean = mean_speed_up(ops)
        label = f"times faster than the best alternative of the same run (geometric mean {mean:.2f})"
        values = [figure.speed_up for figure in with_gain]
        notes = [figure.best_other for figure in with_gain]
        written.append(_save(_bars(with_gain, values, notes, label), folder / "speed_up.png"))
    with_share = [figure for figure in ops if figure.share is not None]
    if with_share:
        values = [100 * figure.share for figure in with_share]
        notes = [figure.limit.kind.replace("product", "GEMM") for figure in with_share]
        written.append(_save(_bars(with_share, values, notes, "% of the ceiling", 100.0), folder / "ceiling_share.png"))
    for series in dict.fromkeys(figure.parameters["series"] for figure in growth):
        written.append(_save(_growth(series, growth), folder / f"growth_{series}.png"))
    return written


def _bars(
    figures: Sequence[Figure], values: Sequence[float], notes: Sequence[str], label: str, line: float = 1.0
) -> Any:
    from matplotlib.figure import Figure as Picture
    from matplotlib.patches import Patch

    picture = Picture(figsize=(11, 1.5 + _BAR_HEIGHT * len(figures)), layout="constrained")
    axes = picture.subplots()
    axes.barh(range(len(figures)), values, color=[_COLOURS[figure.dtype] for figure in figures])
    axes.set_yticks(range(len(figures)), [f"{figure.op}: {figure.case}" for figure in figures], fontsize=8)
    for place, (value, note) in enumerate(zip(values, notes, strict=True)):
        axes.text(value, place, f" {value:.{0 if line == 100 else 2}f} {note}", va="center", fontsize=7)
    axes.axvline(line, color="0.3", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.3 * max(*values, line))
    axes.margins(y=0.01)
    axes.set_xlabel(label)
    drawn = dict.fromkeys(figure.dtype for figure in figures)
    axes.legend(handles=[Patch(color=_COLOURS[dtype], label=dtype) for dtype in drawn], loc="lower right")
    return picture


def _growth(series: str, figures: Sequence[Figure]) -> Any:
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(7, 5), layout="constrained")
    axes = picture.subplots()
    for name, points in growth_of(series, figures).items():
        fit = fit_exponent(points)
        label = name if fit is None else f"{name}: size^{fit[0]:.2f}"
        axes.plot(list(points), list(points.values()), marker="o", linewidth=1.2, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel({"search": "vectors of 64 dimensions", "encode": "tokens"}[series])
    axes.set_ylabel("seconds")
    axes.grid(alpha=0.3)
    axes.legend()
    return picture


def _save(picture: Any, path: Path) -> Path:
    picture.savefig(path, dpi=110)
    return path

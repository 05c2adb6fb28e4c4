"""The table a person reads, as text and as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.kernels import machine
from bench.kernels.bars import Bar, bars
from bench.kernels.figures import Figure, Run
from bench.kernels.fit import fit_exponent

Rows = list[list[str]]
HEAD = ["op", "case", "dtype", "time", "rate", "x best other", "which", "of ceiling"]
_RIGHT = {"time", "rate", "x best other", "of ceiling"}
_NOTHING = "-"
_KINDS = {"copy": "copy", "read": "read", "product": "GEMM"}


def as_text(run: Run) -> str:
    parts = [machine.sentence(run.machine)]
    if run.machine.get("quick"):
        parts.append("A quick run: it shows that everything runs, and its figures mean nothing.")
    for title, head, rows in _sections(run):
        parts.append(f"{title}\n{_align(head, rows)}")
    return "\n\n".join(parts) + "\n"


def as_markdown(run: Run) -> str:
    parts = []
    for title, head, rows in _sections(run):
        rule = ["---:" if name in _RIGHT else "---" for name in head]
        lines = ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]
        parts.append(f"**{title}**\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def mean_speed_up(figures: Sequence[Figure]) -> float | None:
    """Geometric mean over the best alternative of each case that has one."""
    gains = [figure.speed_up for figure in figures if figure.speed_up is not None]
    return statistics.geometric_mean(gains) if gains else None


def _sections(run: Run) -> list[tuple[str, list[str], Rows]]:
    found: list[tuple[str, list[str], Rows]] = []
    ceilings = [[f.op, f.case, f.dtype, time_words(f.seconds), _rate(f)] for f in run.of_group("ceilings")]
    if ceilings:
        found.append(("ceilings", ["ceiling", "size", "dtype", "time", "rate"], ceilings))
    ops = run.of_group("ops")
    if ops:
        rows = [_row(figure) for figure in ops]
        mean = mean_speed_up(ops)
        if mean is not None:
            rows.append(["geometric mean", "", "", "", "", f"{mean:.2f}", "", ""])
        found.append(("ops", HEAD, rows))
    found += _other_ways(ops)
    found += _memory(ops)
    found += [_growth(series, run.of_group("growth")) for series in _series(run)]
    if not run.machine.get("quick"):
        found.append(("bars", ["bar", "measured", ""], [_bar(bar) for bar in bars(run.figures)]))
    if run.failed:
        rows = [[one["op"], one["case"], one["dtype"], one["error"]] for one in run.failed]
        found.append(("failed", ["op", "case", "dtype", "why"], rows))
    return found


def _row(figure: Figure) -> list[str]:
    gain, share = figure.speed_up, figure.share
    return [
        figure.op,
        figure.case,
        figure.dtype,
        time_words(figure.seconds),
        _rate(figure),
        _NOTHING if gain is None else f"{gain:.2f}",
        figure.best_other or _NOTHING,
        _NOTHING if share is None or figure.limit is None else f"{share:.0%} {_KINDS[figure.limit.kind]}",
    ]


def _other_ways(figures: Sequence[Figure]) -> list[tuple[str, list[str], Rows]]:
    """Every alternative's time, and why one has none."""
    rows = []
    for figure in figures:
        ways = [f"{name} {time_words(seconds)}" for name, seconds in sorted(figure.others.items(), key=lambda x: x[1])]
        ways += [f"{name}: {why}" for name, why in figure.absent.items()]
        if ways:
            rows.append([figure.op, figure.case, figure.dtype, "; ".join(ways)])
    return [("alternatives", ["op", "case", "dtype", "times, fastest first"], rows)] if rows else []


def _memory(figures: Sequence[Figure]) -> list[tuple[str, list[str], Rows]]:
    rows = []
    for figure in figures:
        peak = figure.notes.get("peak_bytes")
        if peak:
            words = [f"{way} {nbytes / 2**20:,.0f} MiB" for way, nbytes in peak.items()]
            rows.append([figure.op, figure.case, figure.dtype, "; ".join(words)])
    return [("peak memory beyond inputs and weights", ["op", "case", "dtype", "peak"], rows)] if rows else []


def _series(run: Run) -> list[str]:
    return list(dict.fromkeys(figure.parameters["series"] for figure in run.of_group("growth")))


def growth_of(series: str, figures: Sequence[Figure]) -> dict[str, dict[int, float]]:
    """Seconds by size of the op, under its name, and of each alternative."""
    found: dict[str, dict[int, float]] = {}
    for figure in figures:
        if figure.has(series=series):
            for name, seconds in {figure.op: figure.seconds, **figure.others}.items():
                found.setdefault(name, {})[figure.parameters["size"]] = seconds
    return found


def _growth(series: str, figures: Sequence[Figure]) -> tuple[str, list[str], Rows]:
    lines = growth_of(series, figures)
    sizes = sorted({size for points in lines.values() for size in points})
    rows = [
        [f"{size:,}", *(time_words(points[size]) if size in points else _NOTHING for points in lines.values())]
        for size in sizes
    ]
    fits = [fit_exponent(points) for points in lines.values()]
    rows.append(["fitted exponent", *(_NOTHING if fit is None else f"{fit[0]:.2f}" for fit in fits)])
    return f"growth: {series}", ["size", *lines], rows


def _bar(bar: Bar) -> list[str]:
    return [bar.promise, bar.measured, {True: "met", False: "MISSED", None: "not measured"}[bar.met]]


def time_words(seconds: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"


def _rate(figure: Figure) -> str:
    return f"{figure.rate / 1e9:,.1f} {'GFLOP/s' if figure.counts_flops else 'GB/s'}"


def _align(head: list[str], rows: Rows) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]

    def line(cells: list[str]) -> str:
        padded = (
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(cells, widths, head, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *map(line, rows)])

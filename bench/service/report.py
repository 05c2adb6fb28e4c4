"""What was seen, as tables, and beside the bars that were set."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from bench.service.cases import Figures
from bench.service.search import SearchFigures
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Bar:
    """Something that was promised, what was seen, and whether that is enough; `met` None: it was not measured."""

    promise: str
    seen: str
    met: bool | None


READS, WRITES, SETS, SLOWEST_MS = 1500, 800, 800, 60
OP_FACTOR, OP_MS, RESTARTED_MS = 1.3, 5, 3000


def bars(cases: Sequence[Figures], search: SearchFigures | None) -> list[Bar]:
    """The bars of the scoped memory, for 16 clients on 2 processors, SQLite and 100,000 vectors."""
    found = []
    for name, rate, slowest in (
        ("value reads", READS, SLOWEST_MS),
        ("durable value writes", WRITES, SLOWEST_MS),
        ("sets of vectors", SETS, None),
    ):
        promise = f"{name}: {rate:,} a second" + (f", p99 under {slowest} ms" if slowest else "")
        figures = next((case for case in cases if case.name.startswith(name)), None)
        if figures is None or not figures.ms:
            found.append(Bar(promise, "not measured", None))
            continue
        seen = f"{figures.rate:,.0f} a second" + (f", p99 {figures.ms['p99']:.1f} ms" if slowest else "")
        met = figures.rate >= rate and (slowest is None or figures.ms["p99"] < slowest) and not figures.errors
        found.append(Bar(promise, seen, met))
    return found + _search_bars(search)


def _search_bars(search: SearchFigures | None) -> list[Bar]:
    near = f"exact search: at most {OP_FACTOR} × the op alone + {OP_MS} ms (medians)"
    soon = f"first search after a restart: at most {RESTARTED_MS / 1000:g} s"
    if search is None:
        return [Bar(near, "not measured", None), Bar(soon, "not measured", None)]
    seen, op = search.cases[0].ms["p50"], search.op_ms[0]["p50"]
    most = OP_FACTOR * op + OP_MS
    bar = Bar(near, f"{seen:.1f} ms, the op {op:.1f} ms, so at most {most:.1f} ms", seen <= most)
    if search.restarted_ms is None:
        return [bar, Bar(soon, "not measured", None)]
    return [bar, Bar(soon, f"{search.restarted_ms / 1000:.2f} s", search.restarted_ms <= RESTARTED_MS)]


def show_figures(console: Console, figures: Figures) -> None:
    """One case in two lines, as soon as it is known."""
    ms = ", ".join(f"{name} {value:.1f}" for name, value in figures.ms.items())
    console.print(f"[bold]{figures.name}[/bold]: {figures.rate:,.0f} a second; ms: {ms}", highlight=False)


def show_answers(console: Console, cases: Sequence[Figures]) -> None:
    table = Table(title="what was answered", title_justify="left")
    table.add_column("case")
    for column in ("clients", "a second", "p50 ms", "p90 ms", "p99 ms", "max ms", "conflicts", "errors"):
        table.add_column(column, justify="right")
    for case in cases:
        ms = [f"{value:.1f}" for value in case.ms.values()] or ["-"] * 4
        counts = [f"{case.conflicts:,}", f"{case.errors:,}"]
        table.add_row(case.name, str(case.clients), f"{case.rate:,.0f}", *ms, *counts)
    console.print(table)
    for case in cases:
        if case.errors:
            console.print(f"{case.name}: {case.first_error}", markup=False, highlight=False)


def show_limits(console: Console, cases: Sequence[Figures]) -> None:
    table = Table(title="what limited it: processor seconds a second, and fsync", title_justify="left")
    table.add_column("case")
    for column in ("server", "generator", "database", "others", "server ms each", "fsync ms"):
        table.add_column(column, justify="right")
    table.add_column("limited by")
    for case in cases:
        figures = [case.usage.server, case.usage.generator, case.usage.database, case.usage.others, case.server_ms]
        sync = "-" if case.fsync_ms is None else f"{case.fsync_ms:.2f}"
        table.add_row(case.name, *(f"{value:.2f}" if value else "-" for value in figures), sync, case.limit)
    console.print(table)


def show_search(console: Console, search: SearchFigures) -> None:
    table = Table(title=f"search of {search.vectors:,} vectors beside the op alone", title_justify="left")
    table.add_column("case")
    for column in ("p50 ms", "op p50 ms", "p99 ms", "op p99 ms"):
        table.add_column(column, justify="right")
    for case, op in zip(search.cases, search.op_ms, strict=True):
        values = (case.ms["p50"], op["p50"], case.ms["p99"], op["p99"])
        table.add_row(case.name, *(f"{value:.1f}" for value in values))
    console.print(table)
    console.print(f"loaded {search.loaded_rate:,.0f} vectors a second; first search after it {search.first_ms:.0f} ms")
    if search.restarted_ms is not None:
        console.print(
            f"first search after a restart {search.restarted_ms:.0f} ms (the server itself was ready after "
            f"{search.start_seconds:.1f} s)"
        )


def show_bars(console: Console, found: Sequence[Bar]) -> None:
    words = {True: "[green]met[/green]", False: "[red]not met[/red]", None: "-"}
    table = Table(title="bars", title_justify="left")
    for column in ("bar", "seen", ""):
        table.add_column(column)
    for bar in found:
        table.add_row(bar.promise, bar.seen, words[bar.met])
    console.print(table)


def machine(folder: Path | None) -> dict[str, Any]:
    """What ran this."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "file_system": None if folder is None else _file_system(folder),
        "load_average": psutil.getloadavg(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    places = [part for part in psutil.disk_partitions(all=True) if folder.resolve().is_relative_to(part.mountpoint)]
    return max(places, key=lambda part: len(part.mountpoint)).fstype

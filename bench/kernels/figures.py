"""Figures of a run, as its JSON has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Limit:
    """A ceiling that ran by turns with the case: its kind, its seconds, and its bytes or operations a second."""

    kind: str
    seconds: float
    rate: float


@dataclass(frozen=True)
class Figure:
    """One case that was measured; times are medians in seconds."""

    op: str
    case: str
    dtype: str
    group: str
    parameters: Mapping[str, Any]
    seconds: float
    bytes: int
    flops: int
    limit: Limit | None
    others: Mapping[str, float]
    absent: Mapping[str, str]
    notes: Mapping[str, Any]

    @property
    def counts_flops(self) -> bool:
        """Whether operations and not bytes are what its ceiling limits."""
        return self.limit is not None and self.limit.kind == "product"

    @property
    def rate(self) -> float:
        """Bytes or operations a second."""
        return (self.flops if self.counts_flops else self.bytes) / self.seconds

    @property
    def share(self) -> float | None:
        """Of the ceiling's rate."""
        return None if self.limit is None else self.rate / self.limit.rate

    @property
    def best_other(self) -> str | None:
        return min(self.others, key=lambda name: self.others[name], default=None)

    @property
    def speed_up(self) -> float | None:
        """Times faster than the best alternative."""
        return None if self.best_other is None else self.others[self.best_other] / self.seconds

    def has(self, **wanted: Any) -> bool:
        """Whether it is of this op or dtype and its parameters are these."""
        own = {**self.parameters, "op": self.op, "dtype": self.dtype, "group": self.group}
        return all(own.get(name) == value for name, value in wanted.items())


@dataclass(frozen=True)
class Run:
    """All of one run, with what failed and what ran it."""

    figures: list[Figure]
    failed: list[dict[str, Any]]
    machine: dict[str, Any]
    commit: dict[str, Any]

    def of_group(self, group: str) -> list[Figure]:
        return [figure for figure in self.figures if figure.group == group]


def read(path: Path) -> Run:
    whole = json.loads(path.read_text())
    figures = [_figure(one["extra_info"], one["stats"]["median"]) for one in whole["benchmarks"] if one["extra_info"]]
    return Run(figures, whole.get("failed", []), whole["machine_info"], whole.get("commit_info", {}))


def find(figures: Iterable[Figure], **wanted: Any) -> Figure | None:
    return next((figure for figure in figures if figure.has(**wanted)), None)


def _figure(info: Mapping[str, Any], seconds: float) -> Figure:
    held = info["ceiling"]
    limit = None
    if held is not None:
        amount = held["flops"] if held["kind"] == "product" else held["bytes"]
        limit = Limit(held["kind"], held["seconds"], amount / held["seconds"])
    return Figure(
        info["op"],
        info["case"],
        info["dtype"],
        info["group"],
        info["parameters"],
        seconds,
        info["bytes"],
        info["flops"],
        limit,
        info["others"],
        info["absent"],
        info["notes"],
    )

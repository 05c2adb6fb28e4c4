"""In place of pytest-benchmark where it is not installed: a fixture that is used alike, and JSON of the same layout."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bench.kernels.session import Session


class Fixture:
    def __init__(self, timer: Callable[[], Any]) -> None:
        self._timer = timer
        self.extra_info: dict[str, Any] = {}
        self.stats = SimpleNamespace(stats=SimpleNamespace(median=0.0, data=[]))

    def pedantic(self, target: Callable[[], object], setup: Callable[[], object], rounds: int) -> None:
        held = self.stats.stats
        for _ in range(rounds):
            setup()
            start = self._timer()
            target()
            held.data.append(self._timer() - start)
        held.median = statistics.median(held.data)


class Recorder:
    """A plugin of pytest: gives out the fixtures and writes the JSON at the end."""

    def __init__(self, session: Session, timer: Callable[[], Any], out: Path) -> None:
        self._session, self._timer, self._out = session, timer, out
        self._fixtures: list[tuple[str, Fixture]] = []

    @pytest.fixture
    def benchmark(self, request: pytest.FixtureRequest) -> Fixture:
        fixture = Fixture(self._timer)
        self._fixtures.append((request.node.name, fixture))
        return fixture

    def pytest_sessionfinish(self) -> None:
        whole = {
            "datetime": datetime.now(UTC).isoformat(),
            "benchmarks": [_entry(name, fixture) for name, fixture in self._fixtures if fixture.extra_info],
        }
        self._session.pytest_benchmark_update_json(whole)
        self._out.write_text(json.dumps(whole, indent=1))


def _entry(name: str, fixture: Fixture) -> dict[str, Any]:
    held = fixture.stats.stats
    return {"name": name, "extra_info": fixture.extra_info, "stats": {"median": held.median, "data": held.data}}

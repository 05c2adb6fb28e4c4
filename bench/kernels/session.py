"""One run under pytest: hands the cases to `measure.py`, tells how far it is, and puts the facts into the JSON."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from bench.kernels import machine, memory, registry
from bench.kernels.clock import make_clock
from bench.kernels.rounds import Effort, describe_failure, free_of, measure
from bench.kernels.work import Case, Context


class Session:
    """A plugin of pytest. Results are in pytest-benchmark's JSON; `failed` has the cases that are not."""

    def __init__(self, context: Context, cases: Sequence[Case], effort: Effort, facts: dict[str, Any]) -> None:
        self._context, self._cases, self._effort, self._facts = context, cases, effort, facts
        self._clock = make_clock(context.device)
        self._began = time.monotonic()
        self._count = 0
        self._op = ""
        self.failed: list[dict[str, Any]] = []

    @pytest.fixture(name="session")
    def _session(self) -> Session:
        return self

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.parametrize("case", self._cases, ids=[case.id for case in self._cases])

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No dots: every case has its line."""
        return (report.outcome, "", "") if report.passed or report.when == "call" else None

    def run(self, case: Case, benchmark: Any) -> None:
        self._count += 1
        if self._op != f"{case.group} {case.op}":
            registry.clear()  # what only the last op's cases share
        self._op = f"{case.group} {case.op}"
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        print(
            f"{minutes:3}:{seconds:02} {self._count:3}/{len(self._cases)}  {case.id}",
            end="",
            file=sys.stderr,
            flush=True,
        )
        try:
            with torch.no_grad():
                torch.manual_seed(0)
                work = case.prepare(self._context)
                if case.peak_memory:
                    work.notes["peak_bytes"] = memory.of_case(case, work, self._context)
                benchmark.extra_info.update(measure(case, work, benchmark, self._clock, self._effort))
        except Exception as error:
            print(f"  failed: {type(error).__name__}", file=sys.stderr, flush=True)
            self.failed.append(describe_failure(case, error))
            raise
        finally:
            work = None
            gc.collect()
            free_of(self._context)()
        print(f"  {_words(benchmark.stats.stats.median)}", file=sys.stderr, flush=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """In place of what pytest-benchmark finds out of itself, which names the machine."""
        output_json["machine_info"] = self._facts
        output_json["commit_info"] = machine.commit()
        output_json["failed"] = self.failed


def _words(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.3f} ms"

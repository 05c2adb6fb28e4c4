"""Runs a case: its alternatives, its ceiling and its op by turns, each from cold caches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from bench.kernels.clock import Clock
from bench.kernels.work import Case, Context, Way, Work, name_of

_CEILING = "ceiling"


@dataclass(frozen=True)
class Effort:
    """At most `rounds` timed rounds a case, fewer when they would take more than `seconds`, but `least` at any rate."""

    rounds: int = 15
    seconds: float = 6.0
    least: int = 5


def measure(case: Case, work: Work, benchmark: Any, clock: Clock, effort: Effort) -> dict[str, Any]:
    """Time the work through pytest-benchmark's fixture, or one that is used alike, and return what goes beside it.

    Each of the fixture's rounds is a turn of everything: its untimed set-up runs and times the alternatives and the
    ceiling, and it times the op itself. Raises AssertionError when the op's result is wrong.
    """
    work.check()
    work.reset()
    ways, failed = _warm_up(work, clock)
    estimate = sum(_seconds(work, way.call, clock) + way.settle for way in [Way("", work.op), *ways])
    seconds: dict[str, list[float]] = {way.name: [] for way in ways}

    def take_turns() -> None:
        for way in ways:
            seconds[way.name].append(_seconds(work, way.call, clock))
            time.sleep(way.settle)
        work.reset()
        clock.chill()

    rounds = max(effort.least, min(effort.rounds, int(effort.seconds / max(estimate, 1e-9))))
    benchmark.pedantic(work.op, setup=take_turns, rounds=rounds)
    work.reset()
    return _describe(case, work, seconds, failed)


def describe_failure(case: Case, error: BaseException | str) -> dict[str, Any]:
    words = str(error).strip().splitlines() or [type(error).__name__]
    return {"op": case.op, "case": case.words, "dtype": name_of(case.dtype), "group": case.group, "error": words[0]}


def free_of(context: Context) -> Callable[[], None]:
    """What gives memory of the last case back to the device."""
    if context.is_cuda:
        import torch

        return torch.cuda.empty_cache
    return lambda: None


def _warm_up(work: Work, clock: Clock) -> tuple[list[Way], dict[str, str]]:
    """Everything once, compilation included; what raises is left out, with its words. The ceiling comes last."""
    ways, failed = [], dict(work.absent)
    for way in work.others:
        try:
            for _ in range(2 if way.compiled else 1):
                _seconds(work, way.call, clock)
        except Exception as error:  # noqa: BLE001 - an alternative that does not run here is a line of the table
            failed[way.name] = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        else:
            ways.append(way)
        time.sleep(way.settle)
    if work.ceiling is not None:
        ways.append(Way(_CEILING, work.ceiling.call))
        _seconds(work, work.ceiling.call, clock)
    return ways, failed


def _seconds(work: Work, call: Callable[[], object], clock: Clock) -> float:
    work.reset()
    clock.chill()
    return clock.seconds(call)


def _describe(case: Case, work: Work, seconds: dict[str, list[float]], failed: dict[str, str]) -> dict[str, Any]:
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ceiling = None
    if work.ceiling is not None:
        ceiling = {"kind": work.ceiling.kind, "seconds": medians.pop(_CEILING), **asdict(work.ceiling.amount)}
    return {
        "op": case.op,
        "case": case.words,
        "dtype": name_of(case.dtype),
        "group": case.group,
        "parameters": dict(case.parameters),
        **asdict(work.amount),
        "ceiling": ceiling,
        "others": medians,
        "absent": failed,
        "rounds": seconds,
        "notes": work.notes,
    }

"""How sure a figure is: intervals from drawing the sessions again, with replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 10_000
_LEVEL = 95.0


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval, and the number of observations behind it.

    `low` and `high` are None where there is no interval: with one session, or where a ratio has nothing below its line
    in too many of the draws. `value` is None where the figure itself has no value.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int

    def figures(self) -> dict[str, Any]:
        """The same as JSON-able values."""
        return {"value": self.value, "low": self.low, "high": self.high, "count": self.count}


class Bootstrap:
    """Draws of `sessions` sessions with replacement: the same draws for every figure, so that figures can be compared.

    Sessions and not questions are drawn, for questions of one session share their text and their fate.
    """

    def __init__(self, sessions: int, seed: int = 0, draws: int = DRAWS):
        chosen = np.random.default_rng(seed).integers(0, sessions, (draws, sessions))
        counts = np.zeros((draws, sessions), np.float64)
        np.add.at(counts, (np.arange(draws)[:, None], chosen), 1)
        self._counts = counts

    def mean(self, values: Sequence[Sequence[float]]) -> Estimate:
        """The mean of all values; `values` has one list for each session, which may be empty."""
        return self._estimate(_mean, [values])

    def difference(self, values: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Estimate:
        """The mean of `values` minus that of `others`, from the same draws."""
        return self._estimate(lambda ours, theirs: _mean(ours) - _mean(theirs), [values, others])

    def ratio(self, values: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Estimate:
        """The mean of `values` divided by that of `others`, from the same draws."""
        return self._estimate(lambda ours, theirs: _mean(ours) / _mean(theirs), [values, others])

    def _estimate(self, figure: Any, samples: Sequence[Sequence[Sequence[float]]]) -> Estimate:
        sums = [np.array([[sum(session), len(session)] for session in sample], np.float64) for sample in samples]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(figure(*(both.sum(axis=0) for both in sums)))
            drawn = figure(*((self._counts @ both).T for both in sums))
        low, high = self._interval(drawn)
        count = sum(len(session) for session in samples[0])
        return Estimate(value if np.isfinite(value) else None, low, high, count)

    def _interval(self, drawn: np.ndarray) -> tuple[float | None, float | None]:
        finite = drawn[np.isfinite(drawn)]
        # Draws without a value (no observation, or a ratio to nothing) may be left out only where they are few.
        if self._counts.shape[1] < 2 or len(finite) < 0.95 * len(drawn):
            return None, None
        tail = (100.0 - _LEVEL) / 2
        low, high = np.percentile(finite, [tail, 100.0 - tail])
        return float(low), float(high)


def _mean(sums: np.ndarray) -> np.ndarray:
    """From sums and counts of observations [2] or [2, draws]."""
    total, count = sums
    return total / count

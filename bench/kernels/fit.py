"""How time grows with size: the exponent p of time = c · size^p."""

from __future__ import annotations

import math
from collections.abc import Mapping

_BEYOND_OVERHEAD = 4.0


def fit_exponent(seconds_by_size: Mapping[int, float]) -> tuple[float, float] | None:
    """(p, c) of the least-squares line through the points in log-log.

    Small sizes measure what a call costs, not how it grows: only points that took over four times the fastest are
    used; None when fewer than two are left.
    """
    fastest = min(seconds_by_size.values(), default=0.0)
    points = [(n, s) for n, s in sorted(seconds_by_size.items()) if s > _BEYOND_OVERHEAD * fastest]
    if len(points) < 2:
        return None
    xs, ys = [math.log(n) for n, _ in points], [math.log(s) for _, s in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)
    return slope, math.exp(y - slope * x)

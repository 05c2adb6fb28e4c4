from __future__ import annotations

import pytest
from bench.kernels.fit import fit_exponent


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_a_power_is_found(exponent: float) -> None:
    fitted = fit_exponent({n: 3e-9 * n**exponent for n in (100, 10_000, 1_000_000, 100_000_000)})
    assert fitted is not None
    assert fitted == pytest.approx((exponent, 3e-9))


def test_what_a_call_costs_does_not_bend_the_line() -> None:
    """10 µs a call and 1 ns an element: small sizes are all overhead."""
    fitted = fit_exponent({10**power: 1e-5 + 1e-9 * 10**power for power in range(2, 8)})
    assert fitted is not None
    assert fitted[0] == pytest.approx(1.0, abs=0.08)


@pytest.mark.parametrize("points", [{}, {10: 1.0}, {10: 1.0, 100: 1.1}, {10: 1.0, 100: 1.1, 1000: 9.0}])
def test_too_few_points_have_no_exponent(points: dict[int, float]) -> None:
    assert fit_exponent(points) is None

"""Intervals against cases whose distribution is known."""

from __future__ import annotations

import numpy as np
import pytest

from remory.evaluation.bootstrap import Bootstrap


def test_two_sessions_have_a_distribution_that_can_be_counted():
    # Means of the draws: 0 and 1 with a quarter each, 1/2 with a half.
    estimate = Bootstrap(2).mean([[0.0], [1.0]])
    assert (estimate.value, estimate.low, estimate.high, estimate.count) == (0.5, 0.0, 1.0, 2)


def test_a_mean_of_many_has_the_interval_of_the_normal_distribution():
    values = np.random.default_rng(5).normal(3.0, 2.0, 400)
    estimate = Bootstrap(400, seed=1).mean([[value] for value in values])
    half = 1.96 * values.std() / 20
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.02)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.02)


def test_questions_of_one_session_share_its_fate():
    few = [[1.0] * 50, [0.0] * 50]
    assert Bootstrap(2).mean(few).low == 0.0  # as a hundred independent ones it would be about 0.4


def test_sessions_count_by_their_questions():
    assert Bootstrap(3).mean([[1.0, 1.0, 1.0], [0.0], []]).value == 0.75


def test_differences_are_taken_within_a_draw():
    ours, theirs = [[0.1], [0.5], [0.9]], [[0.0], [0.4], [0.8]]
    estimate = Bootstrap(3).difference(ours, theirs)
    assert estimate.low == pytest.approx(0.1) and estimate.high == pytest.approx(0.1)
    ratio = Bootstrap(3).ratio([[2.0], [4.0]] + [[6.0]], [[1.0], [2.0], [3.0]])
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))


def test_what_has_no_value_has_no_interval():
    nothing = Bootstrap(2).mean([[], []])
    assert (nothing.value, nothing.low, nothing.high, nothing.count) == (None, None, None, 0)
    no_ratio = Bootstrap(2).ratio([[1.0], [1.0]], [[0.0], [0.0]])
    assert (no_ratio.value, no_ratio.low) == (None, None)
    often_none = Bootstrap(2).ratio([[1.0], [1.0]], [[0.0], [1.0]])
    assert often_none.value == 2.0 and often_none.low is None
    single = Bootstrap(1).mean([[0.0, 1.0]])
    assert (single.value, single.low) == (0.5, None)


def test_a_seed_gives_the_same_interval():
    values = [[0.3], [0.9], [0.1], [0.4]]
    assert Bootstrap(4, seed=3).mean(values) == Bootstrap(4, seed=3).mean(values)

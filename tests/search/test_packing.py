from __future__ import annotations

import math

import numpy as np
import pytest

from remory.search.packing import pack_vector, unpack_vector, unpack_vectors, vector_norm


@pytest.mark.parametrize(
    ("elements", "width"),
    [
        ([1, -2.5, 0.0], 4),
        ([0.1], 8),
        ([float(np.float32(0.1)), 3], 4),
        ([1e300, 1], 8),
        ([1e-46], 8),
        ([5e-324, 1.7976931348623157e308], 8),
        ([2**24 + 1], 8),
    ],
)
def test_a_vector_is_kept_to_the_last_bit(elements: list[float], width: int) -> None:
    packed = pack_vector(elements)
    assert len(packed) == width * len(elements)
    assert unpack_vector(packed, len(elements)).tolist() == elements


def test_negative_zero_is_kept() -> None:
    assert math.copysign(1, unpack_vector(pack_vector([-0.0, 1]), 2)[0]) == -1


def test_many_are_unpacked_at_once() -> None:
    vectors = np.random.default_rng(0).standard_normal((7, 5))
    unpacked = unpack_vectors([pack_vector(vector) for vector in vectors], 5)
    assert unpacked.shape == (7, 5)
    assert (unpacked == vectors).all()


def test_bytes_that_are_no_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="3 elements are 12 or 24 bytes, got 13"):
        unpack_vector(b"0" * 13, 3)
    with pytest.raises(ValueError, match="3 elements"):
        unpack_vectors([b"0" * 12, b"0" * 24], 3)


@pytest.mark.parametrize(
    ("elements", "norm"),
    [([3, 4], 5), ([3e200, 4e200], 5e200), ([3e-320, 4e-320], 5e-320), ([0, 0], 0), ([1.7e308, 1.7e308], math.inf)],
)
def test_norms_of_any_magnitude(elements: list[float], norm: float) -> None:
    with np.errstate(over="ignore"):
        assert vector_norm(np.array(elements, dtype=np.float64)) == pytest.approx(norm, rel=1e-3)


def test_the_norm_of_what_is_not_finite() -> None:
    assert math.isnan(vector_norm(np.array([1, math.nan])))
    assert vector_norm(np.array([1, -math.inf])) == math.inf

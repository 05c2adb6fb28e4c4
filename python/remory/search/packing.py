"""Vectors as bytes: float32 when that loses nothing, else float64; little endian."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def pack_vector(elements: Sequence[float] | np.ndarray) -> bytes:
    """A vector's elements as bytes, to the last bit: 4 bytes each if all are float32 numbers, else 8."""
    exact = np.asarray(elements, dtype="<f8")
    with np.errstate(over="ignore", under="ignore"):
        short = exact.astype("<f4")
    return short.tobytes() if np.array_equal(short, exact) else exact.tobytes()


def unpack_vector(packed: bytes, dimension: int) -> np.ndarray:
    """The elements [dimension] of a packed vector, in the type they were packed in. Raises ValueError."""
    return unpack_vectors([packed], dimension)[0]


def unpack_vectors(packed: Sequence[bytes], dimension: int) -> np.ndarray:
    """Vectors [n, dimension] that were packed in one type. Raises ValueError for bytes that are none."""
    width = len(packed[0])
    if width not in (4 * dimension, 8 * dimension) or any(len(item) != width for item in packed):
        raise ValueError(f"{dimension} elements are {4 * dimension} or {8 * dimension} bytes, got {width}")
    return np.frombuffer(b"".join(packed), dtype="<f4" if width == 4 * dimension else "<f8").reshape(-1, dimension)


def vector_norm(elements: np.ndarray) -> float:
    """The Euclidean norm of float64 elements [D], also where their squares are no float64 numbers any more."""
    largest = float(np.abs(elements).max(initial=0.0))
    if largest in (0.0, float("inf")) or largest != largest:
        return largest
    return largest * float(np.linalg.norm(elements / largest))

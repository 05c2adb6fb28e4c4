"""Whether a result is right, before anybody asks how fast it came: the gates of the tests, in short."""

from __future__ import annotations

import torch
from torch import Tensor

_RELATIVE_ENERGY = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def require_close(actual: Tensor, expected: Tensor, dtype: torch.dtype | None = None) -> None:
    """Raises AssertionError when the error's energy is too large for the dtype; `dtype` where inputs were coarser."""
    error = (actual.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-30)
    allowed = _RELATIVE_ENERGY[dtype or actual.dtype]
    assert float(error) <= allowed, (
        f"relative energy of the error is {float(error):.1e}, at most {allowed:.0e} is allowed"
    )


def require_scores(scores: Tensor, expected: Tensor, tolerance: float) -> None:
    """Best scores by rank; ids may differ where an alternative breaks ties as it likes."""
    assert scores.shape == expected.shape, f"{list(scores.shape)} scores, expected {list(expected.shape)}"
    error = float((scores.double() - expected.double()).abs().max())
    assert error <= tolerance, f"a score is off by {error:.1e}, at most {tolerance:.0e} is allowed"

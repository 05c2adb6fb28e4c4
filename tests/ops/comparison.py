"""How a kernel's result is compared with a reference of higher precision."""

from __future__ import annotations

import torch
from torch import Tensor

RELATIVE_ENERGY = {torch.float32: 1e-5, torch.bfloat16: 2e-2}


def assert_close(actual: Tensor, reference: Tensor) -> None:
    """Two gates at the tolerance of actual's dtype: the error's energy against the reference's, and every element
    against its own size or the typical one. NaN and infinity must stand at the same places."""
    assert actual.shape == reference.shape
    tolerance = RELATIVE_ENERGY[actual.dtype]
    got, expected = actual.double(), reference.double()
    assert torch.equal(got.isnan(), expected.isnan()), "NaN at other places"
    assert torch.equal(got.isinf(), expected.isinf()), "infinity at other places"
    finite = expected.isfinite()
    error = torch.where(finite, got - expected, 0).abs()
    expected = torch.where(finite, expected, 0)

    energy = (error.norm() / expected.norm().clamp(min=1e-30)).item()
    assert energy <= tolerance, f"relative energy of the error is {energy:.2e}, expected at most {tolerance:.0e}"
    typical = expected.square().mean().sqrt()
    excess = error - 4 * tolerance * torch.maximum(expected.abs(), typical)
    if excess.numel() and excess.max() > 0:
        worst = tuple(int(index) for index in torch.unravel_index(excess.argmax(), excess.shape))
        raise AssertionError(f"element {worst} is {got[worst].item():.6g}, expected {expected[worst].item():.6g}")


def inside_wider(tensor: Tensor, fill: float = float("nan")) -> Tensor:
    """The same values as a slice out of a tensor that is wider in every dimension; `fill` lies around them."""
    wide = torch.full([size + 3 for size in tensor.shape], fill, dtype=tensor.dtype)
    view = wide[tuple(slice(1, 1 + size) for size in tensor.shape)]
    view.copy_(tensor)
    return view

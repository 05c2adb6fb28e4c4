"""The projection of features: the host's choice, the norm's kernel, and what the matrix product owes it. The product
itself is a stand-in here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.comparison import assert_close

EPS = 1e-6


def make(rows: int, depth: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows * width + depth)
    features = torch.randn(rows, depth, generator=generator).bfloat16()
    fc = (torch.randn(width, depth, generator=generator) / depth**0.5).bfloat16()
    return features, fc, torch.rand(width, generator=generator) + 0.5


def definition(features: Tensor, fc: Tensor, norm: Tensor, eps: float = EPS) -> Tensor:
    product = features.double() @ fc.double().T
    return product * torch.rsqrt(product.square().mean(1, keepdim=True) + eps) * norm.double()


@pytest.mark.parametrize(
    ("rows", "depth", "width"), [(1, 40, 264), (129, 24, 64), (151, 8, 576), (256, 16, 256), (2, 24, 8712)]
)
def test_projection_equals_the_definition(simt: Any, rows: int, depth: int, width: int) -> None:
    arguments = make(rows, depth, width)
    assert_close(simt.project(*arguments, EPS), definition(*arguments))


def test_projection_of_many_rows(simt_once: Any) -> None:
    arguments = make(70_000, 8, 16)
    assert_close(simt_once.project(*arguments, EPS), definition(*arguments))


def test_projection_adds_eps_and_keeps_rows_apart(simt_once: Any) -> None:
    features, fc, norm = make(130, 24, 264)
    features[::3] = 0
    features[1::3] *= 1e3
    rows = simt_once.project(features, fc, norm, 0.5)
    assert_close(rows, definition(features, fc, norm, 0.5))
    assert torch.equal(rows[::3], torch.zeros_like(rows[::3]))


def test_projection_reads_slices_of_aligned_tensors(simt_once: Any) -> None:
    features, fc, norm = make(129, 24, 264)
    wide = torch.full((129, 24 + 16), float("nan"), dtype=torch.bfloat16)
    wide[:, 8:32] = features
    wide_fc = torch.full((264, 24 + 8), float("nan"), dtype=torch.bfloat16)
    wide_fc[:, :24] = fc
    assert_close(simt_once.project(wide[:, 8:32], wide_fc[:, :24], norm, EPS), definition(features, fc, norm))


@pytest.mark.parametrize(
    ("rows", "depth", "width"),
    [
        pytest.param(0, 24, 264, id="no rows"),
        pytest.param(129, 20, 264, id="features of which only every other row is aligned"),
        pytest.param(129, 24, 260, id="rows of which only every other one is aligned"),
        pytest.param(128, 24, 256, id="a single tile, for two processors"),
    ],
)
def test_projection_leaves_to_torch(simt_once: Any, rows: int, depth: int, width: int) -> None:
    assert simt_once.project(*make(rows, depth, width), EPS) is None


def test_projection_leaves_other_tensors_to_torch(simt_once: Any) -> None:
    features, fc, norm = make(129, 24, 264)
    assert simt_once.project(features.float(), fc.float(), norm, EPS) is None
    shifted = torch.cat([features, features], 1)[:, 1:25]
    assert simt_once.project(shifted, fc, norm, EPS) is None
    assert simt_once.project(features[:1].expand(129, 24), fc, norm, EPS) is None
    assert simt_once.project(features, fc, torch.cat([norm, norm])[1:265], EPS) is None
    assert simt_once.project(features, fc, norm, EPS) is not None

"""The CUDA kernels of `encode`, run by the emulation: what the tests of the op say of rows holds here too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from remory import ops
from remory.ops.encode_plain import keep, score_salience
from tests.ops.comparison import assert_close
from tests.ops.conftest import Network, make_network
from tests.ops.test_encode import (
    DTYPES,
    POINTER,
    SALIENT,
    TAIL,
    UNCONDITIONED,
    define,
    kept_by_op,
    scored_by_first_entry,
    test_a_block_does_not_depend_on_its_batch,
    test_bfloat16_keeps_the_best_within_rounding,
    test_equals_the_definition,
    test_golden_rows,
    test_no_blocks,
    test_of_equal_scores_the_earlier_token_is_kept,
    test_own_summaries_equal_the_definition,
    test_own_summaries_that_are_slices_of_wider_tensors,
    test_scores_that_are_no_numbers_are_kept_as_in_the_definition,
    test_shut_gates_leave_the_last_embeddings,
    test_slices_of_wider_tensors,
    test_the_tokens_with_the_highest_scores_are_kept,
    test_wrong_weights_are_named,
    with_own_summaries,
)

# Collected here again: see the fixture below.
__all__ = [
    "make_network",
    "test_a_block_does_not_depend_on_its_batch",
    "test_bfloat16_keeps_the_best_within_rounding",
    "test_equals_the_definition",
    "test_golden_rows",
    "test_no_blocks",
    "test_of_equal_scores_the_earlier_token_is_kept",
    "test_own_summaries_equal_the_definition",
    "test_own_summaries_that_are_slices_of_wider_tensors",
    "test_scores_that_are_no_numbers_are_kept_as_in_the_definition",
    "test_shut_gates_leave_the_last_embeddings",
    "test_slices_of_wider_tensors",
    "test_the_tokens_with_the_highest_scores_are_kept",
    "test_wrong_weights_are_named",
]

MakeNetwork = Callable[..., Network]


@pytest.fixture(autouse=True)
def on_the_emulation(monkeypatch: pytest.MonkeyPatch, library: Any) -> None:
    """Tests and helpers that were written for the op call its CUDA twin."""
    monkeypatch.setattr(ops, "encode", library.encode)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "overrides", [{}, {**TAIL, **POINTER}, {**SALIENT, **POINTER, "reach": 5, **UNCONDITIONED}], ids=str
)
def test_in_any_order(simt: Any, make_network: MakeNetwork, dtype: torch.dtype, overrides: dict[str, Any]) -> None:
    inputs = make_network(**overrides).make_inputs([50, 1, 23], 50, dtype)
    rows = simt.encode(**inputs)
    simt.configure(0)
    assert torch.equal(rows, simt.encode(**inputs))
    assert_close(rows, define(inputs))


@pytest.mark.parametrize("dtype", DTYPES)
def test_wide_rows(make_network: MakeNetwork, dtype: torch.dtype) -> None:
    """Rows that a block takes and more than its threads hold, in packets, and a pointer of several stretches."""
    sizes = {"width": 8208, "captured": 1, "intermediate": 8, "layers": 1, "heads": 2, "kv_heads": 1}
    network = make_network(**sizes, head_dim=16, block=3, ratio=3, **TAIL, **UNCONDITIONED)
    inputs = network.make_inputs([3], 3, dtype)
    assert_close(ops.encode(**inputs), define(inputs))
    narrower = {**sizes, "width": 1048}
    network = make_network(**narrower, head_dim=16, block=9, ratio=3, **TAIL, pointer_heads=5, pointer_head_dim=16)
    inputs = network.make_inputs([9], 9, dtype)
    assert_close(ops.encode(**inputs), define(inputs))


@pytest.mark.parametrize("lengths", [[1100, 1001]], ids=str)
def test_the_best_of_more_tokens_than_threads(make_network: MakeNetwork, lengths: list[int]) -> None:
    """Scores of which many are equal, and thresholds that lie among them."""
    network = make_network(**SALIENT, **UNCONDITIONED, channels=1, block=1100, ratio=3, layers=1)
    inputs = network.make_inputs(lengths, 1100)
    generator = torch.Generator().manual_seed(3)
    wanted = torch.randint(-6, 7, (1100,), generator=generator).float()
    inputs = scored_by_first_entry(inputs, wanted.tolist())
    assert torch.equal(kept_by_op(inputs), keep(score_salience(**inputs), inputs["lengths"], 367))


@pytest.mark.parametrize(
    "change",
    [
        {"lengths": torch.tensor([50, 0])},
        {"lengths": torch.tensor([51, 1])},
        {"input_depths": torch.tensor([0, 3])},
        {"input_depths": torch.tensor([-1, 0])},
        {"summary_lengths": torch.tensor([0, 5])},
        {"summary_lengths": torch.tensor([5, 18])},
    ],
    ids=str,
)
def test_values_out_of_range_trap(make_network: MakeNetwork, change: dict[str, Any]) -> None:
    inputs = with_own_summaries(make_network(**TAIL).make_inputs([50, 9], 50), [5, 5])
    with pytest.raises(RuntimeError, match="a length or a depth is out of range"):
        ops.encode(**{**inputs, **change})


def test_heads_have_a_limit(make_network: MakeNetwork) -> None:
    inputs = make_network(head_dim=258).make_inputs([50], 50)
    with pytest.raises(RuntimeError, match="encode: heads have 258 dimensions, expected at most 256 on CUDA"):
        ops.encode(**inputs)

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from bench.kernels.amounts import (
    attention_amount,
    capture_amount,
    copy_amount,
    encode_amount,
    inject_amount,
    topk_amount,
    visible_pairs,
)
from bench.kernels.network import arguments
from torch.utils.flop_counter import FlopCounterMode

from remory import ops
from remory.network import Geometry

WIDE = Geometry(
    hidden_size=24,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    intermediate_size=20,
    num_hidden_layers=3,
    layers_captured=2,
    block_tokens=32,
    compression_ratio=8,
    local_window=64,
    max_depth=3,
    summary_conditioned=True,
)


def counted(arguments: dict[str, Any]) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        ops.encode_plain(**arguments)
    return counter.get_total_flops()


def test_a_copy_reads_and_writes() -> None:
    assert copy_amount(100).bytes == 200


def test_capture_moves_two_inputs_one_output_and_the_indices() -> None:
    # 3 rows of 5 elements: 2 · 4 bytes in, 2 out; an index of 8 bytes a row.
    assert capture_amount(3, 5, 4, 2).bytes == 3 * (5 * (8 + 2) + 8)
    assert capture_amount(3, 5, 4, 2, residual=False).bytes == 3 * (5 * (4 + 2) + 8)


def test_inject_moves_rows_and_positions() -> None:
    assert inject_amount(3, 5, 2, 4).bytes == 3 * (5 * 6 + 8)


def test_topk_reads_every_vector_once() -> None:
    amount = topk_amount(queries=2, rows=10, dimension=4, itemsize=2, k=3, mask_bytes=7)
    assert amount.bytes == 10 * 4 * 2 + 2 * 4 * 2 + 2 * 3 * (4 + 8) + 7
    assert amount.flops == 2 * 2 * 10 * 4


@pytest.mark.parametrize(
    ("window", "tokens", "expected"),
    [
        # Anchors of blocks of 8 in groups of 4 are 1.5 and 5.5. Strictly nearer than half the window:
        (4, 8, (8, 2)),  # each slot sees the four tokens of its group, and itself
        (3, 8, (4, 2)),  # 0.5 away, not 1.5
        (16, 8, (16, 4)),  # everything
        (4, 5, (5, 2)),  # the second group has one token
    ],
)
def test_visible_pairs_by_hand(window: int, tokens: int, expected: tuple[int, int]) -> None:
    assert visible_pairs(8, 4, window, tokens) == expected


def test_visible_pairs_of_a_shorter_last_group() -> None:
    # Blocks of 6 in groups of 4: anchors 1.5 and 4.5. In a window of 4: tokens 0 to 3, and 3 to 5 (of 6).
    assert visible_pairs(6, 4, 4, 6) == (4 + 3, 2)


def test_attention_counts_visible_pairs_twice() -> None:
    amount = attention_amount(3, 6, 2, 5, itemsize=2, block=8, ratio=4, window=4)
    assert amount.flops == 4 * 3 * 6 * 5 * (8 + 2)
    assert amount.bytes == 3 * 2 * (2 * (2 * 6 * 5) + 2 * (10 * 2 * 5))


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize(
    "changes",
    [
        {"summary_conditioned": False},
        {"summary_conditioned": False, "base": "tail"},
        {"summary_conditioned": False, "pointer_heads": 3, "pointer_head_dim": 10, "vocabulary": 11},
        {"summary_conditioned": False, "num_hidden_layers": 2, "base": "tail"},
    ],
)
def test_operations_of_encode_are_those_that_torch_counts(changes: dict[str, Any], blocks: int) -> None:
    """With all in view and every block full, the plain definition computes what is counted, and nothing else."""
    geometry = replace(WIDE, **changes)
    given = arguments(geometry, blocks, geometry.block_tokens, torch.float32)
    # Torch's counter leaves out products with a vector.
    assert counted(given) == encode_amount(geometry, blocks, geometry.block_tokens, 0, 4).flops


def test_a_summary_is_projected_once_and_seen_by_every_block() -> None:
    plain, blocks, rows = replace(WIDE, summary_conditioned=False), 2, 7
    without = encode_amount(plain, blocks, 32, 0, 4).flops
    width, queries, keys, slots = 24, 24, 12, 2 * 4
    projections = 2 * width * (2 * slots * queries + 2 * rows * keys)
    assert encode_amount(WIDE, blocks, 32, rows, 4).flops - without == 2 * (projections + 4 * queries * slots * rows)
    # Blocks with summaries of their own see 7 rows between them, 4 slots each.
    own = encode_amount(WIDE, blocks, 32, rows, 4, own_summaries=True).flops
    assert own - without == 2 * (projections + 4 * queries * 4 * rows)


def test_a_salient_base_adds_its_convolution() -> None:
    geometry = replace(WIDE, base="salient", salience_channels=5, salience_reach=2, summary_conditioned=False)
    without = encode_amount(replace(WIDE, summary_conditioned=False), 1, 32, 0, 4).flops
    # A token: two projections from 24 to 5, 5 taps, a mix of 5 by 5, and the score.
    per_token = 2 * (2 * 24 * 5 + 5 * 5 + 5 * 5 + 5)
    assert encode_amount(geometry, 1, 32, 0, 4).flops - without == 32 * per_token

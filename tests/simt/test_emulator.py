"""The emulation finds what it says it finds: small kernels with a fault, and the same kernels without."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.simt.conftest import ROOT, SEEDS

# A seed and its reverse: between them every two steps that nothing keeps in order are run both ways round.
PAIRS = ((0, 1), (6, 7), (8, 9))
THREADS = 128


def numbers() -> tuple[Tensor, Tensor]:
    return torch.arange(1.0, THREADS + 1), torch.zeros(THREADS)


def rotated(in_warps: bool) -> Tensor:
    values, _ = numbers()
    return values.view(-1, 32).roll(1, dims=1).flatten() if in_warps else values.roll(1)


@pytest.mark.parametrize("in_warps", [True, False])
def test_a_barrier_keeps_the_order(simt: Any, in_warps: bool) -> None:
    values, out = numbers()
    simt.rotate(values, out, in_warps, True)
    assert torch.equal(out, rotated(in_warps))


@pytest.mark.parametrize("seeds", PAIRS)
@pytest.mark.parametrize("in_warps", [True, False])
def test_a_missing_barrier_shows(simt_once: Any, in_warps: bool, seeds: tuple[int, int]) -> None:
    """Without __syncthreads, or __syncwarp, somebody reads what nobody has written yet."""
    wrong = []
    for seed in seeds:
        values, out = numbers()
        simt_once.configure(seed)
        simt_once.rotate(values, out, in_warps, False)
        wrong.append(out != rotated(in_warps))
    assert (wrong[0] | wrong[1]).all(), "some neighbours ran in one order only"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (1, r"threads 0-31 at __syncthreads \(.*faults.cu:\d+\); threads 32-127 at __syncthreads"),
        (2, r"threads 0-31 at __syncthreads \(.*\); threads 32-127 at __syncthreads"),
        (3, r"threads 0-15 at __syncwarp \(.*\); threads 16-31 at __syncthreads"),
        (4, r"threads 0-4 at __syncthreads \(.*\); threads 5-5 have ended; threads 6-127 at"),
        (5, r"threads 0-31 at __syncthreads \(.*\); threads 32-127 at __syncthreads"),
        (6, r"lanes of one warp meet at different places: (__syncwarp|__ballot_sync) .* and"),
    ],
)
def test_divergence_is_reported(simt: Any, kind: int, message: str) -> None:
    values, out = numbers()
    simt.diverge(values, out, 0)
    assert torch.equal(out, values)
    with pytest.raises(RuntimeError, match=message):
        simt.diverge(values, out, kind)
    simt.diverge(values, out, 0)


def test_a_shuffle_reads_only_lanes_of_its_mask(simt: Any) -> None:
    values, out = numbers()
    simt.add_neighbour(values, out, 8)
    assert out[:32].tolist() == [1.0 + i + 1.0 + (i ^ 8) for i in range(16)] + [0.0] * 16
    with pytest.raises(RuntimeError, match=r"__shfl_xor_sync \(.*\) reads lane \d+, which is not in the mask"):
        simt.add_neighbour(values, out, 16)
    with pytest.raises(RuntimeError, match=r"__shfl_sync \(.*\): the calling lane is not in the mask"):
        simt.shuffle_without_itself(values, out)
    with pytest.raises(RuntimeError, match=r"__shfl_sync \(.*\): the mask names lanes that the block does not have"):
        simt.shuffle_without_itself(values[:15], out)


def test_fresh_shared_memory_holds_no_zeros(simt: Any) -> None:
    out = torch.zeros(THREADS)
    simt.read_fresh(out)
    assert (out.isnan() | (out.abs() > 1e37)).all()


def test_meetings_and_atomics(simt: Any) -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(-80, 80, (96,), generator=generator, dtype=torch.int32)
    out = torch.empty(19, 96, dtype=torch.int64)
    simt.meet(values, out)

    warps = values.view(3, 32).long()
    lanes = torch.arange(32)
    bits = 1 << lanes

    def all_lanes(column: Tensor) -> Tensor:
        return column[:, None].expand(3, 32)

    up = torch.where(lanes % 16 >= 2, lanes - 2, lanes)
    down = torch.where(lanes % 16 < 14, lanes + 2, lanes)
    remainders = torch.fmod(warps, 3)
    expected = [
        all_lanes(warps[:, 3]),
        warps[:, lanes // 8 * 8 + 1],
        warps[:, lanes ^ 5],
        warps[:, up],
        warps[:, down],
        all_lanes(((warps > 0) * bits).sum(1)),
        torch.zeros(3, 32),
        torch.ones(3, 32),
        ((remainders[:, :, None] == remainders[:, None, :]) * bits).sum(2),
        all_lanes(warps.sum(1)),
        all_lanes(warps.amin(1)),
        all_lanes(warps.amax(1)),
        torch.full((3, 32), int((values > 0).sum())),
        torch.zeros(3, 32),
        torch.ones(3, 32),
        torch.full((3, 32), int(values.sum())),
        torch.full((3, 32), max(int(values.max()), 0)),
        torch.full((3, 32), min(int(values.min()), 0)),
        torch.full((3, 32), -1),
    ]
    for row, (got, right) in enumerate(zip(out, expected, strict=True)):
        assert got.tolist() == right.flatten().tolist(), f"row {row}"


def order_of_blocks(simt: Any, seed: int, os_threads: int) -> list[int]:
    order = torch.full((50,), -1, dtype=torch.int32)
    simt.configure(seed, os_threads)
    simt.record_order(torch.zeros(1, dtype=torch.int32), order)
    simt.configure(0)
    return order.tolist()


def test_a_seed_orders_the_blocks(simt_once: Any) -> None:
    orders = [order_of_blocks(simt_once, seed, 1) for seed in range(4)]
    assert orders[0] == list(range(50))
    assert orders[1] == orders[0][::-1]
    assert orders[3] == orders[2][::-1]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == orders[0] for order in orders)


def test_blocks_are_shared_among_os_threads(simt_once: Any) -> None:
    assert sorted(order_of_blocks(simt_once, 4, 3)) == list(range(50))
    out, alone = torch.empty(40, 96), torch.empty(40, 96)
    simt_once.work(alone, 3)
    simt_once.configure(0, 3)
    simt_once.work(out, 3)
    simt_once.configure(0)
    assert torch.equal(out, alone)


@pytest.mark.parametrize(
    ("blocks", "threads", "shared_bytes", "allowed", "message"),
    [
        (1, 1056, 0, False, "a block of 1056 threads, expected 1 to 1024"),
        (1, 0, 0, False, "a block of 0 threads"),
        (0, 32, 0, False, "a grid of 0 x 1 x 1 blocks"),
        (1, 32, 49_153, False, "49153 bytes of dynamic shared memory, more than the kernel was allowed"),
        (1, 32, 232_449, True, "asks for 232449 bytes of shared memory, a block has 232448"),
    ],
)
def test_launches_that_a_gpu_refuses(
    simt_once: Any, blocks: int, threads: int, shared_bytes: int, allowed: bool, message: str
) -> None:
    with pytest.raises(RuntimeError, match=message):
        simt_once.launch(torch.zeros(1024), blocks, threads, shared_bytes, allowed)


def test_much_shared_memory_for_who_asks(simt_once: Any) -> None:
    simt_once.launch(torch.zeros(128), 1, 128, 100_000, True)


OVERRUN = """
import os, torch
torch.ops.load_library(os.environ["REMORY_SIMT_LIBRARY"])
values = torch.ones(128)
out = torch.zeros(128)
torch.ops.remory_simt.read_past(values, out, {past}, {dynamic})
print("came through")
"""


@pytest.mark.skipif("REMORY_SIMT_LIBRARY" not in os.environ, reason="needs AddressSanitizer: make test-asan")
@pytest.mark.parametrize("dynamic", [True, False])
def test_an_overrun_of_shared_memory_stops_the_program(dynamic: bool) -> None:
    def run(past: int) -> subprocess.CompletedProcess[str]:
        program = OVERRUN.format(past=past, dynamic=dynamic)
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)

    inside = run(0)
    assert inside.stdout == "came through\n", inside.stderr
    beyond = run(1)
    assert beyond.returncode != 0
    assert "heap-buffer-overflow" in beyond.stderr
    assert "faults.cu" in beyond.stderr


def test_seeds_come_in_pairs() -> None:
    assert {seed ^ 1 for seed in SEEDS} == set(SEEDS)

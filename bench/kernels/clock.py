"""Time of one call from cold caches, on the CPU by the clock and on a GPU by its events."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import torch

_CPU_CACHE_BYTES = 128 << 20
# Far more than a GPU's cache: writing it also takes so long that the next call is queued before the GPU is idle, and
# what is measured is the GPU's work and not Python's.
_CUDA_CACHE_BYTES = 1 << 30


class Clock(Protocol):
    def chill(self) -> None:
        """Throw out of the caches what the last call left there."""

    def seconds(self, call: Callable[[], object]) -> float: ...


class CpuClock:
    def __init__(self) -> None:
        self._cache = torch.zeros(_CPU_CACHE_BYTES // 4)

    def chill(self) -> None:
        self._cache.add_(1)

    def seconds(self, call: Callable[[], object]) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


class CudaClock:
    def __init__(self, device: str) -> None:
        self._cache = torch.zeros(_CUDA_CACHE_BYTES // 4, device=device)

    def chill(self) -> None:
        self._cache.add_(1)

    def seconds(self, call: Callable[[], object]) -> float:
        start = cuda_mark()
        call()
        return cuda_mark() - start


class Mark:
    """A point in the current stream's work; the difference of two is seconds. So a GPU's events can stand where
    pytest-benchmark takes a clock."""

    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True)
        self.event.record()

    def __sub__(self, earlier: Mark) -> float:
        self.event.synchronize()
        return earlier.event.elapsed_time(self.event) / 1000


def cuda_mark() -> Mark:
    return Mark()


def use(device: str) -> None:
    """Make a GPU the current one: events are recorded on its stream, whatever device the tensors are on."""
    if device.startswith("cuda"):
        torch.cuda.set_device(torch.device(device).index or 0)


def make_clock(device: str) -> Clock:
    return CudaClock(device) if device.startswith("cuda") else CpuClock()

"""A piece of work: what is timed, what stands beside it, and what limits it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from bench.kernels.amounts import Amount

Call = Callable[[], object]


@dataclass(frozen=True)
class Way:
    """One way to do the work. `settle`: seconds for its library's own threads to stop waiting for more on the cores.
    `compiled`: its first call compiles."""

    name: str
    call: Call
    settle: float = 0.0
    compiled: bool = False


@dataclass(frozen=True)
class Ceiling:
    """A call that copies or reads memory or multiplies matrices, and how much of it."""

    kind: str  # copy, read or product
    call: Call
    amount: Amount


@dataclass
class Work:
    """The op and its alternatives, ready to run. `absent`: alternatives that cannot run here, and why. `check` raises
    AssertionError when the op's result is wrong. `reset` runs before every timed call, outside the timing."""

    op: Call
    amount: Amount
    ceiling: Ceiling | None = None
    others: list[Way] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    check: Call = lambda: None
    reset: Call = lambda: None
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """Where and how much: `quick` for small sizes that only show that everything runs."""

    device: str = "cpu"
    threads: int = 1
    quick: bool = False

    @property
    def is_cuda(self) -> bool:
        return self.device.startswith("cuda")


@dataclass(frozen=True)
class Case:
    """One line of the table. `parameters` say in numbers what `words` say to a reader; bars find their case by them.

    `prepare` makes the inputs, so that only one case's are held at a time. `group`: ceilings, ops, or growth.
    `peak_memory`: names of ways whose peak memory is measured too, each in a process of its own.
    """

    op: str
    words: str
    dtype: torch.dtype
    prepare: Callable[[Context], Work]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    group: str = "ops"
    peak_memory: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.op}: {self.words}, {name_of(self.dtype)}"


class Shelf:
    """Large inputs that following cases share: one of each name is kept, the old one freed before the new is made."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Any, Any]] = {}

    def take(self, name: str, key: object, make: Callable[[], Any]) -> Any:
        if name in self._held and self._held[name][0] == key:
            return self._held[name][1]
        self._held.pop(name, None)
        self._held[name] = (key, make())
        return self._held[name][1]

    def clear(self) -> None:
        self._held.clear()


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

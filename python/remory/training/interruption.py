"""Ctrl-C and SIGTERM while something is trained: work that can be done again is dropped, nothing is left half done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal asked to stop. Like KeyboardInterrupt it is no Exception: nothing on its way takes it for a failure."""


class Interruption:
    """While entered (by the main thread), keeps the first signal in `number` and raises Stopped in droppable work."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._can_drop = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interruption:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> int:
        """What a shell reports for a program that the signal ended: 130 or 143; 0 without one."""
        return 128 + self.number if self.number else 0

    @contextmanager
    def droppable(self) -> Iterator[None]:
        """Within, a signal raises Stopped at once, and on entry if it came before; elsewhere it waits for that."""
        self._can_drop = True
        try:
            self.check()
            yield
        finally:
            self._can_drop = False

    def check(self) -> None:
        """Raise Stopped if a signal has come."""
        if self.number is not None:
            raise Stopped

    def _note(self, number: int, _frame: FrameType | None) -> None:
        # Only the first one: what it began, saving the state, is not to be interrupted by an impatient second.
        if self.number is None:
            self.number = number
            if self._can_drop:
                raise Stopped

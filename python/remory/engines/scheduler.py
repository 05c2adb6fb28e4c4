"""One thread runs the actor; many requests share it.

A request is a generator that does one step of work (a chunk of prefill, one decoded token) between two `yield`s.
The request that has had the least time runs next, so among those that run at once a short one does not wait for a
long one to end. Each runs at batch size 1: what it answers does not depend on who else is there, to the last bit.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

import torch

from remory.errors import EngineBusy, EngineFailed, RemoryError

Steps = Generator[Any, None, Any]

log = logging.getLogger(__name__)


class Ticket:
    """A request in the scheduler's hands. What its steps yield is kept, the newest only; None is not news."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._changed = threading.Condition()
        self._news: Any = None
        self._error: RemoryError | None = None
        self._result: Any = None
        self.finished = False
        self.cancelled = False
        self.seconds = 0.0

    def follow(self, timeout: float) -> Iterator[Any]:
        """What the steps yield, the newest only; None when `timeout` seconds passed without news.

        Ends with the steps and raises their error. Closing this iterator cancels the steps.
        """
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._news is not None or self.finished, timeout)
                    news, self._news = self._news, None
                    if news is None and self.finished:
                        if self._error:
                            raise self._error
                        return
                yield news
        finally:
            self.cancel()

    def result(self) -> Any:
        """Wait for the end and give what the steps returned. Raises the steps' error."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: self.finished)
                if self._error:
                    raise self._error
                return self._result
        finally:
            self.cancel()  # when the wait itself was interrupted

    def cancel(self) -> None:
        """Ask for the end; the steps stop before their next one."""
        self.cancelled = True

    def _step(self) -> None:
        try:
            news = next(self._steps)
        except StopIteration as end:
            self._end(result=end.value)
        except RemoryError as error:
            self._end(error=error)
        except Exception:  # the boundary: whatever an actor can raise ends this request and no other
            log.exception("a request failed in the actor")
            self._end(error=EngineFailed("the actor failed on this request"))
        else:
            if news is not None:
                with self._changed:
                    self._news = news
                    self._changed.notify_all()

    def _end(self, result: Any = None, error: RemoryError | None = None) -> None:
        self._steps.close()
        with self._changed:
            self._result, self._error, self.finished = result, error, True
            self._changed.notify_all()


class Scheduler:
    """Runs at most `running` requests by turns and lets at most `waiting` more queue up."""

    def __init__(self, running: int = 16, waiting: int = 256) -> None:
        self._limits = running, waiting
        self._running: list[Ticket] = []
        self._waiting: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="remory-actor", daemon=True)
        self._thread.start()

    def submit(self, steps: Steps) -> Ticket:
        """Queue a request. Raises EngineBusy when the queue is full or the engine is closing."""
        ticket = Ticket(steps)
        with self._changed:
            if self._closed:
                raise EngineBusy("the actor is shutting down")
            if len(self._waiting) >= self._limits[1]:
                raise EngineBusy(f"{len(self._waiting)} requests wait already")
            self._waiting.append(ticket)
            self._changed.notify_all()
        return ticket

    def counts(self) -> tuple[int, int]:
        """How many requests run and how many wait."""
        with self._changed:
            return len(self._running), len(self._waiting)

    def close(self) -> None:
        """End every request with EngineBusy and stop the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        with torch.inference_mode():
            while ticket := self._next():
                began = time.perf_counter()
                ticket._step()
                ticket.seconds += time.perf_counter() - began
        for ticket in [*self._running, *self._waiting]:
            ticket._end(error=EngineBusy("the actor is shutting down"))
        self._running.clear()
        self._waiting.clear()

    def _next(self) -> Ticket | None:
        """The running request with the least time; waits while there is none; None when closing."""
        with self._changed:
            while not self._closed:
                self._drop_ended()
                self._admit()
                if self._running:
                    return min(self._running, key=lambda ticket: ticket.seconds)
                self._changed.wait()
            return None

    def _drop_ended(self) -> None:
        for ticket in [*self._running, *self._waiting]:
            if ticket.cancelled and not ticket.finished:
                ticket._end()
        self._running = [ticket for ticket in self._running if not ticket.finished]
        self._waiting = deque(ticket for ticket in self._waiting if not ticket.finished)

    def _admit(self) -> None:
        # A newcomer starts at the least time of those running: it gets its share from now on, not the past's too.
        least = min((ticket.seconds for ticket in self._running), default=0.0)
        while self._waiting and len(self._running) < self._limits[0]:
            ticket = self._waiting.popleft()
            ticket.seconds = least
            self._running.append(ticket)

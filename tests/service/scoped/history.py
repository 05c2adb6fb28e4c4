"""What clients record of a run: who asked what, when, and what was answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Action = Literal["set", "delete", "read"]
Outcome = Literal["done", "absent", "conflict", "unknown"]


@dataclass(frozen=True)
class Operation:
    """One operation of one client on one entry.

    `process`: a name under which operations never overlap; a client that lost an answer goes on under a new name.
    `entry`: kind and key, for instance `value/a`. `start`, `end`: nanoseconds of one monotonic clock; `end` is None
    when the outcome is unknown. `expected`: the revision that a compare-and-set named, 0 for «none lives».
    `value`: the attempt that a set wrote, never used twice, or that a read saw; None when the answer did not tell.
    `outcome`: `done`; `absent`, a delete that found nothing; `conflict`, a refused compare-and-set; or `unknown`, the
    answer was lost. `revision`: what a set was given, what a read saw live, what a conflict named, what a delete
    deleted; 0 for «none lives», None when the answer did not tell.
    """

    process: str
    entry: str
    action: Action
    start: int
    end: int | None
    outcome: Outcome
    revision: int | None = None
    value: str | None = None
    expected: int | None = None

    @property
    def mutates(self) -> bool:
        """Whether it changed its entry, or may have."""
        return self.action != "read" and self.outcome in ("done", "unknown")

    def __str__(self) -> str:
        asked = self.action if self.expected is None else f"{self.action} if {self.expected}"
        said = self.outcome if self.revision is None else f"{self.outcome} {self.revision}"
        value = "" if self.value is None else f" [{self.value}]"
        return f"{self.process}: {asked} {self.entry}{value} -> {said} at {self.start}..{self.end or '?'}"


@dataclass(frozen=True)
class Change:
    """One line of the change feed: `value` is the attempt, None when the feed does not tell."""

    sequence: int
    process: str
    entry: str
    action: Action
    revision: int
    value: str | None = None


def by_entry(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    """The operations of every entry, in the order given."""
    found: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        found[operation.entry].append(operation)
    return dict(found)

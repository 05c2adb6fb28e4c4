"""The ways to go on without a history that are compared, and what each of them shows the actor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from remory.errors import InvalidInput

FULL = "full"
SUMMARY = "summary"
LAST_TEXT = "last-text"
RETRIEVED = "retrieved-text"
MEMORY = "memory"
MEMORY_RETRIEVED = "memory-retrieved"
ANOTHER = "another-memory"

LABELS = {
    FULL: "full history",
    SUMMARY: "summary",
    LAST_TEXT: "summary + last text",
    RETRIEVED: "summary + retrieved text",
    MEMORY: "summary + memory",
    MEMORY_RETRIEVED: "summary + memory + retrieved text",
    ANOTHER: "summary + another's memory",
}
ARMS = tuple(LABELS)
WITH_RETRIEVAL = (RETRIEVED, MEMORY_RETRIEVED)


@dataclass(frozen=True)
class Prompt:
    """What is sent: token ids, behind the memory of `handle` if there is one. `context` counts the memory too."""

    ids: list[int]
    handle: str | None
    context: int


@dataclass(frozen=True)
class Memory:
    """A stored memory and what it consists of. `rows`: of the actor's embedding space. `markers`: tokens around."""

    handle: str
    prefix_ids: Sequence[int]
    summary_ids: Sequence[int]
    rows: int
    markers: int

    @property
    def tokens(self) -> int:
        """What the actor reads of it: prefix, summary, rows, and the markers around both."""
        return len(self.prefix_ids) + self.markers + len(self.summary_ids) + self.rows


@dataclass(frozen=True)
class Contract:
    """The tokens around summary and memory."""

    summary_before_ids: Sequence[int]
    summary_after_ids: Sequence[int]
    memory_before_ids: Sequence[int]
    memory_after_ids: Sequence[int]

    @classmethod
    def from_info(cls, contract: dict[str, list[int]]) -> Contract:
        """From the `summary_contract` of the server's info."""
        names = ("summary_before_ids", "summary_after_ids", "memory_before_ids", "memory_after_ids")
        return cls(*(contract[f"student_{name}"] for name in names))

    @property
    def markers(self) -> int:
        """How many there are."""
        around = (self.summary_before_ids, self.summary_after_ids, self.memory_before_ids, self.memory_after_ids)
        return sum(map(len, around))


@dataclass(frozen=True)
class Contexts:
    """All that stands in front of a continuation at one stage, for each arm.

    `history_ids`: all that was removed so far. `retrieve(query, tokens)` gives ids of its sentences, and
    `recall(ids)` a system message with them; both are called for the arms with retrieval only. `another` is the own
    memory with rows of another session, None where no other has so many parts.
    """

    contract: Contract
    history_ids: Sequence[int]
    memory: Memory
    another: Memory | None
    retrieve: Callable[[str, int], list[int]]
    recall: Callable[[list[int]], list[int]]

    def has(self, arm: str) -> bool:
        """Whether the arm exists here."""
        return arm != ANOTHER or self.another is not None

    def prompt(self, arm: str, ids: Sequence[int], query: str) -> Prompt:
        """The continuation `ids` behind what the arm shows; `query` is what texts are searched by."""
        memory = self.memory
        if arm == FULL:
            return _plain([*memory.prefix_ids, *self.history_ids, *ids])
        if arm == SUMMARY:
            return _plain([*self._summary_ids(), *ids])
        if arm == LAST_TEXT:
            return _plain([*self._with_text(self.history_ids[-memory.rows :]), *ids])
        if arm == RETRIEVED:
            return _plain([*self._with_text(self.retrieve(query, memory.rows)), *ids])
        if arm == MEMORY:
            return _behind(memory, ids)
        if arm == MEMORY_RETRIEVED:
            return _behind(memory, [*self.recall(self.retrieve(query, memory.rows)), *ids])
        if self.another is None:
            raise InvalidInput("there is no memory of another session")
        return _behind(self.another, ids)

    def _summary_ids(self) -> list[int]:
        contract, memory = self.contract, self.memory
        return [
            *memory.prefix_ids,
            *contract.summary_before_ids,
            *memory.summary_ids,
            *contract.summary_after_ids,
        ]

    def _with_text(self, ids: Sequence[int]) -> list[int]:
        """Text at the place of the rows."""
        return [*self._summary_ids(), *self.contract.memory_before_ids, *ids, *self.contract.memory_after_ids]


def _plain(ids: list[int]) -> Prompt:
    return Prompt(ids, None, len(ids))


def _behind(memory: Memory, ids: Sequence[int]) -> Prompt:
    return Prompt(list(ids), memory.handle, memory.tokens + len(ids))

"""Checks that histories of versioned registers are linearizable, and that a change feed tells the same story.

A register begins with nothing live at revision 0. A set makes the next revision live; a delete leaves nothing live and
keeps the revision. A set answers its revision, so the order of the sets is known. A delete does not say which revision
it deleted, and «nothing lives» does not say since when, so more than one order of the rest may explain the answers: all
of them are followed at once. This is just-in-time linearization (G. Lowe, Testing for linearizability, 2017): what
changes the register takes effect only when an answer needs it, what only looks at it as soon as the state fits. The
known revisions leave few states to follow, so the time is about linear in the history, and the verdict is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tests.service.scoped.history import Change, Operation, by_entry


@dataclass(frozen=True)
class Violation:
    """What cannot have happened, and the operations that show it."""

    entry: str
    message: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.entry}: {self.message}", *map(str, self.operations)])


def check(operations: Iterable[Operation]) -> list[Violation]:
    """What contradicts the answers, at most one contradiction in time per entry; empty: all are linearizable."""
    found: list[Violation] = []
    for entry, history in sorted(by_entry(operations).items()):
        revisions = _Revisions(entry, history)
        found += revisions.violations or _Search(entry, revisions).violations()
    return found


class _Revisions:
    """Which set made which revision, as far as answers and the uniqueness of values tell.

    `history`: the operations by start, with the revision filled in of every set that a read has seen.
    """

    def __init__(self, entry: str, history: Iterable[Operation]):
        self.history = sorted(history, key=lambda operation: operation.start)
        self.writer: dict[int, Operation] = {}
        self.violations: list[Violation] = []
        self._entry = entry
        self._set_of_value = {one.value: one for one in self.history if one.action == "set"}
        self._made: dict[str | None, int] = {}
        for operation in self.history:
            if operation.action == "set" and operation.mutates and operation.revision is not None:
                self._take(operation, operation.revision)
        for operation in self.history:
            if operation.action == "read" and operation.value is not None:
                self._take_seen(operation)
            if operation.outcome == "conflict" and operation.revision == operation.expected:
                self._report("a compare-and-set was refused although it named the live revision", operation)
        self._find_skipped()
        self.history = [self._filled_in(operation) for operation in self.history]

    def _take(self, operation: Operation, revision: int) -> None:
        """`operation` made `revision`."""
        other = self.writer.setdefault(revision, operation)
        self._made.setdefault(operation.value, revision)
        if other is not operation:
            self._report(f"two sets made revision {revision}", other, operation)
        elif revision < 1:
            self._report(f"a set made revision {revision}", operation)

    def _take_seen(self, read: Operation) -> None:
        writer = self._set_of_value.get(read.value)
        if writer is None or writer.outcome == "conflict":
            self._report("a read saw a value that was never set", read, *filter(None, [writer]))
        elif read.value not in self._made:
            self._take(writer, read.revision or 0)
        elif self._made[read.value] != read.revision:
            self._report("one value was seen under two revisions", writer, read)

    def _find_skipped(self) -> None:
        """Every revision below a known one was made, if not by a set that answered then by one whose answer is lost."""
        skipped = sorted(set(range(1, max(self.writer, default=0))) - set(self.writer))
        lost = [one for one in self.history if _is_free(self._filled_in(one))]
        if len(skipped) > len(lost):
            after = min(revision for revision in self.writer if revision > skipped[0])
            self._report(f"revision {skipped[0]} was skipped", self.writer[after])

    def _filled_in(self, operation: Operation) -> Operation:
        if operation.action == "set" and operation.outcome == "unknown":
            return replace(operation, revision=self._made.get(operation.value))
        return operation

    def _report(self, message: str, *operations: Operation) -> None:
        self.violations.append(Violation(self._entry, message, operations))


def _is_free(operation: Operation) -> bool:
    """Whether it is a set that may have happened at any revision, or not at all."""
    return operation.action == "set" and operation.outcome == "unknown" and operation.revision is None


class _State(NamedTuple):
    """A state that the register may be in, and how it came there.

    `done`: operations under way that already took effect, by index. `spent`: the same of those that never answer.
    """

    revision: int
    live: bool
    done: frozenset[int]
    spent: frozenset[int]

    @property
    def live_revision(self) -> int:
        return self.revision if self.live else 0


class _Search:
    """Follows every state that one register may have been in."""

    def __init__(self, entry: str, revisions: _Revisions):
        self._entry = entry
        self._history = revisions.history
        self._writer = revisions.writer
        self._states = {_State(0, False, frozenset(), frozenset())}
        self._mutators: dict[int, Operation] = {}
        self._observers: dict[int, Operation] = {}

    def violations(self) -> list[Violation]:
        for _, is_end, index in self._events():
            if not is_end:
                self._begin(index)
            elif left := self._end(index):
                return [left]
        return []

    def _events(self) -> list[tuple[int, bool, int]]:
        """Starts and ends by time; of one moment the starts first, so that its operations count as concurrent."""
        starts = [(operation.start, False, index) for index, operation in enumerate(self._history)]
        ends = [(one.end, True, index) for index, one in enumerate(self._history) if one.end is not None]
        return sorted(starts + ends)

    def _begin(self, index: int) -> None:
        operation = self._history[index]
        if operation.mutates:
            self._mutators[index] = operation
        elif operation.outcome != "unknown":
            self._observers[index] = operation
            self._states = {self._look(state, [index]) for state in self._states}

    def _end(self, index: int) -> Violation | None:
        operation = self._history[index]
        reached = self._states_after(index)
        if not reached:
            return self._contradiction(operation)
        self._mutators.pop(index, None)
        self._observers.pop(index, None)
        self._states = _least_spent({state._replace(done=state.done - {index}) for state in reached})
        return None

    def _states_after(self, index: int) -> set[_State]:
        """The states in which an operation has taken effect, each reached by the shortest ways."""
        reached: set[_State] = set()
        visited = set(self._states)
        open_states = list(self._states)
        while open_states:
            state = open_states.pop()
            if self._has_happened(index, state):
                reached.add(state)
                continue
            following = {after for other in self._candidates(state) if (after := self._apply(other, state))}
            open_states += following - visited
            visited |= following
        return reached

    def _candidates(self, state: _State) -> Iterator[int]:
        """Sets and deletes to try. Of lost ones that asked the same only the first: none of them ever has to happen."""
        tried: set[tuple[str, int | None]] = set()
        for index, operation in self._mutators.items():
            if operation.outcome == "unknown" and operation.revision is None and index not in state.spent:
                if (operation.action, operation.expected) in tried:
                    continue
                tried.add((operation.action, operation.expected))
            yield index

    def _has_happened(self, index: int, state: _State) -> bool:
        operation = self._history[index]
        if operation.action == "set" and operation.outcome == "done":
            return state.revision >= (operation.revision or 0)
        return index in state.done

    def _apply(self, index: int, state: _State) -> _State | None:
        """The state after a set or delete; None when it cannot happen there."""
        operation = self._history[index]
        if index in state.done or index in state.spent or operation.expected not in (None, state.live_revision):
            return None
        after = _after_delete(operation, state) if operation.action == "delete" else self._after_set(operation, state)
        if after is None:
            return None
        if operation.outcome == "unknown" and operation.revision is None:
            after = after._replace(spent=after.spent | {index})
        elif operation.action == "delete":
            after = after._replace(done=after.done | {index})
        return self._look(after, self._observers)

    def _after_set(self, operation: Operation, state: _State) -> _State | None:
        revision = state.revision + 1
        fits = revision not in self._writer if operation.revision is None else revision == operation.revision
        return state._replace(revision=revision, live=True) if fits else None

    def _look(self, state: _State, observers: Iterable[int]) -> _State:
        """The state, with what only looks at it and finds what it answered."""
        seen = {index for index in observers if self._history[index].revision == state.live_revision}
        return state._replace(done=state.done | seen) if seen - state.done else state

    def _contradiction(self, operation: Operation) -> Violation:
        possible = sorted({(state.revision, state.live) for state in self._states})
        words = ", ".join(f"{revision} {'live' if live else 'deleted'}" for revision, live in possible)
        makers = [self._writer[revision] for revision, _ in possible if revision in self._writer]
        seen = self._writer.get(operation.revision or 0)
        involved = dict.fromkeys([operation, *filter(None, [seen]), *makers, *self._mutators.values()])
        return Violation(self._entry, f"the register was at {words}; from there this cannot be", tuple(involved))


def _after_delete(operation: Operation, state: _State) -> _State | None:
    fits = state.live and operation.revision in (None, state.revision)
    return state._replace(live=False) if fits else None


def _least_spent(states: set[_State]) -> set[_State]:
    """The states without those that differ from another only by having spent more: they lead nowhere else."""
    alike: dict[tuple[int, bool, frozenset[int]], list[_State]] = defaultdict(list)
    for state in states:
        alike[state[:3]].append(state)
    return {state for same in alike.values() for state in same if not any(other.spent < state.spent for other in same)}


def check_feed(operations: Iterable[Operation], changes: Sequence[Change]) -> list[Violation]:
    """What contradicts between the whole feed of a fresh store and the history that made all of it.

    The feed must have the sequences 1, 2, 3 and so on, and of every process exactly its sets and deletes in their
    order; of those without an answer any may be missing. The feed's order must be one in which all answers are right.
    """
    history = list(operations)
    found = _find_gaps(changes)
    matches, unmatched = _match(history, changes)
    found += unmatched
    if found:
        return found
    return _find_disorder(matches) + check(_resolved(history, matches))


def _find_gaps(changes: Sequence[Change]) -> list[Violation]:
    before = [0, *(change.sequence for change in changes)]
    return [
        Violation(change.entry, f"the feed goes from sequence {last} to {change.sequence}")
        for last, change in zip(before, changes, strict=False)
        if change.sequence != last + 1
    ]


def _match(
    history: Iterable[Operation], changes: Iterable[Change]
) -> tuple[list[tuple[Change, Operation]], list[Violation]]:
    """Every change with the operation that made it: what a process did, it did in order."""
    waiting: dict[str, list[Operation]] = defaultdict(list)
    for operation in sorted(history, key=lambda operation: operation.start, reverse=True):
        if operation.mutates:
            waiting[operation.process].append(operation)
    matches: list[tuple[Change, Operation]] = []
    found: list[Violation] = []
    for change in changes:
        own = waiting[change.process]
        while own and own[-1].outcome == "unknown" and not _fits(change, own[-1]):
            own.pop()
        if own and _fits(change, own[-1]):
            matches.append((change, own.pop()))
        else:
            found.append(Violation(change.entry, f"nobody did what the feed has: {change}", tuple(own[-1:])))
    missing = [operation for own in waiting.values() for operation in own if operation.outcome == "done"]
    found += [Violation(operation.entry, "the feed lacks an answered operation", (operation,)) for operation in missing]
    return matches, found


def _fits(change: Change, operation: Operation) -> bool:
    return (
        (change.entry, change.action) == (operation.entry, operation.action)
        and operation.revision in (None, change.revision)
        and (change.value is None or change.value == operation.value)
    )


def _find_disorder(matches: Iterable[tuple[Change, Operation]]) -> list[Violation]:
    """Pairs that the feed has in another order than time: a change after one that began when it had already ended."""
    found: list[Violation] = []
    latest: Operation | None = None
    for change, operation in sorted(matches, key=lambda match: match[0].sequence):
        if latest and operation.end is not None and operation.end < latest.start:
            found.append(Violation(change.entry, f"sequence {change.sequence} is too late", (operation, latest)))
        if latest is None or operation.start > latest.start:
            latest = operation
    return found


def _resolved(history: Iterable[Operation], matches: Iterable[tuple[Change, Operation]]) -> list[Operation]:
    """The history as the feed has it: with all revisions, and without what it says never happened.

    What lost its answer happened before anything ended that the feed has later.
    """
    told: dict[Operation, Operation] = {}
    ends: list[int] = []
    for change, operation in sorted(matches, key=lambda match: match[0].sequence, reverse=True):
        known = replace(operation, revision=change.revision)
        if operation.end is not None:
            ends = [min([operation.end, *ends])]
        elif ends:
            known = replace(known, outcome="done", end=ends[0])
        told[operation] = known
    return [told.get(one, one) for one in history if one in told or one.outcome != "unknown"]

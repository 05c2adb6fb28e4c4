"""The checker itself: what it must catch, what it must let pass, and that it agrees with trying every order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.scoped.history import Action, Change, Operation
from tests.service.scoped.linearizability import check, check_feed

ENTRY = "value/a"


def write(start: int, end: int | None, revision: int, value: str, expected: int | None = None) -> Operation:
    return Operation(f"p{start}", ENTRY, "set", start, end, "done", revision, value, expected)


def lost_write(start: int, value: str, expected: int | None = None) -> Operation:
    return Operation(f"p{start}", ENTRY, "set", start, None, "unknown", None, value, expected)


def refused_write(start: int, end: int, live: int, value: str, expected: int) -> Operation:
    return Operation(f"p{start}", ENTRY, "set", start, end, "conflict", live, value, expected)


def delete(start: int, end: int, expected: int | None = None) -> Operation:
    return Operation(f"p{start}", ENTRY, "delete", start, end, "done", expected=expected)


def vain_delete(start: int, end: int) -> Operation:
    return Operation(f"p{start}", ENTRY, "delete", start, end, "absent", 0)


def lost_delete(start: int, expected: int | None = None) -> Operation:
    return Operation(f"p{start}", ENTRY, "delete", start, None, "unknown", expected=expected)


def read(start: int, end: int, revision: int, value: str | None = None) -> Operation:
    return Operation(f"p{start}", ENTRY, "read", start, end, "done", revision, value)


LINEARIZABLE = {
    "one after the other": [
        read(0, 1, 0),
        write(2, 3, 1, "x"),
        read(4, 5, 1, "x"),
        delete(6, 7),
        read(8, 9, 0),
        vain_delete(10, 11),
        write(12, 13, 2, "y", expected=0),
        write(14, 15, 3, "z", expected=2),
        refused_write(16, 17, 3, "never", expected=2),
    ],
    "reads around a write may see both": [write(10, 20, 1, "x"), read(11, 19, 0), read(12, 18, 1, "x")],
    "writes may take effect against the order of their starts": [write(0, 10, 2, "late"), write(1, 9, 1, "early")],
    "a compare-and-set may win over a write that began before": [write(0, 10, 2, "y"), write(1, 9, 1, "x", expected=0)],
    "a delete between two writes that both ran beside it": [
        write(0, 1, 1, "x"),
        delete(2, 20),
        write(3, 19, 2, "y", expected=1),
        write(4, 18, 3, "z", expected=0),
    ],
    "two deletes and one write, all at once": [write(0, 1, 1, "x"), delete(2, 20), delete(3, 19), write(4, 18, 2, "y")],
    "which delete came first shows only later": [
        write(0, 1, 1, "x"),
        delete(2, 9),
        write(3, 30, 2, "y"),
        delete(4, 31),
        read(10, 11, 0),
        read(12, 13, 2, "y"),
    ],
    "a lost write that never happened": [lost_write(0, "x"), read(5, 6, 0), write(7, 8, 1, "y")],
    "a lost write that happened at once": [lost_write(0, "x"), read(5, 6, 1, "x"), write(7, 8, 2, "y")],
    "a lost write that happened much later": [
        lost_write(0, "x"),
        write(7, 8, 1, "y"),
        read(9, 10, 1, "y"),
        read(11, 12, 2, "x"),
    ],
    "a lost write that nobody saw but that took a revision": [lost_write(0, "x"), write(7, 8, 2, "y")],
    "a lost write whose revision was deleted": [lost_write(0, "x"), delete(2, 3), read(4, 5, 0), write(7, 8, 2, "y")],
    "a lost delete that happened": [write(0, 1, 1, "x"), lost_delete(2), read(4, 5, 1, "x"), read(6, 7, 0)],
    "a lost delete that did not happen": [write(0, 1, 1, "x"), lost_delete(2), write(4, 5, 2, "y", expected=1)],
    "a lost delete that explains a compare-and-set": [
        write(0, 1, 1, "x"),
        lost_delete(2),
        write(4, 5, 2, "y", expected=0),
    ],
    "a lost delete that could have happened before, but was needed later": [
        write(0, 1, 1, "x"),
        lost_delete(2),
        write(3, 4, 2, "y"),
        read(5, 6, 0),
    ],
    "a listing tells the revision but not the value": [
        write(0, 1, 1, "x"),
        read(2, 3, 1),
        lost_write(4, "y"),
        read(5, 6, 2),
    ],
    "of one moment the start comes before the end": [write(0, 5, 1, "x"), read(5, 6, 0)],
}


@pytest.mark.parametrize("history", LINEARIZABLE.values(), ids=LINEARIZABLE)
def test_linearizable_histories_pass(history: list[Operation]) -> None:
    assert check(history) == []


@dataclass(frozen=True)
class Broken:
    """A history, what is said of it, and which operation (by its start) is named."""

    history: list[Operation]
    said: str
    named: int


BROKEN = {
    "stale read": Broken([write(0, 1, 1, "x"), write(2, 3, 2, "y"), read(4, 5, 1, "x")], "cannot be", 4),
    "a read behind an earlier read": Broken(
        [write(0, 1, 1, "x"), write(2, 20, 2, "y"), read(3, 4, 2, "y"), read(5, 6, 1, "x")], "cannot be", 5
    ),
    "a read that finds nothing": Broken([write(0, 1, 1, "x"), read(2, 3, 0)], "cannot be", 2),
    "a read from the future": Broken([read(0, 1, 1, "x"), write(2, 3, 1, "x")], "cannot be", 0),
    "a lost write read before it began": Broken([read(0, 1, 1, "x"), lost_write(2, "x")], "cannot be", 0),
    "lost update": Broken([write(0, 1, 1, "x"), write(2, 3, 1, "y")], "two sets made revision 1", 2),
    "an update lost without a trace": Broken([write(0, 1, 1, "x"), write(2, 3, 2, "y"), read(4, 5, 0)], "cannot be", 4),
    "two winners of one compare-and-set": Broken(
        [write(0, 1, 1, "x"), write(2, 9, 2, "y", expected=1), write(3, 8, 3, "z", expected=1)], "cannot be", 3
    ),
    "two creators": Broken([write(0, 9, 1, "x", expected=0), write(1, 8, 2, "y", expected=0)], "cannot be", 0),
    "a compare-and-set of a deleted revision": Broken(
        [write(0, 1, 1, "x"), delete(2, 3), write(4, 5, 2, "y", expected=1)], "cannot be", 4
    ),
    "a compare-and-set refused for a reason gone by": Broken(
        [write(0, 1, 1, "x"), write(2, 3, 2, "y"), refused_write(4, 5, 1, "z", expected=7)], "cannot be", 4
    ),
    "a compare-and-set refused without reason": Broken(
        [write(0, 1, 1, "x"), refused_write(4, 5, 1, "z", expected=1)], "although it named the live revision", 4
    ),
    "resurrected delete": Broken([write(0, 1, 1, "x"), delete(2, 3), read(4, 5, 1, "x")], "cannot be", 4),
    "a delete that brings an older value back": Broken(
        [write(0, 1, 1, "x"), write(2, 3, 2, "y"), delete(4, 5), read(6, 7, 1, "x")], "cannot be", 6
    ),
    "two deletes of one revision": Broken([write(0, 1, 1, "x"), delete(2, 9), delete(3, 8)], "cannot be", 2),
    "three deletes and one write between": Broken(
        [write(0, 1, 1, "x"), delete(2, 20), delete(3, 21), delete(4, 22), write(5, 23, 2, "y")], "cannot be", 4
    ),
    "a delete of nothing": Broken([delete(0, 1)], "cannot be", 0),
    "a delete in vain although something lives": Broken([write(0, 1, 1, "x"), vain_delete(2, 3)], "cannot be", 2),
    "a conditional delete too late": Broken(
        [write(0, 1, 1, "x"), write(2, 3, 2, "y"), delete(4, 5, expected=1)], "cannot be", 4
    ),
    "a revision reused after a delete": Broken(
        [write(0, 1, 1, "x"), delete(2, 3), write(4, 5, 1, "y")], "two sets made revision 1", 4
    ),
    "a revision that went back": Broken([write(0, 1, 2, "x"), write(2, 3, 1, "y")], "cannot be", 0),
    "a skipped revision": Broken([write(0, 1, 1, "x"), write(2, 3, 3, "y")], "revision 2 was skipped", 2),
    "more skipped than lost": Broken([lost_write(0, "x"), write(2, 3, 3, "y")], "revision 1 was skipped", 2),
    "a skip by a write that began later": Broken([write(2, 3, 2, "y"), lost_write(4, "x")], "cannot be", 2),
    "one lost write that took two revisions": Broken(
        [lost_write(0, "x"), read(1, 2, 1, "x"), write(3, 4, 2, "y"), read(5, 6, 3, "x")], "under two revisions", 5
    ),
    "a lost compare-and-set that cannot have happened": Broken(
        [write(0, 1, 1, "x"), write(2, 3, 2, "y"), lost_write(4, "z", expected=1), read(5, 6, 3, "z")], "cannot be", 5
    ),
    "a lost delete that happened twice": Broken(
        [write(0, 1, 1, "x"), lost_delete(2), read(3, 4, 0), write(5, 6, 2, "y"), read(7, 8, 0)], "cannot be", 7
    ),
    "an answered delete that happened again": Broken(
        [write(0, 1, 1, "x"), delete(2, 3), write(4, 5, 2, "y"), read(6, 7, 0)], "cannot be", 6
    ),
    "a lost write read before it began, beside another": Broken(
        [lost_write(-2, "other"), read(0, 1, 1, "x"), lost_write(2, "x")], "cannot be", 0
    ),
    "a value under two revisions": Broken([write(0, 1, 1, "x"), read(2, 3, 2, "x")], "under two revisions", 2),
    "a value that nobody wrote": Broken([write(0, 1, 1, "x"), read(2, 3, 1, "?")], "never set", 2),
    "a refused value": Broken(
        [write(0, 1, 1, "x"), refused_write(2, 3, 1, "y", expected=0), read(4, 5, 2, "y")], "never set", 4
    ),
    "a revision that nobody made, listed": Broken([write(0, 1, 1, "x"), read(2, 3, 2)], "cannot be", 2),
    "a revision of 0": Broken([write(0, 1, 0, "x")], "made revision 0", 0),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_other_histories_are_caught(broken: Broken) -> None:
    (violation, *_) = check(broken.history)
    assert broken.said in violation.message
    assert broken.named in [operation.start for operation in violation.operations]
    assert str(violation).startswith(ENTRY)


def test_every_entry_is_checked_alone() -> None:
    other = [replace(operation, entry="vector/a") for operation in LINEARIZABLE["one after the other"]]
    assert check(other + LINEARIZABLE["one after the other"]) == []
    broken = [replace(operation, entry="vector/b") for operation in BROKEN["stale read"].history]
    assert [violation.entry for violation in check(other + broken)] == ["vector/b"]


# Register histories that happened: the points where operations took effect are drawn first, then what was answered.


@dataclass
class Register:
    """The register itself, one operation after the other."""

    revision: int = 0
    value: str | None = None
    deletes: int = 0

    @property
    def live(self) -> int:
        return 0 if self.value is None else self.revision

    def do(self, operation: Operation) -> Operation:
        """The operation with its answer."""
        if operation.action == "read":
            return replace(operation, outcome="done", revision=self.live, value=self.value)
        if operation.action == "delete" and not self.live:
            return replace(operation, outcome="absent", revision=0)
        if operation.expected not in (None, self.live):
            return replace(operation, outcome="conflict", revision=self.live)
        if operation.action == "delete":
            self.value = None
            return replace(operation, outcome="done", revision=None)
        self.revision += 1
        self.value = operation.value
        return replace(operation, outcome="done", revision=self.revision)


ACTIONS: list[Action] = ["set", "set", "read", "read", "delete"]


@st.composite
def asked(draw: st.DrawFn, index: int, point: int, reach: int) -> Operation:
    """An operation around its point, not yet answered."""
    action = draw(st.sampled_from(ACTIONS))
    start, end = point - draw(st.integers(0, reach)), point + draw(st.integers(1, reach))
    expected = draw(st.none() | st.integers(0, 6)) if action != "read" else None
    value = f"v{index}" if action == "set" else None
    return Operation(f"p{index}", ENTRY, action, start, end, "done", value=value, expected=expected)


def losing(operation: Operation) -> Operation:
    """The same without its answer."""
    return replace(operation, end=None, outcome="unknown", revision=None)


@st.composite
def linearizable(draw: st.DrawFn, most: int = 40, lossy: bool = True) -> list[Operation]:
    register = Register()
    history: list[Operation] = []
    for index in range(draw(st.integers(1, most))):
        operation = draw(asked(index, index * 10, reach=60))
        lost = lossy and operation.action != "read" and draw(st.integers(0, 5)) == 0
        if not lost:
            history.append(register.do(operation))
            continue
        if draw(st.booleans()):
            register.do(operation)
        history.append(losing(operation))
    return history


@settings(max_examples=300, deadline=None)
@given(linearizable())
def test_histories_that_happened_pass(history: list[Operation]) -> None:
    assert check(history) == []


def replay(history: Sequence[Operation]) -> tuple[int, str | None]:
    """Revision and value at the end of a history without lost answers: sets are ordered by their revisions."""
    sets = [one for one in history if one.action == "set" and one.outcome == "done"]
    last = max(sets, key=lambda one: one.revision or 0, default=None)
    return (0, None) if last is None else (last.revision or 0, last.value)


@settings(max_examples=300, deadline=None)
@given(linearizable(lossy=False), st.data())
def test_histories_with_one_lie_are_caught(history: list[Operation], data: st.DataObject) -> None:
    """Each lie is one that no order can explain, whatever the history was."""
    last, value = replay(history)
    after = max(operation.end or 0 for operation in history) + 1
    before = min(operation.start for operation in history) - 10
    sets = [one for one in history if one.action == "set" and one.outcome == "done"]
    lies = [
        [*history, read(after, after + 1, last + 1)],
        [*history, write(after, after + 1, last + 2, "new")],
        [*history, read(after, after + 1, last, "of nobody")],
    ]
    if sets:
        one = data.draw(st.sampled_from(sets))
        older = data.draw(st.integers(1, last))
        lies += [
            [*history, read(before, before + 1, one.revision or 0, one.value)],
            [*history, write(after, after + 1, older, "again")],
            [*history, delete(after, after + 1), delete(after + 2, after + 3)],
            [replace(other, revision=last + 1) if other is one else other for other in history],
            [*history, write(after, after + 1, last + 1, "new"), read(after + 2, after + 3, older)],
        ]
    for lie in lies:
        assert check(lie) != []


def orders(history: Sequence[Operation]) -> Iterator[tuple[Operation, ...]]:
    """Every order that time allows, of the answered operations and any of the lost ones."""
    lost = [one for one in history if one.end is None]
    answered = [one for one in history if one.end is not None]
    for count in range(len(lost) + 1):
        for happened in combinations(lost, count):
            for order in permutations([*answered, *happened]):
                if all(b.end is None or b.end >= a.start for i, a in enumerate(order) for b in order[i + 1 :]):
                    yield order


def explains(order: Sequence[Operation]) -> bool:
    """Whether a register that does one after the other gives these answers."""
    register = Register()
    for operation in order:
        answer = register.do(operation)
        if operation.outcome == "unknown":
            fits = answer.outcome == "done"
        else:
            fits = operation == (answer if operation.value is not None else replace(answer, value=None))
        if not fits:
            return False
    return True


@st.composite
def doubtful(draw: st.DrawFn) -> list[Operation]:
    """A few operations whose answers were changed at random: some can have happened, some cannot."""
    history = draw(linearizable(most=6))
    for _ in range(draw(st.integers(0, 2))):
        index = draw(st.integers(0, len(history) - 1))
        one = history[index]
        changes: list[dict[str, Any]] = [{"start": one.start - draw(st.integers(0, 40))}]
        if one.end is not None:
            changes += [{"start": one.start + 20, "end": one.end + 20 + draw(st.integers(0, 30))}]
            if one.revision is not None and one.outcome == "done":
                changes += [{"revision": max(0, one.revision + draw(st.sampled_from([-1, 1])))}]
            if one.action == "delete":
                changes += [{"outcome": "absent", "revision": 0}, {"outcome": "done", "revision": None}]
            if one.action == "read":
                changes += [{"revision": 0, "value": None}, {"revision": draw(st.integers(1, 4)), "value": None}]
        history[index] = replace(one, **draw(st.sampled_from(changes)))
    return history


@settings(max_examples=1000, deadline=None)
@given(doubtful())
def test_the_verdict_is_that_of_trying_every_order(history: list[Operation]) -> None:
    assert (check(history) == []) == any(explains(order) for order in orders(history))


# The feed.


def feed_of(history: Sequence[Operation]) -> list[Change]:
    """The feed of a history given in the order in which it happened, deletes with their revision."""
    made: list[Change] = []
    live = 0
    for one in history:
        if one.mutates:
            live = one.revision or live
            made.append(Change(len(made) + 1, one.process, ENTRY, one.action, live, one.value))
    return made


STORY = [
    write(0, 10, 1, "x"),
    read(1, 12, 1, "x"),
    delete(2, 11),
    write(20, 30, 2, "y", expected=0),
    write(31, 32, 3, "z"),
]


def test_a_feed_that_tells_the_story_passes() -> None:
    assert check_feed(STORY, feed_of(STORY)) == []


def test_a_feed_may_have_what_was_lost_or_not() -> None:
    lost = lost_write(33, "lost")
    feed = feed_of(STORY)
    assert check_feed([*STORY, lost], feed) == []
    assert check_feed([*STORY, lost], [*feed, Change(5, lost.process, ENTRY, "set", 4, "lost")]) == []
    seen = read(40, 41, 4, "lost")
    assert check_feed([*STORY, lost, seen], feed) != []
    assert check_feed([*STORY, lost, seen], [*feed, Change(5, lost.process, ENTRY, "set", 4, "lost")]) == []


def test_what_the_feed_says_of_the_lost_binds_later_answers() -> None:
    lost = lost_write(33, "lost")
    feed = [*feed_of(STORY), Change(5, lost.process, ENTRY, "set", 4, "lost")]
    after = write(40, 41, 4, "after")
    told = Change(6, after.process, ENTRY, "set", 4, "after")
    assert "two sets made revision 4" in check_feed([*STORY, lost, after], [*feed, told])[0].message
    after, told = replace(after, revision=5), replace(told, revision=5)
    assert check_feed([*STORY, lost, after], [*feed, told]) == []
    assert check_feed([*STORY, lost, read(36, 37, 3, "z"), after], [*feed, told]) == []
    assert check_feed([*STORY, lost, after, read(42, 43, 4, "lost")], [*feed, told]) != []
    deleted = Change(6, "p34", ENTRY, "delete", 4)
    elsewhere = replace(write(40, 41, 1, "w"), entry="value/b")
    late = Change(7, elsewhere.process, "value/b", "set", 1, "w")
    history = [*STORY, lost, lost_delete(34), elsewhere]
    assert check_feed([*history, read(42, 43, 0)], [*feed, deleted, late]) == []
    assert check_feed([*history, read(42, 43, 4, "lost")], [*feed, deleted, late]) != []


def renumbered(feed: Sequence[Change]) -> list[Change]:
    return [replace(change, sequence=index + 1) for index, change in enumerate(feed)]


FEED = feed_of(STORY)
BROKEN_FEEDS = {
    "a gap": ([FEED[0], *FEED[2:]], "from sequence 1 to 3"),
    "a first line that is not the first": (FEED[1:], "from sequence 0 to 2"),
    "a line twice": ([*FEED, FEED[-1]], "from sequence 4 to 4"),
    "a line that nobody made": ([*FEED, Change(5, "p99", ENTRY, "set", 4, "w")], "nobody did"),
    "a line less": (FEED[:-1], "lacks"),
    "another value": ([*FEED[:-1], replace(FEED[-1], value="w")], "nobody did"),
    "another revision": ([*FEED[:-1], replace(FEED[-1], revision=4)], "nobody did"),
    "a delete of another revision": ([FEED[0], replace(FEED[1], revision=2), *FEED[2:]], "cannot be"),
    "an order against time": (renumbered([*FEED[:2], FEED[3], FEED[2]]), "too late"),
}


@pytest.mark.parametrize(("feed", "said"), BROKEN_FEEDS.values(), ids=BROKEN_FEEDS)
def test_other_feeds_are_caught(feed: list[Change], said: str) -> None:
    assert said in check_feed(STORY, feed)[0].message


def test_a_feed_against_time_is_caught_across_a_line_between() -> None:
    first, between, late = write(50, 90, 1, "x"), write(5, 91, 2, "y"), write(6, 40, 3, "z")
    assert "too late" in check_feed([first, between, late], feed_of([first, between, late]))[0].message


@settings(max_examples=200, deadline=None)
@given(linearizable(), st.data())
def test_feeds_of_histories_that_happened_pass(history: list[Operation], data: st.DataObject) -> None:
    """What `linearizable` drew is replayed, so its lost operations are again those that happened or did not."""
    register = Register()
    told: list[Operation] = []
    answered: list[Operation] = []
    for operation in history:
        happens = operation.outcome != "unknown" or data.draw(st.booleans())
        answer = register.do(operation) if happens else operation
        answered.append(answer if operation.end is not None else operation)
        if happens and answer.outcome == "done" and answer.action != "read":
            told.append(answer)
    assert check_feed(answered, feed_of(told)) == []

"""Sessions written one by one: what a file must hold, and what is drawn from those that ship."""

from __future__ import annotations

import random
import re

import pytest

from remory.errors import InvalidInput
from remory.evaluation.sets import load_set, shipped_sets
from remory.training.generator.__main__ import count_roughly
from remory.training.sessions import Session
from remory.training.written import draw_written, parse_sessions, renumber, written_sessions

TEXT = """=== greenhouse
system: You help with plants.
task: Let us plan the winter.
user: The spare fuse is in the [[grey]] [[tin]] behind the [[boiler]].
It has been there since 1998.
assistant: Noted, order [[55417]], the heater.
? Where is the spare fuse? | In what do we keep it? => grey tin
? Which order is the heater's? => 55417
=== shed
system: You help.
task: Go on.
user: The [[lock]] is [[brass]].
? Of what is the lock? => brass
"""


def test_a_file_of_sessions() -> None:
    greenhouse, shed = parse_sessions(TEXT)
    assert (greenhouse.system, greenhouse.task) == ("You help with plants.", "Let us plan the winter.")
    assert [turn.role for turn in greenhouse.turns] == ["user", "assistant"]
    first = greenhouse.turns[0]
    assert first.text.endswith("boiler.\nIt has been there since 1998.")
    # The answer is one mark beside those of its words.
    assert [first.text[start:stop] for start, stop in first.marks] == ["grey", "grey tin", "tin", "boiler"]
    assert greenhouse.facts[0].questions == ("Where is the spare fuse?", "In what do we keep it?")
    assert [fact.answer for fact in (*greenhouse.facts, *shed.facts)] == ["grey tin", "55417", "brass"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("=== greenhouse", "== greenhouse", "stands before the first session"),
        ("task: Go on.\n", "", "shed: system and task come first"),
        ("user: The [[lock]]", "system: The [[lock]]", "shed: system and task come first"),
        (" => brass", "", "shed: .* is no fact"),
        (" => brass", " => iron", "shed: the answer 'iron' does not stand"),
        ("[[brass]]", "brass", "shed: the answer 'brass' does not stand"),
        (" => 55417", " => 5541", "greenhouse: the answer '5541' does not stand"),
        ("? Which order", "and\n? Which order", "greenhouse: what is 'and'"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(old: str, new: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_sessions(TEXT.replace(old, new))


def test_long_numbers_change_together() -> None:
    changed = renumber(random.Random(1), parse_sessions(TEXT)[0])
    number = changed.facts[1].answer
    assert number != "55417" and re.fullmatch(r"\d{5}", number)
    assert changed.turns[1].text == f"Noted, order {number}, the heater."
    assert "1998" in changed.turns[0].text


def drawn(seed: int, tokens: int = 1000) -> Session:
    return draw_written(random.Random(seed), count_roughly, tokens)


def test_the_shipped_sessions_are_drawn_in_pieces() -> None:
    assert len(written_sessions()) >= 50
    sessions = [drawn(seed) for seed in range(20)]
    assert drawn(3) == sessions[3]
    assert len({session.turns for session in sessions}) == 20
    for session in sessions:
        assert count_roughly(session.turns) >= 1000
        for fact in session.facts:
            assert any(fact.answer in turn.text[start:stop] for turn in session.turns for start, stop in turn.marks)
    assert sum(len(session.facts) for session in sessions) > 60


def test_the_shipped_sessions_ask_in_other_words() -> None:
    for session in written_sessions():
        assert session.facts
        for fact in session.facts:
            assert not any(fact.answer.lower() in question.lower() for question in fact.questions)


def test_no_answer_is_an_answer_of_the_sets_that_are_played() -> None:
    played = {
        question.answer.lower()
        for name in shipped_sets()
        for session in load_set(name).sessions
        for question in session.questions
        if not question.absent
    }
    assert len(played) > 300
    assert not played & {fact.answer.lower() for session in written_sessions() for fact in session.facts}

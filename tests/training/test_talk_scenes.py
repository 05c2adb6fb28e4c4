"""Scenes of talk and of documents: the same for a seed, answers verbatim and marked, of many kinds and wordings."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from remory.training.generator import documents, talk
from remory.training.generator.document_fields import PAPERS, SOFTWARE
from remory.training.generator.talk_domains import HOME
from remory.training.generator.talk_services import SERVICES
from remory.training.generator.talk_stories import STORIES
from remory.training.generator.talk_topics import FIELDS, SOFTWARE_FIELDS, choose, draw_claim, draw_rivals, parse_fields
from remory.training.generator.talk_trades import TRADES
from remory.training.generator.talk_values import VALUES
from remory.training.sessions import Scene

ROLES = {"user", "assistant", "tool"}
FUNCTIONS = sorted(set(talk.SCENES + documents.SCENES), key=lambda function: function.__name__)


def draw(module_scenes: tuple[Callable[[random.Random], Scene], ...], count: int, seed: int) -> list[Scene]:
    r = random.Random(seed)
    return [r.choice(module_scenes)(r) for _ in range(count)]


def skeleton(text: str, marks: tuple[tuple[int, int], ...]) -> str:
    """The text with every mark and every number masked."""
    parts, end = [], 0
    for start, stop in marks:
        parts.append(text[end:start])
        end = stop
    return re.sub(r"\d+", "0", "_".join([*parts, text[end:]]))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_scene_holds_what_it_promises_over_seeds(function: Callable[[random.Random], Scene]) -> None:
    for seed in range(200):
        made = function(random.Random(seed))
        assert made == function(random.Random(seed))
        assert 1 <= len(made.turns) <= 7 and len(made.facts) <= 3
        assert bool(made.facts) == any(turn.marks for turn in made.turns)
        marked = [turn.text[start:stop] for turn in made.turns for start, stop in turn.marks]
        for turn in made.turns:
            assert turn.role in ROLES and turn.text.strip() and turn.text.isascii()
            assert not re.search(r"\[\[|\]\]|\{\w*\}|<[^<>/]*\|", turn.text.replace("{}", "")), turn.text
        for fact in made.facts:
            assert fact.answer in marked
            assert 3 <= len(fact.questions) <= 6 and len(set(fact.questions)) == len(fact.questions)
            assert not any(fact.answer.lower() in question.lower() for question in fact.questions)
            assert fact.kind.isalpha()
        asked = [question for fact in made.facts for question in fact.questions]
        assert len(asked) == len(set(asked))


@pytest.mark.parametrize("module", [talk, documents])
def test_scenes_are_short_and_half_of_them_hold_no_fact(module) -> None:
    scenes = draw(module.SCENES, 2000, 5)
    words = [sum(len(turn.text.split()) for turn in made.turns) for made in scenes]
    assert max(words) <= 170 and sum(words) / len(words) < 60
    assert 0.3 <= sum(not made.facts for made in scenes) / len(scenes) <= 0.6


def test_marks_are_few_of_the_words() -> None:
    told = [made for made in draw(talk.SCENES + documents.SCENES, 3000, 6) if made.facts]
    words = sum(len(turn.text[a:b].split()) for made in told for turn in made.turns for a, b in turn.marks)
    assert words / sum(len(made.facts) for made in told) <= 9


def test_breadth_of_statements_kinds_and_answers() -> None:
    told = [made for made in draw(talk.SCENES + documents.SCENES, 4000, 7) if made.facts]
    facts = [fact for made in told for fact in made.facts]
    statements = {skeleton(turn.text, turn.marks) for made in told for turn in made.turns if turn.marks}
    assert len(statements) >= 0.75 * len(told)
    assert len({fact.answer for fact in facts}) >= 0.5 * len(facts)
    assert len({fact.kind for fact in facts}) >= 40
    most = max(sum(fact.kind == kind for fact in facts) for kind in {fact.kind for fact in facts})
    assert most <= 0.2 * len(facts)


def test_fields_have_no_question_twice_and_every_value_can_be_drawn() -> None:
    fields = FIELDS + SOFTWARE_FIELDS
    assert sum(len(field.attributes) for field in fields) >= 200
    for field in fields:
        asks = [ask for attribute in field.attributes for ask in attribute.asks]
        assert len(asks) == len(set(asks)) and all("{e}" in ask and ask.endswith("?") for ask in asks)
        nouns = [attribute.noun for attribute in field.attributes]
        assert len(nouns) == len(set(nouns))
        for attribute in field.attributes:
            assert len(attribute.says) >= 3 and len(attribute.asks) >= 3 and attribute.value in VALUES
            assert all(said.count("{e}") == 1 and said.count("{v}") == 1 for said in attribute.says)


def test_the_texts_of_fields_are_read_completely() -> None:
    for text in (HOME, TRADES, SERVICES, STORIES, PAPERS, SOFTWARE):
        fields = parse_fields(text)
        lines = text.strip().splitlines()
        assert len(fields) == sum(line.startswith("=") for line in lines)
        assert sum(len(field.attributes) for field in fields) == sum(line.startswith("a ") for line in lines)
        assert sum(len(a.says) for f in fields for a in f.attributes) == sum(line.startswith("s ") for line in lines)


def test_rivals_differ_in_thing_and_in_value() -> None:
    r = random.Random(3)
    for _ in range(300):
        claims = draw_rivals(r, r.choice(FIELDS + SOFTWARE_FIELDS), 3)
        assert len({claim.entity for claim in claims}) == len({claim.value for claim in claims}) == 3
        assert len({claim.attribute for claim in claims}) == 1


def test_a_claim_keeps_what_is_given() -> None:
    field = FIELDS[0]
    claim = draw_claim(random.Random(1), field, "tall clock", field.attributes[2], avoid=("9 euros",))
    assert claim.entity == "tall clock" and claim.attribute is field.attributes[2] and claim.value != "9 euros"
    assert "[[tall clock]]" in claim.clause(random.Random(2))


def test_choose_takes_one_of_the_alternatives() -> None:
    texts = {choose(random.Random(seed), "<a|b <c|d>> {animal}") for seed in range(200)}
    assert {text.rsplit(" ", 1)[0] for text in texts} == {"a", "b c", "b d"}
    with pytest.raises(KeyError):
        choose(random.Random(0), "{no_such_value}")

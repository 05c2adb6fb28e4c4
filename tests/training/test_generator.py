"""The generator of training sessions: the same by seed, facts that can be answered, enough breadth, right lengths."""

from __future__ import annotations

import random
import re
import subprocess
import sys

import pytest

from remory.training.generator import SCENES, generate_session
from remory.training.generator.__main__ import bracket, count_roughly
from remory.training.generator.assembly import _Draft
from remory.training.generator.facts import ATTRIBUTES
from remory.training.generator.patterns import tell_pattern
from remory.training.generator.rules import PATTERNS
from remory.training.generator.statements import draw_rivals, draw_triple, to_fact
from remory.training.generator.styles import Style, restyle
from remory.training.generator.words import Cast, service
from remory.training.generator.work import SCENES as WORK_SCENES
from remory.training.sessions import Fact, Scene, Session, say

MAKERS = tuple(dict.fromkeys(WORK_SCENES))


def list_marked(scene: Scene | Session) -> list[str]:
    return [turn.text[start:stop] for turn in scene.turns for start, stop in turn.marks]


def draw_many(number: int) -> list[Scene]:
    return [MAKERS[seed % len(MAKERS)](random.Random(seed)) for seed in range(number)]


def skeleton(scene: Scene) -> str:
    """The words of the marked sentences of a scene, with marks and numbers masked."""
    parts = []
    for turn in scene.turns:
        if turn.marks:
            text = re.sub(r"\[\[.*?\]\]", "#", bracket(turn), flags=re.DOTALL)
            parts += [sentence for sentence in re.split(r"(?<=[.!?\n]) ", text) if "#" in sentence]
    return re.sub(r"\d+", "0", " ".join(parts))


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: f"{maker.__module__.rsplit('.', 1)[-1]}.{maker.__name__}")
def test_scene_is_sound(maker):
    for seed in range(200):
        scene = maker(random.Random(seed))
        assert 1 <= len(scene.turns) <= 7
        assert len(scene.facts) <= 3
        marked = list_marked(scene)
        for turn in scene.turns:
            assert turn.role in ("user", "assistant", "tool")
            assert turn.text.strip() and turn.text.isascii()
            assert "[[" not in turn.text and "]]" not in turn.text
            assert not re.search(r"\{[a-zA-Z]\}|<(?:word|function|owner|thing|service)>", turn.text), turn.text
        for fact in scene.facts:
            assert fact.answer in marked, (fact.answer, marked)
            assert 3 <= len(fact.questions) <= 6, fact.questions
            assert len(set(fact.questions)) == len(fact.questions)
            assert not [ask for ask in fact.questions if fact.answer.lower() in ask.lower()]
            assert not [ask for ask in fact.questions if re.search(r"[{}\[\]]", ask)]
        if not scene.facts:
            assert not marked


def test_the_same_seed_gives_the_same_scene():
    assert [maker(random.Random(5)) for maker in SCENES] == [maker(random.Random(5)) for maker in SCENES]
    assert WORK_SCENES[0](random.Random(5)) != WORK_SCENES[0](random.Random(6))


def test_a_seed_gives_the_same_session_in_another_process():
    command = [sys.executable, "-m", "remory.training.generator", "--seed", "7", "--tokens", "300"]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": salt}).stdout
        for salt in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert "[[" in runs[0]


@pytest.mark.parametrize("chosen", PATTERNS, ids=lambda chosen: chosen.statements[0][:40])
def test_pattern_marks_its_answers(chosen):
    for statement in chosen.statements:
        assert all(f"[[{{{name}}}]]" in statement for name in chosen.answers), statement
    for seed in range(20):
        told = tell_pattern(random.Random(seed), chosen)
        assert all(fact.answer in list_marked(told) for fact in told.facts)


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=lambda attribute: attribute.labels[0])
def test_attribute_gives_clear_triples(attribute):
    for seed in range(40):
        r = random.Random(seed)
        triple = draw_triple(r, attribute)
        fact = to_fact(r, triple)
        assert not [ask for ask in fact.questions if fact.answer.lower() in ask.lower()]
        rivals = draw_rivals(r, attribute, 3)
        assert len({one.answer for one in rivals}) == len({one.entity for one in rivals}) == 3


def test_marks_are_short_and_about_half_of_the_scenes_hold_a_fact():
    scenes = draw_many(3000)
    with_facts = [scene for scene in scenes if scene.facts]
    assert 0.35 < sum(bool(maker(random.Random(3)).facts) for maker in WORK_SCENES) / len(WORK_SCENES) < 0.75
    words_a_fact = [sum(len(mark.split()) for mark in list_marked(s)) / len(s.facts) for s in with_facts]
    assert 2.5 < sum(words_a_fact) / len(words_a_fact) < 7
    shares = [sum(map(len, list_marked(s))) / sum(len(turn.text) for turn in s.turns) for s in with_facts]
    assert 0.1 < sum(shares) / len(shares) < 0.45


def test_statements_have_many_forms():
    scenes = [scene for scene in draw_many(6000) if scene.facts][:2000]
    assert len(scenes) == 2000
    assert len({skeleton(scene) for scene in scenes}) > 1500
    assert len({fact.kind for scene in scenes for fact in scene.facts}) > 30
    questions = [ask for scene in scenes for fact in scene.facts for ask in fact.questions]
    assert len({" ".join(ask.split()[:3]) for ask in questions}) > 150


@pytest.mark.parametrize("tokens", [80, 300, 960])
def test_session_has_its_length(tokens):
    for seed in range(30):
        session = generate_session(random.Random(seed), count_roughly, tokens)
        assert tokens - 60 <= count_roughly(session.turns) <= tokens


def test_session_repeats_no_question_and_keeps_its_answers_in_marks():
    facts = 0
    for seed in range(60):
        session = generate_session(random.Random(seed), count_roughly, 960)
        questions = [ask for fact in session.facts for ask in fact.questions]
        assert len(set(questions)) == len(questions)
        marked = list_marked(session)
        for fact in session.facts:
            assert any(fact.answer in mark for mark in marked), (seed, fact.answer)
        facts += len(session.facts)
    assert 300 < facts < 1000


def test_session_needs_room():
    with pytest.raises(ValueError, match="80 tokens"):
        generate_session(random.Random(1), count_roughly, 79)


def test_a_style_changes_words_but_no_mark():
    turn = say("user", "I will keep it because the [[port]] of [[do not]] is [[8,100]], but it is not mine.")
    style = Style(1.0, True, (("because", "since"), ("but", "though")))
    changed = restyle(random.Random(1), style, turn)
    assert bracket(changed) == "I'll keep it since the [[port]] of [[do not]] is [[8,100]], though it isn't mine"
    output = say("tool", "it is not mine.")
    assert restyle(random.Random(1), style, output) == output


def test_a_cast_comes_up_again():
    cast = Cast(3, ["kestrel", "plover"])
    drawn = [service(cast) for _ in range(200)]
    assert 40 < sum(name in ("kestrel", "plover") for name in drawn) < 140
    assert [service(Cast(3, ["kestrel", "plover"])) for _ in range(3)] == drawn[:1] * 3


def tell_port(service: str) -> Scene:
    asks = (f"Where does {service} listen?", f"{service}'s number behind the colon?", f"How do I reach {service}?")
    return Scene((say("user", f"[[{service}]] [[90]]"),), (Fact(asks, "90", "port"),))


def test_facts_that_could_be_mixed_up_are_drawn_again():
    asks = ("Which port does kestrel use?", "On which port is kestrel?", "The port of kestrel?")
    scene = Scene((say("user", "[[kestrel]] [[port]] [[81]]"),), (Fact(asks, "81", "port"),))
    draft = _Draft(count_roughly, 500)
    assert draft.add(scene)
    again = tell_port("kestrel")
    other = tell_port("plover")
    assert draft.clashes(again)
    assert not draft.clashes(other)

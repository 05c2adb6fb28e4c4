"""Whole sessions out of scenes: a mood, a density of facts, an opening, and scenes until the length is reached."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from remory.training.generator import documents, listings, talk, words, work
from remory.training.generator.lexicon import split_words
from remory.training.generator.openings import system_message, task_message
from remory.training.generator.styles import draw_style, restyle
from remory.training.generator.words import Cast, chance, pick
from remory.training.sessions import Fact, Scene, Session, Turn

SceneMaker = Callable[[random.Random], Scene]
CountTokens = Callable[[Sequence[Turn]], int]

SCENES: tuple[SceneMaker, ...] = (*work.SCENES, *talk.SCENES, *documents.SCENES)
SLACK = 60

_COMMON = frozenset(
    split_words("""
        a an the is are was were be been of for to in on at by with from as and or not it its that this what which who
        whom where when why how do does did has have had will would should can could may must i we you they he she
        there long many much often far old large after before until under into than more most one now current currently
    """)
)
_WORD = re.compile(r"[\w/.-]*\w")


@dataclass
class _Draft:
    count_tokens: CountTokens
    tokens: int
    turns: list[Turn] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    used: int = 0

    def add(self, scene: Scene) -> bool:
        """Take the turns of a scene that still fit, with the facts that stand in them; False when none fits."""
        turns, used = _fit(self, scene.turns)
        if not turns:
            return False
        facts = scene.facts
        if len(turns) < len(scene.turns):
            turns, facts = _cut(turns, scene)
        self.turns += turns
        self.facts += facts
        self.used = used
        return True

    def clashes(self, scene: Scene) -> bool:
        """Whether a fact of the scene could be mixed up with one that is there already, or asks what it says."""
        asks = [question for fact in scene.facts for question in fact.questions]
        if len(frozenset(asks)) < len(asks) or not all(_is_askable(fact, scene) for fact in scene.facts):
            return True
        return any(_is_alike(new, old) for new in scene.facts for old in self.facts)


def _fit(draft: _Draft, turns: Sequence[Turn]) -> tuple[list[Turn], int]:
    whole = draft.count_tokens([*draft.turns, *turns])
    if whole <= draft.tokens:
        return list(turns), whole
    kept: list[Turn] = []
    used = draft.used
    for turn in turns:
        count = draft.count_tokens([*draft.turns, *kept, turn])
        if count > draft.tokens:
            break
        kept.append(turn)
        used = count
    return kept, used


def _is_askable(fact: Fact, scene: Scene) -> bool:
    told = _stands_in(fact, scene.turns)
    return told and not any(fact.answer.lower() in question.lower() for question in fact.questions)


def _stands_in(fact: Fact, turns: Sequence[Turn]) -> bool:
    return any(fact.answer in turn.text[start:stop] for turn in turns for start, stop in turn.marks)


def _cut(turns: list[Turn], scene: Scene) -> tuple[list[Turn], tuple[Fact, ...]]:
    """The facts that stand in the first turns; where one is lost, turns without a kept fact lose their marks."""
    kept = tuple(fact for fact in scene.facts if _stands_in(fact, turns))
    if len(kept) < len(scene.facts):
        turns = [turn if any(_stands_in(f, [turn]) for f in kept) else Turn(turn.role, turn.text) for turn in turns]
    return turns, kept


def _subject(fact: Fact) -> frozenset[str]:
    """The words that all questions of a fact have in common: what it is about."""
    every = [frozenset(_WORD.findall(question.lower().replace("'s", ""))) for question in fact.questions]
    return frozenset.intersection(*every) - _COMMON


def _is_alike(new: Fact, old: Fact) -> bool:
    if frozenset(new.questions) & frozenset(old.questions):
        return True
    return new.kind == old.kind and (_subject(new) <= _subject(old) or _subject(old) <= _subject(new))


_MOODS: tuple[tuple[float, tuple[SceneMaker, ...]], ...] = (
    (0.40, work.SCENES),
    (0.18, talk.SCENES),
    (0.17, documents.SCENES),
)


def _draw_mood(r: random.Random) -> tuple[SceneMaker, ...]:
    """The scenes of one mood, or of all."""
    level = r.random()
    for share, scenes in _MOODS:
        if level < share:
            return scenes
        level -= share
    return SCENES


def _draw_scene(r: random.Random, makers: Sequence[SceneMaker], draft: _Draft, density: float) -> Scene:
    """A scene that suits: with facts when they are due, by another role than the last, no fact twice."""
    due = len(draft.facts) < density * draft.used / 1000
    wants = due if chance(r, 0.85) else chance(r, 0.5)
    scene = listings.nod(r)
    for attempt in range(24):
        scene = pick(r, makers if chance(r, 0.93) else SCENES)(r)
        if draft.clashes(scene):
            continue
        suits = bool(scene.facts) == wants
        if (suits and _follows(r, draft, scene)) or attempt > 16:
            return scene
    return listings.nod(r)


def _follows(r: random.Random, draft: _Draft, scene: Scene) -> bool:
    if not draft.turns or draft.turns[-1].role != scene.turns[0].role:
        return scene.turns[0].role != "tool" or bool(draft.turns and draft.turns[-1].role == "assistant")
    return chance(r, 0.15)


def generate_session(r: random.Random, count_tokens: CountTokens, tokens: int) -> Session:
    """A session of `tokens` - 60 to `tokens` tokens by `count_tokens`, drawn from `r` alone.

    ValueError when `tokens` is under 80, since then no message is sure to fit.
    """
    if tokens < 80:
        raise ValueError(f"a session needs 80 tokens at least, not {tokens}")
    makers, density = _draw_mood(r), r.uniform(3, 13)
    r = Cast(r.getrandbits(64), [words.service(r) for _ in range(r.randint(1, 6))])
    system, task = system_message(r), task_message(r)
    draft, style = _Draft(count_tokens, tokens), draw_style(r)
    misses = 0
    while draft.used < tokens - SLACK or (misses < 3 and chance(r, 0.7)):
        scene = _draw_scene(r, makers, draft, density) if misses < 12 else listings.nod(r)
        if draft.add(Scene(tuple(restyle(r, style, turn) for turn in scene.turns), scene.facts)):
            continue
        misses += 1
        if misses > 400:
            raise ValueError(f"no message fits into {tokens - draft.used} tokens; {draft.used} of {tokens} are used")
    return Session(system, task, tuple(draft.turns), tuple(draft.facts))

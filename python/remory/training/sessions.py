"""Sessions to train on: messages, the words in them that a memory should keep, and questions about them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MARK = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


@dataclass(frozen=True)
class Fact:
    """Something said once that may be asked for: the answer, verbatim as said, and ways to ask for it."""

    questions: tuple[str, ...]
    answer: str
    kind: str


@dataclass(frozen=True)
class Turn:
    """One message. `marks` are spans [start, stop) of characters that a telegram of its facts would keep."""

    role: str
    text: str
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Scene:
    """Some consecutive messages and the facts that stand in them."""

    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Session:
    """A whole session. `system` and `task` stay verbatim in a compaction; the turns are what is removed."""

    system: str
    task: str
    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...]


def say(role: str, marked: str) -> Turn:
    """A message from text in which [[double brackets]] enclose what is marked; the brackets vanish.

    >>> say("user", "The queue listens on [[port]] [[9317]].").marks
    ((21, 25), (26, 30))
    """
    text, marks, end = "", [], 0
    for found in _MARK.finditer(marked):
        text += marked[end : found.start()]
        marks.append((len(text), len(text) + len(found[1])))
        text += found[1]
        end = found.end()
    return Turn(role, text + marked[end:], tuple(marks))


def scene(turns: Sequence[Turn], facts: Sequence[Fact] = ()) -> Scene:
    """A scene. Raises ValueError when a fact's answer is said in none of its turns."""
    for fact in facts:
        if not any(fact.answer in turn.text for turn in turns):
            raise ValueError(f"the answer {fact.answer!r} is in none of the scene's turns")
    return Scene(tuple(turns), tuple(facts))

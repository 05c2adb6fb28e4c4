"""Ways of writing that go through a whole session: contractions, small letters, other words for common ones."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from remory.training.generator.words import chance, pick
from remory.training.sessions import Turn

_CONTRACTIONS = (
    ("do not", "don't"),
    ("does not", "doesn't"),
    ("did not", "didn't"),
    ("is not", "isn't"),
    ("are not", "aren't"),
    ("was not", "wasn't"),
    ("has not", "hasn't"),
    ("would not", "wouldn't"),
    ("should not", "shouldn't"),
    ("will not", "won't"),
    ("cannot", "can't"),
    ("I am", "I'm"),
    ("I will", "I'll"),
    ("I would", "I'd"),
    ("I have", "I've"),
    ("we have", "we've"),
    ("we are", "we're"),
    ("we will", "we'll"),
    ("you are", "you're"),
    ("they are", "they're"),
    ("it is", "it's"),
    ("that is", "that's"),
    ("there is", "there's"),
    ("what is", "what's"),
    ("here is", "here's"),
    ("let us", "let's"),
)
_SWAPS = (
    ("because", ("since", "as", "seeing that")),
    ("please", ("kindly", "pls", "if you can,")),
    ("but", ("though", "yet")),
    ("also", ("too", "as well")),
    ("maybe", ("perhaps", "possibly")),
    ("look at", ("check", "inspect", "go over")),
    ("about", ("regarding", "concerning")),
    ("from now on", ("henceforth", "going forward", "starting today")),
    ("we decided", ("it was decided", "we concluded", "the call was", "we landed on this:")),
    ("as far as I know", ("afaik", "to my knowledge")),
    ("for now", ("for the time being", "at the moment")),
    ("will be", ("is going to be",)),
    ("right now", ("currently", "at present")),
    ("everybody", ("everyone", "all of us")),
    ("somebody", ("someone",)),
    ("nobody", ("no one",)),
    ("instead of", ("rather than", "in place of")),
    ("in the end", ("finally", "eventually")),
    ("has to", ("needs to", "must")),
    ("have to", ("need to", "ought to")),
)


@dataclass(frozen=True)
class Style:
    """How one session is written: the chance of a contraction, whether users write in a hurry, words for others."""

    contraction: float
    is_hurried: bool
    swaps: tuple[tuple[str, str], ...]


def draw_style(r: random.Random) -> Style:
    """The style of a session."""
    swaps = tuple((word, pick(r, others)) for word, others in _SWAPS if chance(r, 0.35))
    return Style(pick(r, (0.0, 0.2, 0.6, 0.95)), chance(r, 0.15), swaps)


def restyle(r: random.Random, style: Style, turn: Turn) -> Turn:
    """The message in a style. What is marked stays as it is; of a tool's output nothing changes."""
    if turn.role == "tool" or "```" in turn.text:
        return turn
    text, marks, end = "", [], 0
    for start, stop in turn.marks:
        text += _rewrite(r, style, turn, end, start)
        marks.append((len(text), len(text) + stop - start))
        text += turn.text[start:stop]
        end = stop
    text += _rewrite(r, style, turn, end, len(turn.text))
    return Turn(turn.role, text, tuple(marks))


def _rewrite(r: random.Random, style: Style, turn: Turn, start: int, stop: int) -> str:
    text = turn.text[start:stop]
    for word, other in style.swaps:
        text = re.sub(rf"(?<![\w-]){word}(?= \w)", other, text)
    for long, short in _CONTRACTIONS:
        if chance(r, style.contraction):
            text = re.sub(rf"(?<![\w'-]){long}(?= [a-z])", short, text)
            text = re.sub(rf"(?<![\w'-]){long[:1].upper()}{long[1:]}(?= [a-z])", short[:1].upper() + short[1:], text)
    if style.is_hurried and turn.role == "user":
        text = re.sub(r"(^|[.!?] )([A-Z])(?=[a-z]+ [a-z])", lambda found: found[1] + found[2].lower(), text)
        text = text.removesuffix(".") if stop == len(turn.text) else text
    return text

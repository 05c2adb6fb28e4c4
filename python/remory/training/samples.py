"""One training sample: what is removed, what of it is marked, and what is read behind the memory afterwards."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from remory.training.actor import Strand
from remory.training.generator import generate_session
from remory.training.phrasing import Phrasing
from remory.training.sessions import Fact, Session, Turn
from remory.training.settings import StageSettings

_SUFFIXES = ("", "", "", " Answer in a few words.", " Answer briefly.", " Be brief.", " Just the answer, please.")
_LEADS = (
    "",
    "",
    "",
    "A question about what we had earlier: ",
    "I lost track. ",
    "Quick question: ",
    "Before we go on: ",
    "Remind me. ",
)
_SUMMARY_LEADS = (
    "The conversation so far: ",
    "The user and the assistant talked about this: ",
    "Summary: ",
    "So far: ",
    "The goal is this. ",
    "",
)
_FOLLOWING = 48
_SUMMARY_TOKENS = 80
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Part:
    """What one compaction removes: token ids [T] and whether each is marked [T]."""

    ids: tuple[int, ...]
    marked: tuple[bool, ...]


@dataclass(frozen=True)
class Sample:
    """A session's removed parts, oldest first, and the strands that are read behind its last memory.

    `questions` are answered from the parts; `following` continues them; `unrelated` has nothing to do with them.
    """

    prefix: tuple[int, ...]
    summary: tuple[int, ...]
    parts: tuple[Part, ...]
    questions: tuple[Strand, ...]
    following: tuple[Strand, ...] = ()
    unrelated: tuple[Strand, ...] = ()


def draw_sample(seed: str, stage: StageSettings, parts: int, phrasing: Phrasing) -> Sample:
    """The sample of this seed: the same text, the same facts and the same ways to ask, for ever.

    Of a second compaction both parts are shorter, so that old rows, summary and new history fill one block.
    """
    r = random.Random(seed)
    tokens = stage.tokens if parts == 1 else 2 * stage.tokens - stage.tokens // 8 - _SUMMARY_TOKENS
    session = generate_session(r, phrasing.count, tokens + _FOLLOWING)
    pieces, following = _cut(session, phrasing, stage.tokens, parts)
    removed = [turn.text for piece in pieces for turn in piece]
    facts = [fact for fact in session.facts if any(fact.answer in text for text in removed)]
    r.shuffle(facts)
    more = r.random() < stage.continuations
    return Sample(
        prefix=tuple(phrasing.prefix(session.system, session.task)),
        summary=tuple(_write_summary(r, pieces, phrasing)),
        parts=tuple(_part(piece, phrasing) for piece in pieces),
        questions=tuple(_ask(r, fact, phrasing) for fact in facts[: stage.questions]),
        following=_continuation(following, phrasing) if more else (),
        unrelated=_unrelated(r, phrasing) if more else (),
    )


def _cut(
    session: Session, phrasing: Phrasing, tokens: int, parts: int
) -> tuple[list[tuple[Turn, ...]], tuple[Turn, ...]]:
    """Consecutive turns into `parts` pieces, none over `tokens`; what is left follows."""
    turns = list(session.turns)
    pieces = []
    for number in range(parts):
        room = tokens if number == 0 else tokens - tokens // 8 - _SUMMARY_TOKENS
        piece: list[Turn] = []
        while turns and phrasing.count(piece) + phrasing.length(turns[0]) <= room:
            piece.append(turns.pop(0))
        pieces.append(tuple(piece))
    return pieces, tuple(turns)


def _part(turns: Sequence[Turn], phrasing: Phrasing) -> Part:
    ids: list[int] = []
    marked: list[bool] = []
    for turn in turns:
        own, own_marked = phrasing.turn(turn)
        ids += own
        marked += own_marked
    return Part(tuple(ids), tuple(marked))


def _ask(r: random.Random, fact: Fact, phrasing: Phrasing) -> Strand:
    question = phrasing.question(r.choice(_LEADS) + r.choice(fact.questions) + r.choice(_SUFFIXES))
    return Strand((*question, *phrasing.encode(fact.answer), *phrasing.end_ids), len(question))


def _write_summary(r: random.Random, pieces: Sequence[Sequence[Turn]], phrasing: Phrasing) -> list[int]:
    """Some sentences without marks: the facts must come from the rows."""
    plain = [
        sentence for piece in pieces for turn in piece if not turn.marks for sentence in _SENTENCE.split(turn.text)
    ]
    chosen = r.sample(plain, min(len(plain), r.randint(1, 4)))
    text = r.choice(_SUMMARY_LEADS) + " ".join(chosen)
    return phrasing.encode(text or "Nothing yet.")[: r.randint(8, _SUMMARY_TOKENS)]


def _continuation(turns: Sequence[Turn], phrasing: Phrasing) -> tuple[Strand, ...]:
    ids = [token for turn in turns for token in phrasing.turn(replace(turn, marks=()))[0]][:_FOLLOWING]
    return (Strand(tuple(ids), 4),) if len(ids) > 8 else ()


def _unrelated(r: random.Random, phrasing: Phrasing) -> tuple[Strand, ...]:
    other = generate_session(r, phrasing.count, 4 * _FOLLOWING)
    return _continuation(other.turns, phrasing)

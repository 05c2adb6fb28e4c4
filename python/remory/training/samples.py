"""One training sample: what is removed, what of it is marked, and what is read behind the memory afterwards."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from remory.training.actor import Strand
from remory.training.generator import generate_session
from remory.training.phrasing import Phrasing
from remory.training.sessions import Fact, Session, Turn
from remory.training.settings import SUMMARY_TOKENS, StageSettings
from remory.training.written import draw_written

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
_LEAD_SHARE = 0.35
FOLLOWING = 48
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


@dataclass(frozen=True)
class Part:
    """What one compaction removes: token ids [T], whether each is marked [T], and its features [1, T, L*D] if known."""

    ids: tuple[int, ...]
    marked: tuple[bool, ...]
    features: Tensor | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Question:
    """A strand that asks for a fact, and where its answer stands: token indices in one of the sample's parts."""

    strand: Strand
    part: int
    places: tuple[int, ...]


@dataclass(frozen=True)
class Sample:
    """A session's removed parts, oldest first, and the strands that are read behind its last memory.

    `questions` are answered from the parts; `following` continues them; `unrelated` has nothing to do with them.
    """

    prefix: tuple[int, ...]
    summary: tuple[int, ...]
    parts: tuple[Part, ...]
    questions: tuple[Question, ...]
    following: tuple[Strand, ...] = ()
    unrelated: tuple[Strand, ...] = ()


def draw_sample(seed: str, visit: str, stage: StageSettings, rooms: Sequence[int], phrasing: Phrasing) -> Sample:
    """The session of this seed, and what is asked of it on this visit: the same for ever.

    `rooms`: most tokens of each of its parts.
    """
    r = random.Random(f"{seed}:{len(rooms)}:{stage.tokens}")
    draw = draw_written if random.Random(f"{seed}:written").random() < stage.written else generate_session
    session = draw(r, phrasing.count, sum(rooms) + FOLLOWING)
    pieces, following = _cut(session, phrasing, rooms)
    r = random.Random(visit)
    facts = list(session.facts)
    r.shuffle(facts)
    follows = stage.questions > 0 and r.random() < stage.continuations
    return Sample(
        prefix=tuple(phrasing.prefix(session.system, session.task)),
        summary=tuple(_write_summary(r, pieces, phrasing)),
        parts=tuple(_part(piece, phrasing) for piece in pieces),
        questions=_ask_all(r, facts, pieces, phrasing) if stage.questions else (),
        following=_continuation(following, phrasing) if follows else (),
        unrelated=draw_unrelated(r, phrasing, stage.written) if stage.questions else (),
    )


def _cut(session: Session, phrasing: Phrasing, rooms: Sequence[int]) -> tuple[list[tuple[Turn, ...]], tuple[Turn, ...]]:
    """Consecutive turns into pieces, none longer than its room; what is left follows."""
    turns = list(session.turns)
    pieces = []
    for room in rooms:
        piece: list[Turn] = []
        while turns and phrasing.count(piece) + phrasing.length(turns[0]) <= room:
            piece.append(turns.pop(0))
        if not piece and turns:
            piece.append(_shorten(turns.pop(0), room, phrasing))
        if piece:
            pieces.append(tuple(piece))
    return pieces, tuple(turns)


def _shorten(turn: Turn, tokens: int, phrasing: Phrasing) -> Turn:
    """The beginning of a message that has more than so many tokens."""
    while turn.text and (length := phrasing.length(turn)) > tokens:
        text = turn.text[: len(turn.text) * tokens // length - 1]
        turn = Turn(turn.role, text, tuple((start, stop) for start, stop in turn.marks if stop <= len(text)))
    return turn


def _part(turns: Sequence[Turn], phrasing: Phrasing) -> Part:
    ids: list[int] = []
    marked: list[bool] = []
    for turn in turns:
        own, own_marked = phrasing.turn(turn)
        ids += own
        marked += own_marked
    return Part(tuple(ids), tuple(marked))


def _ask_all(
    r: random.Random, facts: Sequence[Fact], pieces: Sequence[Sequence[Turn]], phrasing: Phrasing
) -> tuple[Question, ...]:
    questions = []
    for fact in facts:
        strand = _ask(r, fact, phrasing)
        if found := _locate(fact, pieces, phrasing):
            questions.append(Question(strand, *found))
    return tuple(questions)


def _ask(r: random.Random, fact: Fact, phrasing: Phrasing) -> Strand:
    question = phrasing.question(r.choice(_LEADS) + r.choice(fact.questions) + r.choice(_SUFFIXES))
    lead = r.random() < _LEAD_SHARE
    begun = phrasing.encode("Answer:") if lead else []
    answer = phrasing.encode(" " * lead + fact.answer)
    return Strand((*question, *begun, *answer, *phrasing.end_ids), len(question) + len(begun))


def _locate(fact: Fact, pieces: Sequence[Sequence[Turn]], phrasing: Phrasing) -> tuple[int, tuple[int, ...]] | None:
    """The part, and the places in it, of the last mark that holds the answer; None when it was not removed."""
    found = None
    for number, piece in enumerate(pieces):
        begin = 0
        for turn in piece:
            for start, stop in turn.marks:
                offset = turn.text[start:stop].find(fact.answer)
                if offset >= 0:
                    first = start + offset
                    places = phrasing.places(turn, first, first + len(fact.answer))
                    found = number, tuple(begin + place for place in places)
            begin += phrasing.length(turn)
    return found


def _write_summary(r: random.Random, pieces: Sequence[Sequence[Turn]], phrasing: Phrasing) -> list[int]:
    """Some sentences without marks: the facts must come from the rows."""
    plain = [
        sentence for piece in pieces for turn in piece if not turn.marks for sentence in _SENTENCE.split(turn.text)
    ]
    chosen = r.sample(plain, min(len(plain), r.randint(1, 4)))
    text = r.choice(_SUMMARY_LEADS) + " ".join(chosen)
    return phrasing.encode(text or "Nothing yet.")[: r.randint(8, SUMMARY_TOKENS)]


def _continuation(turns: Sequence[Turn], phrasing: Phrasing) -> tuple[Strand, ...]:
    ids = [token for turn in turns for token in phrasing.turn(replace(turn, marks=()))[0]][:FOLLOWING]
    return (Strand(tuple(ids), 4),) if len(ids) > 8 else ()


def draw_unrelated(r: random.Random, phrasing: Phrasing, written: float = 0.0) -> tuple[Strand, ...]:
    """Text of another session, a written one by this share; none if what was drawn is too short."""
    draw = draw_written if r.random() < written else generate_session
    other = draw(r, phrasing.count, 4 * FOLLOWING)
    return _continuation(other.turns, phrasing)

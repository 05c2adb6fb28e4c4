"""Sessions that were written one by one for training, beside the generated ones: `data/written/*.txt`.

A generator's sessions share its forms; these share none with each other. A file holds sessions one after the other:

    === greenhouse heating
    system: …
    task: …
    user: The spare fuse is in the [[grey]] [[tin]] behind the [[boiler]].
    assistant: …
    ? Where do we keep the spare fuse? | In what is the extra fuse? => grey tin

A message goes on until the next line that begins with a role or with "? ". [[Double brackets]] enclose the words that a
telegram of the session's facts would keep. A line "? …" is a fact: ways to ask for it, separated by " | ", and behind
" => " the answer, as it stands in a message within marks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from remory.errors import InvalidInput
from remory.training.sessions import Fact, Session, Turn, say

CountTokens = Callable[[Sequence[Turn]], int]
DATA = Path(__file__).with_name("data") / "written"
_ROLES = ("user", "assistant", "tool")
_LINE = re.compile(r"(system|task|user|assistant|tool): (.*)")
# Shorter numbers are often hours, days and counts, which other digits would make absurd.
_LONG_NUMBER = re.compile(r"(?<!\d)(?!(?:19|20)\d\d(?!\d))[1-9]\d{2,}")
# Of the tokens that are drawn, how much one session gives at most: from, to.
_PIECE = (0.4, 1.2)


def parse_sessions(text: str, name: str = "text") -> list[Session]:
    """The sessions of a file. Raises InvalidInput, with the session and what is wrong with it."""
    titles: list[str] = []
    bodies: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("=== "):
            titles.append(line[4:].strip())
            bodies.append([])
        elif bodies:
            bodies[-1].append(line)
        elif line.strip():
            raise InvalidInput(f"{name}: {line[:60]!r} stands before the first session, which begins with '=== title'")
    return [_parse_session(f"{name}: {title}", lines) for title, lines in zip(titles, bodies, strict=True)]


def _parse_session(name: str, lines: Sequence[str]) -> Session:
    messages: list[list[str]] = []
    facts: list[Fact] = []
    for line in lines:
        if line.startswith("? "):
            facts.append(_parse_fact(name, line))
        elif (found := _LINE.match(line)) is not None:
            messages.append([found[1], found[2]])
        elif messages and not facts:
            messages[-1][1] += f"\n{line}"
        elif line.strip():
            raise InvalidInput(f"{name}: what is {line[:60]!r}? Facts stand behind the last message")
    heads = [role for role, _ in messages[:2]]
    if heads != ["system", "task"] or any(role not in _ROLES for role, _ in messages[2:]) or len(messages) < 3:
        raise InvalidInput(f"{name}: system and task come first, then messages of {', '.join(_ROLES)}")
    turns = [say(role, text.strip()) for role, text in messages[2:]]
    for fact in facts:
        if not any(_find_marked(turn, fact.answer) for turn in turns):
            raise InvalidInput(f"{name}: the answer {fact.answer!r} does not stand in a message, in marked words alone")
    whole = tuple(_mark_whole(turn, [fact.answer for fact in facts]) for turn in turns)
    return Session(messages[0][1].strip(), messages[1][1].strip(), whole, tuple(facts))


def _parse_fact(name: str, line: str) -> Fact:
    asked, arrow, answer = line[2:].partition(" => ")
    questions = tuple(question.strip() for question in asked.split(" | "))
    if not arrow or not answer.strip() or not all(questions):
        raise InvalidInput(f"{name}: {line[:80]!r} is no fact; write '? question | question => answer'")
    return Fact(questions, answer.strip(), "written")


def _find_marked(turn: Turn, answer: str) -> list[tuple[int, int]]:
    """Where an answer stands as whole words, each of its letters and digits in a mark."""
    spans = [found.span() for found in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", turn.text)]
    return [
        (start, stop)
        for start, stop in spans
        if all(_is_marked(turn, place) for place in range(start, stop) if turn.text[place].isalnum())
    ]


def _is_marked(turn: Turn, place: int) -> bool:
    return any(start <= place < stop for start, stop in turn.marks)


def _mark_whole(turn: Turn, answers: Sequence[str]) -> Turn:
    """The message with a mark more around each answer that stands in marked words: what is asked for is one piece."""
    spans = {span for answer in answers for span in _find_marked(turn, answer)}
    return replace(turn, marks=tuple(sorted({*turn.marks, *spans})))


@cache
def written_sessions() -> tuple[Session, ...]:
    """All that ship, file after file."""
    return tuple(
        session for path in sorted(DATA.glob("*.txt")) for session in parse_sessions(path.read_text(), path.name)
    )


def draw_written(r: random.Random, count_tokens: CountTokens, tokens: int) -> Session:
    """Pieces of written sessions one behind the other, of `tokens` or a little more, with other long numbers.

    `count_tokens`: of some messages. System message and task are those of the first piece.
    """
    first: Session | None = None
    turns: list[Turn] = []
    facts: list[Fact] = []
    while count_tokens(turns) < tokens:
        session = renumber(r, r.choice(written_sessions()))
        first = first or session
        begin = r.randrange(1 + len(session.turns) // 2)
        room = count_tokens(turns) + r.uniform(*_PIECE) * tokens
        piece: list[Turn] = []
        while begin < len(session.turns) and count_tokens([*turns, *piece]) < min(room, tokens):
            piece.append(session.turns[begin])
            begin += 1
        turns += piece
        facts += [fact for fact in session.facts if any(_find_marked(turn, fact.answer) for turn in piece)]
    assert first is not None
    return Session(first.system, first.task, tuple(turns), tuple(facts))


def renumber(r: random.Random, session: Session) -> Session:
    """The session with other digits in long numbers, the same ones wherever a number stands, years apart."""
    numbers: dict[str, str] = {}

    def change(found: re.Match[str]) -> str:
        number = found[0]
        if number not in numbers:
            numbers[number] = number[0] + "".join(r.choice("0123456789") for _ in number[1:])
        return numbers[number]

    def rewrite(text: str) -> str:
        return _LONG_NUMBER.sub(change, text)

    return Session(
        rewrite(session.system),
        rewrite(session.task),
        tuple(replace(turn, text=rewrite(turn.text)) for turn in session.turns),
        tuple(
            replace(fact, questions=tuple(map(rewrite, fact.questions)), answer=rewrite(fact.answer))
            for fact in session.facts
        ),
    )

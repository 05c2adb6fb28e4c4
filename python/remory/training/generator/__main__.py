"""Print one generated session with its marks in double brackets and its questions: --seed 1 --tokens 400."""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence

from remory.training.generator import generate_session
from remory.training.sessions import Session, Turn


def count_roughly(turns: Sequence[Turn]) -> int:
    """About as many tokens as a tokenizer finds: four characters each and five for the frame of a message."""
    return sum(len(turn.text) // 4 + 5 for turn in turns)


def bracket(turn: Turn) -> str:
    """The text of a message with its marks in double brackets."""
    text, end = "", 0
    for start, stop in turn.marks:
        text += f"{turn.text[end:start]}[[{turn.text[start:stop]}]]"
        end = stop
    return text + turn.text[end:]


def render(session: Session) -> str:
    """The session as readable text: messages with marks, then each fact with its answer and its questions."""
    lines = [f"system: {session.system}", f"task: {session.task}", ""]
    lines += [f"{turn.role}: {bracket(turn)}" for turn in session.turns]
    lines.append("")
    for fact in session.facts:
        lines.append(f"{fact.answer} ({fact.kind})")
        lines += [f"    {question}" for question in fact.questions]
    return "\n".join(lines)


def main() -> None:
    """Read the arguments and print."""
    parser = argparse.ArgumentParser(prog="python -m remory.training.generator", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same session")
    parser.add_argument("--tokens", type=int, default=400, help="length, roughly counted (at least 80)")
    arguments = parser.parse_args()
    print(render(generate_session(random.Random(arguments.seed), count_roughly, arguments.tokens)))


if __name__ == "__main__":
    main()

"""A small set of sessions of our own, and the sets that come with the package."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest


def make_session(name: str, port: str, colour: str) -> dict[str, Any]:
    """A session of two parts with four questions, one of them absent and one that holds for the first part only."""
    return {
        "id": name,
        "title": "a small one",
        "system": "You help with the lamps.",
        "task": "See to the lamps.",
        "parts": [
            [
                {"role": "assistant", "content": "I look at the lamp now. It hums. " * 6},
                {"role": "user", "content": f"Its port is {port}. The glass is {colour}."},
                {"role": "tool", "content": "$ lamp --show\nlamp is on, all is well here\n" * 5},
            ],
            [
                {"role": "user", "content": "Now the glass is clear.\nThe fuse is 13 A, as ever."},
                {"role": "assistant", "content": "I have written it down and go on with the others. " * 8},
            ],
        ],
        "questions": [
            asked("Which port has the lamp?", port, 0, 1, "plain", kind="port"),
            asked("What colour is the glass?", colour, 0, 1, "plain", until=1),
            asked("What is the glass now?", "clear", 1, 0, "updated"),
            asked("Who sold the lamp?", "", 0, -1, "absent", kind="team"),
        ],
    }


def asked(question, answer, part, message, type_, until=None, kind="colour"):
    return {
        "question": question,
        "answer": answer,
        "kind": kind,
        "part": part,
        "message": message,
        "type": type_,
        "until": until,
    }


@pytest.fixture
def small_set() -> dict[str, Any]:
    sessions = [make_session(name, port, colour) for name, port, colour in _SESSIONS]
    return copy.deepcopy({"name": "small", "description": "for tests", "sessions": sessions})


@pytest.fixture
def small_file(tmp_path: Path, small_set: dict[str, Any]) -> Path:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(small_set))
    return path


_SESSIONS = [("s-1", "4471", "green"), ("s-2", "5082", "amber"), ("s-3", "6693", "blue"), ("s-4", "7704", "violet")]

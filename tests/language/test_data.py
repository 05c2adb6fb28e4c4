"""The two sets written by hand are what their scorers take them for; no model is needed to see that."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "bench" / "text" / "data"
RECALL = json.loads((FOLDER / "recall.json").read_text(encoding="utf-8"))
DIALOGUES = json.loads((FOLDER / "dialogues.json").read_text(encoding="utf-8"))
NOTES = {note["id"]: note for note in RECALL["notes"]}
QUESTIONS = RECALL["questions"]
LONG = 2500  # words


def words(text: str) -> int:
    return len(text.split())


def spoken(dialogue: dict[str, Any]) -> str:
    return "\n".join(message["text"] for message in dialogue["messages"])


def reached(metadata: Any, path: str) -> Any:
    for key in path.split("."):
        metadata = metadata.get(key) if isinstance(metadata, dict) else None
    return metadata


def matches(metadata: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Every dotted path reaches the wanted value, or one of them where a list is wanted."""
    return all(
        reached(metadata, path) in (value if isinstance(value, list) else [value]) for path, value in wanted.items()
    )


@pytest.mark.parametrize("name", ["recall.json", "dialogues.json"])
def test_files_are_readable_text_with_an_indent_of_one(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


def test_recall_set_has_its_size() -> None:
    assert len(RECALL["notes"]) == len(NOTES) == 200
    assert len(QUESTIONS) == 100
    kinds = Counter(question["kind"] for question in QUESTIONS)
    assert kinds == {"plain": 20, "paraphrase": 26, "near_duplicate": 24, "exact": 20, "filtered": 10}


def test_notes_are_short_different_texts() -> None:
    assert len({note["content"] for note in RECALL["notes"]}) == 200
    for note in RECALL["notes"]:
        assert set(note) == {"id", "content", "metadata"}
        assert re.fullmatch(r"n\d{3}", note["id"])
        assert 8 <= words(note["content"]) <= 60, note["id"]
        assert note["content"] == note["content"].strip()
    assert sum(bool(note["metadata"]) for note in RECALL["notes"]) >= 100


def test_near_duplicates_come_in_groups_apart_from_each_other() -> None:
    groups = RECALL["groups"]
    assert len(groups) >= 25
    assert all(len(members) >= 2 for members in groups.values())
    members = [member for group in groups.values() for member in group]
    assert len(set(members)) == len(members)
    assert set(members) <= set(NOTES)


def test_questions_near_duplicates_have_rivals_in_their_group() -> None:
    grouped = {member for group in RECALL["groups"].values() for member in group}
    for question in QUESTIONS:
        if question["kind"] == "near_duplicate":
            assert set(question["answers"]) <= grouped, question["question"]


def test_every_question_is_answered_by_one_to_three_notes() -> None:
    assert len({question["question"] for question in QUESTIONS}) == 100
    for question in QUESTIONS:
        assert question["question"].strip()
        assert 1 <= len(question["answers"]) <= 3, question["question"]
        assert len(set(question["answers"])) == len(question["answers"])
        assert set(question["answers"]) <= set(NOTES), question["question"]


def test_exact_questions_name_something_that_only_their_answer_contains() -> None:
    for question in QUESTIONS:
        if question["kind"] == "exact":
            (name,) = re.findall(r"[\w/.#-]*[\d_/][\w/.#-]*\w", question["question"])
            alone = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
            found = [identifier for identifier, note in NOTES.items() if alone.search(note["content"])]
            assert found == question["answers"], question["question"]


def test_filters_let_the_answers_pass_and_keep_others_out() -> None:
    for question in QUESTIONS:
        assert ("filter" in question) == (question["kind"] == "filtered"), question["question"]
        if "filter" in question:
            passed = {identifier for identifier, note in NOTES.items() if matches(note["metadata"], question["filter"])}
            assert set(question["answers"]) <= passed, question["question"]
            assert len(passed) < len(NOTES) // 2, question["question"]


def test_there_are_thirty_dialogues_three_of_them_long() -> None:
    assert [dialogue["id"] for dialogue in DIALOGUES] == [f"d{number:02}" for number in range(1, 31)]
    assert len({dialogue["topic"] for dialogue in DIALOGUES}) == 30
    sizes = [words(spoken(dialogue)) for dialogue in DIALOGUES]
    assert sum(size > LONG for size in sizes) == 3
    assert all(150 <= size <= 1500 or size > LONG for size in sizes), sizes


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda dialogue: dialogue["id"])
def test_messages_are_texts_of_both_sides(dialogue: dict[str, Any]) -> None:
    messages = dialogue["messages"]
    assert 6 <= len(messages) <= 24
    assert messages[0]["role"] == "user"
    assert {"user", "assistant"} <= {message["role"] for message in messages} <= {"user", "assistant", "tool"}
    assert all(set(message) == {"role", "text"} and message["text"].strip() for message in messages)


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda dialogue: dialogue["id"])
def test_planted_facts_stand_in_the_messages(dialogue: dict[str, Any]) -> None:
    text = spoken(dialogue)
    assert 5 <= len(dialogue["facts"]) <= 8
    assert len({fact["value"] for fact in dialogue["facts"]}) == len(dialogue["facts"])
    for fact in dialogue["facts"]:
        assert fact["about"].strip()
        assert len(fact["value"]) >= 3, "too short to be told from chance"
        # As a thing of its own, not the inside of a longer number or word.
        assert re.search(rf"(?<!\w){re.escape(fact['value'])}(?!\w)", text), fact


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda dialogue: dialogue["id"])
def test_dialogues_lead_to_decisions_and_actions(dialogue: dict[str, Any]) -> None:
    assert dialogue["decisions"] and dialogue["actions"]
    for line in dialogue["decisions"] + dialogue["actions"]:
        assert line.strip() and words(line) <= 30

"""Sets are read as they are meant, or refused with what is wrong."""

from __future__ import annotations

import json

import pytest

from remory.errors import InvalidInput
from remory.evaluation.sets import load_set, shipped_sets


@pytest.mark.parametrize("name", shipped_sets())
def test_the_shipped_sets_are_sound(name):
    sessions = load_set(name).sessions
    assert sessions and all(session.asked_at(1) for session in sessions)


def test_questions_are_asked_while_they_hold(small_file):
    session = load_set(str(small_file)).sessions[0]
    assert [place for place, _ in session.asked_at(1)] == [0, 1, 3]
    assert [place for place, _ in session.asked_at(2)] == [0, 2, 3]
    assert [place for place, _ in session.asked_at(1, limit=1)] == [0, 3]
    assert [message["role"] for message in session.prefix] == ["system", "user"]


def test_a_value_that_changes_later_is_asked_until_then(small_set, tmp_path):
    session = small_set["sessions"][0]
    session["parts"] += [session["parts"][1]] * 2
    session["questions"][1]["until"] = 2
    path = tmp_path / "longer.json"
    path.write_text(json.dumps(small_set))
    loaded = load_set(str(path)).sessions[0]
    assert [1 in dict(loaded.asked_at(stage)) for stage in (1, 2, 3, 4)] == [True, True, False, False]


def test_the_other_sessions_of_a_session(small_file):
    small = load_set(str(small_file))
    assert [small.next_of(place).id for place in range(4)] == ["s-2", "s-3", "s-4", "s-1"]
    assert [small.stranger_of(place).id for place in range(4)] == ["s-3", "s-4", "s-1", "s-2"]


def test_a_stranger_is_of_another_field_where_fields_are_named(small_set, tmp_path):
    for session, field in zip(small_set["sessions"], ("work", "garden", "work", "garden"), strict=True):
        session["field"] = field
    path = tmp_path / "fields.json"
    path.write_text(json.dumps(small_set))
    small = load_set(str(path))
    for place in range(4):
        stranger = small.stranger_of(place)
        assert stranger.field != small.sessions[place].field and stranger is not small.next_of(place)


@pytest.mark.parametrize(("count", "expected"), [(1, [None]), (2, ["s-2", "s-1"]), (3, ["s-3", "s-1", "s-2"])], ids=str)
def test_strangers_in_very_small_sets(small_set, tmp_path, count, expected):
    small_set["sessions"] = small_set["sessions"][:count]
    path = tmp_path / "few.json"
    path.write_text(json.dumps(small_set))
    small = load_set(str(path))
    found = [small.stranger_of(place) for place in range(count)]
    assert [one and one.id for one in found] == expected


def spoil_answer(session):
    session["questions"][0]["answer"] = "4472"


def spoil_part(session):
    session["questions"][0]["part"] = 2


def spoil_message(session):
    session["questions"][0]["message"] = 3


def spoil_until(session):
    session["questions"][1]["until"] = 0


def spoil_type(session):
    session["questions"][2]["type"] = "hard"


def spoil_role(session):
    session["parts"][1][0]["role"] = "robot"


def spoil_parts(session):
    session["parts"] = [[]]


def spoil_id(session):
    session["id"] = "s-1"


def spoil_task(session):
    del session["task"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_answer, "session 's-2': question 0: the answer '4472' does not stand in message 1 of part 0"),
        (spoil_part, "session 's-2': question 0: part is 2, the session has parts 0 to 1"),
        (spoil_message, "question 0: message is 3, part 0 has messages 0 to 2"),
        (spoil_until, "question 1: until is 0, expected null or a part behind part 0, up to 1"),
        (spoil_type, "question 2: the type is 'hard'"),
        (spoil_role, "message 0 of part 1"),
        (spoil_parts, "'parts' must be a list of lists of messages"),
        (spoil_id, "session 's-1' is there twice"),
        (spoil_task, "no text under task"),
    ],
)
def test_a_faulty_session_is_refused_with_numbers(small_set, tmp_path, spoil, words):
    spoil(small_set["sessions"][1])
    path = tmp_path / "faulty.json"
    path.write_text(json.dumps(small_set))
    with pytest.raises(InvalidInput) as caught:
        load_set(str(path))
    assert "faulty.json has 1 fault" in str(caught.value) and words in str(caught.value)


def test_what_is_no_set_is_refused(tmp_path):
    path = tmp_path / "none.json"
    for content, words in (("{", "no JSON"), ("[]", "list 'sessions'"), ('{"sessions": []}', "at least one session")):
        path.write_text(content)
        with pytest.raises(InvalidInput, match=words):
            load_set(str(path))
    with pytest.raises(InvalidInput, match="no set and no file 'missing'.*development"):
        load_set("missing")

"""From hand-made records to figures, tables and pictures."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from remory.errors import InvalidInput
from remory.evaluation.aggregates import summarise_results
from remory.evaluation.plots import write_plots
from remory.evaluation.report import print_report, write_markdown
from remory.evaluation.results import Results

SERVER = {"actor": {"name": "an actor"}, "checkpoint": {"name": "a checkpoint", "trained": False}}


def answered(right, loss):
    return {"answer": "…", "right": right, "loss": loss, "refusal": False, "context_tokens": 100}


def refused(refusal):
    return {"answer": "…", "refusal": refusal, "context_tokens": 100}


def question(number, arms, kind="port", type_="plain", age=300, ago=0):
    known = {"age_tokens": age, "compactions_ago": ago} if type_ != "absent" else {}
    return {"number": number, "kind": kind, "type": type_, "part": 0, "arms": arms} | known


def session(name, set_="first", *, memory=(True, False), rows=64):
    questions = [
        question(0, {"full": answered(True, 1.0), "summary": answered(False, 4.0), "memory": answered(memory[0], 2.0)}),
        question(
            1,
            {"full": answered(True, 2.0), "summary": answered(False, 5.0), "memory": answered(memory[1], 3.0)},
            kind="place",
            type_="updated",
            age=700,
        ),
        question(
            2, {"full": refused(True), "summary": refused(False), "memory": refused(False)}, kind="team", type_="absent"
        ),
    ]
    texts = {
        "full": {"following_loss": 1.5, "foreign_loss": 3.0},
        "summary": {"following_loss": 2.5, "foreign_loss": 3.2},
        "memory": {"following_loss": 2.0, "foreign_loss": 3.3},
    }
    stage = {
        "stage": 1,
        "history_tokens": 1000,
        "summary_tokens": 50,
        "rows": rows,
        "another_rows": None,
        "arms": texts,
        "questions": questions,
    }
    return {
        "set": set_,
        "id": name,
        "title": name,
        "seconds": 1.0,
        "summaries": ["…"],
        "failed_summaries": 0,
        "stages": [stage],
    }


@pytest.fixture
def sessions():
    return [session("a"), session("b", memory=(False, False)), session("c", "second", memory=(True, True), rows=128)]


def test_the_figures_of_a_stage(sessions):
    figures = summarise_results(sessions)
    assert list(figures) == ["all", "first", "second"]
    stage = figures["all"]["1"]
    assert (stage["sessions"], stage["questions"]) == (3, 9)
    assert stage["ratio"] == pytest.approx(3000 / 256)
    memory = stage["arms"]["memory"]
    assert memory["exact_match"]["value"] == pytest.approx(3 / 6) and memory["exact_match"]["count"] == 6
    assert memory["exact_match"]["low"] == 0.0 and memory["exact_match"]["high"] == 1.0
    assert memory["answer_loss"]["value"] == 2.5
    assert memory["following_loss"]["value"] == 2.0
    assert memory["harm"]["value"] == pytest.approx(0.1)
    assert stage["arms"]["summary"]["harm"]["value"] == 0.0
    assert stage["arms"]["full"]["refusal"]["value"] == 1.0 and stage["arms"]["full"]["refusal"]["count"] == 3
    assert stage["arms"]["full"]["refusal_of_known"]["value"] == 0.0
    against = memory["against"]
    assert list(against) == ["full", "summary"]
    assert against["full"]["exact_match_ratio"]["value"] == pytest.approx(0.5)
    assert against["full"]["answer_loss_difference"]["value"] == pytest.approx(1.0)
    assert against["summary"]["answer_loss_difference"] == {"value": -2.0, "low": -2.0, "high": -2.0, "count": 6}
    assert figures["second"]["1"]["arms"]["memory"]["exact_match"]["value"] == 1.0


def test_the_figures_by_group(sessions):
    memory = summarise_results(sessions)["all"]["1"]["arms"]["memory"]
    assert {group: one["exact_match"]["value"] for group, one in memory["by_type"].items()} == pytest.approx(
        {"plain": 2 / 3, "updated": 1 / 3}
    )
    assert list(memory["by_age"]) == ["256-511", "512-1023"]
    assert {group: one["answer_loss"]["value"] for group, one in memory["by_age"].items()} == {
        "256-511": 2.0,
        "512-1023": 3.0,
    }
    assert list(memory["by_compactions_ago"]) == ["0"]
    # Three questions of a kind are too few to be told by themselves.
    assert list(memory["by_kind"]) == ["other"]


def test_kinds_with_enough_questions_stand_by_themselves(sessions):
    many = [*sessions, session("d"), session("e")]
    for one in many[:1]:
        one["stages"][0]["questions"][1]["kind"] = "colour"
    kinds = summarise_results(many)["all"]["1"]["arms"]["memory"]["by_kind"]
    assert list(kinds) == ["port", "other"]
    assert [one["exact_match"]["count"] for one in kinds.values()] == [5, 5]


def test_an_arm_is_compared_on_the_questions_of_both(sessions):
    del sessions[0]["stages"][0]["questions"][1]["arms"]["full"]
    against = summarise_results(sessions)["all"]["1"]["arms"]["memory"]["against"]["full"]
    assert against["exact_match_difference"]["count"] == 5
    assert against["exact_match_difference"]["value"] == pytest.approx(3 / 5 - 1)


def test_tables_say_what_was_measured(sessions):
    results = Results({}, SERVER, None)
    results.sessions = sessions
    text = io.StringIO()
    print_report(Console(file=text, width=200), results.figures())
    for words in ("3 sessions", "1 for 11.7 tokens", "50 % [0, 100]", "summary + memory", "untrained", "right, by set"):
        assert words in text.getvalue()
    table = write_markdown(results.figures())
    assert "| summary + memory | 50 % [0, 100] | 2.50 [2.50, 2.50] | 0 % / 0 % | 2.00 [2.00, 2.00] | +0.10" in table
    assert "by type of question" in table and "512-1023 (3)" in table


def test_pictures_are_drawn(sessions, tmp_path):
    results = Results({}, SERVER, None)
    results.sessions = sessions
    written = write_plots(results.figures(), tmp_path)
    assert [path.name for path in written] == ["exact_match_by_stage.png", "exact_match_by_age.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_results_go_on_where_they_were(sessions, tmp_path):
    settings = {"arms": ("full", "memory"), "stages": (1, 2)}
    first = Results(settings, SERVER, tmp_path / "out")
    first.add(sessions[0])
    again = Results(settings, SERVER, tmp_path / "out")
    assert again.has("first", "a") and not again.has("second", "a") and not again.has("first", "b")
    again.add(sessions[1])
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [one["id"] for one in kept["sessions"]] == ["a", "b"]
    assert kept["aggregates"]["all"]["1"]["sessions"] == 2


def test_results_of_other_settings_are_left_alone(sessions, tmp_path):
    Results({"stages": [1]}, SERVER, tmp_path).add(sessions[0])
    before = (tmp_path / "results.json").read_text()
    with pytest.raises(InvalidInput, match=r"stages was \[1\], is \[1, 2\].*--out"):
        Results({"stages": [1, 2]}, SERVER, tmp_path)
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(InvalidInput, match="no results of an evaluation"):
        Results({"stages": [1]}, SERVER, tmp_path)
    assert before.startswith("{")

"""`remory eval` as a user runs it: the shipped checkpoint, a few questions of the development set."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from remory.cli import main
from remory.network import embedded_checkpoint

ARMS = ["full", "summary", "last-text", "memory", "another-memory"]


def remory_eval(*arguments, timeout=600):
    return subprocess.run(
        [sys.executable, "-m", "remory.cli", "eval", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "2")},
        timeout=timeout,
    )


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Of one evaluation that is run several times; the folder keeps its results."""
    out = tmp_path_factory.mktemp("out") / "results"
    plan = ["--quick", "--set", "development", "--stages", 1, "--arms", ",".join(ARMS)]
    return [*plan, "--checkpoint", embedded_checkpoint(trained=False), "--out", out]


@pytest.fixture(scope="module")
def evaluated(settings):
    done = remory_eval(*settings, "--sessions", 1)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((settings[-1] / "results.json").read_text())


def test_it_shows_every_arm_with_the_ratio(evaluated):
    text, results = evaluated
    (session,) = results["sessions"]
    (stage,) = session["stages"]
    assert stage["rows"] == 64 and 850 < stage["history_tokens"] < 1100
    assert f"1 for {stage['history_tokens'] / 64:.1f} tokens" in text
    for words in ("full history", "summary + last text", "summary + another's memory", "untrained", "is done after"):
        assert words in text
    figures = results["aggregates"]["all"]["1"]
    assert list(figures["arms"]) == ARMS and figures["questions"] == 4


def test_the_untrained_checkpoint_is_as_good_as_the_text_it_keeps(evaluated):
    (stage,) = evaluated[1]["sessions"][0]["stages"]
    known = [question["arms"] for question in stage["questions"] if question["type"] != "absent"]
    assert known
    for answers in known:
        # Its rows are the embeddings of the last tokens, scaled to one size: the same text, nearly.
        assert answers["memory"]["loss"] == pytest.approx(answers["last-text"]["loss"], abs=0.4)
        assert answers["memory"]["context_tokens"] == answers["last-text"]["context_tokens"]
    texts = stage["arms"]
    assert texts["full"]["following_loss"] < texts["summary"]["following_loss"]
    assert texts["memory"]["following_loss"] == pytest.approx(texts["last-text"]["following_loss"], abs=0.1)
    assert texts["memory"]["following_loss"] < texts["another-memory"]["following_loss"]


def test_tables_and_pictures_lie_beside_the_results(evaluated, settings):
    names = sorted(path.name for path in settings[-1].iterdir())
    assert names == ["exact_match_by_age.png", "exact_match_by_stage.png", "results.json", "table.md"]
    table = (settings[-1] / "table.md").read_text()
    assert "| summary + memory |" in table and "by type of question" in table


def test_a_second_run_plays_nothing_twice(evaluated, settings):
    again = remory_eval(*settings, "--sessions", 1)
    assert again.returncode == 0, again.stderr
    assert "1 session was played before; 0 are left" in again.stdout and "is done after" not in again.stdout
    results = json.loads((settings[-1] / "results.json").read_text())
    assert results["sessions"] == evaluated[1]["sessions"] and results["aggregates"] == evaluated[1]["aggregates"]


def test_other_settings_do_not_touch_the_results(evaluated, settings):
    other = remory_eval(*settings, "--sessions", 1, "--stages", 2)
    assert other.returncode == 1
    assert other.stderr.startswith("remory: ") and "stages was [1], is [2]" in other.stderr
    assert json.loads((settings[-1] / "results.json").read_text())["settings"]["stages"] == [1]


def test_an_interrupted_evaluation_goes_on(small_file, tmp_path, tiny_actor, tiny_checkpoint):
    model = ["--model", tiny_actor, "--checkpoint", tiny_checkpoint]
    settings = ["--set", small_file, "--stages", "1,2", *model, "--out"]
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    begun = subprocess.Popen(
        [sys.executable, "-m", "remory.cli", "eval", *map(str, settings), str(parted)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (parted / "results.json").exists():
        assert begun.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    begun.send_signal(signal.SIGINT)
    out, errors = begun.communicate(timeout=60)
    assert begun.returncode == 130 and "Traceback" not in errors
    before = json.loads((parted / "results.json").read_text())["sessions"]
    assert 1 <= len(before) < 4

    again = remory_eval(*settings, parted)
    assert again.returncode == 0 and "played before" in again.stdout, again.stderr
    assert remory_eval(*settings, whole).returncode == 0
    results = [json.loads((folder / "results.json").read_text()) for folder in (parted, whole)]
    assert results[0]["sessions"][: len(before)] == before
    assert results[0]["aggregates"] == results[1]["aggregates"]
    assert [one["id"] for one in results[0]["sessions"]] == ["s-1", "s-2", "s-3", "s-4"]


def test_a_faulty_set_is_an_error_in_one_line(small_set, tmp_path):
    small_set["sessions"][2]["questions"][0]["message"] = 9
    path = tmp_path / "faulty.json"
    path.write_text(json.dumps(small_set))
    done = remory_eval("--set", path, timeout=60)
    assert done.returncode == 1
    assert done.stderr == (
        "remory: faulty.json has 1 fault: session 's-3': question 0: message is 9, part 0 has messages 0 to 2\n"
    )


def test_a_set_without_so_many_parts_is_an_error(small_file, tiny_actor, tiny_checkpoint):
    done = remory_eval("--set", small_file, "--stages", 3, "--model", tiny_actor, "--checkpoint", tiny_checkpoint)
    assert done.returncode == 1
    assert "remory: no session has as many parts as the first stage, 3" in done.stderr


def test_a_set_that_does_not_fit_the_actor_is_an_error_in_one_line(tiny_actor, tiny_checkpoint):
    done = remory_eval("--set", "development", "--quick", "--model", tiny_actor, "--checkpoint", tiny_checkpoint)
    assert done.returncode == 1
    assert done.stderr.startswith("remory: 400: ") and "2048" in done.stderr and done.stderr.count("\n") == 1


def test_the_help_explains_arms_and_measures(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["eval", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for words in ("another-memory", "last-text", "harm", "--quick", "development", "results.json", "examples:"):
        assert words in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--arms", "full,mind"], "mind is no arm; there are full, summary"),
        (["--stages", "1,zero"], "no list of numbers"),
        (["--sessions", "0"], "no whole number from 1"),
    ],
)
def test_wrong_options_are_refused_with_what_there_is(arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["eval", *arguments])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err

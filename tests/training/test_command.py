"""`remory train` as a program: interrupted, killed, out of space, gone on with, and served from."""

from __future__ import annotations

import fcntl
import json
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from remory.cli import main
from remory.engines.base import EncodeRequest, Leaf, Source
from remory.engines.transformers import TransformersEngine
from remory.network import load_checkpoint
from remory.training.journal import Journal
from remory.training.settings import load_settings
from remory.training.trainer import Trainer
from tests.training.conftest import describe, read_state, same

STEPS = 100_000
# Seconds for another process to load its libraries and train a few steps, on a machine that is busy.
PATIENCE = 600


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    """Settings of more steps than a test waits for."""
    path = tmp_path / "long.json"
    path.write_text(json.dumps(describe(stage={"steps": STEPS})))
    return path


def arguments(settings: Path, actor: Path, out: Path, *more: str) -> list[str]:
    return ["train", "--config", str(settings), "--model", str(actor), "--out", str(out), "--check-every", "0", *more]


def start(*given: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "remory.cli", *given]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=before)


def wait_for(process: subprocess.Popen[str], there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not there():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def stored_step(folder: Path) -> int:
    with safe_open(folder / Trainer.STATE, framework="pt") as stored:
        return int(stored.metadata()["step"])


def test_a_run_from_start_to_end(settings_file: Path, tiny_actor: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    given = arguments(settings_file, tiny_actor, out, "--check-every", "1")
    assert main(given) == 0
    said = capsys.readouterr().out
    assert "2 of 2 steps; checkpoint in" in said and "development sets after step 2" in said
    assert sorted(path.name for path in out.iterdir()) == [
        ".lock",
        "checkpoint",
        "curves.png",
        "log.jsonl",
        Trainer.STATE,
    ]
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    journal = Journal(out / "log.jsonl")
    assert [check["step"] for check in journal.checks()] == [0, 1, 2] and journal.full() is not None
    assert journal.steps()[-1]["step"] == 2 and journal.steps()[-1]["samples_per_second"] > 0
    card = (out / "checkpoint" / "README.md").read_text()
    assert "2 steps, 2 samples" in card and "| own memory |" in card and '"seed": 3' in card
    # A finished run stays what it is.
    before = (out / "checkpoint" / "manifest.json").read_bytes(), (out / Trainer.STATE).stat().st_mtime_ns
    assert main(given) == 0
    assert before == ((out / "checkpoint" / "manifest.json").read_bytes(), (out / Trainer.STATE).stat().st_mtime_ns)


def test_the_engine_makes_memories_with_the_checkpoint(settings_file: Path, tiny_actor: Path, tmp_path: Path) -> None:
    assert main(arguments(settings_file, tiny_actor, tmp_path / "run")) == 0
    engine = TransformersEngine(tiny_actor, load_checkpoint(tmp_path / "run" / "checkpoint"))
    ids = torch.arange(10, 50)
    request = EncodeRequest(
        prefix_ids=torch.tensor([1, 5, 6, 2]),
        context=Source(ids=ids),
        positions=torch.arange(40),
        leaves=[Leaf(0, 40, 0)],
        summary_ids=torch.tensor([7, 8, 9]),
        summary_tokens=2,
    )
    try:
        (rows,) = engine.encode(request).nodes
    finally:
        engine.close()
    assert rows.shape == (128, 64) and rows.isfinite().all() and rows.std() > 0


def test_a_log_without_a_state_is_begun_anew(settings_file: Path, tiny_actor: Path, tmp_path: Path) -> None:
    """What was killed before its first save may have been a run of another actor."""
    Journal(tmp_path / "log.jsonl").append({"full": {"loss": 123.0, "exact": 1.0}})
    assert main(arguments(settings_file, tiny_actor, tmp_path)) == 0
    journal = Journal(tmp_path / "log.jsonl")
    assert (journal.full() or {}).get("loss") != 123.0 and len(journal.steps()) == 1


def test_other_settings_need_restart(settings_file: Path, tiny_actor: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    assert main(arguments(settings_file, tiny_actor, out)) == 0
    first = read_state(out)
    assert main(arguments(settings_file, tiny_actor, out, "--seed", "5")) == 1
    assert "holds a run with other seed" in capsys.readouterr().err
    assert same(read_state(out), first)
    assert main(arguments(settings_file, tiny_actor, out, "--seed", "5", "--restart")) == 0
    assert not same(read_state(out), first)
    assert [record["step"] for record in Journal(out / "log.jsonl").steps()] == [2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--preset", "none", "--out", "run"], "no preset 'none': choose from embedded"),
        (["--config", "none.json", "--out", "run"], "no settings at none.json"),
        (["--preset", "embedded", "--out", "run", "--share", "0.5"], "--share 0.5 .* there is no --from"),
    ],
)
def test_what_cannot_be_trained_is_said(given: list[str], message: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *given]) == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run" / Trainer.STATE).exists()


def test_the_time_is_kept(long_run: Path, tiny_actor: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    assert main(arguments(long_run, tiny_actor, out, "--minutes", "0.05")) == 0
    assert "stopping after step" in capsys.readouterr().out
    assert 0 < stored_step(out) < STEPS and (out / "checkpoint").is_dir()
    assert f"of {STEPS:,} steps" in (out / "checkpoint" / "README.md").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_run_goes_on_exactly(
    number: signal.Signals, long_run: Path, tiny_actor: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = start(*arguments(long_run, tiny_actor, out))
    wait_for(process, lambda: len(Journal(out / "log.jsonl").steps()) > 0)
    process.send_signal(number)
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, errors
    reached = stored_step(out)
    assert 10 <= reached < STEPS
    assert f"stopped and saved after step {reached}; the same command goes on from there" in said
    assert not (out / "checkpoint").exists()
    check_goes_on(out, reached, tiny_actor, tmp_path)


def test_a_killed_run_goes_on_from_what_was_saved(long_run: Path, tiny_actor: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(*arguments(long_run, tiny_actor, out, "--save-every", "0.05"))
    wait_for(process, lambda: (out / Trainer.STATE).exists() and len(Journal(out / "log.jsonl").steps()) > 0)
    process.kill()
    process.communicate()
    with (out / "log.jsonl").open("a") as stream:
        stream.write(f'{{"step": {STEPS}, "loss": 1.0}}\n{{"step": 29')
    check_goes_on(out, stored_step(out), tiny_actor, tmp_path)


def check_goes_on(out: Path, reached: int, actor: Path, tmp_path: Path) -> None:
    """Two more steps, and as many in a run that nothing stopped: bit for bit the same."""
    settings = load_settings(tmp_path / "long.json")
    for folder in (out, tmp_path / "straight"):
        trainer = Trainer(folder, actor, settings)
        assert trainer.step == (reached if folder == out else 0)
        assert next(step for step in trainer.run() if step.step == reached + 2)
        trainer.save_state()
    assert same(read_state(out), read_state(tmp_path / "straight"))
    journal = Journal(out / "log.jsonl")
    journal.rewind(reached)
    assert all(record["step"] <= reached for record in journal.steps())


def test_a_full_disk_leaves_the_state_that_was_there(long_run: Path, tiny_actor: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    trainer = Trainer(out, tiny_actor, load_settings(long_run))
    next(trainer.run())
    trainer.save_state()
    state = read_state(out)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))

    process = start(*arguments(long_run, tiny_actor, out, "--save-every", "0.1"), before=limit)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "could not write into" in errors and "the state after step 1 stays. Make room" in errors
    assert stored_step(out) == 1 and same(read_state(out), state)
    assert not [path for path in out.iterdir() if path.name.startswith(".") and path.name != ".lock"]


def test_one_process_at_a_time(settings_file: Path, tiny_actor: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "run"
    out.mkdir()
    with (out / ".lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert main(arguments(settings_file, tiny_actor, out)) == 1
    assert f"another process is training in {out}" in capsys.readouterr().err
    assert main(arguments(settings_file, tiny_actor, out)) == 0

"""The benchmark itself, small: does it run, check, write, and say when something is wrong?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bench.kernels import standin
from bench.kernels.amounts import Amount
from bench.kernels.clock import CpuClock
from bench.kernels.rounds import Effort, measure
from bench.kernels.work import Case, Ceiling, Way, Work

ROOT = Path(__file__).parents[2]


def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.kernels", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def test_quick_writes_a_table_json_and_pictures(tmp_path: Path) -> None:
    wanted = "own summaries, float32"
    done = run("--quick", "--only", wanted, "--threads", "1", "--rounds", "2", "--out", str(tmp_path))
    assert (tmp_path / "table.txt").read_text() in done.stdout
    whole = json.loads((tmp_path / "kernels.json").read_text())
    (one,) = [one for one in whole["benchmarks"] if one["extra_info"]["group"] == "ops"]
    assert len(one["stats"]["data"]) == 2
    turns = {name: len(times) for name, times in one["extra_info"]["rounds"].items()}
    assert turns == {"a call a block": 2, "torch eager": 2, "ceiling": 2}
    assert whole["machine_info"]["threads"] == 1
    assert "node" not in whole["machine_info"], "names the machine"
    assert {path.name for path in tmp_path.glob("*.png")} == {"speed_up.png", "ceiling_share.png"}
    assert run("--table", str(tmp_path)).stdout == (tmp_path / "table.txt").read_text()
    assert "| encode | " in run("--markdown", str(tmp_path)).stdout


def test_what_there_is_when_time_is_up_is_written(tmp_path: Path) -> None:
    words = ["--quick", "--threads", "1", "--rounds", "1", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "bench.kernels", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "2/" in line:
                running.terminate()
                break
        running.stderr.read()
    assert running.returncode == 2
    whole = json.loads((tmp_path / "kernels.json").read_text())
    assert 2 <= len(whole["benchmarks"]) < 10
    assert "copy" in (tmp_path / "table.txt").read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so() -> None:
    assert "sees no GPU" in run("--device", "cuda", "--quick", code=2).stderr


def case(work: Work) -> Case:
    return Case("op", "case", torch.float32, lambda context: work)


def test_everything_takes_turns() -> None:
    order: list[str] = []
    work = Work(
        lambda: order.append("op"),
        Amount(bytes=8),
        Ceiling("copy", lambda: order.append("ceiling"), Amount(bytes=8)),
        [Way("other", lambda: order.append("other"))],
    )
    fixture = standin.Fixture(lambda: 0.0)
    info = measure(case(work), work, fixture, CpuClock(), Effort(rounds=3, least=1))
    assert order[-9:] == ["other", "ceiling", "op"] * 3
    assert len(fixture.stats.stats.data) == 3
    assert set(info["others"]) == {"other"} and info["ceiling"]["kind"] == "copy"


def test_a_wrong_result_is_not_timed() -> None:
    def check() -> None:
        raise AssertionError("a score is off")

    work = Work(lambda: pytest.fail("timed"), Amount(), check=check)
    with pytest.raises(AssertionError, match="a score is off"):
        measure(case(work), work, standin.Fixture(lambda: 0.0), CpuClock(), Effort())


def test_an_alternative_that_fails_says_why() -> None:
    def fail() -> None:
        raise RuntimeError("no such instruction\nand more")

    work = Work(lambda: None, Amount(), others=[Way("other", fail)], absent={"third": "not installed"})
    info = measure(case(work), work, standin.Fixture(lambda: 0.0), CpuClock(), Effort(rounds=1, least=1))
    assert info["absent"] == {"other": "no such instruction", "third": "not installed"}
    assert info["others"] == {}


def test_slow_work_gets_fewer_rounds() -> None:
    work = Work(lambda: None, Amount(), others=[Way("other", lambda: None, settle=0.02)])
    fixture = standin.Fixture(lambda: 0.0)
    measure(case(work), work, fixture, CpuClock(), Effort(rounds=50, seconds=0.05, least=2))
    assert len(fixture.stats.stats.data) == 2

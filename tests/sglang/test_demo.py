"""The shipped demo in float32: SGLang's answers are those of the embedded engine, token by token."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def played(*options: str | Path) -> list[dict[str, Any]]:
    """The stages of the demo as its last line tells them, without what differs from run to run."""
    command = [sys.executable, "-m", "remory.cli", "demo", "--dtype", "float32", *map(str, options)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr
    stages = json.loads(run.stdout.splitlines()[-1])["stages"]
    return [
        {name: stage.get(name) for name in ("summary_tokens", "rows", "tokens_before", "tokens_after")}
        | {arm: figures["answers"] for arm, figures in stage["arms"].items()}
        for stage in stages
    ]


def test_the_demo_says_the_same_on_both_engines(sglang_python: Path) -> None:
    ours = played("--backend", "sglang", "--sglang-python", sglang_python)
    assert ours == played()
    assert len(ours) == 3

"""The demo as a user runs it, on a tiny actor; `make demo` runs it on the embedded one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from remory.actors import embedded_actor, load_tokenizer
from tests.conftest import make_checkpoint

SESSION = json.loads((Path(__file__).parents[2] / "python/remory/data/demo_session.json").read_text())


@pytest.fixture(scope="module")
def long_actor(tiny_actor, tmp_path_factory):
    """The tiny actor with room for the session, which its small vocabulary makes long."""
    folder = tmp_path_factory.mktemp("actors") / "tiny-long"
    shutil.copytree(tiny_actor, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 1 << 15}))
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"model_max_length": 1 << 15}))
    return folder


@pytest.fixture(scope="module")
def roomy_checkpoint(tmp_path_factory):
    """A checkpoint whose budget of rows holds the session."""
    return make_checkpoint(tmp_path_factory.mktemp("checkpoints") / "roomy", budget=2048)


def start_demo(folder, *arguments):
    """`folder` becomes the place for temporary files, so that its processes can be told from others."""
    return subprocess.Popen(
        [sys.executable, "-m", "remory.cli", "demo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder), "OMP_NUM_THREADS": "2"},
    )


def servers_below(folder):
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{folder}/remory-demo-".encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue  # it ended meanwhile
    return found


def test_the_session_is_long_and_tells_nothing_of_a_machine():
    messages = [message for part in SESSION["parts"] for message in part]
    tokens = load_tokenizer(embedded_actor()).apply_chat_template(messages, return_dict=False)
    assert len(tokens) >= 3000
    assert {message["role"] for message in messages} == {"system", "user", "assistant", "tool"}
    text = "\n".join(message["content"] for message in messages)
    assert not re.search(r"/home/|/root|/tmp/|/work/|https?://", text)
    early = "\n".join(message["content"] for message in SESSION["parts"][0])
    for question in SESSION["questions"]:
        assert question["expected"] in early and question["expected"] not in question["question"]


def test_the_demo_runs_to_its_json_line(tmp_path, long_actor, roomy_checkpoint):
    demo = start_demo(tmp_path, "--model", long_actor, "--checkpoint", roomy_checkpoint)
    out, errors = demo.communicate(timeout=300)
    assert demo.returncode == 0, errors
    figures = json.loads(out.splitlines()[-1])
    before, *compacted = figures["stages"]
    assert figures["trained"] is False and "untrained" in out
    assert list(before["arms"]) == ["full history"]
    assert len(compacted) == 2
    for stage in compacted:
        assert list(stage["arms"]) == [
            "full history",
            "summary only",
            "summary + memory",
            "summary + memory + recall",
        ]
        contexts = [arm["context_tokens"] for arm in stage["arms"].values()]
        assert contexts[0] > contexts[3] > contexts[2] > contexts[1]
        assert stage["tokens_after"] < stage["tokens_before"]
        assert all(len(arm["answers"]) == figures["questions"] for arm in stage["arms"].values())
    assert compacted[1]["full_history_tokens"] > compacted[0]["full_history_tokens"]
    for words in ("What the model has to read", "Answers before", "Answers after compaction 2", "+ recall"):
        assert words in out
    assert servers_below(tmp_path) == [] and list(tmp_path.iterdir()) == []


def test_a_session_that_does_not_fit_is_an_error_in_one_line(tmp_path, tiny_actor, tiny_checkpoint):
    demo = start_demo(tmp_path, "--model", tiny_actor, "--checkpoint", tiny_checkpoint)
    _, errors = demo.communicate(timeout=120)
    assert demo.returncode == 1
    assert errors.startswith("remory: 400: ") and "2048" in errors and errors.count("\n") == 1
    assert servers_below(tmp_path) == [] and list(tmp_path.iterdir()) == []


def test_a_server_that_cannot_start_is_an_error_in_one_line(tmp_path):
    demo = start_demo(tmp_path, "--model", tmp_path / "missing")
    _, errors = demo.communicate(timeout=120)
    assert demo.returncode == 1
    assert errors.startswith("remory: the server did not start") and "missing" in errors and errors.count("\n") == 1
    assert servers_below(tmp_path) == []


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_takes_its_server_with_it(tmp_path, tiny_actor, tiny_checkpoint, sign, code):
    demo = start_demo(tmp_path, "--model", tiny_actor, "--checkpoint", tiny_checkpoint)
    deadline = time.monotonic() + 60
    while not servers_below(tmp_path):
        assert time.monotonic() < deadline and demo.poll() is None
        time.sleep(0.05)
    demo.send_signal(sign)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == code, errors
    assert "Traceback" not in errors
    assert servers_below(tmp_path) == [] and list(tmp_path.iterdir()) == []

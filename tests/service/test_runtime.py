from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from remory.cli import main
from remory.network import load_checkpoint, save_checkpoint
from remory_service.app import RemoryApp, create_app
from remory_service.config import Config, SGLang
from remory_service.runtime import Runtime

SESSION = {"X-Remory-Session": "session"}
COMPACTION = {"prefix_ids": [1], "history_ids": [5] * 100, "summary_ids": [6]}
MESSAGES = [{"role": "user", "content": "Go on. " * 20}] + [
    {"role": role, "content": f"Word {index}. " * 20} for index in range(2) for role in ("assistant", "user")
]
SCHEMA = {
    "type": "object",
    "properties": {"goal": {"enum": ["build", "test"]}},
    "required": ["goal"],
    "additionalProperties": False,
}


def loaded_app(config: Config) -> RemoryApp:
    runtime = Runtime(config)
    ended = threading.Event()
    runtime.start(lambda _: ended.set())
    assert ended.wait(120)
    return create_app(config, runtime)


def test_without_a_checkpoint_there_is_generation_and_no_memory(tmp_path: Path, tiny_actor: Path) -> None:
    app = loaded_app(Config(data=tmp_path / "data", model=str(tiny_actor)))
    client = app.test_client()
    assert client.post("/generate", json={"text": "a", "sampling_params": {"max_new_tokens": 2}}).status_code == 200
    info = client.get("/v1/remory/info").json
    assert (info["checkpoint"], info["summary_contract"]) == (None, None)
    answers = [
        client.post("/v1/compact", json=COMPACTION, headers=SESSION),
        client.post("/v1/compact/text", json={"messages": MESSAGES}, headers=SESSION),
        client.post("/generate", json={"input_ids": [1], "remory": {"handle": "rm_"}}, headers=SESSION),
    ]
    assert [answer.status_code for answer in answers] == [400] * 3
    assert all("--checkpoint" in answer.json["detail"] for answer in answers)
    app.extensions["remory"].close()


def test_a_summary_follows_the_checkpoints_schema(tmp_path: Path, tiny_actor: Path, tiny_checkpoint: Path) -> None:
    plain = load_checkpoint(tiny_checkpoint)
    contract = plain.config["summary_contract"] | {"output_schema": SCHEMA}
    save_checkpoint(tmp_path / "checkpoint", plain.network, plain.config | {"summary_contract": contract})
    config = Config(data=tmp_path / "data", model=str(tiny_actor), checkpoint=str(tmp_path / "checkpoint"))
    app = loaded_app(config)
    client = app.test_client()
    made = client.post("/v1/compact/text", json={"messages": MESSAGES}, headers=SESSION)
    assert made.status_code == 200, made.text
    assert json.loads(made.json["summary"])["goal"] in ("build", "test")
    cut = client.post("/v1/compact/text", json={"messages": MESSAGES, "max_summary_tokens": 2}, headers=SESSION)
    assert cut.status_code == 502
    assert "cut after 2 tokens" in cut.json["detail"]
    assert len(client.get("/v1/memories", headers=SESSION).json["memories"]) == 1
    app.extensions["remory"].close()


def test_an_actor_that_cannot_be_loaded_is_told(tmp_path: Path) -> None:
    app = loaded_app(Config(data=tmp_path / "data", model=str(tmp_path / "nothing")))
    ready = app.test_client().get("/ready")
    assert ready.status_code == 503
    assert ready.json["status"] == "failed"
    assert "no actor" in ready.json["progress"]
    assert app.test_client().post("/generate", json={"text": "a"}).status_code == 503


def test_a_stopped_runtime_takes_no_work(tmp_path: Path, tiny_actor: Path) -> None:
    app = loaded_app(Config(data=tmp_path / "data", model=str(tiny_actor)))
    app.extensions["remory"].stop()
    answer = app.test_client().post("/generate", json={"text": "a"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert "stopping" in answer.json["detail"]
    app.extensions["remory"].close()
    app.extensions["remory"].close()


@pytest.mark.parametrize(
    "fields",
    [
        {"backend": "other"},
        {"dtype": "int8"},
        {"port": -1},
        {"port": 65536},
        {"collect_bytes": 0},
        {"checkpoints": "/no"},
    ],
)
def test_settings_that_cannot_be_are_refused(fields: dict) -> None:
    (value,) = fields.values()
    with pytest.raises(ValueError, match=str(value)):
        Config(**fields)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tp", "2"], "--tp: for the backend sglang"),
        (["--sglang-url", "http://127.0.0.1:1"], "--sglang-url: for the backend sglang"),
        (["--", "--schedule-policy=lpm"], "for the backend sglang"),
        (["--backend", "sglang", "--cache-bytes", "1M"], "cache_bytes"),
        (["--backend", "sglang", "--dp", "0"], "got 1 and 0"),
        (["--backend", "sglang", "--mem-fraction-static", "1.5"], "1.5"),
        (["--backend", "sglang", "--", "--host=0.0.0.0"], "--host cannot be passed on"),
        (["--backend", "sglang", "--exchange", "/no/folder"], "no folder for rows at /no/folder"),
        (["--backend", "sglang", "--sglang-url", "http://127.0.0.1:1", "--capture-live"], "--capture-live: for"),
        (["--backend", "sglang", "--sglang-url", "http://127.0.0.1:1", "--dtype", "float16"], "--dtype: for the"),
    ],
)
def test_options_that_do_not_fit_the_backend_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["serve", "--port", "0", "--data", str(tmp_path / "data"), *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_key_of_sglang_is_never_shown(tmp_path: Path) -> None:
    config = Config(data=tmp_path, backend="sglang", sglang=SGLang(url="http://127.0.0.1:1", key="secret"))
    assert "secret" not in repr(config)
    shown = create_app(config).test_client().get("/get_server_info").json
    assert shown["sglang"]["launched"] is False
    assert "secret" not in str(shown)

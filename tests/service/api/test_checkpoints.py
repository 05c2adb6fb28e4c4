"""Another checkpoint in a running server: the embedded actor with two real checkpoints, on both databases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from remory.actors import embedded_actor
from remory.network import embedded_checkpoint
from remory_service.config import Config
from remory_service.identity import make_key
from tests.service.conftest import Server, StartServer, compact, generate, launch, store_options
from tests.service.test_runtime import loaded_app

TAIL, TRAINED = "smollm2-135m-tail", "smollm2-135m"
HISTORY = [504, 2988, 314, 42] * 30
LONG = [504, 2988, 314, 42, 7042] * 500


@pytest.fixture
def client(embedded_server: Server, session: str) -> Iterator[httpx.Client]:
    """A client of the server, which has the packaged checkpoint before and after the test."""
    with embedded_server.client(session) as client:
        load(client, TAIL)
        yield client
        load(client, TAIL)


def load(client: httpx.Client, path: str) -> dict[str, Any]:
    answer = client.post("/v1/checkpoints/load", json={"path": path})
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client: httpx.Client, path: str, status: int = 400) -> str:
    """What is said of a checkpoint that is not loaded, after which the one in use is in use as before."""
    before = client.get("/v1/remory/info").json()
    answer = client.post("/v1/checkpoints/load", json={"path": path})
    assert answer.status_code == status, answer.text
    assert client.get("/v1/remory/info").json() == before
    return answer.json()["detail"]


def in_use(client: httpx.Client) -> list[str]:
    return [item["path"] for item in client.get("/v1/checkpoints").json()["checkpoints"] if item["in_use"]]


def test_another_checkpoint_makes_the_next_memories(client: httpx.Client) -> None:
    before = client.get("/v1/remory/info").json()
    old = compact(client, history_ids=HISTORY)
    loaded = load(client, "fine")
    after = client.get("/v1/remory/info").json()
    assert loaded == {name: after[name] for name in ("checkpoint", "summary_contract")}
    assert after["checkpoint"]["name"] == "fine"
    assert after["checkpoint"]["layer_ids"] == [4, 12, 20, 28]
    assert after["checkpoint"]["identity"] != before["checkpoint"]["identity"]
    assert {name: value for name, value in after.items() if name not in loaded} == {
        name: value for name, value in before.items() if name not in loaded
    }
    new = compact(client, history_ids=HISTORY)
    assert (old["receipt"]["soft_tokens"], new["receipt"]["soft_tokens"]) == (64, 32)
    assert [made["receipt"]["made_by"]["checkpoint"] for made in (old, new)] == [TAIL, "fine"]
    generate(client, input_ids=[8], remory={"handle": new["handle"]})
    compact(client, history_ids=HISTORY, previous=new["handle"])


def test_older_memories_answer_as_before(client: httpx.Client) -> None:
    old = {"handle": compact(client, history_ids=HISTORY)["handle"]}
    before = generate(client, input_ids=[8, 9], remory=old, return_logprob=True)
    load(client, "fine")
    new = {"handle": compact(client, history_ids=HISTORY)["handle"]}
    fine = generate(client, input_ids=[8, 9], remory=new, return_logprob=True)
    for _ in range(2):
        for memory, earlier in ((old, before), (new, fine)):
            now = generate(client, input_ids=[8, 9], remory=memory, return_logprob=True)
            assert now["output_ids"] == earlier["output_ids"]
            assert now["meta_info"]["prompt_tokens"] == earlier["meta_info"]["prompt_tokens"]
            assert now["meta_info"]["output_token_logprobs"] == earlier["meta_info"]["output_token_logprobs"]
        load(client, TAIL)


def test_a_memory_is_compacted_again_with_its_own_checkpoint_only(client: httpx.Client) -> None:
    old = compact(client, history_ids=HISTORY)["handle"]
    load(client, "fine")
    body = {"prefix_ids": [1, 5, 6, 7], "history_ids": HISTORY, "summary_ids": [20, 21, 22]}
    texts = {"messages": [{"role": "user", "content": "a"}, *[{"role": "assistant", "content": "b " * 40}] * 3]}
    for answer in (
        client.post("/v1/compact", json=body | {"previous": old}),
        client.post("/v1/compact", json=body | {"branches": [old]}),
        client.post("/v1/compact/text", json=texts | {"previous": old}),
    ):
        assert answer.status_code == 400
        assert f"needs checkpoint {TAIL} of identity" in answer.json()["detail"]
        assert "this server has checkpoint fine" in answer.json()["detail"]
    assert len(client.get("/v1/memories").json()["memories"]) == 1
    load(client, TAIL)
    compact(client, history_ids=HISTORY, previous=old)


def test_what_is_under_way_ends_with_what_it_began_with(
    tmp_path: Path, checkpoints: Path, database_url: str | None
) -> None:
    app = loaded_app(Config(data=tmp_path / "data", store=database_url, checkpoints=str(checkpoints)))
    engine = app.extensions["remory"].loaded().engine
    held, go_on = threading.Event(), threading.Event()

    def compacted(history: list[int]) -> dict[str, Any]:
        body = {"prefix_ids": [1, 5, 6, 7], "history_ids": history, "summary_ids": [20, 21, 22]}
        answer = app.test_client().post("/v1/compact", json=body, headers={"X-Remory-Session": "session"})
        assert answer.status_code == 200, answer.text
        return answer.json["receipt"]

    def hold() -> Iterator[None]:
        """A step of the engine that keeps all other requests where they are."""
        held.set()
        go_on.wait()
        yield

    alone = compacted(LONG)
    with ThreadPoolExecutor(1) as pool:
        try:
            under_way = pool.submit(compacted, LONG)
            while not engine.stats()["requests_running"]:
                time.sleep(0.001)
            engine._scheduler.submit(hold())
            held.wait()
            assert not under_way.done()
            assert app.test_client().post("/v1/checkpoints/load", json={"path": "fine"}).status_code == 200
            assert not under_way.done()
        finally:
            go_on.set()
        meanwhile, made = compacted(HISTORY), under_way.result()
    assert (made["rows_sha256"], made["made_by"]) == (alone["rows_sha256"], alone["made_by"])
    assert made["made_by"]["checkpoint"] == TRAINED
    assert (meanwhile["soft_tokens"], meanwhile["made_by"]["checkpoint"]) == (32, "fine")
    assert compacted(HISTORY)["rows_sha256"] == meanwhile["rows_sha256"]
    app.extensions["remory"].close()


def test_checkpoints_are_listed_with_the_one_in_use(client: httpx.Client) -> None:
    answer = client.get("/v1/checkpoints").json()
    assert answer["in_use"] == client.get("/v1/remory/info").json()["checkpoint"]
    found = {item["path"]: item for item in answer["checkpoints"]}
    assert found.keys() == {"broken", "fine", "tiny", TAIL, TRAINED}
    assert in_use(client) == [TAIL]
    assert found[TAIL]["shipped"] and not found["fine"]["shipped"]
    assert found["fine"]["problem"] is None
    assert "width 64" in found["tiny"]["problem"]
    assert load(client, "fine")["checkpoint"] == found["fine"]["checkpoint"]
    # Equal in all that makes an identity: only loading finds that the weights are not those of the manifest.
    assert in_use(client) == ["broken", "fine"]
    assert load(client, "runs/deep/fine")["checkpoint"]["identity"] == found["fine"]["checkpoint"]["identity"]


def test_what_cannot_be_loaded_changes_nothing(client: httpx.Client, checkpoints: Path) -> None:
    assert "model.safetensors has SHA-256" in refused(client, "broken")
    assert "actor of width 64, this one has 576" in refused(client, "tiny")
    assert refused(client, "runs") == "runs has no config.json"
    assert "no checkpoint 'nothing'" in refused(client, "nothing")
    assert str(checkpoints) not in "".join(refused(client, path) for path in ("broken", "tiny", "runs", "nothing"))


@pytest.mark.parametrize(
    "path", [".", "..", "/", "/etc", "fine/../..", "../shelf", "~", "away", "fine\0", "a" * 300, "smollm2_tail.py"]
)
def test_nothing_is_loaded_from_elsewhere(client: httpx.Client, path: str) -> None:
    detail = refused(client, path)
    assert "config.json" not in detail and "width" not in detail


def test_an_absolute_path_into_the_folder_is_one_within(client: httpx.Client, checkpoints: Path) -> None:
    assert load(client, str(checkpoints / "fine"))["checkpoint"]["name"] == "fine"
    refused(client, str(embedded_checkpoint(trained=False)))


@pytest.mark.parametrize("body", [{}, {"path": ""}, {"path": 1}, {"path": "a" * 5000}, {"path": "fine", "x": 1}])
def test_a_body_that_names_none_is_422(client: httpx.Client, body: dict[str, Any]) -> None:
    assert client.post("/v1/checkpoints/load", json=body).status_code == 422


def test_loads_at_once_end_with_one_of_them(client: httpx.Client, embedded_server: Server) -> None:
    answers = []

    def switch(path: str) -> None:
        with embedded_server.client() as other:
            answers.append(load(other, path)["checkpoint"]["name"])

    threads = [threading.Thread(target=switch, args=(path,)) for path in ("fine", TAIL) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["fine"] * 3 + [TAIL] * 3
    info = client.get("/v1/remory/info").json()
    made = compact(client, history_ids=HISTORY)["receipt"]
    assert made["made_by"]["checkpoint"] == info["checkpoint"]["name"]
    assert made["soft_tokens"] == info["checkpoint"]["block_tokens"] // 16


def test_only_administrators_switch(start_server: StartServer, database_url: str | None, tmp_path: Path) -> None:
    options = store_options(database_url)
    roles = ("invoke", "worker", "agent", "admin")
    keys = {role: make_key(tmp_path / "data", "user", [role], database_url) for role in roles}
    server = start_server(*options)
    for role in roles[:3]:
        with server.client(**{"X-API-Key": keys[role]}) as client:
            assert "admin" in refused(client, TAIL, 403)
            assert [item["path"] for item in client.get("/v1/checkpoints").json()["checkpoints"]] == [TRAINED, TAIL]
    with server.client(**{"X-API-Key": keys["admin"]}) as client:
        assert "width 576, this one has 64" in refused(client, TAIL)
        assert "--checkpoints FOLDER" in refused(client, "fine")
    with server.client() as client:
        assert client.post("/v1/checkpoints/load", json={"path": TAIL}).status_code == 401
        assert client.get("/v1/checkpoints").status_code == 401


def test_after_a_restart_a_memory_says_what_it_needs(
    tmp_path: Path, checkpoints: Path, database_url: str | None
) -> None:
    options = ["--checkpoints", str(checkpoints), *store_options(database_url)]
    started = []

    def start(checkpoint: Path) -> Server:
        started.append(launch(tmp_path, tmp_path / "data", embedded_actor(), checkpoint, *options))
        return started[-1]

    try:
        first = start(embedded_checkpoint(trained=False))
        with first.client() as client:
            handle = compact(client, history_ids=HISTORY)["handle"]
            before = generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"]
        first.kill()
        with start(checkpoints / "fine").client() as client:
            body = {"input_ids": [8, 9], "remory": {"handle": handle}}
            answer = client.post("/generate", json=body)
            assert answer.status_code == 400
            assert f"needs checkpoint {TAIL} of identity" in answer.json()["detail"]
            load(client, TAIL)
            assert generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"] == before
            load(client, "fine")
            assert generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"] == before
    finally:
        for server in started:
            server.kill()


def test_a_server_without_memory_gets_one(tmp_path: Path, tiny_actor: Path, checkpoints: Path) -> None:
    app = loaded_app(Config(data=tmp_path / "data", model=str(tiny_actor), checkpoints=str(checkpoints)))
    client, headers = app.test_client(), {"X-Remory-Session": "session"}
    body = {"prefix_ids": [1], "history_ids": [5] * 100, "summary_ids": [6]}
    assert client.get("/v1/checkpoints").json["in_use"] is None
    assert client.post("/v1/compact", json=body, headers=headers).status_code == 400
    assert client.post("/v1/checkpoints/load", json={"path": "tiny"}).status_code == 200
    assert client.post("/v1/compact", json=body, headers=headers).status_code == 200
    app.extensions["remory"].stop()
    assert client.post("/v1/checkpoints/load", json={"path": "tiny"}).status_code == 503
    app.extensions["remory"].close()

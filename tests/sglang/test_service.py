"""The whole service on SGLang: what clients see while it recovers, and that no end of it leaves a process behind."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from tests.service.conftest import PREFIX, Server, compact, generate, launch
from tests.sglang.processes import family, lives, named, servers, wait_until

LAUNCHED = {"launched": True, "tp": 1, "dp": 1, "mem_fraction_static": None, "capture_live": 0}


@pytest.fixture
def server(tmp_path: Path, tiny_actor: Path, tiny_checkpoint: Path, sglang_python: Path) -> Iterator[Server]:
    options = ["--backend", "sglang", "--sglang-python", str(sglang_python)]
    running = launch(tmp_path, tmp_path / "data", tiny_actor, tiny_checkpoint, *options)
    yield running
    running.kill()


def is_ready(server: Server) -> bool:
    return httpx.get(f"{server.url}/ready", timeout=30).status_code == 200


def worker_of(server: Server) -> psutil.Process:
    (worker,) = (child for child in psutil.Process(server.process.pid).children() if lives(child))
    return worker


def thought(client: httpx.Client, handle: str) -> list[float]:
    """The log-probabilities of 32 ids behind a memory, which another memory would change and rounding hardly does."""
    asked = {"input_ids": list(range(8, 40)), "return_logprob": True, "logprob_start_len": 0}
    meta = generate(client, **asked, remory={"handle": handle})["meta_info"]
    return [value for value, *_ in meta["input_token_logprobs"][-32:]]


def folders_of(processes: list[psutil.Process]) -> list[Path]:
    """The folders that one of our own made for these processes."""
    told = servers(processes)[0].environ()
    return [Path(told["REMORY_EXCHANGE"]), Path(told["TMPDIR"]).parent]


def test_a_service_recovers_and_ends_without_a_trace(server, tiny_actor, sglang_python):
    processes = family(worker_of(server).pid)
    folders = folders_of(processes)
    with server.client() as client:
        shown = client.get("/get_server_info").json()
        assert shown["sglang"] == LAUNCHED
        assert str(sglang_python) not in str(shown)
        handle = compact(client)["handle"]
        before = thought(client, handle)
        named("scheduler", processes).kill()
        wait_until(lambda: not is_ready(server), "the service was no longer ready", 3)
        refused = client.post("/generate", json={"text": "a"})
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        assert "SGLang" in refused.json()["detail"]
        assert not any(str(place) in refused.text for place in (tiny_actor, *folders))
        assert client.get("/health").status_code == 200
        assert client.get("/ready").json()["status"] == "starting"
        assert client.get("/get_server_info").json()["status"] == "starting"
        assert server.figure("remory_ready") == 0
        wait_until(lambda: is_ready(server), "it answered again")
        assert thought(client, handle) == pytest.approx(before, abs=1e-3)
        compact(client, previous=handle, prefix_ids=PREFIX)
    processes = family(server.process.pid)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert not any(map(lives, processes))
    assert not any(folder.exists() for folder in folders)


def test_the_next_worker_starts_another(server):
    worker = worker_of(server)
    processes = family(worker.pid)
    folders = folders_of(processes)
    worker.kill()
    wait_until(lambda: not any(map(lives, [worker, *processes])), "all that the worker had started was gone", 10)
    wait_until(lambda: is_ready(server), "the next worker was ready")
    with server.client() as client:
        generate(client, input_ids=[8, 9])
    assert not any(folder.exists() for folder in folders)


def test_an_sglang_that_never_comes_again_is_told(tmp_path, tiny_actor, tiny_checkpoint, sglang_python):
    actor = shutil.copytree(tiny_actor, tmp_path / "actor")
    options = ["--backend", "sglang", "--sglang-python", str(sglang_python)]
    server = launch(tmp_path, tmp_path / "data", actor, tiny_checkpoint, *options)
    try:
        (actor / "config.json").unlink()
        named("scheduler", family(worker_of(server).pid)).kill()
        with server.client() as client:
            wait_until(lambda: client.get("/ready").json()["status"] == "failed", "it was given up")
            assert "did not start again in 5 attempts" in client.get("/ready").json()["progress"]
            assert client.get("/ready").status_code == 503
            assert client.post("/generate", json={"text": "a"}).status_code == 503
            # What needs no actor goes on.
            assert client.get("/v1/memories").status_code == 200
    finally:
        server.kill()


@pytest.mark.parametrize(
    "end",
    [
        lambda server: server.kill(),
        lambda server: os.kill(server.process.pid, signal.SIGKILL),
        lambda server: os.killpg(server.process.pid, signal.SIGINT),
    ],
    ids=["kill -9 of all", "kill -9 of the master", "Ctrl-C"],
)
def test_no_end_leaves_a_process(server, end: Callable[[Server], None]):
    processes = family(server.process.pid)
    assert servers(processes)
    end(server)
    wait_until(lambda: not any(map(lives, processes)), "all processes were gone", 20)


def test_a_kill_during_compactions_leaves_no_half_of_any(server):
    with server.client() as client:
        first = compact(client)["handle"]
        before = thought(client, first)
        scheduler = named("scheduler", family(worker_of(server).pid))
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(post_compaction, server, seed) for seed in range(8)]
            wait_until(lambda: server.figure("remory_engine_requests_running") >= 4, "compactions were under way", 20)
            scheduler.kill()
            answers = [future.result() for future in asked]
        assert {answer.status_code for answer in answers} <= {200, 502, 503}
        assert any(answer.status_code != 200 for answer in answers)
        made = {answer.json()["handle"] for answer in answers if answer.status_code == 200}
        shown = {memory["handle"] for memory in client.get("/v1/memories").json()["memories"]}
        assert shown == {first, *made}
        wait_until(lambda: is_ready(server), "it answered again")
        for handle in shown - {first}:
            generate(client, input_ids=[8, 9], remory={"handle": handle})
        assert thought(client, first) == pytest.approx(before, abs=1e-3)
        assert post_compaction(server, 0).status_code == 200


def post_compaction(server: Server, seed: int) -> httpx.Response:
    """A compaction of a history so long that it takes some seconds beside seven others."""
    history = [3 + (seed * 31 + place * 7) % 370 for place in range(28 * 64)]
    with server.client() as client:
        return client.post("/v1/compact", json={"prefix_ids": PREFIX, "history_ids": history, "summary_ids": [20, 21]})

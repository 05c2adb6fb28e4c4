"""The whole process: how it starts, how it ends, and what is left when it is killed."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from remory_service.config import Config
from remory_service.identity import make_key
from remory_service.server import _prepare_store
from remory_service.store.database import FILE_NAME
from remory_service.store.postgresql import MAX_CONNECTIONS
from remory_service.store.schema import database
from tests.databases import PASSWORD, PASSWORD_IN_URL, ROLE_WITH_PASSWORD, PostgresqlServer, database_of
from tests.service.conftest import (
    HISTORY,
    PREFIX,
    SUMMARY,
    Server,
    StartServer,
    compact,
    generate,
    serve_command,
    store_options,
)

IN_ENGINE = ("remory_engine_requests_running", "remory_engine_requests_waiting")
LONG = {"max_new_tokens": 1900, "ignore_eos": True}


def refused_start(*options: str | Path) -> str:
    """What a server that cannot start says; it says nothing else and ends by itself."""
    ended = subprocess.run(serve_command(*options), capture_output=True, text=True, timeout=120)
    assert ended.returncode not in (0, None)
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_a_port_in_use_is_said_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused_start("--data", tmp_path, "--port", str(port))
    assert said.splitlines()[-1].startswith(f"remory: cannot listen on 127.0.0.1 port {port}: Address already in use")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_addresses_than_loopback_need_keys(tmp_path: Path, host: str) -> None:
    assert "remory keys add" in refused_start("--data", tmp_path, "--port", "0", "--host", host)


def test_an_address_that_is_none_is_said(tmp_path: Path) -> None:
    assert "cannot listen on 'no.such.host.invalid'" in refused_start(
        "--data", tmp_path, "--host", "no.such.host.invalid"
    )


def test_an_actor_that_is_missing_is_said(tmp_path: Path) -> None:
    said = refused_start("--data", tmp_path, "--port", "0", "--model", tmp_path / "nothing")
    assert f"no actor at {tmp_path / 'nothing'}" in said


def test_a_checkpoint_that_is_missing_is_said(tmp_path: Path, tiny_actor: Path) -> None:
    said = refused_start("--data", tmp_path, "--port", "0", "--model", tiny_actor, "--checkpoint", tmp_path / "nothing")
    assert f"no checkpoint folder at {tmp_path / 'nothing'}" in said


def test_a_damaged_store_is_said_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("no database")
    assert "damaged" in refused_start("--data", tmp_path, "--port", "0")
    assert (tmp_path / FILE_NAME).read_text() == "no database"


def test_a_server_with_keys_asks_for_them(start_server: StartServer, tmp_path: Path) -> None:
    key = make_key(tmp_path / "data", "user", ["invoke"])
    server = start_server("--host", "0.0.0.0")
    with server.client() as client:
        assert client.post("/v1/compact", json={}).status_code == 401
        assert client.post("/generate", json={"text": "a"}).status_code == 401
    with server.client(**{"X-API-Key": key}) as client:
        handle = compact(client)["handle"]
        generate(client, input_ids=[8], remory={"handle": handle})
    assert key not in server.log.read_text()


def test_a_restart_answers_from_the_memory_as_before(start_server: StartServer, database_url: str | None) -> None:
    first = start_server(*store_options(database_url))
    with first.client() as client:
        handles = [compact(client, history_ids=[token] * 200)["handle"] for token in (60, 200)]
        before = [generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"] for handle in handles]
        receipts = client.get("/v1/memories").json()
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(30) == 0
    second = start_server(*store_options(database_url))
    with second.client() as client:
        after = [generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"] for handle in handles]
        assert after == before
        assert before[0] != before[1]
        assert client.get("/v1/memories").json() == receipts
        compact(client, previous=handles[0], prefix_ids=PREFIX)


def test_two_servers_share_one_store(start_server: StartServer, database_url: str | None) -> None:
    pair = [start_server(*store_options(database_url)) for _ in range(2)]
    clients = [server.client() for server in pair]

    def work(index: int) -> str:
        return compact(clients[index % 2], history_ids=[index + 3] * 100)["handle"]

    with ThreadPoolExecutor(4) as pool:
        handles = list(pool.map(work, range(6)))
    for client in clients:
        assert {memory["handle"] for memory in client.get("/v1/memories").json()["memories"]} == set(handles)
    made_elsewhere = generate(clients[1], input_ids=[8], remory={"handle": handles[0]})
    assert (
        made_elsewhere["output_ids"] == generate(clients[0], input_ids=[8], remory={"handle": handles[0]})["output_ids"]
    )


def test_more_connections_than_threads_are_all_answered(start_server: StartServer) -> None:
    """Some threads stay with their connection for a while; the others must have theirs."""
    server = start_server("--threads", "4")
    body = {"scope": "global", "key": "k"}

    def ask(_: int) -> set[int]:
        with server.client() as client:
            return {client.post("/api/v2/memory/read", json=body, timeout=20).status_code for _ in range(25)}

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(16))) == [{200}] * 16


def test_clients_that_are_slow_to_send_hold_no_connection(start_server: StartServer, postgresql_url: str) -> None:
    """More of them than a server may have connections to its database."""
    server = start_server("--store", postgresql_url)
    host, _, port = server.url.removeprefix("http://").partition(":")
    head = (
        "POST /api/v2/memory/read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 100\r\n\r\n{"
    )
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS + 4):
            stack.enter_context(socket.create_connection((host, int(port)))).sendall(head.encode())
        time.sleep(0.5)
        with server.client() as client:
            assert client.get("/v1/memories", timeout=10).status_code == 200
            body = {"scope": "global", "key": "k"}
            assert client.post("/api/v2/memory/read", json=body, timeout=10).status_code == 200


def test_a_server_without_its_database_says_so_and_goes_on_when_it_is_back(
    start_server: StartServer, postgresql_url: str, postgresql: PostgresqlServer
) -> None:
    server = start_server("--store", postgresql_url)
    with server.client() as client:
        handle = compact(client)["handle"]
        postgresql.stop()
        try:
            answers = [client.get("/v1/memories") for _ in range(3)]
            ready = client.get("/ready")
        finally:
            postgresql.start()
        assert [answer.status_code for answer in answers] == [503] * 3
        assert answers[0].json()["detail"] == "the store's database cannot be reached at the moment"
        assert int(answers[0].headers["Retry-After"]) > 0
        assert ready.status_code == 200
        time.sleep(int(answers[0].headers["Retry-After"]))
        generate(client, input_ids=[8], remory={"handle": handle})
    assert not server.data.exists()


def test_a_server_says_which_database_it_uses_and_never_the_password(
    start_server: StartServer, postgresql_url: str, postgresql: PostgresqlServer
) -> None:
    name = database_of(postgresql_url)
    postgresql.run(f"GRANT CREATE ON SCHEMA public TO {ROLE_WITH_PASSWORD}", name)
    server = start_server("--store", postgresql.url(name, f"{ROLE_WITH_PASSWORD}:{PASSWORD_IN_URL}"))
    with server.client() as client:
        info = client.get("/get_server_info")
        assert info.json()["store"] == "postgresql"
        postgresql.run(f"ALTER ROLE {ROLE_WITH_PASSWORD} NOLOGIN")
        postgresql.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
        refused = client.get("/v1/memories")
        postgresql.run(f"ALTER ROLE {ROLE_WITH_PASSWORD} LOGIN")
    assert refused.status_code == 503
    assert ROLE_WITH_PASSWORD not in refused.text
    assert ROLE_WITH_PASSWORD in server.log.read_text()
    for text in (info.text, refused.text, server.log.read_text()):
        assert PASSWORD_IN_URL not in text and PASSWORD not in text


def test_generations_keep_no_connection(start_server: StartServer, postgresql_url: str) -> None:
    server = start_server("--store", postgresql_url)
    more_than_connections = MAX_CONNECTIONS + 1
    body = {"input_ids": [8], "sampling_params": LONG}
    with server.client() as client, ThreadPoolExecutor(more_than_connections) as pool:
        generations = [pool.submit(client.post, "/generate", json=body) for _ in range(more_than_connections)]
        deadline = time.monotonic() + 60
        while sum(map(server.figure, IN_ENGINE)) < more_than_connections:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert client.get("/v1/memories").status_code == 200
        server.kill()
        assert all(isinstance(generation.exception(30), httpx.TransportError) for generation in generations)


def test_a_stopping_server_ends_generations_and_says_so(start_server: StartServer) -> None:
    server = start_server()
    with server.client() as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, "/generate", json={"text": "a", "sampling_params": LONG})
        server.wait_for_running(1)
        server.process.send_signal(signal.SIGTERM)
        answer = asked.result(30)
    assert answer.status_code == 503
    assert "stopping" in answer.json()["detail"]
    assert answer.headers["Retry-After"]
    assert_ended_well(server)


def test_an_interrupt_ends_the_server(start_server: StartServer) -> None:
    server = start_server()
    os.killpg(server.process.pid, signal.SIGINT)  # as a terminal does: to master and worker
    assert_ended_well(server)


def assert_ended_well(server: Server) -> None:
    """It has said one line in its life, and complained of nothing."""
    assert server.process.wait(30) == 0
    assert server.process.stdout is not None
    assert server.process.stdout.read() == ""
    assert server.log.read_text() == ""


def test_a_stream_that_the_server_ends_says_so(start_server: StartServer) -> None:
    server = start_server()
    body = {"text": "a", "stream": True, "sampling_params": LONG}
    with server.client() as client, client.stream("POST", "/generate", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGTERM)
        last = [line for line in lines if line][-1]
    assert last == 'data: {"error":{"code":503,"message":"the server is stopping"}}'
    assert server.process.wait(30) == 0


def test_a_kill_during_a_compaction_leaves_no_half_of_it(start_server: StartServer) -> None:
    server = start_server()
    with server.client() as client:
        kept = compact(client)["handle"]
        before = generate(client, input_ids=[8, 9], remory={"handle": kept})["output_ids"]
    body = {"prefix_ids": PREFIX, "history_ids": HISTORY * 9, "summary_ids": SUMMARY}
    with server.client() as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, "/v1/compact", json=body)
        server.wait_for_running(1)
        server.kill()
        with pytest.raises(httpx.TransportError):
            asked.result(30)
    with sqlite3.connect(server.data / FILE_NAME) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert file.execute("SELECT handle FROM stored_memory").fetchall() == [(kept,)]
        assert file.execute("SELECT count(*) FROM stored_rows").fetchall() == [(1,)]
    again = start_server()
    with again.client() as client:
        assert [memory["handle"] for memory in client.get("/v1/memories").json()["memories"]] == [kept]
        assert generate(client, input_ids=[8, 9], remory={"handle": kept})["output_ids"] == before
        compact(client)


def test_a_worker_that_dies_is_replaced(start_server: StartServer, database_url: str | None) -> None:
    server = start_server(*store_options(database_url))
    with server.client() as client:
        handle = compact(client)["handle"]
    (worker,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    os.kill(int(worker), signal.SIGKILL)
    with httpx.Client(base_url=server.url, transport=httpx.HTTPTransport(retries=5)) as client:
        wait_ready(client)
    with server.client() as client:
        generate(client, input_ids=[8], remory={"handle": handle})
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert server.process.stdout is not None
    assert server.process.stdout.read() == ""
    assert "the worker process died" in server.log.read_text()


def wait_ready(client: httpx.Client) -> None:
    """Ask until the actor answers; a connection may break while the worker is replaced."""
    for _ in range(600):
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise TimeoutError("the server did not become ready")


def test_no_connection_goes_from_the_master_to_its_worker(tmp_path: Path, database_url: str | None) -> None:
    _prepare_store(Config(data=tmp_path, store=database_url))
    assert database.obj.kind == ("sqlite" if database_url is None else "postgresql")
    assert (database.obj._connections, database.obj._in_use) == ([], {})

"""What multiplies a request's work is refused before any of it, and nothing is kept."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from .conftest import Server

SESSION = {"X-Remory-Session": "limits"}


def sampled(**params: Any) -> dict[str, Any]:
    return {"text": "a", "sampling_params": params}


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    "body",
    [
        sampled(max_new_tokens=10**4299),
        sampled(max_new_tokens=2**31),
        sampled(temperature=1e39, regex="[a-z]+"),
        sampled(repetition_penalty=1e-300),
        sampled(stop=["x"] * 65),
        sampled(stop="x" * 4097),
        {"text": "a", "rid": "r" * 257},
        {"text": ["a", "b"], "rid": ["r", "s" * 257]},
    ],
)
def test_generate_refuses_what_is_too_much(server: Server, body: dict[str, Any]) -> None:
    with server.client() as client:
        assert client.post("/generate", json=body).status_code == 422
        assert client.post("/generate", json=sampled(max_new_tokens=1)).status_code == 200


def test_compact_refuses_too_many_branches(server: Server) -> None:
    body = {"prefix_ids": [1, 2], "history_ids": [3], "summary_ids": [5], "branches": ["rm_0"] * 65}
    with server.client() as client:
        assert client.post("/v1/compact", json=body, headers=SESSION).status_code == 422


@pytest.mark.parametrize("depth", [199, 976])
def test_deep_bodies_are_refused_and_nothing_is_stored(server: Server, depth: int) -> None:
    messages = '[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c","x":%s}]'
    body = '{"messages":' + messages % nested(depth) + ',"keep_last":1}'
    headers = SESSION | {"Content-Type": "application/json"}
    with server.client() as client:
        answer = client.post("/v1/compact/text", content=body, headers=headers)
        assert answer.status_code == 400
        assert "deeper than 200" in answer.json()["detail"]
        assert client.get("/v1/memories", headers=SESSION).json()["memories"] == []


@pytest.mark.parametrize("size", ["zz", "-5"])
def test_malformed_chunks_are_400(server: Server, size: str) -> None:
    with server.client() as client:
        port = client.base_url.port
    head = "POST /generate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n{size}\r\n{{}}".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_many_sequences_of_one_request_leave_room_for_others(server: Server) -> None:
    """The engine runs 16 at once; 32 long ones in one request would otherwise be waited for."""
    many = sampled(n=32, max_new_tokens=1500, ignore_eos=True) | {"stream": True}
    with server.client() as greedy, server.client() as other, greedy.stream("POST", "/generate", json=many) as stream:
        lines = stream.iter_lines()  # held, because dropping it hangs up
        next(lines)
        assert other.post("/generate", json=sampled(max_new_tokens=2)).status_code == 200
        assert server.figure("remory_engine_requests_running") == 4
    server.wait_for_running(0)


def test_a_request_of_many_sequences_answers_all(server: Server) -> None:
    with server.client() as client:
        answers = client.post("/generate", json=sampled(n=9, max_new_tokens=2, ignore_eos=True)).json()
    assert [len(answer["output_ids"]) for answer in answers] == [2] * 9


@pytest.mark.parametrize("extra", [1 << 20, 36 << 20])
@pytest.mark.parametrize("announced", [True, False])
def test_a_client_sees_413_and_goes_on_with_its_connection(server: Server, extra: int, announced: bool) -> None:
    size = (64 << 20) + extra
    content: Any = b" " * size if announced else (b" " * (1 << 20) for _ in range(size >> 20))
    with server.client() as client:
        headers = {"Content-Type": "application/json"}
        assert client.post("/generate", content=content, headers=headers).status_code == 413
        assert client.post("/generate", json=sampled(max_new_tokens=1)).status_code == 200

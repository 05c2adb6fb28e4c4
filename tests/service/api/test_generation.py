"""Streams, and clients that leave."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.service.conftest import GREEDY, HISTORY, PREFIX, SUMMARY, Server, compact, generate

LONG = {"max_new_tokens": 1900, "ignore_eos": True}


def events(client: httpx.Client, **fields: Any) -> list[Any]:
    """The parsed events of a stream that ends well."""
    with client.stream("POST", "/generate", json={"sampling_params": GREEDY, "stream": True} | fields) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        blocks = "".join(answer.iter_text()).split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    assert all(block.startswith("data: ") and "\n" not in block for block in blocks[:-1])
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-2]]


def is_start(earlier: Any, later: Any) -> bool:
    return later[: len(earlier)] == earlier


def test_a_stream_grows_to_what_is_answered_at_once(client: httpx.Client) -> None:
    whole = generate(client, text="The build takes")
    stream = events(client, text="The build takes")
    assert stream[-1]["text"] == whole["text"]
    assert stream[-1]["output_ids"] == whole["output_ids"]
    assert [event["meta_info"]["finish_reason"] for event in stream[:-1]] == [None] * (len(stream) - 1)
    assert stream[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 8}
    assert len({event["meta_info"]["id"] for event in stream}) == 1
    for earlier, later in zip(stream, stream[1:], strict=False):
        assert is_start(earlier["text"], later["text"])
        assert is_start(earlier["output_ids"], later["output_ids"])
    assert all("index" not in event for event in stream)


def test_a_streamed_list_says_which_prompt_an_event_belongs_to(client: httpx.Client) -> None:
    whole = generate(client, text=["a", "b", "c"])
    stream = events(client, text=["a", "b", "c"], rid=["x", "y", "z"])
    for index, name in enumerate("xyz"):
        own = [event for event in stream if event["index"] == index]
        assert {event["meta_info"]["id"] for event in own} == {name}
        assert own[-1]["output_ids"] == whole[index]["output_ids"]
        assert own[-1]["meta_info"]["finish_reason"]
    copies = events(client, text="a", sampling_params={**GREEDY, "n": 2})
    assert {event["index"] for event in copies} == {0, 1}


def test_a_stream_behind_a_memory(client: httpx.Client) -> None:
    memory = {"handle": compact(client)["handle"]}
    whole = generate(client, input_ids=[8, 9], remory=memory)
    assert events(client, input_ids=[8, 9], remory=memory)[-1]["output_ids"] == whole["output_ids"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"input_ids": ["a"]}, 422),
        ({"input_ids": [9999]}, 400),
        ({"input_ids": [5] * 3000}, 400),
        ({"input_ids": [8], "remory": {"handle": "rm_none"}}, 404),
        ({"text": ["a", ""]}, 400),
    ],
)
def test_what_fails_before_the_first_event_has_its_status(
    client: httpx.Client, fields: dict[str, Any], status: int
) -> None:
    answer = client.post("/generate", json=fields | {"stream": True})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["detail"]


def test_a_short_request_is_answered_while_a_long_one_runs(client: httpx.Client, server: Server) -> None:
    with client.stream("POST", "/generate", json={"text": "a", "stream": True, "sampling_params": LONG}) as answer:
        lines = answer.iter_lines()
        next(lines)
        with server.client() as other:
            generate(other, text="b")
        assert server.figure("remory_engine_requests_running") == 1
    server.wait_for_running(0)


def test_requests_at_once_get_their_own_answers(client: httpx.Client, server: Server) -> None:
    handles = [compact(client, history_ids=[token] * 200)["handle"] for token in (60, 200)]
    bodies: list[dict[str, Any]] = [{"input_ids": [8, 9], "remory": {"handle": handle}} for handle in handles]
    bodies += [{"input_ids": [8, 9]}, {"text": ["a", "b"]}]
    alone = [output_ids(generate(client, **body)) for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda body: output_ids(generate(client, **body)), bodies * 4))
    assert together == alone * 4


def output_ids(answer: Any) -> Any:
    return [item["output_ids"] for item in answer] if isinstance(answer, list) else answer["output_ids"]


def leave(server: Server, path: str, session: str, **fields: Any) -> Iterator[socket.socket]:
    """Send a long request on a bare socket, and close it when the caller has seen it run."""
    body = json.dumps(fields).encode()
    place = urlsplit(server.url)
    assert place.hostname is not None
    with socket.create_connection((place.hostname, place.port)) as connection:
        head = f"POST {path} HTTP/1.1\r\nHost: {place.netloc}\r\nX-Remory-Session: {session}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        yield connection


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("prompts", "running"), [({"text": "a"}, 1), ({"text": ["a", "b", "c"]}, 3)])
def test_a_client_that_leaves_stops_its_work(
    server: Server, stream: bool, prompts: dict[str, Any], running: int
) -> None:
    for connection in leave(server, "/generate", "any", sampling_params=LONG, stream=stream, **prompts):
        server.wait_for_running(running)
        if stream:
            assert b"200 OK" in connection.recv(4096)
    generated = server.figure("remory_engine_generated_tokens_total")
    server.wait_for_running(0)
    # It was stopped and did not end: far fewer tokens came after the client had left than were asked for.
    assert server.figure("remory_engine_generated_tokens_total") - generated < running * LONG["max_new_tokens"] / 2
    with server.client() as client:
        generate(client, text="a")


def test_a_compaction_whose_client_has_left_is_not_kept(server: Server, session: str) -> None:
    body = {"prefix_ids": PREFIX, "history_ids": HISTORY * 9, "summary_ids": SUMMARY}
    for _ in leave(server, "/v1/compact", session, **body):
        server.wait_for_running(1)
    server.wait_for_running(0)
    with server.client(session) as client:
        assert client.get("/v1/memories").json() == {"memories": []}

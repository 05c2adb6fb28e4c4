"""Collecting tokens, with the embedded actor on both databases: what is kept, whose it is, and how it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from remory import Client
from tests.service.api.test_generation import events
from tests.service.conftest import GREEDY, Server, StartServer, compact, generate, store_options

AGREED = {"X-Remory-Collect": "yes"}
HISTORY = [504, 2988, 314, 42] * 20
MESSAGES = [
    {"role": "user", "content": "Count the files."},
    {"role": "assistant", "content": "There are 4 files in the folder."},
    {"role": "user", "content": "And the lines?"},
    {"role": "assistant", "content": "There are 88 lines in them."},
    {"role": "user", "content": "Thanks."},
]


@pytest.fixture
def agreed(embedded_server: Server, session: str) -> Iterator[httpx.Client]:
    """A client of a session that agrees with every request."""
    with embedded_server.client(session, **AGREED) as client:
        yield client


def listed(client: httpx.Client, **headers: str) -> dict[str, Any]:
    answer = client.get("/v1/transcripts", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def kinds(client: httpx.Client) -> list[tuple[str, str, int]]:
    return [(item["handle"], item["kind"], item["tokens"]) for item in listed(client)["transcripts"]]


def exported(server: Server, folder: Path) -> list[dict[str, Any]]:
    out = folder / "out.jsonl"
    command = [sys.executable, "-m", "remory.cli", "transcripts", "export", "--data", server.data, "--out", out]
    done = subprocess.run([*command, *server.store], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_mode & 0o077 == 0
    assert list(folder.glob(".out*")) == []
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_info_says_that_it_collects(agreed: httpx.Client) -> None:
    assert agreed.get("/v1/remory/info").json()["collect"] is True


def test_a_compaction_and_what_follows_are_kept(agreed: httpx.Client, embedded_server: Server, tmp_path: Path) -> None:
    handle = compact(agreed, history_ids=HISTORY)["handle"]
    answer = generate(agreed, input_ids=[8, 9], remory={"handle": handle})["output_ids"]
    more = [8, 9, *answer, 10]
    last = events(agreed, input_ids=more, remory={"handle": handle})[-1]["output_ids"]
    assert kinds(agreed) == [
        (handle, "compaction", len(HISTORY)),
        (handle, "continuation", len(more) + len(last)),
    ]
    shown = listed(agreed)
    revision = agreed.get("/v1/remory/info").json()["actor"]["revision"]
    assert {item["actor_revision"] for item in shown["transcripts"]} == {revision}
    assert (shown["count"], shown["bytes"]) == (2, sum(item["bytes"] for item in shown["transcripts"]))
    assert embedded_server.figure("remory_store_transcript_bytes") >= shown["bytes"]
    own = [line for line in exported(embedded_server, tmp_path) if line["continuation_ids"] == [*more, *last]]
    assert own == [
        {
            "prefix_ids": [1, 5, 6, 7],
            "history_ids": HISTORY,
            "summary_ids": [20, 21, 22],
            "continuation_ids": [*more, *last],
            "actor_revision": revision,
        }
    ]


def test_a_conversation_is_kept_as_its_tokens(agreed: httpx.Client, embedded_server: Server, tmp_path: Path) -> None:
    body = {"messages": MESSAGES, "keep_last": 1, "max_summary_tokens": 8}
    made = agreed.post("/v1/compact/text", json=body).json()
    said = generate(agreed, input_ids=made["continuation_ids"], remory={"handle": made["handle"]})["output_ids"]
    (line,) = [
        line
        for line in exported(embedded_server, tmp_path)
        if line["continuation_ids"] == [*made["continuation_ids"], *said]
    ]
    whole = agreed.post("/tokenize", json={"messages": MESSAGES, "add_generation_prompt": True}).json()["tokens"]
    assert [*line["prefix_ids"], *line["history_ids"], *made["continuation_ids"]] == whole
    assert line["summary_ids"] == made["summary_ids"]


def test_a_lineage_is_one_history(agreed: httpx.Client, embedded_server: Server, tmp_path: Path) -> None:
    first = compact(agreed, history_ids=HISTORY)["handle"]
    second = compact(agreed, history_ids=HISTORY[:41], previous=first)["handle"]
    said = generate(agreed, input_ids=[77, 78, 79], remory={"handle": second})["output_ids"]
    lines = exported(embedded_server, tmp_path)
    (line,) = [line for line in lines if line["continuation_ids"] == [77, 78, 79, *said]]
    assert line["history_ids"] == [*HISTORY, *HISTORY[:41]]


@pytest.mark.parametrize("word", [None, "", "no", "y", "true", "yes, no"])
def test_nothing_is_kept_without_a_plain_yes(agreed: httpx.Client, word: str | None) -> None:
    del agreed.headers["X-Remory-Collect"]
    if word is not None:
        agreed.headers["X-Remory-Collect"] = word
    handle = compact(agreed, history_ids=HISTORY)["handle"]
    generate(agreed, input_ids=[8, 9], remory={"handle": handle})
    assert listed(agreed) == {"transcripts": [], "count": 0, "bytes": 0, "next_offset": None}
    # Nor later what follows a history that was not to be kept.
    generate(agreed, input_ids=[8, 9], remory={"handle": handle}, sampling_params=GREEDY)
    answer = agreed.post(
        "/generate", json={"input_ids": [8], "remory": {"handle": handle}, "sampling_params": GREEDY}, headers=AGREED
    )
    assert answer.status_code == 200
    assert listed(agreed)["count"] == 0


def test_agreement_is_each_requests_own(agreed: httpx.Client) -> None:
    handle = compact(agreed, history_ids=HISTORY)["handle"]
    del agreed.headers["X-Remory-Collect"]
    generate(agreed, input_ids=[8, 9], remory={"handle": handle})
    assert kinds(agreed) == [(handle, "compaction", len(HISTORY))]


def test_a_generation_without_a_memory_is_not_kept(agreed: httpx.Client) -> None:
    generate(agreed, text=["One, two,", "a"])
    generate(agreed, text="One, two,", sampling_params=GREEDY | {"n": 2})
    assert listed(agreed)["count"] == 0


def test_what_fails_is_not_kept(agreed: httpx.Client) -> None:
    handle = compact(agreed, history_ids=HISTORY)["handle"]
    body = {"input_ids": [8], "remory": {"handle": handle}, "sampling_params": {"regex": "("}}
    assert agreed.post("/generate", json=body).status_code == 400
    assert (
        agreed.post("/v1/compact", json={"prefix_ids": [1], "history_ids": [], "summary_ids": [1]}).status_code == 400
    )
    assert kinds(agreed) == [(handle, "compaction", len(HISTORY))]


def test_a_stream_that_is_left_is_not_kept(agreed: httpx.Client) -> None:
    handle = compact(agreed, history_ids=HISTORY)["handle"]
    sampling = {"max_new_tokens": 2000, "ignore_eos": True}
    body = {"input_ids": [8], "remory": {"handle": handle}, "sampling_params": sampling, "stream": True}
    with agreed.stream("POST", "/generate", json=body) as answer:
        assert next(answer.iter_lines()).startswith("data:")
    generate(agreed, input_ids=[8], remory={"handle": handle})
    assert kinds(agreed) == [(handle, "compaction", len(HISTORY)), (handle, "continuation", 9)]


@pytest.mark.parametrize("header", ["X-Remory-Session", "X-Remory-User"])
def test_nobody_else_sees_or_deletes_them(agreed: httpx.Client, header: str) -> None:
    compact(agreed, history_ids=HISTORY)
    assert listed(agreed, **{header: "another"})["count"] == 0
    assert agreed.delete("/v1/transcripts", headers={header: "another"}).json() == {"deleted": 0}
    assert listed(agreed)["count"] == 1


def test_transcripts_are_deleted_without_their_memories(agreed: httpx.Client) -> None:
    handle = compact(agreed, history_ids=HISTORY)["handle"]
    generate(agreed, input_ids=[8, 9], remory={"handle": handle})
    assert agreed.delete("/v1/transcripts").json() == {"deleted": 2}
    assert listed(agreed)["count"] == 0
    generate(agreed, input_ids=[8, 9], remory={"handle": handle})
    assert listed(agreed)["count"] == 0


def test_deleting_a_memory_leaves_no_transcript(agreed: httpx.Client) -> None:
    handle = compact(agreed, history_ids=HISTORY)["handle"]
    generate(agreed, input_ids=[8, 9], remory={"handle": handle})
    assert agreed.delete(f"/v1/memories/{handle}").status_code == 200
    assert listed(agreed)["count"] == 0


def test_pages(agreed: httpx.Client) -> None:
    handles = [compact(agreed, history_ids=HISTORY)["handle"] for _ in range(3)]
    first = agreed.get("/v1/transcripts?limit=2").json()
    assert [item["handle"] for item in first["transcripts"]] == [handles[2], handles[1]]
    assert (first["count"], first["next_offset"]) == (3, 2)
    rest = agreed.get("/v1/transcripts?limit=2&offset=2").json()
    assert [item["handle"] for item in rest["transcripts"]] == handles[:1]
    assert rest["next_offset"] is None
    assert agreed.get("/v1/transcripts?limit=0").status_code == 422


def test_a_session_must_be_named(embedded_server: Server) -> None:
    for method in ("GET", "DELETE"):
        assert httpx.request(method, f"{embedded_server.url}/v1/transcripts").status_code == 400


def test_a_server_that_does_not_collect_passes_over_the_header(
    start_server: StartServer, database_url: str | None, tmp_path: Path
) -> None:
    plain = start_server(*store_options(database_url))
    with plain.client(**AGREED) as client:
        assert client.get("/v1/remory/info").json()["collect"] is False
        generate(client, input_ids=[8], remory={"handle": compact(client)["handle"]})
        assert listed(client)["count"] == 0
    plain.kill()
    # What was kept before is still seen and deleted by a server that collects no more.
    bounded = start_server("--collect", "--collect-bytes", "2000", *store_options(database_url))
    with bounded.client(**AGREED) as client:
        handles = [compact(client, history_ids=[token] * 200)["handle"] for token in (60, 61, 62)]
        assert [item["handle"] for item in listed(client)["transcripts"]] == handles[:0:-1]
    bounded.kill()
    with start_server(*store_options(database_url)).client(**AGREED) as client:
        assert client.delete("/v1/transcripts").json() == {"deleted": 2}


def test_an_export_needs_a_store_and_leaves_no_half_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "remory.cli", "transcripts", "export", "--data", tmp_path / "none", "--out"]
    done = subprocess.run([*command, tmp_path / "out"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("remory: there is no store at")
    assert list(tmp_path.iterdir()) == []


def test_the_python_client_agrees_for_all_its_requests(
    agreed: httpx.Client, embedded_server: Server, session: str
) -> None:
    with Client(embedded_server.url, session=session, collect=True) as client:
        made = client.compact([504, 3575], HISTORY, [7042, 30])
    with Client(embedded_server.url, session=session) as client:
        client.compact([504, 3575], HISTORY, [7042])
    assert kinds(agreed) == [(made["handle"], "compaction", len(HISTORY))]

"""Memory for generation: stored texts in the prompt, from a removed history, a chat's memories, notes and scopes."""

from __future__ import annotations

import sqlite3
from typing import Any

import httpx
import pytest

from remory_service.recall import LEAD
from tests.service.conftest import GREEDY, Server, StartServer

TASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look after the build machine."}]
HISTORY = [
    {"role": "assistant", "content": "I look at the settings."},
    {"role": "user", "content": "The service listens on port 9317 there."},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": "The backup runs every night and is called heron."},
    {"role": "assistant", "content": "run: ls /data"},
    {"role": "tool", "content": "amber-store\nlost+found"},
    {"role": "assistant", "content": "The data folder is amber-store."},
]
REST = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "I do."}]


def post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def compact(client: httpx.Client, messages: list[dict[str, str]] = HISTORY, **fields: Any) -> dict[str, Any]:
    body = {"messages": [*TASK, *messages, *REST], "max_summary_tokens": 8} | fields
    return post(client, "/v1/compact/text", body)


def ask(client: httpx.Client, question: str, behind: str | None = None, /, **recall: Any) -> dict[str, Any]:
    """A generation with recall; behind a memory only the question is sent."""
    body: dict[str, Any] = {"sampling_params": GREEDY, "recall": recall}
    prompt = {"messages": [{"role": "user", "content": question}], "add_generation_prompt": True}
    body["input_ids"] = post(client, "/tokenize", prompt)["tokens"]
    if behind is not None:
        body["remory"] = {"handle": behind}
    return post(client, "/generate", body)["meta_info"]


def texts(meta: dict[str, Any]) -> list[str]:
    return [item["text"] for item in meta["recalled"]]


def refused(client: httpx.Client, path: str, body: dict[str, Any]) -> tuple[int, str]:
    answer = client.post(path, json=body)
    return answer.status_code, str(answer.json()["detail"])


def test_the_history_behind_a_handle_is_found_word_for_word(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    plain = post(client, "/generate", {"input_ids": [5, 6], "sampling_params": GREEDY, "remory": {"handle": handle}})
    assert "recalled" not in plain["meta_info"]
    meta = ask(client, "Which port does the service listen on?", handle, handle=True, top_k=1)
    (item,) = meta["recalled"]
    assert "port 9317" in item["text"] and item["source"] == "handle" and 0 < item["score"] <= 1
    assert 0 < item["tokens"] < meta["recalled_tokens"]


def test_what_was_recalled_stands_between_memory_and_continuation(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    ids = post(client, "/tokenize", {"prompt": "What is the backup called?"})["tokens"]
    body = {"input_ids": ids, "remory": {"handle": handle}, "sampling_params": {"temperature": 0, "max_new_tokens": 1}}
    bare = post(client, "/generate", body)["meta_info"]
    body |= {"return_logprob": True, "logprob_start_len": bare["prompt_tokens"] - len(ids)}
    meta = post(client, "/generate", body | {"recall": {"handle": True, "top_k": 1}})["meta_info"]
    assert meta["prompt_tokens"] == bare["prompt_tokens"] + meta["recalled_tokens"]
    read = [token for _, token, _ in meta["input_token_logprobs"]]
    text = post(client, "/detokenize", {"tokens": read, "skip_special_tokens": False})["text"]
    told = "\n\n".join([LEAD, *texts(meta)])
    assert text == f"<|im_start|>system\n{told}<|im_end|>\nWhat is the backup called?"


def test_a_tool_result_comes_with_its_call_or_not_at_all(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    for budget in range(20, 400, 20):
        for text in texts(ask(client, "amber-store lost+found", handle, handle=True, max_tokens=budget)):
            assert ("run: ls /data" in text) == ("lost+found" in text)


def test_the_budget_holds_and_the_newest_comes_last(client: httpx.Client) -> None:
    handle = compact(
        client, [{"role": "user", "content": f"Port {n} is number {n}. {'word ' * 40}"} for n in range(9)]
    )["handle"]
    seen = set()
    for budget in (1, 30, 150, 300, 600, 2000):
        meta = ask(client, "Which port?", handle, handle=True, top_k=5, max_tokens=budget)
        assert meta["recalled_tokens"] <= budget and len(meta["recalled"]) <= 5
        assert [item["name"] for item in meta["recalled"]] == sorted(item["name"] for item in meta["recalled"])
        seen.add(len(meta["recalled"]))
    assert 0 in seen and 5 in seen


def test_ancestors_and_branches_are_searched_too(client: httpx.Client) -> None:
    first = compact(client)
    branch = compact(client, [{"role": "user", "content": "The deploy key lies in the blue safe."}])
    prefix = post(client, "/tokenize", {"messages": TASK, "add_generation_prompt": False})["tokens"]
    more = post(client, "/tokenize", {"prompt": "The restart is on Sunday at noon. " * 6})["tokens"]
    body = {"prefix_ids": prefix, "history_ids": more, "summary_ids": [9], "previous": first["handle"]}
    handle = post(client, "/v1/compact", body | {"branches": [branch["handle"]]})["handle"]
    for question, expected in (("port of the service", "9317"), ("deploy key", "safe"), ("restart", "Sunday")):
        assert expected in texts(ask(client, question, handle, handle=True, top_k=1))[0]
    assert texts(ask(client, "restart on Sunday", first["handle"], handle=True, query="restart on Sunday")) != []
    assert not any("Sunday" in text for text in texts(ask(client, "restart", first["handle"], handle=True)))


def test_a_history_is_not_kept_against_the_requests_will(client: httpx.Client) -> None:
    handle = compact(client, keep_history=False)["handle"]
    assert ask(client, "Which port?", handle, handle=True)["recalled"] == []


def test_a_server_keeps_no_history_if_it_is_told_so(start_server: StartServer) -> None:
    server = start_server("--no-keep-history")
    with server.client() as client:
        for fields, kept in (({}, 0), ({"keep_history": True}, 1)):
            handle = compact(client, **fields)["handle"]
            assert len(ask(client, "Which port?", handle, handle=True, top_k=1)["recalled"]) == kept
    connection = sqlite3.connect(server.data / "remory.sqlite3")
    assert connection.execute("SELECT count(DISTINCT collection_id) FROM passage").fetchone() == (1,)


def test_a_deleted_memorys_history_is_found_no_more(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    assert client.delete(f"/v1/memories/{handle}").status_code == 200
    body = {"input_ids": [5], "remory": {"handle": handle}, "recall": {"handle": True}}
    assert refused(client, "/generate", body)[0] == 404


def test_nobody_elses_history_is_reached(server: Server, client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    body = {"input_ids": [5, 6, 7], "remory": {"handle": handle}, "recall": {"handle": True}}
    with server.client("another-session") as other:
        assert refused(other, "/generate", body)[0] == 404


def test_notes_chats_and_scopes_are_sources(client: httpx.Client, embedder: Any) -> None:
    note = {"scope": "user", "memory": {"content": "The user prefers the colour teal."}}
    post(client, "/api/rpc", {"method": "MemoryRpc.saveMemory", "params": note})
    assert texts(ask(client, "Which colour?", notes="user", top_k=1)) == [note["memory"]["content"]]
    assert ask(client, "Which colour?", notes="global")["recalled"] == []

    chat = post(client, "/api/chats", {})["id"]
    said = [
        {"role": "user", "text": "Which database does the ledger use?"},
        {"role": "assistant", "text": "The ledger uses the database named quartz."},
    ]
    for message in said:
        assert client.post(f"/api/chats/{chat}/messages", json=message).is_success
    post(client, f"/api/chats/{chat}/memories", {})
    (text,) = texts(ask(client, "What does the ledger use?", chat=chat))
    assert "quartz" in text

    scope = {"scope": "session", "session_id": "recall"}
    post(client, "/api/v2/memory/write", scope | {"key": "limit", "value": {"requests": 40}})
    for key, text, metadata in (
        ("limit", "how many requests a second", {}),
        ("owner", "which team owns it", {"text": "The platform team owns it."}),
        ("bare", "a vector without a text", {}),
    ):
        body = scope | {"key": key, "embedding": embedder.embed([text])[0].tolist(), "metadata": metadata}
        post(client, "/api/v2/memory/vector/set", body)
    meta = ask(client, "How many requests a second?", scope=scope)
    assert set(texts(meta)) == {'limit: {"requests": 40}', "owner: The platform team owns it."}

    several = ask(client, "Which colour?", notes="user", chat=chat, scope=scope, top_k=2, query="colour teal")
    assert several["recalled"][-1]["source"] in ("notes", "scope") and "teal" in str(several["recalled"])


def test_others_chats_notes_and_scopes_are_not(server: Server, client: httpx.Client) -> None:
    chat = post(client, "/api/chats", {})["id"]
    post(client, "/api/v2/memory/write", {"scope": "session", "session_id": "mine", "key": "k", "value": 1})
    note = {"scope": "user", "memory": {"content": "A secret of this user."}}
    post(client, "/api/rpc", {"method": "MemoryRpc.saveMemory", "params": note})
    base = {"text": "A secret?", "sampling_params": GREEDY}
    with server.client(**{"X-Remory-User": "other"}) as other:
        assert refused(other, "/generate", base | {"recall": {"chat": chat}}) == (404, "Chat not found")
        assert refused(other, "/generate", base | {"recall": {"chat": "none\0"}})[0] == 404
        scope = {"scope": "session", "session_id": "mine"}
        # Without keys everybody has every role, an administrator's too; what is another's is a matter of keys there.
        assert post(other, "/generate", base | {"recall": {"notes": "user"}})["meta_info"]["recalled"] == []
        assert other.post("/generate", json=base | {"recall": {"scope": scope}}).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"recall": {}}, 400, "source"),
        ({"recall": {"handle": True}}, 400, "memory"),
        ({"recall": {"handle": True, "top_k": 0}}, 422, "greater"),
        ({"recall": {"notes": "all"}}, 422, "user"),
        ({"recall": {"notes": "user", "query": "  "}}, 400, "query"),
        ({"recall": {"notes": "user", "mode": "words"}}, 422, "hybrid"),
        ({"recall": {"scope": {"scope": "session"}}}, 400, "session_id"),
        ({"recall": {"notes": "user"}, "text": ["a", "b"]}, 400, "one prompt"),
        ({"recall": {"notes": "user", "top": 3}}, 422, "xtra"),
    ],
)
def test_what_cannot_be_recalled_is_refused(client: httpx.Client, body: Any, status: int, words: str) -> None:
    answer = refused(client, "/generate", {"text": "hello", "sampling_params": GREEDY} | body)
    assert answer[0] == status and words in answer[1]


def test_streams_and_several_answers_tell_it_too(client: httpx.Client) -> None:
    note = {"scope": "user", "memory": {"content": "The release is on Thursday."}}
    post(client, "/api/rpc", {"method": "MemoryRpc.saveMemory", "params": note})
    body = {"text": "When is the release?", "sampling_params": GREEDY | {"n": 2}, "recall": {"notes": "user"}}
    for answer in client.post("/generate", json=body).json():
        assert "Thursday" in str(answer["meta_info"]["recalled"])
    with client.stream("POST", "/generate", json=body | {"sampling_params": GREEDY, "stream": True}) as stream:
        events = [line for line in stream.iter_lines() if line.startswith("data: {")]
    assert events and all("Thursday" in event for event in events)


def test_a_second_summary_may_recall_what_the_first_replaced(client: httpx.Client) -> None:
    first = compact(client)
    more = [{"role": "user", "content": f"Step {n}: which port was it? {'word ' * 20}"} for n in range(4)]
    body = {
        "messages": [*TASK, *first["messages"], *more],
        "previous": first["handle"],
        "bridge": first["bridge"],
        "max_summary_tokens": 8,
        "recall": {"handle": True, "query": "the port of the service", "top_k": 1},
    }
    second = post(client, "/v1/compact/text", body)
    assert "9317" in second["recalled"][0]["text"] and second["recalled_tokens"] > 0
    assert second["receipt"]["previous"] == first["handle"]

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import SERVE_OPTIONS
from tests.service.conftest import GREEDY, HISTORY, PREFIX, SUMMARY, Server, compact, generate, launch

VOCABULARY = 384
CONTEXT = 2048
COMPACTION: dict[str, Any] = {"prefix_ids": PREFIX, "history_ids": HISTORY, "summary_ids": SUMMARY}
MESSAGES = [
    {"role": "system", "content": "Answer in one line."},
    {"role": "user", "content": "Fix the parser."},
    {
        "role": "assistant",
        "content": "I look at the log. " * 8,
        "tool_calls": [{"id": "1", "function": {"name": "log"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": "3 tests fail in the parser. " * 8},
    {"role": "assistant", "content": "I run it again.", "tool_calls": [{"id": "2", "function": {"name": "run"}}]},
    {"role": "tool", "tool_call_id": "2", "content": "The build takes 41 seconds."},
    {"role": "assistant", "content": "It is fixed."},
]


def refused(client: httpx.Client, path: str, status: int, **body: Any) -> str:
    """What the server says to a body that it refuses, after which it still serves."""
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"detail"}
    assert len(generate(client, input_ids=PREFIX, sampling_params={"max_new_tokens": 1})["output_ids"]) == 1
    return str(answer.json()["detail"])


def handles(client: httpx.Client) -> list[str]:
    return [memory["handle"] for memory in client.get("/v1/memories").json()["memories"]]


# Generation without memory.


def usable_context(client: httpx.Client) -> int:
    """Tokens that the server takes: SGLang keeps a few of the actor's for itself."""
    length = client.get("/v1/remory/info").json()["context_length"]
    assert CONTEXT - (8 if "sglang" in SERVE_OPTIONS else 0) <= length <= CONTEXT
    return length


def test_text_and_its_ids_are_continued_alike(client: httpx.Client) -> None:
    ids = client.post("/tokenize", json={"prompt": "The build takes"}).json()["tokens"]
    by_text, by_ids = generate(client, text="The build takes"), generate(client, input_ids=ids)
    assert by_text["output_ids"] == by_ids["output_ids"]
    assert by_text["text"] == client.post("/detokenize", json={"tokens": by_text["output_ids"]}).json()["text"]
    meta = by_text["meta_info"]
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (len(ids), 8)
    assert meta["finish_reason"] == {"type": "length", "length": 8}
    assert meta["e2e_latency"] > 0
    assert "hidden_states" not in meta
    assert "output_token_logprobs" not in meta


def test_a_list_is_answered_by_a_list_in_its_order(client: httpx.Client) -> None:
    prompts = [[5, 6, 7], [8, 9], [10]]
    alone = [generate(client, input_ids=prompt)["output_ids"] for prompt in prompts]
    together = generate(client, input_ids=prompts)
    assert [item["output_ids"] for item in together] == alone
    assert len({item["meta_info"]["id"] for item in together}) == 3
    assert [item["output_ids"] for item in generate(client, input_ids=[[5, 6, 7]])] == alone[:1]


def test_each_prompt_may_have_its_own_parameters(client: httpx.Client) -> None:
    lengths = [{**GREEDY, "max_new_tokens": length} for length in (1, 3)]
    answers = generate(client, text=["a", "b"], sampling_params=lengths)
    assert [len(item["output_ids"]) for item in answers] == [1, 3]


def test_n_gives_several_answers_that_a_seed_makes_again(client: httpx.Client) -> None:
    sampling = {"max_new_tokens": 12, "ignore_eos": True, "n": 3, "seed": 5, "temperature": 2}
    first, second = (generate(client, text="a", sampling_params=sampling) for _ in range(2))
    assert [item["output_ids"] for item in first] == [item["output_ids"] for item in second]
    assert len({tuple(item["output_ids"]) for item in first}) > 1
    assert len({item["meta_info"]["id"] for item in first}) == 3
    both = generate(client, text=["a", "b"], sampling_params={**GREEDY, "n": 2})
    assert both[0]["output_ids"] == both[1]["output_ids"]
    assert both[2]["output_ids"] == both[3]["output_ids"]


def test_rid_names_the_answer(client: httpx.Client) -> None:
    assert generate(client, text="a", rid="mine")["meta_info"]["id"] == "mine"
    named = generate(client, text=["a", "b"], rid=["x", "y"])
    assert [item["meta_info"]["id"] for item in named] == ["x", "y"]
    assert "rid" in refused(client, "/generate", 400, text=["a", "b"], rid=["x", "x"])
    assert "rid" in refused(client, "/generate", 400, text=["a", "b"], rid=["x"])


def test_logprobs_are_triples(client: httpx.Client) -> None:
    meta = generate(client, input_ids=[5, 6, 7, 8], return_logprob=True, logprob_start_len=1)["meta_info"]
    assert [triple[1:] for triple in meta["input_token_logprobs"]] == [[6, None], [7, None], [8, None]]
    assert meta["input_token_logprobs"][0][0] is None
    assert all(triple[0] <= 0 for triple in meta["input_token_logprobs"][1:])
    assert len(meta["output_token_logprobs"]) == 8
    several = generate(client, input_ids=[[5, 6, 7], [5, 6, 7]], return_logprob=True, logprob_start_len=[0, -1])
    assert [len(item["meta_info"]["input_token_logprobs"]) for item in several] == [3, 0]


def test_hidden_states_have_the_actors_width(client: httpx.Client) -> None:
    states = generate(client, input_ids=[5, 6, 7], return_hidden_states=True)["meta_info"]["hidden_states"]
    assert (len(states), len(states[0]), len(states[0][0]), len(states[1])) == (8, 3, 64, 64)


def test_stops_end_the_answer(client: httpx.Client) -> None:
    whole = generate(client, text="a")
    by_id = generate(client, text="a", sampling_params={**GREEDY, "stop_token_ids": [whole["output_ids"][2]]})
    assert by_id["meta_info"]["finish_reason"] == {"type": "stop", "matched": whole["output_ids"][2]}
    assert len(by_id["output_ids"]) <= 3
    regex = generate(client, text="a", sampling_params={**GREEDY, "ignore_eos": False, "regex": "[0-9]{3}"})
    assert len(regex["text"]) == 3
    assert regex["text"].isdigit()


def test_nothing_new_may_be_asked_for(client: httpx.Client) -> None:
    answer = generate(client, text="a", sampling_params={"max_new_tokens": 0})
    assert (answer["text"], answer["output_ids"]) == ("", [])


@pytest.mark.parametrize("ids", [True, "a", 1, 1.5, {}, [True], ["a"], [1.0], [None], [[1], 2], [[1], ["a"]], [[[1]]]])
def test_input_ids_of_another_type_are_422(client: httpx.Client, ids: Any) -> None:
    assert "input_ids" in refused(client, "/generate", 422, input_ids=ids)


def test_a_long_list_of_wrong_values_is_not_sent_back(client: httpx.Client) -> None:
    answer = client.post("/generate", json={"input_ids": ["secret"] * 100_000})
    assert answer.status_code == 422
    assert len(answer.content) < 1000
    assert "secret" not in answer.text
    assert answer.json()["detail"][0]["loc"] == ["input_ids", "flat", 0]


@pytest.mark.parametrize("wrong", [-1, VOCABULARY, 2**31, 2**63, 10**400])
def test_ids_outside_the_vocabulary_are_400(client: httpx.Client, wrong: int) -> None:
    detail = refused(client, "/generate", 400, input_ids=[1, wrong])
    assert "input_ids[1]" in detail
    assert f"[0, {VOCABULARY})" in detail
    assert len(detail) < 200
    assert "input_ids[1][0]" in refused(client, "/generate", 400, input_ids=[[1], [wrong]])


@pytest.mark.parametrize(
    "body", [{}, {"input_ids": []}, {"input_ids": [[]]}, {"text": ""}, {"text": []}, {"text": [""]}]
)
def test_an_empty_prompt_is_400(client: httpx.Client, body: dict[str, Any]) -> None:
    refused(client, "/generate", 400, **body)


def test_text_and_ids_together_are_400(client: httpx.Client) -> None:
    assert "either" in refused(client, "/generate", 400, text="a", input_ids=[1])


def test_an_overlong_prompt_is_400_with_the_numbers(client: httpx.Client) -> None:
    context = usable_context(client)
    for size, new in ((context, 1), (context - 5, 10), (5, context)):
        detail = refused(client, "/generate", 400, input_ids=[5] * size, sampling_params={"max_new_tokens": new})
        assert str(size) in detail
        assert str(context) in detail


@pytest.mark.parametrize(
    "field",
    [
        "positional_embed_overrides",
        "custom_logit_processor",
        "image_data",
        "input_embeds",
        "lora_path",
        "session_params",
    ],
)
def test_fields_that_are_not_served_are_422(client: httpx.Client, field: str) -> None:
    assert field in refused(client, "/generate", 422, text="a", **{field: None})


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": -1},
        {"temperature": "0"},
        {"temperature": True},
        {"top_p": 0},
        {"top_p": 1.5},
        {"top_k": -2},
        {"min_p": 2},
        {"n": 0},
        {"max_new_tokens": -1},
        {"max_new_tokens": 1.5},
        {"repetition_penalty": 0},
        {"frequency_penalty": 3},
        {"seed": -1},
        {"stop": [1]},
        {"stop_token_ids": 5},
        {"custom_params": {}},
    ],
)
def test_sampling_parameters_are_checked(client: httpx.Client, sampling: dict[str, Any]) -> None:
    (name,) = sampling
    assert name in refused(client, "/generate", 422, text="a", sampling_params=sampling)


@pytest.mark.parametrize("start", [-(2**63), -2, 0, 2, 3, 2**31, 2**70])
def test_log_probabilities_begin_at_a_place_that_there_is(client: httpx.Client, start: int) -> None:
    fields = {"return_logprob": True, "logprob_start_len": start}
    meta = generate(client, input_ids=[5, 6, 7], **fields)["meta_info"]
    assert [token for _, token, _ in meta["input_token_logprobs"]] == ([5, 6, 7][min(start, 2) :] if start >= 0 else [])


@pytest.mark.parametrize(
    "sampling", [{"top_k": 2**31}, {"top_k": 2**70}, {"stop_token_ids": [2**31]}, {"stop_token_ids": [2**70, -1]}]
)
def test_numbers_beyond_the_vocabulary_change_nothing(client: httpx.Client, sampling: dict[str, Any]) -> None:
    free = GREEDY | {"temperature": 0.7, "seed": 3}
    plain = generate(client, input_ids=[5, 6, 7], sampling_params=free)["output_ids"]
    assert generate(client, input_ids=[5, 6, 7], sampling_params=free | sampling)["output_ids"] == plain


def test_a_schema_that_cannot_be_followed_is_400(client: httpx.Client) -> None:
    for sampling in ({"json_schema": "{"}, {"regex": "("}, {"json_schema": "{}", "regex": "a"}):
        refused(client, "/generate", 400, text="a", sampling_params=sampling)


def test_lists_that_do_not_fit_each_other_are_400(client: httpx.Client) -> None:
    assert "2 prompts" in refused(client, "/generate", 400, text=["a", "b"], sampling_params=[GREEDY])
    assert "2 prompts" in refused(client, "/generate", 400, text=["a", "b"], logprob_start_len=[0])
    assert "128 sequences" in refused(client, "/generate", 400, text="a", sampling_params={"n": 129})


# Compaction and generation behind a memory.


def test_a_compaction_gives_a_handle_and_a_receipt(client: httpx.Client) -> None:
    made = compact(client)
    receipt = made["receipt"]
    assert made["summary_ids"] == SUMMARY
    assert (receipt["history_tokens"], receipt["summary_tokens"], receipt["soft_tokens"]) == (200, 3, 32)
    assert receipt["memory_bytes"] == 32 * 64 * 2
    assert receipt["timings_ms"].keys() == {"summary", "leaves", "merge", "store"}
    assert receipt["previous"] is None
    shown = client.get(f"/v1/memories/{made['handle']}").json()
    assert shown["receipt"] == receipt
    assert shown["summary_ids"] == SUMMARY
    assert shown["created_at"].endswith("Z")
    assert client.get("/v1/memories").json()["memories"] == [
        {name: value for name, value in shown.items() if name != "summary_ids"}
    ]


def test_a_memory_is_read_before_the_ids(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    restored = generate(client, input_ids=[8, 9], remory={"handle": handle})
    contract = client.get("/v1/remory/info").json()["summary_contract"]
    markers = sum(len(ids) for name, ids in contract.items() if name.endswith("_ids"))
    assert restored["meta_info"]["prompt_tokens"] == len(PREFIX) + len(SUMMARY) + 32 + markers + 2
    assert restored["output_ids"] != generate(client, input_ids=[8, 9])["output_ids"]
    again = generate(client, input_ids=[8, 9], remory={"handle": handle})
    assert again["output_ids"] == restored["output_ids"]
    assert again["meta_info"]["cached_tokens"] > 0


def test_a_session_goes_on_from_its_memory(client: httpx.Client) -> None:
    first = compact(client)["handle"]
    second = compact(client, previous=first, summary_ids=[30, 31])
    assert second["receipt"]["previous"] == first
    branch = compact(client, history_ids=HISTORY[::-1])["handle"]
    third = compact(client, previous=second["handle"], branches=[branch, first])
    assert third["receipt"]["branches"] == [branch, first]
    assert handles(client) == [third["handle"], branch, second["handle"], first]
    for handle in handles(client):
        generate(client, input_ids=[8], remory={"handle": handle})


def test_branches_alone_need_no_history(client: httpx.Client) -> None:
    branches = [compact(client, history_ids=[token] * 250)["handle"] for token in (40, 50)]
    folded = compact(client, history_ids=[], branches=branches)
    assert folded["receipt"]["history_tokens"] == 0


def test_a_frontier_that_reads_the_summary_takes_in_branches(
    tmp_path: Path, tiny_actor: Path, tiny_keeping: Path
) -> None:
    running = launch(tmp_path, tmp_path / "data", tiny_actor, tiny_keeping)
    try:
        with running.client() as client:
            facts = client.get("/v1/remory/info").json()["checkpoint"]
            assert (facts["strategy"], facts["schema"]) == ("frontier", "remory.memory.v1")
            parent = compact(client)["handle"]
            branches = [
                compact(client, prefix_ids=[1, token], history_ids=[token] * 100, keep_history=True)["handle"]
                for token in (40, 50)
            ]
            made = compact(client, history_ids=[60] * 70, previous=parent, branches=branches, summary_ids=[30, 31])
            receipt = made["receipt"]
            assert (receipt["strategy"], receipt["previous"], receipt["branches"]) == ("frontier", parent, branches)
            assert [node["stop"] for node in receipt["frontier"]][-1] == 200 + 100 + 100 + 70
            assert (receipt["source_tokens"], receipt["compression_ratio"]) == (
                70,
                round(470 / receipt["soft_tokens"], 3),
            )
            joined = compact(client, history_ids=[], branches=branches)
            assert (joined["receipt"]["history_tokens"], joined["receipt"]["soft_tokens"]) == (0, 32)
            history = client.get(f"/v1/memories/{joined['handle']}/history").json()["chunks"]
            assert [token for chunk in history for token in chunk["ids"]] == [40] * 100 + [50] * 100
            for handle in handles(client):
                generate(client, input_ids=[8], remory={"handle": handle})
            empty = {"prefix_ids": PREFIX, "history_ids": [], "summary_ids": SUMMARY}
            assert "nothing new to encode" in refused(client, "/v1/compact", 400, **empty, previous=parent)
            assert "history_ids" in refused(client, "/v1/compact", 400, **empty)
    finally:
        running.kill()


def test_equal_ids_with_other_rows_are_other_answers(client: httpx.Client) -> None:
    """Cold and warm, one after another and together, and a plain request with the same placeholder ids beside them."""
    pair = [compact(client, history_ids=[token] * 200)["handle"] for token in (60, 200)]
    alone = [generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"] for handle in pair]
    assert alone[0] != alone[1]
    for _ in range(2):
        warm = [generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"] for handle in pair]
        assert warm == alone


def test_equal_compactions_share_their_rows_until_the_last_is_deleted(client: httpx.Client, server: Server) -> None:
    history = [(7 * index) % 251 + 3 for index in range(190)]
    empty = server.figure("remory_store_rows_bytes")
    first = compact(client, history_ids=history)
    held = server.figure("remory_store_rows_bytes")
    second = compact(client, history_ids=history)
    assert second["handle"] != first["handle"]
    assert second["receipt"]["rows_sha256"] == first["receipt"]["rows_sha256"]
    assert server.figure("remory_store_rows_bytes") == held > empty
    assert client.delete(f"/v1/memories/{first['handle']}").json() == {"handle": first["handle"], "deleted": True}
    generate(client, input_ids=[8], remory={"handle": second["handle"]})
    client.delete(f"/v1/memories/{second['handle']}")
    assert server.figure("remory_store_rows_bytes") == empty


@pytest.mark.parametrize(
    "headers", [{"X-Remory-Session": "another"}, {"X-Remory-User": "another"}], ids=["session", "user"]
)
def test_a_foreign_handle_is_404_everywhere(client: httpx.Client, headers: dict[str, str]) -> None:
    handle = compact(client)["handle"]
    answers = [
        client.post("/generate", json={"input_ids": [8], "remory": {"handle": handle}}, headers=headers),
        client.post("/v1/compact", json=COMPACTION | {"previous": handle}, headers=headers),
        client.post("/v1/compact", json=COMPACTION | {"branches": [handle]}, headers=headers),
        client.post("/v1/compact/text", json={"messages": MESSAGES, "previous": handle}, headers=headers),
        client.get(f"/v1/memories/{handle}", headers=headers),
        client.delete(f"/v1/memories/{handle}", headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [404] * 6
    assert client.get("/v1/memories", headers=headers).json() == {"memories": []}
    assert handles(client) == [handle]


@pytest.mark.parametrize("handle", ["", "rm_", "rm_" + "0" * 32, "../../etc", "x" * 10_000, "\0"])
def test_a_handle_that_does_not_exist_is_404(client: httpx.Client, handle: str) -> None:
    assert "no memory" in refused(client, "/generate", 404, input_ids=[8], remory={"handle": handle})
    assert "no memory" in refused(client, "/v1/compact", 404, **COMPACTION, previous=handle)
    assert "no memory" in refused(client, "/v1/compact", 404, **COMPACTION, branches=[handle])
    assert handles(client) == []


def test_a_deleted_handle_is_gone(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    assert client.delete(f"/v1/memories/{handle}").status_code == 200
    assert client.delete(f"/v1/memories/{handle}").status_code == 404
    refused(client, "/generate", 404, input_ids=[8], remory={"handle": handle})


@pytest.mark.parametrize(
    "body",
    [
        {"text": "a"},
        {"text": "a", "input_ids": [8]},
        {},
        {"input_ids": []},
        {"input_ids": [[8]]},
        {"input_ids": [[8], [9]]},
        {"input_ids": [VOCABULARY]},
        {"input_ids": [8], "sampling_params": {"n": 2}},
        {"input_ids": [8], "sampling_params": [{}]},
        {"input_ids": [8] * CONTEXT},
    ],
)
def test_a_handle_takes_one_flat_list_of_ids_and_nothing_else(client: httpx.Client, body: dict[str, Any]) -> None:
    handle = compact(client)["handle"]
    refused(client, "/generate", 400, **body, remory={"handle": handle})


@pytest.mark.parametrize("reference", [{}, {"handle": 1}, {"handle": "rm_", "more": 1}, "rm_", [], {"handle": None}])
def test_a_reference_of_another_form_is_422(client: httpx.Client, reference: Any) -> None:
    refused(client, "/generate", 422, input_ids=[8], remory=reference)


def test_what_needs_a_session_is_400_without_one(server: Server) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        for path, body in [
            ("/generate", {"input_ids": [8], "remory": {"handle": "rm_"}}),
            ("/v1/compact", COMPACTION),
            ("/v1/compact/text", {"messages": MESSAGES}),
        ]:
            assert "X-Remory-Session" in refused(client, path, 400, **body)
        assert client.get("/v1/memories").status_code == 400
        assert client.get("/v1/memories/rm_").status_code == 400
        assert client.delete("/v1/memories/rm_").status_code == 400


@pytest.mark.parametrize("field", ["prefix_ids", "history_ids", "summary_ids"])
@pytest.mark.parametrize(
    ("value", "status"),
    [([], 400), ([VOCABULARY], 400), ([-1], 400), ([True], 422), (["a"], 422), ([[1]], 422), ("a", 422), (None, 422)],
)
def test_every_token_field_of_a_compaction_is_checked(
    client: httpx.Client, field: str, value: Any, status: int
) -> None:
    assert field in refused(client, "/v1/compact", status, **COMPACTION | {field: value})
    assert handles(client) == []


def test_a_compaction_that_cannot_be_made_leaves_all_as_it_was(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    before = generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"]
    overlong = refused(client, "/v1/compact", 400, **COMPACTION | {"history_ids": [9] * CONTEXT}, previous=handle)
    assert str(usable_context(client)) in overlong
    refused(client, "/v1/compact", 400, **COMPACTION | {"prefix_ids": [3]}, previous=handle)
    refused(client, "/v1/compact", 422, **COMPACTION, unknown=1)
    missing = {name: value for name, value in COMPACTION.items() if name != "summary_ids"}
    assert "summary_ids" in refused(client, "/v1/compact", 422, **missing)
    assert handles(client) == [handle]
    assert generate(client, input_ids=[8, 9], remory={"handle": handle})["output_ids"] == before


def test_compacting_without_news_gets_smaller_or_is_refused(client: httpx.Client) -> None:
    made = compact(client)
    again = COMPACTION | {"history_ids": []}
    while (answer := client.post("/v1/compact", json=again | {"previous": made["handle"]})).status_code == 200:
        assert answer.json()["receipt"]["soft_tokens"] < made["receipt"]["soft_tokens"]
        made = answer.json()
    assert answer.status_code == 400
    assert "nothing new" in answer.json()["detail"]
    assert handles(client)[0] == made["handle"]


def test_a_tiny_history_is_flagged_as_expanded(client: httpx.Client) -> None:
    assert compact(client, history_ids=[9, 9])["receipt"]["expanded"] is True


# The text route.


def compact_text(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = client.post("/v1/compact/text", json={"messages": MESSAGES, "max_summary_tokens": 8} | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rendered(client: httpx.Client, messages: list[dict[str, Any]], prompt: bool) -> list[int]:
    body = {"messages": messages, "add_generation_prompt": prompt}
    return client.post("/tokenize", json=body).json()["tokens"]


def test_a_conversation_is_compacted_between_its_prefix_and_its_end(client: httpx.Client) -> None:
    made = compact_text(client)
    # keep_last is 2, and the call that the kept result belongs to stays with it.
    assert made["messages"] == MESSAGES[4:]
    whole = rendered(client, MESSAGES, True)
    prefix = rendered(client, MESSAGES[:2], False)
    assert made["receipt"]["history_tokens"] == len(whole) - len(prefix) - len(made["continuation_ids"])
    assert whole[-len(made["continuation_ids"]) :] == made["continuation_ids"]
    assert made["bridge"] == []
    assert 1 <= len(made["summary_ids"]) <= 8
    assert client.get(f"/v1/memories/{made['handle']}").json()["summary_ids"] == made["summary_ids"]
    generate(client, input_ids=made["continuation_ids"], remory={"handle": made["handle"]})


def test_a_conversation_goes_on_and_is_compacted_again(client: httpx.Client) -> None:
    first = compact_text(client)
    more = [
        {"role": "user", "content": "And the port? " * 10},
        {"role": "assistant", "content": "It stays 8421. " * 10},
    ]
    messages = [*MESSAGES[:2], *first["messages"], *more, *more]
    second = compact_text(client, messages=messages, previous=first["handle"], bridge=first["bridge"], keep_last=1)
    assert second["receipt"]["previous"] == first["handle"]
    assert second["messages"] == messages[-1:]
    assert handles(client) == [second["handle"], first["handle"]]


def test_keep_last_may_be_nothing(client: httpx.Client) -> None:
    assert compact_text(client, keep_last=0)["messages"] == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"messages": []}, 422),
        ({"messages": ["a"]}, 422),
        ({"messages": [{}]}, 400),
        ({"messages": [{"role": 1}]}, 400),
        ({"messages": MESSAGES[:2]}, 400),
        ({"keep_last": 100}, 400),
        ({"keep_last": -1}, 422),
        ({"keep_last": True}, 422),
        ({"max_summary_tokens": 0}, 422),
        ({"max_summary_tokens": CONTEXT}, 400),
        ({"summary": "mine"}, 422),
    ],
)
def test_a_conversation_that_cannot_be_compacted_leaves_no_handle(
    client: httpx.Client, fields: dict[str, Any], status: int
) -> None:
    refused(client, "/v1/compact/text", status, **{"messages": MESSAGES} | fields)
    assert handles(client) == []


# Tokens, and who answers.


def test_tokens_go_there_and_back(client: httpx.Client) -> None:
    texts = ["The build takes 41 seconds.", "äöü 🙂"]
    one = client.post("/tokenize", json={"prompt": texts[0]}).json()
    many = client.post("/tokenize", json={"prompt": texts}).json()
    assert many["tokens"][0] == one["tokens"]
    assert one["count"] == len(one["tokens"])
    assert many["count"] == [len(ids) for ids in many["tokens"]]
    assert one["max_model_len"] == usable_context(client)
    assert client.post("/detokenize", json={"tokens": many["tokens"]}).json() == {"text": texts}
    assert client.post("/detokenize", json={"tokens": one["tokens"]}).json() == {"text": texts[0]}
    assert client.post("/detokenize", json={"tokens": []}).json() == {"text": ""}


def test_special_tokens_are_shown_when_asked_for(client: httpx.Client) -> None:
    ids = [1, 2]
    assert client.post("/detokenize", json={"tokens": ids}).json() == {"text": ""}
    shown = client.post("/detokenize", json={"tokens": ids, "skip_special_tokens": False}).json()["text"]
    assert shown == "<|im_start|><|im_end|>"


def test_messages_get_a_generation_prompt_unless_the_assistant_spoke(client: httpx.Client) -> None:
    asked = {"messages": MESSAGES[:2]}
    assert client.post("/tokenize", json=asked).json()["tokens"] == rendered(client, MESSAGES[:2], True)
    spoken = {"messages": MESSAGES}
    assert client.post("/tokenize", json=spoken).json()["tokens"] == rendered(client, MESSAGES, False)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/tokenize", {}, 400),
        ("/tokenize", {"prompt": "a", "messages": []}, 400),
        ("/tokenize", {"prompt": 1}, 422),
        ("/tokenize", {"prompt": "a", "unknown": 1}, 422),
        ("/tokenize", {"messages": [{"role": "assistant", "content": "a", "tool_calls": 5}]}, 400),
        ("/detokenize", {}, 422),
        ("/detokenize", {"tokens": ["a"]}, 422),
        ("/detokenize", {"tokens": [VOCABULARY]}, 400),
        ("/detokenize", {"tokens": [[1], [-1]]}, 400),
    ],
)
def test_tokens_that_are_none_are_refused(client: httpx.Client, path: str, body: dict[str, Any], status: int) -> None:
    refused(client, path, status, **body)


def test_info_tells_actor_checkpoint_and_contract(client: httpx.Client) -> None:
    info = client.get("/v1/remory/info").json()
    assert info["engine"] == ("sglang" if "sglang" in SERVE_OPTIONS else "transformers")
    assert info["context_length"] == usable_context(client)
    assert info["actor"]["hidden_size"] == 64
    assert info["actor"]["vocabulary"] == info["tokenizer"]["vocabulary"] == VOCABULARY
    assert info["tokenizer"]["eos_token_id"] == 2
    checkpoint = info["checkpoint"]
    assert checkpoint["schema"] == "remory.memory.v1"
    assert (checkpoint["strategy"], checkpoint["trained"], checkpoint["base"]) == ("reencode", False, None)
    assert (checkpoint["block_tokens"], checkpoint["compression_ratio"], checkpoint["memory_budget"]) == (64, 8, 64)
    assert checkpoint["layer_ids"] == [1, 2]
    assert len(checkpoint["identity"]) == 64
    contract = info["summary_contract"]
    assert contract["end_token_id"] == 2
    assert contract["prompt"]
    assert contract["output_schema"] is None
    assert {name for name in contract if name.startswith("student_")} == {
        f"student_{part}_{side}_ids" for part in ("summary", "memory") for side in ("before", "after")
    }


def test_a_body_over_64_mib_is_413_with_the_numbers(client: httpx.Client) -> None:
    headers = {"Content-Type": "application/json"}
    announced = client.post("/generate", content=b" " * ((64 << 20) + 1), headers=headers)
    assert announced.status_code == 413
    assert str(64 << 20) in announced.json()["detail"]
    assert str((64 << 20) + 1) in announced.json()["detail"]
    chunked = client.post("/generate", content=(b" " * (1 << 20) for _ in range(65)), headers=headers)
    assert chunked.status_code == 413
    largest = client.post("/generate", content=b" " * (64 << 20), headers=headers)
    assert largest.status_code == 400
    generate(client, text="a")

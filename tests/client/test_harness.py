"""Conversations that lose their history and go on, against a real server process."""

from __future__ import annotations

import json

import pytest

from remory import Client, Harness
from remory.client import ConnectionFailed, InvalidRequest, NotFound, RenderingMismatch, SummaryFailed
from remory.errors import InvalidInput

SHORT = {"max_new_tokens": 6, "ignore_eos": True}


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def conversation(turns=4):
    messages = [says("system", "Be terse."), says("user", "Count the files.")]
    for number in range(turns):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "run", "arguments": "{}"}}
        messages += [
            says("assistant", "I look.", tool_calls=[call]),
            says("tool", f"{number} files", tool_call_id=f"c{number}"),
            says("assistant", f"There are {number}."),
            says("user", "And now?"),
        ]
    return messages


@pytest.fixture
def harness(client):
    return Harness(client, conversation(), sampling=SHORT, summary_sampling=SHORT)


def test_generate_keeps_what_was_said(harness):
    before = harness.messages
    answer = harness.generate()
    assert harness.messages == (*before, says("assistant", answer.text))
    asked = harness.generate("How many?", keep=False)
    assert len(harness.messages) == len(before) + 1
    assert asked.context_tokens == asked.sent_tokens > answer.context_tokens
    assert 0 < asked.first_token_s <= asked.total_s
    harness.generate("How many?")
    assert [m["role"] for m in harness.messages[-2:]] == ["user", "assistant"]


def test_a_compaction_replaces_the_history_and_the_session_goes_on(harness):
    full = harness.messages
    tokens = harness.context_tokens()
    done = harness.compact()
    assert harness.messages == (*full[:2], *full[-2:])
    assert harness.prefix == full[:2]
    assert done.tokens_before == tokens
    assert done.tokens_after == harness.context_tokens() < tokens
    assert harness.handle == done.handle and harness.summary == done.summary

    answer = harness.generate()
    assert answer.context_tokens == done.tokens_after
    assert answer.sent_tokens < answer.context_tokens
    assert harness.client.memory(done.handle)["receipt"]["history_tokens"] == done.receipt["history_tokens"]


def test_a_second_compaction_goes_on_from_the_first(harness):
    first = harness.compact()
    harness.append(*conversation(3)[2:])
    tokens = harness.context_tokens()
    removed = harness.messages[2:-2]
    ids = harness.client.tokenize(messages=[*harness.prefix, *removed], add_generation_prompt=False)
    prefix_ids = harness.client.tokenize(messages=list(harness.prefix), add_generation_prompt=False)

    second = harness.compact()
    assert second.receipt["previous"] == first.handle
    assert second.receipt["history_tokens"] == len(ids) - len(prefix_ids)
    assert second.receipt["prefix_sha256"] == first.receipt["prefix_sha256"]
    assert second.tokens_before == tokens
    assert harness.replaced_handles == (first.handle,)
    assert harness.generate().context_tokens == second.tokens_after


def test_tool_results_stay_with_their_call(client):
    messages = conversation()[:-2]
    assert messages[-1]["role"] == "tool"
    harness = Harness(client, messages, keep_last=1, summary_sampling=SHORT)
    harness.compact()
    assert [message["role"] for message in harness.messages[2:]] == ["assistant", "tool"]


def test_an_own_summary_is_stored_as_it_is(harness):
    done = harness.compact("3 files, see the log")
    assert harness.summary == done.summary == "3 files, see the log"


def test_there_must_be_something_to_remove(harness):
    harness.compact()
    state = harness.dump()
    with pytest.raises(InvalidInput, match="nothing to compact"):
        harness.compact()
    assert harness.dump() == state


def test_a_conversation_is_dumped_and_loaded(harness, server):
    harness.compact()
    harness.append(says("assistant", "4"), says("user", "Sure?"))
    state = json.loads(json.dumps(harness.dump()))
    with Client(server.url, session=harness.client.session) as other:
        loaded = Harness.load(other, state, sampling=SHORT)
        assert loaded.messages == harness.messages
        assert loaded.generate(keep=False).output_ids == harness.generate(keep=False).output_ids
        assert loaded.dump() == harness.dump()


def unchanged(harness, error, action, **expected):
    state = harness.dump()
    with pytest.raises(error, **expected):
        action()
    assert harness.dump() == state


def test_nothing_is_lost_when_the_server_dies_between_the_summary_and_the_compaction(start_server, tmp_path):
    server = start_server(tmp_path)
    with Client(server.url, session="s") as client:
        harness = Harness(client, conversation(), sampling=SHORT, summary_sampling=SHORT)
        harness.compact()
        harness.append(*conversation(2)[2:])
        tokens = harness.context_tokens()
        compact = client.compact

        def kill_then_compact(*arguments, **named):
            server.kill()
            return compact(*arguments, **named)

        client.compact = kill_then_compact
        unchanged(harness, ConnectionFailed, harness.compact)
        unchanged(harness, ConnectionFailed, lambda: harness.generate("And?"))
        state = harness.dump()

    restarted = start_server(tmp_path)
    with Client(restarted.url, session="s") as client:
        loaded = Harness.load(client, state, sampling=SHORT, summary_sampling=SHORT)
        assert loaded.context_tokens() == tokens
        assert loaded.compact().receipt["previous"] == state["handle"]


def test_nothing_is_lost_when_the_handle_is_gone(harness):
    handle = harness.compact().handle
    harness.append(*conversation(2)[2:])
    harness.client.delete(handle)
    unchanged(harness, NotFound, harness.compact)
    unchanged(harness, NotFound, harness.generate)


def test_nothing_is_lost_when_the_context_overflows(client):
    harness = Harness(client, conversation(200), sampling=SHORT, summary_sampling=SHORT)
    unchanged(harness, InvalidRequest, harness.compact)
    unchanged(harness, InvalidRequest, harness.generate)


def test_nothing_is_lost_when_the_summary_is_empty(client):
    harness = Harness(client, conversation(), summary_sampling={"max_new_tokens": 0})
    unchanged(harness, SummaryFailed, harness.compact, match="empty")


def test_nothing_is_lost_when_a_message_cannot_be_rendered(harness):
    harness.append(says("assistant", "I look.", tool_calls=[{"id": "c9"}]), says("user", "And?"))
    unchanged(harness, InvalidInput, harness.compact)


def test_a_conversation_that_is_none_is_refused(client, harness):
    with pytest.raises(InvalidInput):
        Harness(client, [says("assistant", "hello")])
    unchanged(harness, InvalidInput, lambda: harness.append({"content": "no role"}))


def test_mismatches_are_errors_of_the_input():
    assert issubclass(RenderingMismatch, InvalidInput)

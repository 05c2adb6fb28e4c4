"""The engine over a real SGLang gives what the embedded engine gives, and ends what nobody waits for."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest
import torch

from remory import actors
from remory.engines.base import EncodeRequest, Fold, GenerationOutput, GenerationRequest, Leaf, SamplingParams, Source
from remory.engines.sglang import remote
from remory.engines.sglang.client import Refused, _raise_for_status, told
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.sglang.exchange import Exchange
from remory.engines.sglang.launch import AttachedServer
from remory.engines.sglang.remote import report_of
from remory.engines.transformers import TransformersEngine
from remory.errors import CheckpointError, ContextOverflow, EngineBusy, EngineFailed, InvalidInput
from remory.network import load_checkpoint
from tests.sglang.definition import ROUNDING, PlainActor, is_greedy
from tests.sglang.processes import family, named, wait_until

GREEDY = SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True)
ENDLESS = SamplingParams(max_new_tokens=1900, temperature=0, ignore_eos=True)


def prompt(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 380, (length,), generator=torch.Generator().manual_seed(seed))


def with_rows(ids: torch.Tensor, seed: int) -> Source:
    rows = torch.randn(16, 64, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)
    return Source(ids, rows, torch.arange(10, 26))


def finish(engine, request: GenerationRequest) -> GenerationOutput:
    """The last output of a generation."""
    outputs = [output for output in engine.generate(request) if output is not None]
    assert outputs[-1].finish_reason is not None
    return outputs[-1]


def both(sglang_engine, engine, actor: PlainActor, request: GenerationRequest) -> GenerationOutput:
    """SGLang's answer to a greedy request, when it and the embedded engine's are right and differ in no more than
    what was said where two tokens are about as likely.
    """
    ours, expected = finish(sglang_engine, request), finish(engine, request)
    for answer in (ours, expected):
        assert is_greedy(actor, request.source, answer.output_ids, request.sampling)
        assert answer.text == engine.tokenizer.decode(answer.output_ids, skip_special_tokens=True)
        assert (answer.output_token_logprobs is not None) == request.return_logprob
        if request.return_logprob:
            same_logprobs(answer.output_token_logprobs, own_logprobs(actor, request.source, answer.output_ids))
    for name in ("prompt_tokens", "completion_tokens", "finish_reason"):
        assert getattr(ours, name) == getattr(expected, name), name
    same_logprobs(ours.input_token_logprobs, expected.input_token_logprobs)
    return ours


def own_logprobs(actor: PlainActor, source: Source, said: list[int]) -> list[list]:
    likely = actor.logits(source, said).log_softmax(-1)
    return [[float(likely[step, token]), token, None] for step, token in enumerate(said)]


def same_logprobs(ours, expected):
    if expected is None:
        assert ours is None
        return
    assert [triple[1:] for triple in ours] == [triple[1:] for triple in expected]
    assert [value for value, *_ in ours] == [pytest.approx(value, abs=5e-4) for value, *_ in expected]


def clear(actor: PlainActor, length: int, tokens: int) -> tuple[Source, list[int]]:
    """A prompt and its one greedy answer: the second best is so far behind each token that rounding cannot matter."""
    for seed in range(50):
        source, answer = Source(prompt(length, seed)), []
        for _ in range(tokens):
            answer.append(int(actor.logits(source, [*answer, 0])[-1].argmax()))
        first, second = actor.logits(source, answer).topk(2).values.unbind(-1)
        if (first - second).min() > 10 * ROUNDING:
            return source, answer
    raise AssertionError("there is no such prompt")


def requests_in(server) -> int:
    """How many requests SGLang itself has."""
    loads = httpx.get(f"{server.url}/v1/loads?include=core", headers=server.headers, timeout=30).json()["loads"]
    return sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in loads)


def same_rows(ours, expected):
    assert len(ours) == len(expected)
    for rows, wanted in zip(ours, expected, strict=True):
        assert rows.dtype == torch.bfloat16
        assert (rows.float() - wanted.float()).norm() / wanted.float().norm() < 4e-3


def compaction(**more) -> EncodeRequest:
    """Markers stand between the source tokens, and the last block is short."""
    places = torch.tensor([*range(5, 100), *range(110, 300)])
    leaves = [Leaf(start, min(start + 64, 285), start // 128) for start in range(0, 285, 64)]
    fields = {
        "prefix_ids": prompt(40, 2),
        "context": Source(prompt(320, 3)),
        "positions": places,
        "leaves": leaves,
        "summary_ids": prompt(23, 9),
        "summary_tokens": 20,
    }
    return EncodeRequest(**fields | more)


@pytest.fixture(scope="module")
def engine(tiny_actor, tiny_checkpoint) -> Iterator[TransformersEngine]:
    """The embedded engine on the same actor."""
    engine = TransformersEngine(tiny_actor, load_checkpoint(tiny_checkpoint))
    yield engine
    engine.close()


@pytest.fixture
def attached(sglang_server) -> AttachedServer:
    """The same SGLang for an engine of a test's own, which may close without ending it."""
    return AttachedServer(sglang_server.url, sglang_server.headers["Authorization"].removeprefix("Bearer "))


@pytest.fixture(scope="module")
def prepared(sglang_engine, tiny_checkpoint):
    return sglang_engine.prepare(load_checkpoint(tiny_checkpoint))


def test_it_says_who_the_actor_is(sglang_engine, engine):
    assert replace(sglang_engine.actor, context_length=0) == replace(engine.actor, context_length=0)
    assert sglang_engine.tokenizer.get_vocab() == engine.tokenizer.get_vocab()


@pytest.mark.parametrize("length", [1, 64, 700])
def test_greedy_answers_are_right_as_those_of_the_embedded_engine_are(sglang_engine, engine, plain_actor, length):
    both(sglang_engine, engine, plain_actor, GenerationRequest(Source(prompt(length, 1)), GREEDY, return_logprob=True))


def test_rows_are_read_in_their_places(sglang_engine, engine, plain_actor):
    answers = [
        both(sglang_engine, engine, plain_actor, GenerationRequest(source, GREEDY, return_logprob=True))
        for source in (Source(prompt(90)), with_rows(prompt(90), 1), with_rows(prompt(90), 2), with_rows(prompt(90), 1))
    ]
    assert len({str(answer.output_token_logprobs) for answer in answers[:3]}) == 3


def test_what_begins_alike_is_read_once(sglang_engine, plain_actor):
    source = with_rows(prompt(400, seed=41), seed=8)
    first, again = (finish(sglang_engine, GenerationRequest(source, GREEDY)) for _ in range(2))
    assert again.cached_tokens > 390 > first.cached_tokens
    for answer in (first, again):
        assert is_greedy(plain_actor, source, answer.output_ids, GREEDY)


@pytest.mark.parametrize("start", [0, 5, 89])
def test_prompt_logprobs_are_those_of_the_embedded_engine(sglang_engine, engine, plain_actor, start):
    for source in (Source(prompt(90, 4)), with_rows(prompt(90, 4), 1)):
        request = GenerationRequest(source, GREEDY, return_logprob=True, logprob_start_len=start)
        both(sglang_engine, engine, plain_actor, request)


def test_logprobs_of_sampled_tokens_are_the_actors_own(sglang_engine, engine):
    """Neither temperature nor filters change what the actor thought."""
    ids = prompt(50)
    params = SamplingParams(max_new_tokens=1, temperature=3.0, ignore_eos=True)
    answer = finish(sglang_engine, GenerationRequest(Source(ids), params, return_logprob=True))
    value, token, _ = answer.output_token_logprobs[0]
    said = Source(torch.cat([ids, torch.tensor([token])]))
    scored = finish(engine, GenerationRequest(said, GREEDY, return_logprob=True, logprob_start_len=49))
    assert value == pytest.approx(scored.input_token_logprobs[1][0], abs=5e-4)


@pytest.mark.parametrize("tokens", [0, 1, 4])
def test_hidden_states_are_those_of_what_was_read(sglang_engine, engine, plain_actor, tokens):
    params = SamplingParams(max_new_tokens=tokens, temperature=0, ignore_eos=True)
    source = with_rows(prompt(90), 3)
    for one in (sglang_engine, engine):
        answer = finish(one, GenerationRequest(source, params, return_hidden_states=True))
        assert len(answer.hidden_states) == max(tokens, 1)
        assert is_greedy(plain_actor, source, answer.output_ids, params)
        states = torch.tensor([*answer.hidden_states[0], *answer.hidden_states[1:]])
        expected = plain_actor.states(source, answer.output_ids)
        torch.testing.assert_close(states, expected, atol=1e-3, rtol=1e-3)


def test_no_new_tokens_is_a_prefill(sglang_engine, engine, plain_actor):
    request = GenerationRequest(Source(prompt(50)), SamplingParams(max_new_tokens=0))
    assert both(sglang_engine, engine, plain_actor, request).finish_reason == {"type": "length", "length": 0}


def test_text_only_grows_and_is_that_of_the_tokens(sglang_engine):
    params = SamplingParams(max_new_tokens=80, temperature=1.2, ignore_eos=True, stop=("zzzz", ""))
    stream = sglang_engine.generate(GenerationRequest(Source(prompt(50)), params, return_logprob=True))
    outputs = [output for output in stream if output is not None]
    for before, after in zip(outputs, outputs[1:], strict=False):
        assert after.text.startswith(before.text)
        assert after.output_ids[: len(before.output_ids)] == before.output_ids
        assert [triple[1] for triple in after.output_token_logprobs] == after.output_ids
    last = outputs[-1]
    assert last.text == sglang_engine.tokenizer.decode(last.output_ids, skip_special_tokens=True)
    assert (last.completion_tokens, last.finish_reason) == (80, {"type": "length", "length": 80})


def test_stop_texts_and_stop_tokens_end_the_answer(sglang_engine, engine, plain_actor):
    source, answer = clear(plain_actor, 50, GREEDY.max_new_tokens)
    token, stop = answer[4], engine.tokenizer.decode(answer)[3:5]
    for change in ({"stop_token_ids": (token,)}, {"stop_token_ids": (token,), "ignore_eos": False}, {"stop": (stop,)}):
        request = GenerationRequest(source, replace(GREEDY, **change), return_logprob=True)
        ours, expected = finish(sglang_engine, request), finish(engine, request)
        assert ours.output_ids == answer[: len(ours.output_ids)]
        for name in ("text", "output_ids", "prompt_tokens", "completion_tokens", "finish_reason"):
            assert getattr(ours, name) == getattr(expected, name), name
        same_logprobs(ours.output_token_logprobs, expected.output_token_logprobs)
        assert ours.finish_reason["matched"] in (token, stop)


def test_the_actors_own_end_token_ends_the_answer(sglang_engine):
    only_end = SamplingParams(max_new_tokens=20, temperature=0, regex="ab")
    answer = finish(sglang_engine, GenerationRequest(Source(prompt(5)), only_end))
    assert (answer.text, answer.finish_reason) == ("ab", {"type": "stop", "matched": 2})
    assert answer.output_ids[-1] == 2


def test_grammars_are_kept(sglang_engine):
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 99}}}
    schema |= {"required": ["n"], "additionalProperties": False}
    for seed in range(3):
        params = SamplingParams(max_new_tokens=100, temperature=1, json_schema=json.dumps(schema))
        answer = finish(sglang_engine, GenerationRequest(Source(prompt(20, seed)), params))
        assert 1 <= json.loads(answer.text)["n"] <= 99
        assert answer.finish_reason["type"] == "stop"
        params = SamplingParams(max_new_tokens=60, temperature=1, regex=r"[a-c]{3}-\d{2}")
        assert re.fullmatch(
            r"[a-c]{3}-\d{2}", finish(sglang_engine, GenerationRequest(Source(prompt(20)), params)).text
        )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"json_schema": '{"type": "nonsense"}'}, "json_schema is not usable"),
        ({"regex": "(["}, "regex is not usable"),
        ({"regex": "a", "json_schema": "{}"}, "cannot be combined"),
        ({"stop": tuple(map(str, range(33)))}, "33 stop texts are given, SGLang takes at most 32"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(sglang_engine, params, message):
    with pytest.raises(InvalidInput, match=message):
        sglang_engine.generate(GenerationRequest(Source(prompt(5)), SamplingParams(**params)))


@pytest.mark.parametrize(
    "params",
    [{"top_k": 1}, {"top_p": 1e-6}, {"top_p": 1e-50}, {"min_p": 1.0}, {"temperature": 1e-39}],
    ids=["top_k", "top_p", "smallest top_p", "min_p", "smallest temperature"],
)
def test_filters_that_leave_one_token_are_greedy(sglang_engine, plain_actor, params):
    sampled = SamplingParams(**{"max_new_tokens": 12, "seed": 2, "ignore_eos": True, **params})
    answer = finish(sglang_engine, GenerationRequest(Source(prompt(60)), sampled)).output_ids
    assert len(answer) == 12
    assert is_greedy(plain_actor, Source(prompt(60)), answer, GREEDY)


def test_penalties_are_not_for_what_stands_in_the_prompt(sglang_engine, engine, plain_actor):
    source, (expected,) = clear(plain_actor, 600, 1)
    assert expected in source.ids[:-1]
    strict = replace(GREEDY, max_new_tokens=1, repetition_penalty=2.0, frequency_penalty=2.0, presence_penalty=2.0)
    for one in (sglang_engine, engine):
        assert finish(one, GenerationRequest(source, strict)).output_ids == [expected]


def test_the_whole_context_can_be_used(sglang_engine):
    room = sglang_engine.actor.context_length
    answer = finish(sglang_engine, GenerationRequest(Source(prompt(room - 12)), GREEDY))
    assert answer.finish_reason == {"type": "length", "length": 12}
    full = GenerationRequest(Source(prompt(room - 1)), SamplingParams(max_new_tokens=1, temperature=0, ignore_eos=True))
    assert finish(sglang_engine, full).finish_reason == {"type": "length", "length": 1}
    with pytest.raises(ContextOverflow, match=f"{room - 11} input tokens and 12 new ones are {room + 1}; .* {room}"):
        sglang_engine.generate(GenerationRequest(Source(prompt(room - 11)), GREEDY))


def test_a_closed_iterator_ends_the_work(sglang_engine, sglang_server):
    params = replace(ENDLESS, max_new_tokens=sglang_engine.actor.context_length - 30)
    stream = sglang_engine.generate(GenerationRequest(Source(prompt(30)), params))
    assert next(output for output in stream if output is not None).finish_reason is None
    wait_until(lambda: requests_in(sglang_server) == 1, "SGLang told of the request", 20)
    stream.close()
    wait_until(lambda: requests_in(sglang_server) == 0, "SGLang had ended it", 3)
    assert sglang_engine.stats()["requests_running"] == 0


def test_what_was_sent_is_ended_when_the_next_cannot_be(sglang_engine, sglang_server):
    far = sglang_engine._remote

    def calls():
        yield far.send(prompt(30), sampling={"max_new_tokens": 1900, "ignore_eos": True})
        wait_until(lambda: requests_in(sglang_server) == 1, "SGLang told of the request", 20)
        raise EngineFailed("no room")

    with pytest.raises(EngineFailed, match="no room"):
        far.reports(calls())
    wait_until(lambda: requests_in(sglang_server) == 0, "SGLang had ended it", 3)


def test_an_iterator_that_nobody_reads_starts_nothing(sglang_engine):
    sglang_engine.generate(GenerationRequest(Source(prompt(30)), ENDLESS))
    assert sglang_engine.stats()["requests_running"] == 0


def test_news_comes_while_a_long_request_gives_none(sglang_engine):
    params = SamplingParams(max_new_tokens=600, temperature=0, ignore_eos=True)
    stream = sglang_engine.generate(GenerationRequest(Source(prompt(30)), params, return_hidden_states=True))
    assert next(stream) is None
    stream.close()


def test_concurrent_answers_are_each_of_its_own_prompt(sglang_engine, plain_actor):
    requests = [GenerationRequest(Source(prompt(100 + 40 * n, seed=n)), GREEDY) for n in range(5)]
    requests += [GenerationRequest(with_rows(prompt(100, seed=5), n), GREEDY) for n in range(5)]
    with ThreadPoolExecutor(len(requests)) as pool:
        answers = list(pool.map(lambda request: finish(sglang_engine, request).output_ids, requests))
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        assert is_greedy(plain_actor, request.source, answer, GREEDY)
        # Nor would another's answer, behind equal ids with other rows, pass for its own.
        assert not is_greedy(plain_actor, request.source, answers[number - 1], GREEDY)


def test_rows_of_blocks_are_those_of_the_embedded_engine(sglang_engine, engine, prepared):
    request = compaction()
    result, expected = sglang_engine.encode(request, prepared), engine.encode(request)
    same_rows(result.nodes, expected.nodes)
    assert sum(result.features.values()) == 285
    assert set(result.timings_ms) == {"summary", "leaves", "merge"}


def test_folds_of_leaves_and_kept_rows_are_those_of_the_embedded_engine(sglang_engine, engine, prepared):
    kept = [torch.randn(8, 64, generator=torch.Generator().manual_seed(n)).to(torch.bfloat16) for n in range(3)]
    folds = [Fold(0, 2, 1), Fold(1, 2, 1), Fold(1, 2, 2), Fold(0, 2, 3)]
    request = compaction(kept=kept, folds=folds)
    result, expected = sglang_engine.encode(request, prepared), engine.encode(request)
    assert len(result.nodes) == 8 - 4
    same_rows(result.nodes, expected.nodes)


def test_a_level_of_many_parents_is_that_of_the_embedded_engine(sglang_engine, engine, prepared):
    kept = [torch.randn(8, 64, generator=torch.Generator().manual_seed(n)).to(torch.bfloat16) for n in range(12)]
    folds = [Fold(first, 2, 1) for first in range(6)]
    request = compaction(kept=kept, folds=folds, leaves=[], positions=torch.empty(0).long())
    same_rows(sglang_engine.encode(request, prepared).nodes, engine.encode(request).nodes)


def test_weights_are_read_in_the_worker_alone(sglang_engine, engine, tiny_checkpoint):
    described = load_checkpoint(tiny_checkpoint, "meta")
    assert all(tensor.is_meta for tensor in described.network.state_dict().values())
    request = compaction()
    result = sglang_engine.encode(request, sglang_engine.prepare(described))
    same_rows(result.nodes, engine.encode(request).nodes)


def test_folds_alone_need_no_source(sglang_engine, engine, prepared):
    kept = [torch.randn(8, 64, generator=torch.Generator().manual_seed(n)).to(torch.bfloat16) for n in range(4)]
    request = compaction(kept=kept, folds=[Fold(0, 2, 1), Fold(1, 2, 1)], leaves=[], positions=torch.empty(0).long())
    result = sglang_engine.encode(request, prepared)
    same_rows(result.nodes, engine.encode(request).nodes)
    assert result.features == {}


def test_rows_that_are_only_joined_are_given_back(sglang_engine, engine, prepared):
    kept = [torch.randn(8, 64, generator=torch.Generator().manual_seed(n)).to(torch.bfloat16) for n in range(4)]
    request = compaction(kept=kept, leaves=[], positions=torch.empty(0).long())
    for one, network in ((sglang_engine, prepared), (engine, None)):
        result = one.encode(request, network)
        assert all(torch.equal(rows, old) for rows, old in zip(result.nodes, kept, strict=True))
        assert (result.features, result.timings_ms) == ({}, {})


def test_rows_in_the_context_are_source_too(sglang_engine, engine, prepared):
    request = compaction(context=with_rows(prompt(320, 3), 4))
    same_rows(sglang_engine.encode(request, prepared).nodes, engine.encode(request).nodes)


def test_a_frontier_network_needs_no_summary(sglang_engine, tiny_actor, tiny_frontier):
    checkpoint = load_checkpoint(tiny_frontier)
    embedded = TransformersEngine(tiny_actor, checkpoint)
    request = compaction(summary_ids=None, summary_tokens=0, folds=[Fold(0, 2, 1)])
    same_rows(sglang_engine.encode(request, sglang_engine.prepare(checkpoint)).nodes, embedded.encode(request).nodes)
    embedded.close()


def test_compactions_and_generations_run_side_by_side(sglang_engine, plain_actor, prepared):
    request = compaction(folds=[Fold(0, 2, 1)])
    rows = sglang_engine.encode(request, prepared).nodes
    said = GenerationRequest(with_rows(prompt(200, seed=5), 1), GREEDY)
    with ThreadPoolExecutor(6) as pool:
        encodings = [pool.submit(sglang_engine.encode, request, prepared) for _ in range(3)]
        answers = [pool.submit(finish, sglang_engine, said) for _ in range(3)]
        for encoding in encodings:
            same_rows(encoding.result().nodes, rows)
        for answer in answers:
            assert is_greedy(plain_actor, said.source, answer.result().output_ids, GREEDY)


def test_totals_grow_by_what_was_done(sglang_engine, prepared):
    before = sglang_engine.stats()
    finish(sglang_engine, GenerationRequest(Source(prompt(33, seed=77)), GREEDY))
    sglang_engine.encode(compaction(), prepared)
    after = sglang_engine.stats()
    grown = {name: after[name] - before[name] for name in after if name.endswith("_total")}
    assert grown["prompt_tokens_total"] == 33
    assert grown["generated_tokens_total"] == 12
    assert grown["encoded_tokens_total"] == 285
    assert 0 <= grown["cached_tokens_total"] < 33


def test_what_the_plug_in_refuses_is_told_in_its_words_without_its_paths(sglang_engine, prepared, tmp_path, caplog):
    gone = replace(prepared, folder=tmp_path / "gone", digest="0" * 64)
    with pytest.raises(EngineFailed, match="no checkpoint folder") as refused:
        sglang_engine.encode(compaction(), gone)
    assert str(tmp_path) not in str(refused.value)
    assert f"no checkpoint folder at {tmp_path}" in caplog.text


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("no folder at /srv/models/a", "no folder at …"),
        ("'/srv/a=b/c': gone (/tmp/x/), file:///srv/y", "'…': gone (…), file://…"),
        ("HTTP/1.1 and 3/4 of /generate", "HTTP/1.1 and 3/4 of /generate"),
    ],
)
def test_paths_are_left_out(words, shown):
    assert told(words) == shown


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, '{"object": "error", "message": "no such thing"}', "the request: no such thing"),
        (500, '{"error": {"message": "no such thing"}}', "the request: no such thing"),
        (500, "Internal Server Error", "HTTP 500"),
        (401, '{"error": "Unauthorized"}', "HTTP 401"),
        (400, "[]", "HTTP 400"),
    ],
)
def test_whoever_answers_is_not_lost(status, body, error):
    with pytest.raises(Refused, match=error):
        _raise_for_status(httpx.Response(status, text=body))


def test_without_a_common_folder_rows_travel_in_requests(
    attached, engine, plain_actor, tiny_actor, tiny_checkpoint, tmp_path
):
    for exchange in (Exchange(None), Exchange(tmp_path)):
        inline = SGLangEngine(tiny_actor, attached, exchange)
        both(inline, engine, plain_actor, GenerationRequest(with_rows(prompt(90), 1), GREEDY, return_logprob=True))
        request = compaction(folds=[Fold(0, 2, 1)])
        prepared = inline.prepare(load_checkpoint(tiny_checkpoint))
        same_rows(inline.encode(request, prepared).nodes, engine.encode(request).nodes)
        inline.close()
    assert list(tmp_path.iterdir()) == []


def test_another_actor_than_ours_is_named(attached, tiny_qwen):
    with pytest.raises(EngineFailed, match="another actor than tiny-qwen3: it has revision"):
        SGLangEngine(tiny_qwen, attached, Exchange(None))


def test_a_key_that_is_wrong_is_told(sglang_server, tiny_actor):
    with pytest.raises(EngineFailed, match="HTTP 401"):
        SGLangEngine(tiny_actor, AttachedServer(sglang_server.url, "wrong"), Exchange(None))


def test_an_sglang_that_is_not_there_is_told(tiny_actor):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = AttachedServer(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(EngineBusy, match="SGLang did not answer"):
            SGLangEngine(tiny_actor, nobody, Exchange(None))


def test_an_sglang_that_says_nothing_is_not_waited_for(tiny_actor, monkeypatch):
    monkeypatch.setattr(remote, "_FIRST_GREETING_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = AttachedServer(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(EngineBusy, match=r"SGLang did not answer within 0.1 s"):
            SGLangEngine(tiny_actor, server, Exchange(None))


@pytest.fixture(scope="module")
def exchanged(launch, tiny_actor, tmp_path_factory):
    """A server whose processes may be killed and whose actor may be exchanged, and an engine that is attached to it."""
    folder = shutil.copytree(tiny_actor, tmp_path_factory.mktemp("exchanged") / "actor")
    server = launch(folder)
    key = server.headers["Authorization"].removeprefix("Bearer ")
    engine = SGLangEngine(folder, AttachedServer(server.url, key), Exchange(None))
    yield server, engine
    engine.close()


def kill_scheduler(server):
    # An engine may have found it before the one that starts it has.
    wait_until(lambda: server.problem() is None, "it was known to be there")
    (child,) = (one for one in family() if f"--port={server.url.rpartition(':')[2]}" in one.cmdline())
    named("scheduler", family(child.pid)).kill()
    wait_until(lambda: server.problem() is not None, "the death was noticed", 5)


def test_an_attached_sglang_that_is_lost_has_a_problem_until_it_is_there_again(exchanged):
    server, engine = exchanged
    assert engine.problem() is None
    running = engine.generate(GenerationRequest(Source(prompt(30)), ENDLESS))
    next(running)
    kill_scheduler(server)
    with pytest.raises(EngineBusy, match="SGLang did not answer"):
        list(running)
    assert "SGLang did not answer" in engine.problem()
    with pytest.raises(EngineBusy, match="SGLang did not answer"):
        finish(engine, GenerationRequest(Source(prompt(30)), GREEDY))
    wait_until(lambda: engine.problem() is None, "it was there again")
    assert len(finish(engine, GenerationRequest(Source(prompt(30)), GREEDY)).output_ids) == 12


def test_rows_are_not_lost_on_an_sglang_that_came_back_without_the_plug_in(exchanged, monkeypatch):
    server, engine = exchanged
    monkeypatch.setenv("SGLANG_PLUGINS", "another")
    kill_scheduler(server)
    wait_until(lambda: server.problem() is None, "it was there again")
    assert engine.problem() is None
    assert len(finish(engine, GenerationRequest(Source(prompt(30)), GREEDY)).output_ids) == 12
    for states in (False, True):
        request = GenerationRequest(with_rows(prompt(90), 1), GREEDY, return_hidden_states=states)
        with pytest.raises(EngineFailed, match="without Remory's plug-in"):
            finish(engine, request)


def test_an_actor_that_was_exchanged_while_nobody_asked_is_named(exchanged):
    server, engine = exchanged
    revision = engine.actor.revision
    (server.options.model / "chat_template.jinja").write_text("another")
    assert actors.actor_revision(server.options.model) != revision
    kill_scheduler(server)
    wait_until(lambda: server.problem() is None, "it was there again")
    assert engine.problem() is None
    for source in (Source(prompt(30)), with_rows(prompt(90), 1)):
        with pytest.raises(EngineFailed, match=f"for actor {revision[:12]}"):
            finish(engine, GenerationRequest(source, GREEDY))


def test_an_sglang_without_the_plug_in_is_told():
    with pytest.raises(EngineFailed, match="without Remory's plug-in"):
        report_of({"text": "", "output_ids": [], "meta_info": {"finish_reason": {"type": "length", "length": 0}}})


def test_a_lower_context_is_kept_to(attached, tiny_actor):
    small = SGLangEngine(tiny_actor, attached, Exchange(None), max_context=100)
    with pytest.raises(ContextOverflow, match="the actor's context holds 100"):
        small.generate(GenerationRequest(Source(prompt(90)), GREEDY))
    small.close()


def test_a_closed_engine_is_busy(attached, tiny_actor):
    closed = SGLangEngine(tiny_actor, attached, Exchange(None))
    running = closed.generate(GenerationRequest(Source(prompt(30)), ENDLESS))
    next(running)
    closed.close()
    with pytest.raises(EngineBusy):
        list(running)
    with pytest.raises(EngineBusy):
        finish(closed, GenerationRequest(Source(prompt(30)), GREEDY))


def test_a_checkpoint_of_another_width_is_refused(sglang_engine, embedded):
    with pytest.raises(CheckpointError, match="width 576"):
        sglang_engine.prepare(embedded[1])


def test_a_checkpoint_that_reads_other_layers_than_are_captured_is_refused(sglang_engine, tiny_checkpoint, monkeypatch):
    checkpoint = load_checkpoint(tiny_checkpoint)
    monkeypatch.setattr(sglang_engine._remote, "captured", (0, 1, 2))
    sglang_engine.check(checkpoint)
    monkeypatch.setattr(sglang_engine._remote, "captured", (0, 2))
    with pytest.raises(CheckpointError, match=r"reads the layers \[1, 2\], this SGLang captures \[0, 2\]"):
        sglang_engine.check(checkpoint)


def test_encoding_needs_a_prepared_checkpoint(sglang_engine):
    with pytest.raises(InvalidInput, match="no memory checkpoint"):
        sglang_engine.encode(compaction())


def test_many_threads_may_wait_for_one_engine(sglang_engine):
    began = threading.Barrier(24)

    def run(seed: int) -> list[int]:
        began.wait()
        return finish(sglang_engine, GenerationRequest(Source(prompt(20, seed)), GREEDY)).output_ids

    with ThreadPoolExecutor(24) as pool:
        assert all(len(ids) == 12 for ids in pool.map(run, range(24)))

from __future__ import annotations

import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch

from remory.engines.base import EncodeRequest, Fold, GenerationRequest, Leaf, SamplingParams, Source
from remory.engines.transformers import TransformersEngine
from remory.errors import CheckpointError, ContextOverflow, EngineBusy, InvalidInput
from remory.network import load_checkpoint, save_checkpoint

from .conftest import finish

GREEDY = SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True)


def prompt(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(3, 380, (length,), generator=torch.Generator().manual_seed(seed))


def with_rows(ids: torch.Tensor, seed: int, cuts: tuple[int, ...] = ()) -> Source:
    positions = torch.arange(10, 26)
    rows = torch.randn(16, 64, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)
    return Source(ids, rows, positions, cuts)


@pytest.mark.parametrize("length", [1, 255, 256, 257, 700])
def test_greedy_generation_is_that_of_transformers(engine, reference, length):
    ids = prompt(length)
    expected = reference.generate(ids[None], max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=2)
    answer = finish(engine, GenerationRequest(Source(ids), GREEDY))
    assert answer.output_ids == expected[0, length:].tolist()
    assert answer.finish_reason == {"type": "length", "length": 12}
    assert (answer.prompt_tokens, answer.completion_tokens) == (length, 12)


def test_a_qwen_actor_runs_too(tiny_qwen, tiny_checkpoint):
    from remory.actors import load_model

    engine = TransformersEngine(tiny_qwen, load_checkpoint(tiny_checkpoint))
    ids = prompt(300)
    expected = load_model(tiny_qwen, "cpu", None).generate(
        ids[None], max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=2
    )
    assert finish(engine, GenerationRequest(Source(ids), GREEDY)).output_ids == expected[0, 300:].tolist()
    engine.close()


def test_an_answer_longer_than_the_room_reserved_is_that_of_transformers(engine, reference):
    ids = prompt(20, seed=12)
    expected = reference.generate(ids[None], max_new_tokens=400, do_sample=False, eos_token_id=None, pad_token_id=2)
    params = SamplingParams(max_new_tokens=400, temperature=0, ignore_eos=True)
    assert finish(engine, GenerationRequest(Source(ids), params)).output_ids == expected[0, 20:].tolist()


def test_the_actors_own_end_token_ends_the_answer(engine):
    for seed in range(60):
        params = SamplingParams(max_new_tokens=600, temperature=1.5, seed=seed)
        answer = finish(engine, GenerationRequest(Source(prompt(5)), params))
        if answer.finish_reason["type"] == "stop":
            break
    assert answer.finish_reason == {"type": "stop", "matched": 2}
    assert answer.output_ids[-1] == 2
    assert "<|im_end|>" not in answer.text


@pytest.mark.parametrize("start", [0, 5, 254, 299])
def test_prompt_logprobs_are_those_of_one_full_pass(engine, reference, start):
    ids = prompt(300, seed=start)
    answer = finish(engine, GenerationRequest(Source(ids), GREEDY, return_logprob=True, logprob_start_len=start))
    with torch.no_grad():
        logprobs = reference(ids[None]).logits[0].log_softmax(-1)
    triples = answer.input_token_logprobs
    assert [triple[1:] for triple in triples] == [[int(token), None] for token in ids[start:]]
    assert triples[0][0] is None
    for place, (value, token, _) in enumerate(triples[1:], start):
        assert value == pytest.approx(float(logprobs[place, token]), abs=2e-4)
    assert answer.output_token_logprobs[0][0] == pytest.approx(float(logprobs[-1].max()), abs=2e-4)
    assert [triple[1] for triple in answer.output_token_logprobs] == answer.output_ids


def test_without_a_start_only_outputs_have_logprobs(engine):
    answer = finish(engine, GenerationRequest(Source(prompt(20)), GREEDY, return_logprob=True))
    assert answer.input_token_logprobs == []
    assert len(answer.output_token_logprobs) == 12


def test_hidden_states_are_those_of_one_full_pass(engine, reference):
    ids = prompt(300)
    params = SamplingParams(max_new_tokens=3, temperature=0, ignore_eos=True)
    answer = finish(engine, GenerationRequest(Source(ids), params, return_hidden_states=True))
    with torch.no_grad():
        whole = torch.cat([ids, torch.tensor(answer.output_ids[:-1])])
        expected = reference.model(whole[None]).last_hidden_state[0]
    torch.testing.assert_close(torch.tensor(answer.hidden_states[0]), expected[:300], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(torch.tensor(answer.hidden_states[1:]), expected[300:], atol=1e-3, rtol=1e-3)


def test_rows_that_are_embeddings_change_nothing(tiny_actor, reference):
    """Rows equal to the tokens' own embeddings give the plain answer: positions and values are exact."""
    engine = TransformersEngine(tiny_actor, dtype=torch.bfloat16)
    ids = prompt(600)
    places = torch.tensor([0, 3, 255, 256, 400, 599])
    rows = reference.get_input_embeddings().weight.to(torch.bfloat16)[ids[places]]
    hidden = ids.clone()
    hidden[places] = 2
    plain = finish(engine, GenerationRequest(Source(ids), GREEDY, return_logprob=True))
    restored = finish(engine, GenerationRequest(Source(hidden, rows, places), GREEDY, return_logprob=True))
    assert restored.output_token_logprobs == plain.output_token_logprobs
    engine.close()


def test_warm_answers_equal_cold_ones_to_the_last_bit(engine):
    source = with_rows(prompt(900, seed=3), seed=1, cuts=(10, 60))
    request = GenerationRequest(source, GREEDY, return_logprob=True)
    engine._cache.clear()
    cold, warm = finish(engine, request), finish(engine, request)
    assert cold.cached_tokens == 0
    assert warm.cached_tokens == 60 + 3 * 256
    assert warm.output_token_logprobs == cold.output_token_logprobs


def test_equal_ids_with_other_rows_never_share_state(engine):
    ids = prompt(600, seed=4)
    requests = [
        GenerationRequest(source, GREEDY, return_logprob=True)
        for source in (Source(ids, cuts=(40,)), with_rows(ids, 1, (40,)), with_rows(ids, 2, (40,)))
    ]
    alone = []
    for request in requests:
        engine._cache.clear()
        alone.append(finish(engine, request).output_token_logprobs)
    assert len({str(logprobs) for logprobs in alone}) == 3
    engine._cache.clear()
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        for index in order:
            assert finish(engine, requests[index]).output_token_logprobs == alone[index]


def test_concurrent_answers_equal_those_given_alone(engine):
    ids = prompt(500, seed=5)
    requests = [GenerationRequest(Source(prompt(100 + 90 * n, seed=n)), GREEDY, return_logprob=True) for n in range(6)]
    requests += [GenerationRequest(with_rows(ids, n), GREEDY, return_logprob=True) for n in range(6)]
    alone = [finish(engine, request).output_token_logprobs for request in requests]
    together: list = [None] * len(requests)

    def run(index: int) -> None:
        together[index] = finish(engine, requests[index]).output_token_logprobs

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_a_short_request_does_not_wait_for_a_long_one(engine):
    long = engine.generate(
        GenerationRequest(Source(prompt(300)), SamplingParams(max_new_tokens=1500, temperature=0, ignore_eos=True))
    )
    assert next(output for output in long if output is not None).finish_reason is None
    finish(engine, GenerationRequest(Source(prompt(30)), GREEDY))
    assert next(output for output in long if output is not None).finish_reason is None
    long.close()


def test_closing_the_iterator_ends_the_work(engine):
    stream = engine.generate(
        GenerationRequest(Source(prompt(30)), SamplingParams(max_new_tokens=1900, temperature=0, ignore_eos=True))
    )
    before = engine.stats()["generated_tokens_total"]
    next(stream)
    stream.close()
    deadline = time.monotonic() + 10
    while engine.stats()["requests_running"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert engine.stats()["requests_running"] == 0
    assert engine.stats()["generated_tokens_total"] - before < 1900


def test_json_schema_is_kept(engine):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 99}, "kind": {"enum": ["a", "b"]}},
        "required": ["n", "kind"],
        "additionalProperties": False,
    }
    for seed in range(5):
        params = SamplingParams(max_new_tokens=200, temperature=1, seed=seed, json_schema=json.dumps(schema))
        answer = finish(engine, GenerationRequest(Source(prompt(20)), params))
        value = json.loads(answer.text)
        assert 1 <= value["n"] <= 99
        assert value["kind"] in ("a", "b")
        assert answer.finish_reason["type"] == "stop"


def test_regex_is_kept(engine):
    params = SamplingParams(max_new_tokens=60, temperature=1, seed=1, regex=r"[a-c]{3}-\d{2}")
    answer = finish(engine, GenerationRequest(Source(prompt(20)), params))
    assert re.fullmatch(r"[a-c]{3}-\d{2}", answer.text)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"json_schema": "{"}, "json_schema is not usable"),
        ({"json_schema": '{"type": "nonsense"}'}, "json_schema is not usable"),
        ({"json_schema": "[" * 100_000}, "nested too deeply"),
        ({"json_schema": '{"const": NaN}'}, "NaN is no JSON"),
        ({"regex": "(["}, "regex is not usable"),
        ({"regex": "a", "json_schema": "{}"}, "cannot be combined"),
    ],
)
def test_unusable_grammars_are_refused(engine, params, message):
    with pytest.raises(InvalidInput, match=message):
        engine.generate(GenerationRequest(Source(prompt(5)), SamplingParams(**params)))


def test_a_grammar_that_cannot_be_followed_is_no_normal_end(engine):
    params = SamplingParams(max_new_tokens=40, temperature=0, regex="a{1000}{1000}")
    with pytest.raises(InvalidInput, match="regex is not usable"):
        finish(engine, GenerationRequest(Source(prompt(20)), params))


def test_seeded_sampling_repeats_and_unseeded_varies(engine):
    def sample(seed):
        params = SamplingParams(max_new_tokens=16, temperature=1.5, seed=seed, ignore_eos=True)
        return finish(engine, GenerationRequest(Source(prompt(40)), params)).output_ids

    assert sample(5) == sample(5)
    assert sample(5) != sample(6)
    assert sample(None) != sample(None)


@pytest.mark.parametrize(
    "params",
    [{"top_k": 1}, {"top_p": 1e-6}, {"top_p": 1e-50}, {"min_p": 1.0}, {"temperature": 1e-39}],
    ids=["top_k", "top_p", "smallest top_p", "min_p", "smallest temperature"],
)
def test_filters_that_leave_one_token_are_greedy(engine, params):
    sampled = SamplingParams(**{"max_new_tokens": 12, "seed": 2, "ignore_eos": True, **params})
    greedy = finish(engine, GenerationRequest(Source(prompt(60)), GREEDY)).output_ids
    assert finish(engine, GenerationRequest(Source(prompt(60)), sampled)).output_ids == greedy


@pytest.mark.parametrize(
    "penalty", [{"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"repetition_penalty": 5.0}]
)
def test_penalties_make_repetition_rarer(engine, penalty):
    def repeats(**extra):
        params = SamplingParams(max_new_tokens=60, temperature=0, ignore_eos=True, **extra)
        ids = finish(engine, GenerationRequest(Source(prompt(10)), params)).output_ids
        return len(ids) - len(set(ids))

    assert repeats(**penalty) < repeats()


def test_stop_texts_and_stop_tokens_end_the_answer(engine):
    free = finish(engine, GenerationRequest(Source(prompt(50)), GREEDY))
    token = free.output_ids[4]
    first = free.output_ids.index(token)
    stopped = finish(
        engine,
        GenerationRequest(
            Source(prompt(50)),
            SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True, stop_token_ids=(token,)),
        ),
    )
    assert stopped.finish_reason == {"type": "stop", "matched": token}
    assert stopped.output_ids == free.output_ids[: first + 1]
    stop = free.text[3:5]
    cut = finish(
        engine,
        GenerationRequest(
            Source(prompt(50)), SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True, stop=(stop,))
        ),
    )
    assert cut.finish_reason == {"type": "stop", "matched": stop}
    assert cut.text == free.text[: free.text.index(stop)]


def test_streamed_text_only_grows(engine):
    params = SamplingParams(max_new_tokens=80, temperature=1.2, seed=9, ignore_eos=True, stop=("zzzz",))
    outputs = [o for o in engine.generate(GenerationRequest(Source(prompt(50)), params)) if o is not None]
    for before, after in zip(outputs, outputs[1:], strict=False):
        assert after.text.startswith(before.text)
        assert after.output_ids[: len(before.output_ids)] == before.output_ids
    assert outputs[-1].text == engine.tokenizer.decode(outputs[-1].output_ids, skip_special_tokens=True)


def test_no_new_tokens_is_a_prefill(engine):
    answer = finish(engine, GenerationRequest(Source(prompt(50)), SamplingParams(max_new_tokens=0)))
    assert (answer.text, answer.output_ids, answer.finish_reason) == ("", [], {"type": "length", "length": 0})


def test_overlong_input_says_the_numbers(engine):
    with pytest.raises(ContextOverflow, match="2040 input tokens and 12 new ones are 2052; .* holds 2048"):
        engine.generate(GenerationRequest(Source(prompt(2040)), GREEDY))


@pytest.mark.parametrize(
    ("ids", "message"), [([], "empty"), ([1, 384], r"holds 384; token ids are in \[0, 384\)"), ([-1], "holds -1")]
)
def test_wrong_ids_are_refused(engine, ids, message):
    with pytest.raises(InvalidInput, match=message):
        engine.generate(GenerationRequest(Source(torch.tensor(ids, dtype=torch.int64)), GREEDY))


@pytest.mark.parametrize(
    ("rows", "positions", "message"),
    [
        (torch.zeros(2, 63), [1, 2], r"rows are \[2, 63\], expected \[R, 64\]"),
        (torch.zeros(2, 64), [1], "2 rows have 1 positions"),
        (torch.zeros(2, 64), [1, 1], "must ascend within"),
        (torch.zeros(2, 64), [1, 30], r"within \[0, 30\)"),
        (torch.zeros(2, 64), [-1, 3], r"within \[0, 30\)"),
        (torch.full((2, 64), float("nan")), [1, 2], "NaN or infinity"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_the_next_request_works(engine, rows, positions, message):
    with pytest.raises(InvalidInput, match=message):
        engine.generate(GenerationRequest(Source(prompt(30), rows, torch.tensor(positions)), GREEDY))
    finish(engine, GenerationRequest(Source(prompt(30)), GREEDY))


def test_features_are_the_layers_outputs_under_the_whole_prefix(engine, reference):
    """The rows equal those of the network fed with the hidden states of one full pass of Transformers."""
    ids = prompt(50 + 150)
    summary = torch.cat([prompt(4, 8), prompt(9, 9)])
    result = engine.encode(
        EncodeRequest(
            prefix_ids=ids[:50],
            context=Source(ids[50:]),
            positions=torch.arange(150),
            leaves=[Leaf(0, 64, 0), Leaf(64, 128, 1), Leaf(128, 150, 0)],
            summary_ids=summary,
            summary_tokens=9,
        )
    )
    network = engine._first[1].network
    with torch.no_grad():
        states = reference.model(ids[None], output_hidden_states=True).hidden_states
        features = torch.cat([states[2][0, 50:], states[3][0, 50:]], -1)
        told = reference.model(torch.cat([ids[:50], summary])[None]).last_hidden_state[0, -9:]
        for rows, (start, stop, depth) in zip(result.nodes, [(0, 64, 0), (64, 128, 1), (128, 150, 0)], strict=True):
            expected = network(features[start:stop], told, depth)
            assert (rows.float() - expected).norm() / expected.norm() < 4e-3  # one rounding to bfloat16


def test_blocks_longer_than_a_chunk_give_the_same_rows(engine, monkeypatch):
    from remory.engines import encoding

    request = EncodeRequest(
        prefix_ids=prompt(30),
        context=Source(prompt(8 * 64, seed=5)),
        positions=torch.arange(8 * 64),
        leaves=[Leaf(start, start + 64, 0) for start in range(0, 8 * 64, 64)],
        folds=[Fold(0, 8, 1)],
        summary_ids=prompt(23, 9),
        summary_tokens=20,
    )
    whole = engine.encode(request).nodes[0].float()
    monkeypatch.setattr(encoding, "_CHUNK", 7)
    pieces = engine.encode(request).nodes[0].float()
    assert (whole - pieces).norm() / whole.norm() < 4e-3


def test_the_packaged_checkpoint_keeps_the_last_tokens_of_each_block(embedded):
    """Base tail at gate zero: rows are the normalised embeddings of each block's last 64 tokens."""
    folder, checkpoint = embedded
    engine = TransformersEngine(folder, checkpoint)
    ids = torch.randint(100, 40000, (1100,), generator=torch.Generator().manual_seed(3))
    result = engine.encode(
        EncodeRequest(
            prefix_ids=ids[:20],
            context=Source(ids[20:]),
            positions=torch.arange(1080),
            leaves=[Leaf(0, 1024, 0), Leaf(1024, 1080, 0)],
            summary_ids=ids[:9],
            summary_tokens=9,
        )
    )
    source = engine._model.embed_ids(ids[20:])[0].float()
    for rows, last in zip(result.nodes, [source[960:1024], source[1024:]], strict=True):
        scaled = last / last.square().mean(-1, keepdim=True).sqrt() * 0.133425
        torch.testing.assert_close(rows[-len(last) :].float(), scaled, rtol=2e-2, atol=2e-3)
    engine.close()


def test_states_that_are_not_finite_are_the_actors_failure(tiny_actor, tiny_checkpoint):
    from remory.errors import EngineFailed

    engine = TransformersEngine(tiny_actor, load_checkpoint(tiny_checkpoint))
    engine._model._decoder.layers[0].mlp.down_proj.weight.fill_(float("inf"))
    with pytest.raises(EngineFailed, match="not finite"):
        finish(engine, GenerationRequest(Source(prompt(20)), GREEDY))
    request = EncodeRequest(prompt(20), Source(prompt(64)), torch.arange(64), [Leaf(0, 64, 0)], (), (), prompt(5), 5)
    with pytest.raises(EngineFailed, match="cannot be encoded"):
        engine.encode(request)
    engine.close()


def test_an_engine_leaves_the_callers_network_trainable(tiny_actor, tiny_checkpoint):
    checkpoint = load_checkpoint(tiny_checkpoint)
    TransformersEngine(tiny_actor, checkpoint, dtype=torch.bfloat16).close()
    assert checkpoint.network.dtype == torch.float32
    assert any(parameter.requires_grad for parameter in checkpoint.network.parameters())


def test_a_family_that_changes_its_logits_is_refused(tmp_path):
    from ..conftest import make_actor

    make_actor(tmp_path / "gemma", "gemma2")
    with pytest.raises(InvalidInput, match="'gemma2' model"):
        TransformersEngine(tmp_path / "gemma")


def test_a_compaction_and_generations_run_side_by_side(engine):
    compaction = EncodeRequest(
        prompt(50),
        Source(prompt(640, 2)),
        torch.arange(640),
        [Leaf(start, start + 64, 0) for start in range(0, 640, 64)],
        (),
        (),
        prompt(12, 3),
        9,
    )
    request = GenerationRequest(with_rows(prompt(500, seed=5), 1), GREEDY, return_logprob=True)
    rows, logprobs = engine.encode(compaction).nodes, finish(engine, request).output_token_logprobs
    together: dict = {}
    threads = [
        threading.Thread(target=lambda: together.update(rows=engine.encode(compaction).nodes)),
        threading.Thread(target=lambda: together.update(logprobs=finish(engine, request).output_token_logprobs)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together["logprobs"] == logprobs
    assert all(torch.equal(left, right) for left, right in zip(together["rows"], rows, strict=True))


def test_networks_of_different_layers_do_not_disturb_each_other(engine, reference, tiny_checkpoint, tmp_path):
    plain = load_checkpoint(tiny_checkpoint)
    compressor = plain.config["compressor"] | {"target_layer_ids": [0, 3]}
    save_checkpoint(tmp_path / "other", plain.network, plain.config | {"compressor": compressor})
    prepared = [engine.prepare(plain), engine.prepare(load_checkpoint(tmp_path / "other"))]
    blocks = [Leaf(start, start + 64, 0) for start in range(0, 1280, 64)]
    compaction = EncodeRequest(
        prompt(40, 5), Source(prompt(1280, 6)), torch.arange(1280), blocks, (), (), prompt(9, 9), 9
    )
    alone = [torch.cat(engine.encode(compaction, network).nodes) for network in prepared]
    assert not torch.equal(*alone)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda network: torch.cat(engine.encode(compaction, network).nodes), prepared * 2))
    assert all(torch.equal(rows, expected) for rows, expected in zip(together, alone * 2, strict=True))
    with torch.no_grad():
        ids = torch.cat([compaction.prefix_ids, compaction.context.ids])
        states = reference.model(ids[None], output_hidden_states=True).hidden_states
        told = reference.model(torch.cat([prompt(40, 5), prompt(9, 9)])[None]).last_hidden_state[0, -9:]
        # The last entry is normalised; what layer 3 gives is its input to the norm.
        with capture_output(reference.model.layers[3]) as last:
            reference.model(ids[None])
        features = torch.cat([states[1][0], last[0][0]], -1)[40:104]
        expected = prepared[1].network(features, told, 0)
    assert (alone[1][:8].float() - expected).norm() / expected.norm() < 8e-3


@contextmanager
def capture_output(layer):
    outputs = []
    hook = layer.register_forward_hook(
        lambda _module, _inputs, output: outputs.append(output[0] if isinstance(output, tuple) else output)
    )
    yield outputs
    hook.remove()


def test_markers_are_read_but_are_no_source(engine, reference):
    ids = prompt(120)
    positions = torch.tensor([*range(5, 40), *range(60, 70)])
    result = engine.encode(
        EncodeRequest(
            prefix_ids=ids[:20],
            context=Source(ids[20:]),
            positions=positions,
            leaves=[Leaf(0, 45, 0)],
            summary_ids=prompt(9, 9),
            summary_tokens=9,
        )
    )
    with torch.no_grad():
        states = reference.model(ids[None], output_hidden_states=True).hidden_states
        features = torch.cat([states[2][0, 20:], states[3][0, 20:]], -1)[positions]
        told = reference.model(torch.cat([ids[:20], prompt(9, 9)])[None]).last_hidden_state[0, -9:]
        expected = engine._first[1].network(features, told, 0)
    assert (result.nodes[0].float() - expected).norm() / expected.norm() < 4e-3


def kept_alone(length: int, **fields) -> EncodeRequest:
    """A request without leaves over a context of so many tokens, with four nodes kept."""
    kept = [torch.randn(8, 64, generator=torch.Generator().manual_seed(n)).to(torch.bfloat16) for n in range(4)]
    none = torch.empty(0, dtype=torch.int64)
    return EncodeRequest(prompt(50), Source(prompt(length)), none, [], kept=kept, **fields)


def test_rows_that_are_only_joined_are_given_back(engine):
    before = engine.stats()["prompt_tokens_total"]
    request = kept_alone(30, summary_ids=prompt(12), summary_tokens=9)
    result = engine.encode(request)
    assert all(torch.equal(rows, old) for rows, old in zip(result.nodes, request.kept, strict=True))
    assert (result.features, result.timings_ms) == ({}, {})
    assert engine.stats()["prompt_tokens_total"] == before


def test_without_leaves_the_context_is_not_read(engine):
    """It may then be longer than what the actor reads, and the parents are the same."""
    rows = []
    for length in (30, 4000):
        request = kept_alone(length, summary_ids=prompt(12), summary_tokens=9, folds=[Fold(0, 4, 1)])
        result = engine.encode(request)
        assert result.features == {}
        rows.append(torch.cat(result.nodes))
    assert torch.equal(*rows)


def test_encode_without_room_says_the_numbers(engine):
    request = EncodeRequest(prompt(100), Source(prompt(2000)), torch.arange(2000), [Leaf(0, 64, 0)])
    with pytest.raises(ContextOverflow, match="100 tokens and 2000 to be read behind it are 2100; .* holds 2048"):
        engine.encode(request)


def test_a_checkpoint_of_another_width_is_refused(tiny_actor, embedded):
    with pytest.raises(CheckpointError, match="width 576"):
        TransformersEngine(tiny_actor, embedded[1])


def test_an_actor_that_fails_ends_only_its_own_request(tiny_actor):
    from remory.errors import EngineFailed

    engine = TransformersEngine(tiny_actor)
    # A row of the right shape on a device that does not exist here makes the actor itself fail.
    broken = Source(prompt(30), torch.zeros(1, 64, device="meta", dtype=torch.bfloat16), torch.tensor([3]))
    request = GenerationRequest(broken, GREEDY)
    steps = engine._generation(request, None)
    ticket = engine._scheduler.submit(steps)
    with pytest.raises(EngineFailed, match="the actor failed on this request"):
        ticket.result()
    finish(engine, GenerationRequest(Source(prompt(30)), GREEDY))
    engine.close()


def test_a_closed_engine_is_busy(tiny_actor):
    engine = TransformersEngine(tiny_actor)
    running = engine.generate(
        GenerationRequest(Source(prompt(30)), SamplingParams(max_new_tokens=1900, temperature=0, ignore_eos=True))
    )
    next(running)
    engine.close()
    with pytest.raises(EngineBusy):
        list(running)
    with pytest.raises(EngineBusy):
        finish(engine, GenerationRequest(Source(prompt(30)), GREEDY))

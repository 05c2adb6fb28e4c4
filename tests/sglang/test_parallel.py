"""Two ranks that share the actor, and two copies of it: rows are those of one, and answers as right."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from remory.compaction import Compactor
from remory.engines.base import GenerationRequest, SamplingParams, Source
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.sglang.exchange import Exchange
from remory.network import load_checkpoint
from tests.sglang.conftest import Launch
from tests.sglang.definition import PlainActor, is_drawn, is_greedy

GREEDY = SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True)


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(3, 380, (count,), generator=torch.Generator().manual_seed(seed))


def session(compactor: Compactor, seed: int) -> tuple[torch.Tensor, Source, list[int]]:
    """The rows of a second compaction, a prompt behind them, and what the actor says to it."""
    prefix, summary = ids(9, seed), ids(7, seed + 1)
    first = compactor.compact(prefix, ids(300, seed + 2), summary)
    second = compactor.compact(prefix, ids(150, seed + 3), summary, first)
    restored = compactor.restore(second, ids(20, seed + 4))
    return second.rows.float(), restored, said(compactor.engine, restored, GREEDY)


def likelihood(engine: SGLangEngine, source: Source, answer: list[int]) -> float:
    """The mean log-probability of an answer behind its prompt."""
    whole = Source(torch.cat([source.ids, torch.tensor(answer)]))
    sampling = SamplingParams(max_new_tokens=1, temperature=0)
    request = GenerationRequest(whole, sampling, return_logprob=True, logprob_start_len=len(source) - 1)
    output = [output for output in engine.generate(request) if output is not None][-1]
    assert output.input_token_logprobs is not None
    values = [value for value, *_ in output.input_token_logprobs[1:]]
    return sum(values) / len(values)


def said(engine: SGLangEngine, source: Source, sampling: SamplingParams) -> list[int]:
    outputs = [output for output in engine.generate(GenerationRequest(source, sampling)) if output is not None]
    return outputs[-1].output_ids


@pytest.fixture(params=[(2, 1), (1, 2)], ids=["two ranks", "two copies"], scope="module")
def several(
    request: pytest.FixtureRequest,
    launch: Launch,
    tiny_actor: Path,
    tiny_checkpoint: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Compactor]:
    """A compactor on two ranks or two copies, which keep features."""
    tp, dp = request.param
    exchange = tmp_path_factory.mktemp("exchange")
    server = launch(tiny_actor, exchange=exchange, checkpoint=tiny_checkpoint, tp=tp, dp=dp, live_bytes=1 << 26)
    engine = SGLangEngine(tiny_actor, server, Exchange(exchange))
    yield Compactor(engine, load_checkpoint(tiny_checkpoint))
    engine.close()


@pytest.fixture(scope="module")
def one(sglang_engine: SGLangEngine, tiny_checkpoint: Path) -> Compactor:
    return Compactor(sglang_engine, load_checkpoint(tiny_checkpoint))


def test_they_give_what_one_gives(several: Compactor, one: Compactor, plain_actor: PlainActor) -> None:
    seeds = range(0, 80, 10)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: session(several, seed), seeds))
    for seed, (rows, restored, answer) in zip(seeds, found, strict=True):
        expected, *_ = session(one, seed)
        assert (rows - expected).norm() / expected.norm() < 1e-3
        assert is_greedy(plain_actor, restored, answer, GREEDY)


def test_they_draw_alike_without_a_seed(several: Compactor, one: Compactor, plain_actor: PlainActor) -> None:
    """Ranks that drew other tokens would each read another sequence, and what they add up would be of none."""
    free = SamplingParams(max_new_tokens=200, temperature=1.0, ignore_eos=True)
    source = Source(ids(30, 90))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda seed: said(several.engine, source, replace(free, seed=seed)), [None, 7] * 2))
    for answer in (answers[1], answers[3]):
        assert is_drawn(plain_actor, source, answer, replace(free, seed=7))
    assert answers[0] != answers[2]
    # As likely as answers are that one drew; ranks that draw by seeds of their own come out 1.9 lower.
    usual = min(likelihood(one.engine, source, said(one.engine, source, free)) for _ in range(4))
    for answer in answers:
        assert likelihood(one.engine, source, answer) > usual - 0.7


def test_they_keep_what_they_have_read(several: Compactor, one: Compactor) -> None:
    conversation = ids(12, 95).tolist()
    for turn in range(4):
        conversation += ids(50, 96 + turn).tolist()
        conversation += said(several.engine, Source(torch.tensor(conversation)), replace(GREEDY, max_new_tokens=40))
    whole = torch.tensor(conversation)
    arguments = whole[:12], whole[12:], ids(9, 99)
    memory, expected = several.compact(*arguments), one.compact(*arguments)
    told = memory.receipt["features"]
    assert told["live"] + told["prefill"] == len(whole) - 12
    # A copy has what it has read itself.
    assert told["live"] >= 40
    assert (memory.rows.float() - expected.rows.float()).norm() / expected.rows.float().norm() < 1e-3

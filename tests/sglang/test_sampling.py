"""What a request asks of its sampling is its own affair: neighbours in the batch change nothing of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import torch

from remory.engines.base import GenerationRequest, SamplingParams, Source
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.transformers import TransformersEngine
from tests.sglang.definition import ROUNDING, PlainActor, counts, is_drawn, is_greedy, penalised, shortfall

VOCABULARY = 384
GREEDY = SamplingParams(max_new_tokens=40, temperature=0, ignore_eos=True)
DRAWN = replace(GREEDY, temperature=1.0, seed=5)
PENALTIES = [
    {"frequency_penalty": 2.0},
    {"frequency_penalty": -1.0},
    {"presence_penalty": 1.5},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.5},
    {"frequency_penalty": 0.5, "presence_penalty": -0.5, "repetition_penalty": 1.1},
]


@pytest.fixture(scope="module")
def embedded(tiny_actor: Path) -> Iterator[TransformersEngine]:
    engine = TransformersEngine(tiny_actor)
    yield engine
    engine.close()


def prompt(seed: int) -> Source:
    return Source(torch.randint(3, 380, (20 + seed,), generator=torch.Generator().manual_seed(seed)))


def said(engine: SGLangEngine | TransformersEngine, source: Source, sampling: SamplingParams) -> list[int]:
    outputs = [output for output in engine.generate(GenerationRequest(source, sampling)) if output is not None]
    return outputs[-1].output_ids


@pytest.mark.parametrize("penalties", PENALTIES, ids=str)
def test_penalties_count_what_was_said(
    sglang_engine: SGLangEngine, embedded: TransformersEngine, plain_actor: PlainActor, penalties: dict[str, float]
) -> None:
    sampling = replace(GREEDY, **penalties)
    for engine in (sglang_engine, embedded):
        missed: dict[str, float] = defaultdict(float)
        for seed in range(3):
            answer = said(engine, prompt(seed), sampling)
            assert len(answer) == 40
            assert is_greedy(plain_actor, prompt(seed), answer, sampling)
            logits = plain_actor.logits(prompt(seed), answer)
            for name, counted in miscounts(prompt(seed), answer).items():
                wrong = shortfall(penalised(logits, counted, sampling), answer)
                missed[name] = max(missed[name], wrong)
        # Answers that wrong counts would give too would show nothing.
        assert min(missed.values()) > 10 * ROUNDING, missed


def miscounts(source: Source, answer: list[int]) -> dict[str, torch.Tensor]:
    """Counts that are wrong, by what is wrong with them."""
    right = counts(answer, VOCABULARY)
    return {
        "nothing is counted": torch.zeros_like(right),
        "a token is counted one step late": torch.cat([torch.zeros(1, VOCABULARY), right[:-1]]),
        "the prompt is counted": right + torch.bincount(source.ids, minlength=VOCABULARY),
    }


def test_what_is_subtracted_comes_before_what_is_divided_by(
    sglang_engine: SGLangEngine, embedded: TransformersEngine, plain_actor: PlainActor
) -> None:
    """SGLang by itself takes penalties in an order that is another one in every process."""
    steps = [{"frequency_penalty": 0.3}, {"presence_penalty": 0.5}, {"repetition_penalty": 0.7}]
    sampling = replace(GREEDY, **{name: value for step in steps for name, value in step.items()})
    for engine in (sglang_engine, embedded):
        missed: dict[str, float] = defaultdict(float)
        for seed in range(3):
            answer = said(engine, prompt(seed), sampling)
            assert is_greedy(plain_actor, prompt(seed), answer, sampling)
            for order in permutations(steps):
                logits = plain_actor.logits(prompt(seed), answer)
                for step in order:
                    logits = penalised(logits, counts(answer, VOCABULARY), replace(GREEDY, **step))
                missed[str(order)] = max(missed[str(order)], shortfall(logits, answer))
        wrong = [missed[str(order)] for order in permutations(steps) if order[2] is not steps[2]]
        assert min(wrong) > 10 * ROUNDING, missed


def test_penalties_count_the_same_while_others_come_and_go(
    sglang_engine: SGLangEngine, plain_actor: PlainActor
) -> None:
    sampling = replace(GREEDY, max_new_tokens=120, frequency_penalty=1.0)
    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(said, sglang_engine, prompt(seed), sampling) for seed in range(3)]
        coming = [
            pool.submit(said, sglang_engine, prompt(seed), replace(GREEDY, max_new_tokens=3)) for seed in range(30)
        ]
        answers = [future.result() for future in running]
        assert all(len(future.result()) == 3 for future in coming)
    for seed, answer in enumerate(answers):
        assert len(answer) == 120
        assert is_greedy(plain_actor, prompt(seed), answer, sampling)


@pytest.mark.parametrize(
    "neighbour",
    [GREEDY, replace(DRAWN, seed=None), replace(DRAWN, top_k=5), replace(DRAWN, top_p=0.5), replace(DRAWN, min_p=0.1)],
    ids=["greedy", "free", "top_k", "top_p", "min_p"],
)
@pytest.mark.parametrize("own", [{}, {"top_k": 7}, {"min_p": 0.05}], ids=str)
def test_a_seed_means_the_same_beside_any_neighbour(
    sglang_engine: SGLangEngine, plain_actor: PlainActor, own: dict[str, float], neighbour: SamplingParams
) -> None:
    sampling = replace(DRAWN, **own)
    alone = said(sglang_engine, prompt(9), sampling)
    with ThreadPoolExecutor(3) as pool:
        others = [
            pool.submit(said, sglang_engine, prompt(seed), replace(neighbour, max_new_tokens=80)) for seed in (1, 2)
        ]
        beside = said(sglang_engine, prompt(9), sampling)
        for future in others:
            future.result()
    for answer in (alone, beside):
        assert len(answer) == 40
        assert is_drawn(plain_actor, prompt(9), answer, sampling)
        assert not is_drawn(plain_actor, prompt(9), answer, replace(sampling, seed=6))


def test_a_seed_draws_again_what_it_drew_and_none_draws_anew(
    sglang_engine: SGLangEngine, plain_actor: PlainActor
) -> None:
    first, again, other, *free = (
        said(sglang_engine, prompt(20), replace(DRAWN, temperature=1.5, seed=seed)) for seed in (5, 5, 6, None, None)
    )
    for answer, seed in ((first, 5), (again, 5), (other, 6)):
        assert is_drawn(plain_actor, prompt(20), answer, replace(DRAWN, temperature=1.5, seed=seed))
    assert first != other
    assert free[0] != free[1]

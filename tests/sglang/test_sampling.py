"""What a request asks of its sampling is its own affair: neighbours in the batch change nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from remory.engines.base import GenerationRequest, SamplingParams, Source
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.transformers import TransformersEngine

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
    sglang_engine: SGLangEngine, embedded: TransformersEngine, penalties: dict[str, float]
) -> None:
    for seed in range(3):
        sampling = replace(GREEDY, **penalties)
        assert said(sglang_engine, prompt(seed), sampling) == said(embedded, prompt(seed), sampling)


def test_penalties_count_the_same_while_others_come_and_go(
    sglang_engine: SGLangEngine, embedded: TransformersEngine
) -> None:
    sampling = replace(GREEDY, max_new_tokens=120, frequency_penalty=1.0)
    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(said, sglang_engine, prompt(seed), sampling) for seed in range(3)]
        coming = [
            pool.submit(said, sglang_engine, prompt(seed), replace(GREEDY, max_new_tokens=3)) for seed in range(30)
        ]
        answers = [future.result() for future in running]
        assert all(len(future.result()) == 3 for future in coming)
    assert answers == [said(embedded, prompt(seed), sampling) for seed in range(3)]


@pytest.mark.parametrize(
    "neighbour",
    [GREEDY, replace(DRAWN, seed=None), replace(DRAWN, top_k=5), replace(DRAWN, top_p=0.5), replace(DRAWN, min_p=0.1)],
    ids=["greedy", "free", "top_k", "top_p", "min_p"],
)
@pytest.mark.parametrize("own", [{}, {"top_k": 7}, {"min_p": 0.05}], ids=str)
def test_a_seed_means_the_same_beside_any_neighbour(
    sglang_engine: SGLangEngine, own: dict[str, float], neighbour: SamplingParams
) -> None:
    sampling = replace(DRAWN, **own)
    alone = said(sglang_engine, prompt(9), sampling)
    with ThreadPoolExecutor(3) as pool:
        beside = [
            pool.submit(said, sglang_engine, prompt(seed), replace(neighbour, max_new_tokens=80)) for seed in (1, 2)
        ]
        assert said(sglang_engine, prompt(9), sampling) == alone
        for future in beside:
            future.result()

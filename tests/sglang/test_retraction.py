"""SGLang puts requests back when its cache is full, and reads them again: what was taken of them must stay right."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from remory.compaction import Compactor
from remory.engines.base import GenerationOutput, GenerationRequest, SamplingParams, Source
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.sglang.exchange import Exchange
from remory.engines.transformers import TransformersEngine
from remory.network import load_checkpoint
from tests.sglang.conftest import Launch
from tests.sglang.definition import PlainActor, is_greedy

GREEDY = SamplingParams(max_new_tokens=60, temperature=0, ignore_eos=True)


@pytest.fixture(scope="module")
def retracting(
    launch: Launch, tiny_actor: Path, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SGLangEngine]:
    """An engine on a server that puts a request back every few steps, as one without room does, and keeps features."""
    exchange = tmp_path_factory.mktemp("exchange")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SGLANG_TEST_RETRACT", "1")
        patch.setenv("SGLANG_TEST_RETRACT_INTERVAL", "7")
        server = launch(tiny_actor, exchange=exchange, checkpoint=tiny_checkpoint, live_bytes=1 << 26)
    engine = SGLangEngine(tiny_actor, server, Exchange(exchange))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def embedded(tiny_actor: Path) -> Iterator[TransformersEngine]:
    engine = TransformersEngine(tiny_actor)
    yield engine
    engine.close()


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(3, 380, (count,), generator=torch.Generator().manual_seed(seed))


def last(engine: SGLangEngine, source: Source, states: bool) -> GenerationOutput:
    request = GenerationRequest(source, GREEDY, return_hidden_states=states)
    return [output for output in engine.generate(request) if output is not None][-1]


def sources() -> list[Source]:
    """Prompts, some of them with rows."""
    rows = torch.randn(16, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    plain = [Source(ids(80 + seed, seed)) for seed in range(4)]
    return [*plain, *(Source(source.ids, rows, torch.arange(10, 26)) for source in plain)]


@pytest.mark.parametrize("states", [False, True], ids=["answers", "states"])
def test_requests_that_were_put_back_are_answered_as_if_they_had_not_been(
    retracting: SGLangEngine, plain_actor: PlainActor, states: bool
) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda source: last(retracting, source, states), sources()))
    for source, output in zip(sources(), found, strict=True):
        assert len(output.output_ids) == GREEDY.max_new_tokens
        assert is_greedy(plain_actor, source, output.output_ids, GREEDY)
        if states:
            assert output.hidden_states is not None
            read = torch.tensor(flat(output.hidden_states))
            assert torch.allclose(read, plain_actor.states(source, output.output_ids), atol=1e-3)


def flat(states: list[list[list[float]] | list[float]]) -> list[list[float]]:
    """The prompt's states and those of each token of the answer, one behind another."""
    return [*states[0], *states[1:]]


def test_what_was_kept_of_them_is_theirs(
    retracting: SGLangEngine, embedded: TransformersEngine, tiny_checkpoint: Path
) -> None:
    checkpoint = load_checkpoint(tiny_checkpoint)
    kept, read = Compactor(retracting, checkpoint), Compactor(embedded, checkpoint)
    prompts = [Source(ids(90, 50 + seed)) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda source: last(retracting, source, False).output_ids, prompts))
    for source, answer in zip(prompts, answers, strict=True):
        whole = torch.cat([source.ids, torch.tensor(answer)])
        arguments = whole[:12], whole[12:], ids(9, 60)
        memory, expected = kept.compact(*arguments), read.compact(*arguments)
        assert memory.receipt["features"]["live"] > len(source) - 12
        assert (memory.rows.float() - expected.rows.float()).norm() / expected.rows.float().norm() < 1e-3

"""Many requests at once, of all kinds, on the embedded actor: each gets its own answer, or the rows it gets alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from remory.actors import embedded_actor
from remory.compaction import Compactor, Memory
from remory.engines.base import GenerationOutput, GenerationRequest, SamplingParams, Source
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.sglang.exchange import Exchange
from remory.network import Checkpoint, embedded_checkpoint, load_checkpoint
from tests.sglang.conftest import Launch
from tests.sglang.definition import PlainActor, is_greedy

CHUNK = 64
GREEDY = SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True)

Work = Callable[[], Any]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load_checkpoint(embedded_checkpoint())


@pytest.fixture(scope="module")
def embedded_engine(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SGLangEngine]:
    """The embedded actor in float32, whose prompts are read in chunks of 64 tokens."""
    exchange = tmp_path_factory.mktemp("exchange")
    server = launch(
        embedded_actor(),
        context_length=8192,
        dtype="float32",
        checkpoint=embedded_checkpoint(),
        exchange=exchange,
        more=(f"--chunked-prefill-size={CHUNK}",),
    )
    engine = SGLangEngine(embedded_actor(), server, Exchange(exchange))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def embedded_plain_actor() -> PlainActor:
    return PlainActor(embedded_actor())


@pytest.fixture(scope="module")
def compactor(embedded_engine: SGLangEngine, checkpoint: Checkpoint) -> Compactor:
    return Compactor(embedded_engine, checkpoint)


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(100, 40000, (count,), generator=torch.Generator().manual_seed(seed))


def answer(engine: SGLangEngine, source: Source) -> GenerationOutput:
    outputs = [output for output in engine.generate(GenerationRequest(source, GREEDY)) if output is not None]
    return outputs[-1]


def generating(engine: SGLangEngine, source: Source) -> Work:
    return lambda: (source, answer(engine, source).output_ids)


def compacting(compactor: Compactor, seed: int, previous: Memory | None = None) -> Work:
    """A compaction under one prefix, of a history longer than two chunks."""
    return lambda: compactor.compact(ids(20, 1), ids(3 * CHUNK, seed), ids(30, 2 * seed), previous).rows


def works(engine: SGLangEngine, compactor: Compactor) -> list[Work]:
    """Sixteen pieces of work: plain, behind two memories whose prompts have equal ids, and compactions."""
    first, second = (compactor.compact(ids(20, 1), ids(3 * CHUNK, seed), ids(30, 9)) for seed in (50, 51))
    continuation = ids(10, 5)
    restored = [compactor.restore(memory, continuation) for memory in (first, second)]
    assert torch.equal(restored[0].ids, restored[1].ids)
    plain = [Source(ids(CHUNK + 40, seed)) for seed in range(4)]
    # What stands under the rows is said plainly too, as if there were no memory.
    plain.append(Source(restored[0].ids))
    return [
        *(generating(engine, source) for source in plain),
        *(generating(engine, source) for source in restored * 3),
        *(compacting(compactor, seed) for seed in (60, 61, 62)),
        *(compacting(compactor, seed, memory) for seed, memory in ((63, first), (64, second))),
    ]


def right(actor: PlainActor, result: Any, alone: Any) -> bool:
    """Whether rows are those of the work alone, or an answer is the actor's to its own prompt."""
    if isinstance(result, torch.Tensor):
        difference = (result.float() - alone.float()).norm() / alone.float().norm()
        return bool(difference < 1e-3)
    source, said = result
    return len(said) == GREEDY.max_new_tokens and is_greedy(actor, source, said, GREEDY)


def all_at_once(todo: Sequence[Work]) -> list[Any]:
    with ThreadPoolExecutor(len(todo)) as pool:
        return [future.result() for future in [pool.submit(work) for work in todo]]


def test_sixteen_requests_at_once_are_answered_as_each_alone(
    embedded_engine: SGLangEngine, compactor: Compactor, embedded_plain_actor: PlainActor
) -> None:
    todo = works(embedded_engine, compactor)
    assert len(todo) == 16
    cold = all_at_once(todo)
    alone = [work() for work in todo]
    warm = all_at_once(todo)
    for number, (one, two, three) in enumerate(zip(alone, cold, warm, strict=True)):
        assert right(embedded_plain_actor, one, one), f"work {number}, alone"
        assert right(embedded_plain_actor, two, one), f"work {number}, when nothing was cached"
        assert right(embedded_plain_actor, three, one), f"work {number}, when all was cached"
    # An answer that is right for another prompt too would show nothing.
    answers = [one for one in alone if isinstance(one, tuple)][:7]
    for number, (source, _) in enumerate(answers):
        assert not is_greedy(embedded_plain_actor, source, answers[number - 1][1], GREEDY)


def test_a_second_request_on_a_handle_reads_the_memory_from_the_cache(
    embedded_engine: SGLangEngine, compactor: Compactor
) -> None:
    memory = compactor.compact(ids(20, 70), ids(3 * CHUNK, 71), ids(30, 72))
    restored = compactor.restore(memory, ids(10, 73))
    head = restored.cuts[-1]
    # Of the first one only the prefix is there, which the compaction has read.
    assert answer(embedded_engine, restored).cached_tokens <= int(restored.positions[0])
    assert answer(embedded_engine, compactor.restore(memory, ids(10, 74))).cached_tokens >= head
    plain = answer(embedded_engine, Source(restored.ids))
    assert plain.cached_tokens <= int(restored.positions[0])


def test_nothing_is_shared_between_memories_but_what_stands_before_their_rows(
    embedded_engine: SGLangEngine, compactor: Compactor
) -> None:
    prefix, summary = ids(20, 80), ids(30, 81)
    first, second = (compactor.compact(prefix, ids(3 * CHUNK, seed), summary) for seed in (82, 83))
    continuation = ids(10, 84)
    answer(embedded_engine, compactor.restore(first, continuation))
    restored = compactor.restore(second, continuation)
    assert answer(embedded_engine, restored).cached_tokens == int(restored.positions[0])

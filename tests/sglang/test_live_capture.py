"""Features kept while sessions run: compactions take them, and give the rows that they give without."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from remory.compaction import Compactor, Memory
from remory.engines.base import GenerationRequest, SamplingParams, Source
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.sglang.exchange import Exchange
from remory.network import load_checkpoint
from tests.sglang.conftest import Launch

# Of the tiny actor: two layers of 64 in float32, and what the index is counted for.
TOKEN_BYTES = 2 * 64 * 4 + 300


def live_engine(launch: Launch, actor: Path, checkpoint: Path, exchange: Path, live_bytes: int) -> SGLangEngine:
    server = launch(
        actor,
        exchange=exchange,
        checkpoint=checkpoint,
        live_bytes=live_bytes,
        more=("--chunked-prefill-size=64",),
    )
    return SGLangEngine(actor, server, Exchange(exchange))


@pytest.fixture(scope="module")
def keeping(
    launch: Launch, tiny_actor: Path, tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Compactor]:
    """A compactor whose engine keeps the features of some 4,000 tokens."""
    exchange = tmp_path_factory.mktemp("exchange")
    engine = live_engine(launch, tiny_actor, tiny_checkpoint, exchange, 4000 * TOKEN_BYTES)
    yield Compactor(engine, load_checkpoint(tiny_checkpoint))
    engine.close()


@pytest.fixture(scope="module")
def reading(sglang_engine: SGLangEngine, tiny_checkpoint: Path) -> Compactor:
    """A compactor whose engine keeps nothing and reads every history anew."""
    return Compactor(sglang_engine, load_checkpoint(tiny_checkpoint))


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(3, 380, (count,), generator=torch.Generator().manual_seed(seed))


def said(engine: SGLangEngine, source: Source, count: int) -> list[int]:
    """What the actor answers to a prompt."""
    sampling = SamplingParams(max_new_tokens=count, temperature=0, ignore_eos=True)
    outputs = [output for output in engine.generate(GenerationRequest(source, sampling)) if output is not None]
    return outputs[-1].output_ids


def play(engine: SGLangEngine, seed: int, turns: int = 4, prefix: int = 12) -> torch.Tensor:
    """A session's ids: what the user said and what the actor answered, turn after turn, through the engine."""
    session = ids(prefix, seed).tolist()
    for turn in range(turns):
        session += ids(50, 1000 * seed + turn).tolist()
        session += said(engine, Source(torch.tensor(session)), 40)
    return torch.tensor(session)


def features(memory: Memory) -> tuple[int, int]:
    told = memory.receipt["features"]
    return told["live"], told["prefill"]


def same_rows(one: Memory, other: Memory) -> None:
    difference = (one.rows.float() - other.rows.float()).norm() / other.rows.float().norm()
    assert difference < 1e-3


def test_a_session_that_ran_is_compacted_from_what_was_kept(keeping: Compactor, reading: Compactor) -> None:
    session = play(keeping.engine, 1)
    arguments = session[:12], session[12:], ids(9, 2)
    memory = keeping.compact(*arguments)
    # The newest token was said and never read.
    assert features(memory) == (len(session) - 13, 1)
    expected = reading.compact(*arguments)
    assert features(expected) == (0, len(session) - 12)
    same_rows(memory, expected)


def test_what_is_missing_is_read_and_the_rest_is_not(keeping: Compactor, reading: Compactor) -> None:
    session = play(keeping.engine, 3)
    history = torch.cat([session[12:], ids(70, 4)])
    memory = keeping.compact(session[:12], history, ids(9, 5))
    assert features(memory) == (len(session) - 13, 71)
    same_rows(memory, reading.compact(session[:12], history, ids(9, 5)))
    # It was kept as it was read, so now all is there.
    assert features(keeping.compact(session[:12], history, ids(9, 6))) == (len(history), 0)


def test_nothing_is_taken_from_another_prefix(keeping: Compactor, reading: Compactor) -> None:
    session = play(keeping.engine, 7)
    other = session[:12].flip(0)
    memory = keeping.compact(other, session[12:], ids(9, 8))
    assert features(memory) == (0, len(session) - 12)
    same_rows(memory, reading.compact(other, session[12:], ids(9, 8)))


def test_rows_are_kept_with_the_session_behind_them(keeping: Compactor, reading: Compactor) -> None:
    """Two memories of equal ids: what followed each is found behind its own rows alone."""
    prefix, summary = ids(12, 10), ids(9, 11)
    memories = [reading.compact(prefix, ids(150, seed), summary) for seed in (12, 13)]
    asked = ids(50, 14)
    for number, memory in enumerate(memories):
        restored = keeping.restore(memory, asked)
        answer = said(keeping.engine, restored, 40)
        history = torch.cat([asked, torch.tensor(answer)])
        again = keeping.compact(prefix, history, ids(9, 15 + number), memory)
        source = len(memory.summary_ids) + len(memory.rows) + len(history)
        assert features(again) == (source - 1, 1)
        same_rows(again, reading.compact(prefix, history, ids(9, 15 + number), memory))


def test_compactions_at_once_beside_sessions_that_run(keeping: Compactor, reading: Compactor) -> None:
    sessions = [play(keeping.engine, seed) for seed in (20, 21, 22)]
    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(play, keeping.engine, seed) for seed in (23, 24, 25)]
        made = [pool.submit(keeping.compact, one[:12], one[12:], ids(9, 26)) for one in sessions]
        memories = [future.result() for future in made]
        sessions += [future.result() for future in running]
    memories += [keeping.compact(one[:12], one[12:], ids(9, 26)) for one in sessions[3:]]
    for session, memory in zip(sessions, memories, strict=True):
        assert features(memory) == (len(session) - 13, 1)
        same_rows(memory, reading.compact(session[:12], session[12:], ids(9, 26)))


def test_a_full_store_forgets_and_rows_stay_right(
    launch: Launch, reading: Compactor, tiny_actor: Path, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    engine = live_engine(launch, tiny_actor, tiny_checkpoint, tmp_path, 500 * TOKEN_BYTES)
    compactor = Compactor(engine, load_checkpoint(tiny_checkpoint))
    first, second = play(engine, 30), play(engine, 31)
    summary = ids(9, 32)
    recent, old = (compactor.compact(one[:12], one[12:], summary) for one in (second, first))
    assert features(recent)[0] > features(old)[0]
    assert features(old)[1] > 100
    for session, memory in ((second, recent), (first, old)):
        same_rows(memory, reading.compact(session[:12], session[12:], summary))
    engine.close()

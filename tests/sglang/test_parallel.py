"""Two ranks that share the actor, and two copies of it: rows and answers are those of one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from remory.compaction import Compactor
from remory.engines.base import GenerationRequest, SamplingParams
from remory.engines.sglang.engine import SGLangEngine
from remory.engines.sglang.exchange import Exchange
from remory.network import load_checkpoint
from tests.sglang.conftest import Launch

GREEDY = SamplingParams(max_new_tokens=12, temperature=0, ignore_eos=True)


def ids(count: int, seed: int) -> torch.Tensor:
    return torch.randint(3, 380, (count,), generator=torch.Generator().manual_seed(seed))


def session(compactor: Compactor, seed: int) -> tuple[torch.Tensor, list[int]]:
    """The rows of a second compaction, and what the actor says behind them."""
    prefix, summary = ids(9, seed), ids(7, seed + 1)
    first = compactor.compact(prefix, ids(300, seed + 2), summary)
    second = compactor.compact(prefix, ids(150, seed + 3), summary, first)
    request = GenerationRequest(compactor.restore(second, ids(20, seed + 4)), GREEDY)
    outputs = [output for output in compactor.engine.generate(request) if output is not None]
    return second.rows.float(), outputs[-1].output_ids


@pytest.mark.parametrize(("tp", "dp", "live_bytes"), [(2, 1, 0), (2, 1, 1 << 26), (1, 2, 0)])
def test_ranks_and_copies_give_what_one_gives(
    launch: Launch,
    sglang_engine: SGLangEngine,
    tiny_actor: Path,
    tiny_checkpoint: Path,
    tmp_path: Path,
    tp: int,
    dp: int,
    live_bytes: int,
) -> None:
    server = launch(tiny_actor, exchange=tmp_path, checkpoint=tiny_checkpoint, tp=tp, dp=dp, live_bytes=live_bytes)
    engine = SGLangEngine(tiny_actor, server, Exchange(tmp_path))
    checkpoint = load_checkpoint(tiny_checkpoint)
    several, one = Compactor(engine, checkpoint), Compactor(sglang_engine, checkpoint)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: session(several, seed), range(0, 80, 10)))
    for seed, (rows, answer) in zip(range(0, 80, 10), found, strict=True):
        expected, said = session(one, seed)
        assert (rows - expected).norm() / expected.norm() < 1e-3
        assert answer == said
    engine.close()

"""What a compaction costs beside a plain prefill of the same tokens, with the embedded actor.

Each arm runs in a process of its own, the arms by turns, and reports its time and its peak memory (resident set):
in all, and above what the process held when the actor was loaded.

    python bench/compaction.py [--tokens 4000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ARMS = {
    "transformers": "prefill, Transformers, one pass",
    "engine": "prefill, this engine, chunks",
    "compact": "compaction (summary of 150 tokens)",
}
PREFIX_TOKENS = 200
SUMMARY_TOKENS = 150


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class PeakMemory:
    """Samples the resident set every 2 ms while in the block."""

    def __enter__(self) -> PeakMemory:
        self.before = self.peak = resident_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.002):
            self.peak = max(self.peak, resident_bytes())

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()


def run_arm(arm: str, tokens: int) -> dict[str, float]:
    """Load the actor, warm up on a short input, then measure one arm."""
    import torch

    from remory.actors import embedded_actor, load_model
    from remory.compaction import Compactor
    from remory.engines.base import GenerationRequest, SamplingParams, Source
    from remory.engines.transformers import TransformersEngine
    from remory.network import embedded_checkpoint, load_checkpoint

    ids = torch.randint(
        100, 40000, (PREFIX_TOKENS + tokens + SUMMARY_TOKENS,), generator=torch.Generator().manual_seed(1)
    )
    prompt = ids[: PREFIX_TOKENS + tokens]
    if arm == "transformers":
        model = load_model(embedded_actor(), "cpu", None)

        def work(prompt: torch.Tensor) -> None:
            with torch.inference_mode():
                model(prompt[None], use_cache=True, logits_to_keep=1)
    else:
        checkpoint = load_checkpoint(embedded_checkpoint())
        engine = TransformersEngine(embedded_actor(), checkpoint, cache_bytes=0)
        compactor = Compactor(engine, checkpoint)

        def work(prompt: torch.Tensor) -> None:
            if arm == "compact":
                compactor.compact(prompt[:PREFIX_TOKENS], prompt[PREFIX_TOKENS:], ids[-SUMMARY_TOKENS:])
            else:
                list(engine.generate(GenerationRequest(Source(prompt), SamplingParams(max_new_tokens=0))))

    work(prompt[: PREFIX_TOKENS + 300])
    with PeakMemory() as memory:
        began = time.perf_counter()
        work(prompt)
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak": memory.peak, "above": memory.peak - memory.before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4000, help="history tokens (default 4000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each arm runs (default 3)")
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        print(json.dumps(run_arm(options.arm, options.tokens)))
        return
    figures: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    for round_number in range(options.rounds):
        for arm in ARMS:
            print(f"round {round_number + 1}/{options.rounds}: {arm} …", file=sys.stderr, flush=True)
            command = [sys.executable, __file__, "--arm", arm, "--tokens", str(options.tokens)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            figures[arm].append(json.loads(output.splitlines()[-1]))
    medians = {
        arm: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for arm, runs in figures.items()
    }
    base = medians["transformers"]
    print(f"{'arm':42}{'seconds':>9}{'×':>7}{'peak MiB':>10}{'×':>7}{'above load MiB':>16}{'×':>7}")
    for arm, title in ARMS.items():
        one = medians[arm]
        cells = [one["seconds"], one["peak"] / 2**20, one["above"] / 2**20]
        ratios = [one[key] / base[key] for key in ("seconds", "peak", "above")]
        print(
            f"{title:42}{cells[0]:9.2f}{ratios[0]:7.2f}{cells[1]:10.0f}{ratios[1]:7.2f}{cells[2]:16.0f}{ratios[2]:7.2f}"
        )
    print(json.dumps({"tokens": options.tokens, "rounds": options.rounds, "medians": medians}))


if __name__ == "__main__":
    main()

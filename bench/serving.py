"""Compaction and generation on SGLang: what kept features save, what passing rows costs, what batching gives.

Starts `remory serve --backend sglang --capture-live` with the embedded actor, plays sessions through it and compacts
them, by turns with histories of the same length that it has not seen; then the same requests one after another and at
once, beside the embedded engine.

    python bench/serving.py [--rounds 3] [--sizes 1000 2000 3000 4000] [--sglang-python .venv-sglang/bin/python]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import torch
from rich.console import Console

from remory.engines.sglang.exchange import Exchange
from remory.local_server import serving

PREFIX_TOKENS = 200
SUMMARY_TOKENS = 150
USER_TOKENS = 350
ANSWER_TOKENS = 50
TRANSPORT_SHAPE = (4096, 576)
AT_ONCE = (1, 4, 8)
_VOCABULARY = (100, 40000)

Ids = list[int]


def main() -> None:
    options = _options()
    console = Console(stderr=True)
    results: dict[str, Any] = {"transport_ms": transport(options.rounds)}
    with serving(options, console, "serving", ["--capture-live", "2G"]) as url, _client(url) as client:
        results["compaction"] = compactions(client, options.sizes, options.rounds, console)
        results["generation"] = {"sglang": batches(client, options.rounds, console)}
    options.backend, options.sglang_python = None, None
    with serving(options, console, "embedded") as url, _client(url) as client:
        results["generation"]["embedded"] = batches(client, options.rounds, console)
    _show(results)
    print(json.dumps(results))


def transport(rounds: int) -> dict[str, float]:
    """Milliseconds to pass rows from one process's hands to another's, by the folder and inline; medians."""
    rows = torch.randn(TRANSPORT_SHAPE, generator=torch.Generator().manual_seed(0)).bfloat16()
    figures: dict[str, list[float]] = {"folder": [], "inline": []}
    shared = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        for number in range(rounds * 5):
            # Other bytes each time: a file that is there already would not be written again.
            rows[0, 0] = number
            for way, there in (("folder", Path(folder)), ("inline", None)):
                began = time.perf_counter()
                Exchange(there).get(Exchange(there).put(rows))
                figures[way].append((time.perf_counter() - began) * 1000)
    return {way: statistics.median(values) for way, values in figures.items()}


def compactions(client: httpx.Client, sizes: list[int], rounds: int, console: Console) -> list[dict[str, Any]]:
    """For each size of history: seconds of a compaction with kept features and of one without; medians."""
    found = []
    for size in sizes:
        seconds: dict[str, list[float]] = {"live": [], "prefill": []}
        features: dict[str, dict[str, int]] = {}
        prefix = _random_ids(PREFIX_TOKENS)
        console.print(f"a session of {size} tokens …")
        history = _play(client, prefix, size)
        for number in range(rounds):
            # Another first token makes every prefix another one, so that nothing of it was kept or cached.
            for way, first in (("live", prefix[0]), ("prefill", prefix[0] + 1 + number)):
                body = {
                    "prefix_ids": [first, *prefix[1:]],
                    "history_ids": history,
                    "summary_ids": _random_ids(SUMMARY_TOKENS),
                }
                began = time.perf_counter()
                receipt = _post(client, "/v1/compact", body)["receipt"]
                seconds[way].append(time.perf_counter() - began)
                features[way] = receipt["features"]
        medians = {way: statistics.median(values) for way, values in seconds.items()}
        found.append({"tokens": size, "seconds": medians, "features": features})
    return found


def batches(client: httpx.Client, rounds: int, console: Console) -> dict[str, float]:
    """Tokens a second of all requests together, by how many are sent at once; medians."""
    figures: dict[str, list[float]] = {}
    for number in range(rounds):
        for count in AT_ONCE:
            console.print(f"round {number + 1}: {count} at once …")
            bodies = [_generation(_random_ids(200), 64) for _ in range(count)]
            began = time.perf_counter()
            with ThreadPoolExecutor(count) as pool:
                answers = list(pool.map(lambda body: _post(client, "/generate", body), bodies))
            taken = time.perf_counter() - began
            tokens = sum(answer["meta_info"]["completion_tokens"] for answer in answers)
            figures.setdefault(str(count), []).append(tokens / taken)
    return {count: statistics.median(values) for count, values in figures.items()}


def _play(client: httpx.Client, prefix: Ids, size: int) -> Ids:
    """A session's history of so many tokens: what users said and what the actor answered, turn after turn."""
    ids = list(prefix)
    while len(ids) < len(prefix) + size:
        ids += _random_ids(USER_TOKENS)
        ids += _post(client, "/generate", _generation(ids, ANSWER_TOKENS))["output_ids"]
    return ids[len(prefix) : len(prefix) + size]


def _generation(ids: Ids, tokens: int) -> dict[str, Any]:
    sampling = {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True}
    return {"input_ids": ids, "sampling_params": sampling}


def _random_ids(count: int) -> Ids:
    return [random.randint(*_VOCABULARY) for _ in range(count)]


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"X-Remory-Session": "bench"}, timeout=600)


def _post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post(path, json=body)
    answer.raise_for_status()
    return answer.json()


def _show(results: dict[str, Any]) -> None:
    rows, width = TRANSPORT_SHAPE
    ways = ", ".join(f"{way} {value:.1f} ms" for way, value in results["transport_ms"].items())
    print(f"passing {rows} x {width} rows, written, read and verified: {ways}\n")
    print(f"{'history':>8}{'re-prefill s':>14}{'kept s':>9}{'share':>8}{'kept tokens':>13}")
    for case in results["compaction"]:
        live, prefill = case["seconds"]["live"], case["seconds"]["prefill"]
        kept = case["features"]["live"]["live"]
        print(f"{case['tokens']:>8}{prefill:>14.2f}{live:>9.2f}{live / prefill:>8.1%}{kept:>13}")
    print(f"\n{'at once':>8}{'SGLang tok/s':>14}{'embedded tok/s':>16}{'x':>7}")
    for count, tokens in results["generation"]["sglang"].items():
        other = results["generation"]["embedded"][count]
        print(f"{count:>8}{tokens:>14.1f}{other:>16.1f}{tokens / other:>7.2f}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each case runs (default: %(default)s)")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1000, 2000, 3000, 4000], help="history tokens (default: 1000 to 4000)"
    )
    parser.add_argument("--sglang-python", default=sys.executable, help="the interpreter that has SGLang")
    parser.set_defaults(url=None, model=None, checkpoint=None, device="cpu", dtype=None, backend="sglang")
    return parser.parse_args()


if __name__ == "__main__":
    main()

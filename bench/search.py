"""Exact search on the CPU: the op beside numpy and torch, then a collection's search beside the op's own time.

All run by turns, each from a cold cache; times are medians. GB/s counts one reading of the vectors, whoever reads them;
the last column is its share of what torch was measured to reach here summing a long vector. numpy and torch are given
vectors that already have norm 1 and break ties as they like; the op takes the norms itself.

    python bench/search.py [--rounds 15] [--threads N] [--rows 100000] [--dimension 384] [--graph]
"""

from __future__ import annotations

import argparse
import json
import statistics
import threading
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from remory import ops
from remory.search import Collection, Row

CACHE_BYTES = 128 << 20
K = 10
FILTERED_KEY = "group"
GROUPS = 100


def seconds_of(run: Callable[[], object], cache: Tensor) -> float:
    cache.add_(1)  # as large as any cache: what the last run left there is gone
    time.sleep(0.05)  # a library's threads wait for more work on the cores for a while, which the next one needs
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(runs: list[Callable[[], object]], rounds: int, cache: Tensor) -> list[float]:
    """Median seconds of each, run by turns after one round to warm up."""
    times = [[seconds_of(run, cache) for run in runs] for _ in range(rounds + 1)][1:]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def numpy_topk(queries: np.ndarray, unit: np.ndarray) -> np.ndarray:
    scores = queries @ unit.T
    best = np.argpartition(scores, -K, axis=1)[:, -K:]
    order = np.take_along_axis(scores, best, axis=1).argsort(axis=1)[:, ::-1]
    return np.take_along_axis(best, order, axis=1)


def collect(vectors: np.ndarray) -> Collection:
    collection = Collection(vectors.shape[1])
    rows = [
        Row(id, f"key-{id:08}", id, 1, json.dumps({FILTERED_KEY: id % GROUPS}).encode()) for id in range(len(vectors))
    ]
    start = time.perf_counter()
    collection.set_many(rows, vectors)
    print(f"set_many of {len(rows)}: {time.perf_counter() - start:.2f} s, {collection.nbytes / 1e6:.0f} MB held\n")
    return collection


def build_graph(collection: Collection) -> None:
    start = time.perf_counter()
    collection.build_graph(threading.Event())
    print(f"build_graph: {time.perf_counter() - start:.1f} s, {collection.nbytes / 1e6:.0f} MB held\n")


def op_runs(vectors: Tensor, batch: int) -> dict[str, Callable[[], object]]:
    queries = torch.nn.functional.normalize(torch.randn(batch, vectors.shape[1]))
    unit = torch.nn.functional.normalize(vectors)
    return {
        f"numpy, batch {batch}": lambda: numpy_topk(queries.numpy(), unit.numpy()),
        f"torch, batch {batch}": lambda: (queries @ unit.T).topk(K),
        f"cosine_topk, batch {batch}": lambda: ops.cosine_topk(queries, vectors, K),
    }


def search_runs(collection: Collection, vectors: Tensor, graph: bool) -> dict[str, Callable[[], object]]:
    query = torch.randn(vectors.shape[1])
    runs: dict[str, Callable[[], object]] = {
        "cosine_topk, k 10": lambda: ops.cosine_topk(query[None], vectors, K),
        "search, k 10": lambda: collection.search(query.numpy(), K),
        "search, k 1000": lambda: collection.search(query.numpy(), 1000),
        f"search, 1 in {GROUPS} by filter": lambda: collection.search(query.numpy(), K, {FILTERED_KEY: 3}),
    }
    if graph:
        runs["search, hnsw"] = lambda: collection.search(query.numpy(), K, strategy="hnsw")
    return runs


def report(runs: dict[str, Callable[[], object]], vectors: Tensor, rounds: int, cache: Tensor, ceiling: float) -> None:
    times = measure(list(runs.values()), rounds, cache)
    for name, seconds in zip(runs, times, strict=True):
        reached = vectors.nbytes / seconds / 1e9
        print(f"{name:28} {seconds * 1e3:9.2f} ms {reached:8.1f} GB/s {reached / ceiling:7.0%}", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed runs a side")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--graph", action="store_true", help="build an hnsw graph too, which takes a minute or more")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    cache = torch.zeros(CACHE_BYTES // 4)
    long = torch.ones(64 << 20)
    vectors = torch.randn(options.rows, options.dimension)

    (seconds,) = measure([long.sum], options.rounds, cache)
    ceiling = long.nbytes / seconds / 1e9
    print(f"torch {torch.__version__}, {options.threads} threads; {options.rows} x {options.dimension} float32")
    print(f"reading: {ceiling:.1f} GB/s, so {vectors.nbytes / ceiling / 1e6:.2f} ms at least for all vectors\n")
    for batch in (1, 32):
        report(op_runs(vectors, batch), vectors, options.rounds, cache, ceiling)
    collection = collect(vectors.numpy())
    if options.graph:
        build_graph(collection)
    report(search_runs(collection, vectors, options.graph), vectors, options.rounds, cache, ceiling)


if __name__ == "__main__":
    main()

"""How time grows: search with the number of vectors, `encode` with the length of the history."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from bench.kernels import network
from bench.kernels import vectors as data
from bench.kernels.amounts import Amount, encode_amount, topk_amount
from bench.kernels.ceilings import product_ceiling, read_ceiling
from bench.kernels.vectors import K
from bench.kernels.work import Case, Context, Shelf, Way, Work, name_of

from remory import ops

# 10,000,000 of these are 2.6 GB; an index of them comes on top.
DIMENSION = 64
_ROWS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_TOKENS = (100, 1_000, 10_000, 100_000, 1_000_000)
_QUICK_SIZES = 3
# What is not the op is measured up to here: it only has to show its line.
_PLAIN_TOKENS = 10_000
_shelf = Shelf()


def cases(context: Context) -> Iterator[Case]:
    for rows in _ROWS[:_QUICK_SIZES] if context.quick else _ROWS:
        yield _search_case(rows)
    for tokens in _TOKENS[:_QUICK_SIZES] if context.quick else _TOKENS:
        yield _encode_case(tokens)


def _search_case(rows: int) -> Case:
    def prepare(context: Context) -> Work:
        most = _ROWS[_QUICK_SIZES - 1] if context.quick else _ROWS[-1]
        vectors = data.unit_vectors("random", most, DIMENSION, torch.float32, context.device)[:rows]
        queries = data.queries("random", 1, vectors)
        search = torch.ops.remory.cosine_topk if context.is_cuda else ops.cosine_topk
        others, absent = ([], {}) if context.is_cuda else _library_ways(queries, vectors, context)
        return Work(
            lambda: search(queries, vectors, K, None),
            topk_amount(1, rows, DIMENSION, 4, K),
            read_ceiling(vectors),
            [Way("torch", lambda: (queries @ vectors.T).topk(K)), *others],
            absent,
        )

    parameters = {"series": "search", "size": rows}
    return Case("cosine_topk", f"{rows:,} x {DIMENSION}", torch.float32, prepare, parameters, "growth")


def _library_ways(queries: torch.Tensor, vectors: torch.Tensor, context: Context) -> tuple[list[Way], dict[str, str]]:
    """FlatIndex, numpy and usearch; faiss holds a copy, which at the largest size is too much."""
    given, matrix = queries.numpy(), vectors.numpy()
    ways = [Way("numpy", lambda: data.numpy_best(given @ matrix.T, K), 0.02)]
    absent = {}
    if importlib.util.find_spec("usearch") is None:
        absent["usearch"] = "not installed"
    else:
        from usearch.index import MetricKind, search

        def usearch() -> object:
            return search(matrix, given, K, MetricKind.Cos, exact=True, threads=context.threads)

        ways.append(Way("usearch", usearch, 0.02))
    ways.append(Way("FlatIndex, certified", _flat_search(matrix, given)))
    return ways, absent


def _flat_search(matrix: np.ndarray, given: np.ndarray) -> Callable[[], object]:
    from remory.search import FlatIndex

    def make() -> Any:
        index = FlatIndex(matrix.shape[1])
        index.add(np.arange(len(matrix)), matrix)
        return index

    index = _shelf.take("index", matrix.shape, make)
    return lambda: index.search(given, K)


def _encode_case(tokens: int) -> Case:
    """Blocks of 1,024 in batches of four, as a compaction encodes them, in bfloat16; the last one may be shorter."""
    dtype = torch.bfloat16

    def prepare(context: Context) -> Work:
        geometry = network.full_geometry()
        block, batch = geometry.block_tokens, network.PRODUCT_BLOCKS
        whole, rest = divmod(tokens, block)
        sizes = [(batch, block)] * (whole // batch) + ([(whole % batch, block)] if whole % batch else [])
        sizes += [(1, rest)] if rest else []
        made = {size: network.arguments(geometry, *size, dtype, context.device) for size in set(sizes)}
        amounts = [encode_amount(geometry, *size, network.SUMMARY_ROWS, dtype.itemsize) for size in set(sizes)]
        by_size = dict(zip(set(sizes), amounts, strict=True))
        total = Amount(sum(by_size[size].bytes for size in sizes), sum(by_size[size].flops for size in sizes))

        def run(encode: Callable[..., object]) -> Callable[[], object]:
            return lambda: [encode(**made[size]) for size in sizes]

        eager = [Way(network.EAGER, run(ops.encode_plain))] if tokens <= _PLAIN_TOKENS else []
        return Work(run(ops.encode), total, product_ceiling(dtype, context), eager)

    parameters = {"series": "encode", "size": tokens, "dtype": name_of(dtype)}
    return Case("encode", f"{tokens:,} tokens", dtype, prepare, parameters, "growth")


def clear() -> None:
    _shelf.clear()

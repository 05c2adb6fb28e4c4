"""`Collection`: vectors with metadata, as the scoped memory searches them."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from bench.kernels import vectors as data
from bench.kernels.amounts import copy_amount, topk_amount
from bench.kernels.ceilings import copy_ceiling, read_ceiling
from bench.kernels.topk import DIMENSION
from bench.kernels.vectors import K
from bench.kernels.work import Case, Context, Shelf, Way, Work

from remory import ops

if TYPE_CHECKING:
    from remory.search import Collection, Row

_ROWS, _QUICK_ROWS = 100_000, 5_000
# Fewer, because making a graph takes long; and clustered, because a graph finds nothing in vectors without structure.
_GRAPH_ROWS = 20_000
_KEY, _GROUPS = "group", 100
_shelf = Shelf()


def cases(context: Context) -> Iterator[Case]:
    if context.is_cuda:
        return
    rows = _QUICK_ROWS if context.quick else _ROWS
    yield _set_case(rows)
    for k in (K, 1000):
        yield _search_case(rows, k)
    yield _filter_case(rows)
    if not context.quick:
        yield _graph_case(_GRAPH_ROWS)


def _collect(vectors: torch.Tensor) -> Collection:
    from remory.search import Collection

    collection = Collection(vectors.shape[1])
    collection.set_many(_rows(len(vectors)), vectors.numpy())
    return collection


def _rows(count: int) -> list[Row]:
    from remory.search import Row

    return [Row(id, f"key-{id:08}", id, 1, json.dumps({_KEY: id % _GROUPS}).encode()) for id in range(count)]


def _held(kind: str, rows: int, context: Context) -> tuple[Collection, torch.Tensor]:
    vectors = data.unit_vectors(kind, rows, DIMENSION, torch.float32, context.device)
    return _shelf.take("collection", (kind, rows), lambda: _collect(vectors)), vectors


def _set_case(rows: int) -> Case:
    def prepare(context: Context) -> Work:
        from remory.search import Collection

        vectors = data.unit_vectors("random", rows, DIMENSION, torch.float32, context.device)
        given, entries = vectors.numpy(), _rows(rows)
        held: list[Any] = []

        def op() -> None:
            held.append(Collection(DIMENSION))
            held[-1].set_many(entries, given)

        amount = copy_amount(vectors.nbytes)
        return Work(op, amount, copy_ceiling(amount, context), reset=held.clear)

    return Case("Collection.set_many", f"{rows:,} x {DIMENSION}", torch.float32, prepare, {"rows": rows})


def _search_case(rows: int, k: int) -> Case:
    def prepare(context: Context) -> Work:
        collection, vectors = _held("random", rows, context)
        query = data.queries("random", 1, vectors)
        others, absent = data.library_ways(query, vectors, k, context)
        return Work(
            lambda: collection.search(query[0].numpy(), k),
            topk_amount(1, rows, DIMENSION, 4, k),
            read_ceiling(vectors),
            [Way("cosine_topk alone", lambda: ops.cosine_topk(query, vectors, k)), *others],
            absent,
        )

    return Case("Collection.search", f"{rows:,} x {DIMENSION}, k {k}", torch.float32, prepare, {"rows": rows, "k": k})


def _filter_case(rows: int) -> Case:
    """One row in a hundred passes the filter; beside it numpy, which is told the rows."""

    def prepare(context: Context) -> Work:
        collection, vectors = _held("random", rows, context)
        query = data.queries("random", 1, vectors).numpy()
        passing, matrix = np.arange(3, rows, _GROUPS), vectors.numpy()

        def numpy_search() -> object:
            return data.numpy_best(query @ matrix[passing].T, K)

        return Work(
            lambda: collection.search(query[0], K, {_KEY: 3}),
            topk_amount(1, len(passing), DIMENSION, 4, K),
            read_ceiling(vectors),
            [Way("numpy, rows given", numpy_search)],
        )

    words = f"{rows:,} x {DIMENSION}, filter 1 in {_GROUPS}"
    return Case("Collection.search", words, torch.float32, prepare, {"rows": rows, "filter": True})


def _graph_case(rows: int) -> Case:
    def prepare(context: Context) -> Work:
        collection, vectors = _held("clustered", rows, context)
        query = data.queries("clustered", 1, vectors)
        linear = Way("linear", lambda: collection.search(query[0].numpy(), K, strategy="linear"))
        if importlib.util.find_spec("faiss") is None:
            raise RuntimeError("hnsw needs faiss, which is not installed")
        if collection.graph is None:
            collection.build_graph(threading.Event())
        return Work(
            lambda: collection.search(query[0].numpy(), K, strategy="hnsw"),
            topk_amount(1, rows, DIMENSION, 4, K),
            None,
            [linear],
        )

    return Case(
        "Collection.search", f"{rows:,} x {DIMENSION}, hnsw", torch.float32, prepare, {"rows": rows, "hnsw": True}
    )


def clear() -> None:
    _shelf.clear()

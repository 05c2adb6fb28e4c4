"""`FlatIndex`: adding beside a copy, and searching beside the op, faiss and one reading of the float32 matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from bench.kernels import vectors as data
from bench.kernels.amounts import Amount, copy_amount, topk_amount
from bench.kernels.ceilings import read_ceiling
from bench.kernels.comparison import require_scores
from bench.kernels.topk import DIMENSION, QUICK_ROWS, ROWS
from bench.kernels.vectors import K
from bench.kernels.work import Case, Ceiling, Context, Shelf, Way, Work

from remory import ops

_shelf = Shelf()


def cases(context: Context) -> Iterator[Case]:
    if context.is_cuda:
        return
    rows = QUICK_ROWS if context.quick else ROWS
    for certified in (True, False):
        yield _add_case(rows, certified)
    yield _search_case(rows, 1, "random", certified=False)
    for kind in ("random", "clustered"):
        for batch in (1, 32):
            yield _search_case(rows, batch, kind)
    yield _search_case(rows, 1, "clustered", masked=True)


def _add_case(rows: int, certified: bool) -> Case:
    def prepare(context: Context) -> Work:
        from remory.search import FlatIndex

        _shelf.clear()
        vectors = data.unit_vectors("random", rows, DIMENSION, torch.float32, context.device).numpy()
        ids = np.arange(rows)
        held: list[Any] = []

        def op() -> None:
            index = FlatIndex(DIMENSION, certified=certified)
            index.add(ids, vectors)
            held.append(index)

        def check() -> None:
            op()
            assert len(held[-1]) == rows, f"{len(held[-1])} rows, expected {rows}"

        ceiling = Ceiling("copy", lambda: held.append(np.copy(vectors)), copy_amount(vectors.nbytes))
        return Work(op, copy_amount(vectors.nbytes), ceiling, check=check, reset=held.clear)

    parameters = {"rows": rows, "certified": certified}
    return Case("FlatIndex.add", f"{rows:,} x {DIMENSION}{_kind(certified)}", torch.float32, prepare, parameters)


def _search_case(rows: int, batch: int, kind: str, certified: bool = True, masked: bool = False) -> Case:
    def prepare(context: Context) -> Work:
        vectors = data.unit_vectors(kind, rows, DIMENSION, torch.float32, context.device)
        queries = data.queries(kind, batch, vectors)
        mask = torch.arange(rows) % 2 == 0 if masked else None
        index = _index(vectors, certified, kind)
        given, kept = queries.numpy(), None if mask is None else mask.numpy()

        def op() -> Any:
            return index.search(given, K, kept)

        def beside() -> Any:
            return ops.cosine_topk(queries, vectors, K, mask)

        def check() -> None:
            (scores, ids), (expected, expected_ids) = op(), beside()
            require_scores(torch.from_numpy(scores), expected, 0.0)
            assert np.array_equal(ids, expected_ids.numpy()), "other ids than cosine_topk's"

        others, absent = data.library_ways(queries, vectors, K, context, mask)
        return Work(
            op,
            _amount(index, vectors, batch, certified, 0.5 if masked else 1.0),
            read_ceiling(vectors),
            [Way("cosine_topk", beside), *others],
            absent,
            check,
        )

    words = f"{rows:,} x {DIMENSION}, batch {batch}, {kind}{', mask half' if masked else ''}{_kind(certified)}"
    parameters = {"rows": rows, "batch": batch, "kind": kind, "certified": certified, "masked": masked}
    return Case("FlatIndex.search", words, torch.float32, prepare, parameters)


def _index(vectors: torch.Tensor, certified: bool, kind: str) -> Any:
    from remory.search import FlatIndex

    def make() -> Any:
        index = FlatIndex(vectors.shape[1], certified=certified)
        index.add(np.arange(len(vectors)), vectors.numpy())
        return index

    return _shelf.take("index", (kind, certified, tuple(vectors.shape)), make)


def _amount(index: Any, vectors: torch.Tensor, batch: int, certified: bool, share: float) -> Amount:
    """A certified search reads the copy, which is what the index holds beside the vectors, and a few rows again."""
    whole = topk_amount(batch, len(vectors), vectors.shape[1], 4, K)
    moved = index.nbytes - vectors.nbytes if certified else vectors.nbytes
    return Amount(bytes=int(share * moved), flops=int(share * whole.flops))


def _kind(certified: bool) -> str:
    return ", certified" if certified else ""


def clear() -> None:
    _shelf.clear()

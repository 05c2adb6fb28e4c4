"""Unit vectors to search, and the libraries that search them beside the op."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from bench.kernels.work import Context, Shelf, Way
from torch import Tensor

K = 10
# Seconds after which the threads of faiss, numpy and usearch have stopped waiting on the cores for more work.
_SETTLE = 0.02
_CHUNK_ROWS = 100_000
_CLUSTERS, _SPREAD = 1000, 0.05

_shelf = Shelf()
clear = _shelf.clear


def unit_vectors(kind: str, rows: int, dimension: int, dtype: torch.dtype, device: str) -> Tensor:
    """[rows, dimension]: "random"; "clustered" around 1,000 centres; "equal"; "ascending": each is nearer to the first
    axis than the one before, so that a scan changes its mind at every row."""

    def make() -> Tensor:
        generator = torch.Generator(device).manual_seed(0)
        out = torch.empty(rows, dimension, dtype=dtype, device=device)
        centres = torch.randn(_CLUSTERS, dimension, generator=generator, device=device)
        for first in range(0, rows, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows - first)
            some = torch.randn(count, dimension, generator=generator, device=device)
            if kind == "clustered":
                chosen = torch.randint(_CLUSTERS, (count,), generator=generator, device=device)
                some = centres[chosen] + _SPREAD * some
            elif kind == "equal":
                some = centres[:1].expand(count, -1)
            elif kind == "ascending":
                some[:, 0] = 0
                some = torch.nn.functional.normalize(some)
                some[:, 0] = torch.linspace(first / rows, (first + count) / rows, count, device=device)
            out[first : first + count] = torch.nn.functional.normalize(some)
        return out

    return _shelf.take("vectors", (kind, rows, dimension, dtype, device), make)


def queries(kind: str, batch: int, vectors: Tensor) -> Tensor:
    """[batch, D] unit vectors of the vectors' dtype, and on clustered ones near a whole cluster."""
    generator = torch.Generator(vectors.device).manual_seed(1)
    noise = torch.randn(batch, vectors.shape[1], generator=generator, device=vectors.device)
    if kind == "ascending":
        noise *= 0.01
        noise[:, 0] = 1
    elif kind == "clustered":
        chosen = torch.randint(len(vectors), (batch,), generator=generator, device=vectors.device)
        noise = vectors[chosen].float() + 0.02 * noise
    return torch.nn.functional.normalize(noise).to(vectors.dtype)


def numpy_best(products: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and places of the k highest of each row, best first."""
    best = np.argpartition(products, -k, axis=1)[:, -k:]
    scores = np.take_along_axis(products, best, axis=1)
    order = scores.argsort(axis=1)[:, ::-1]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(best, order, axis=1)


def torch_ways(given: Tensor, vectors: Tensor, k: int, mask: Tensor | None = None) -> list[Way]:
    def multiply() -> object:
        products = given @ vectors.T
        if mask is not None:
            products = products.masked_fill(~mask, float("-inf"))
        return products.topk(k)

    torch.compiler.reset()
    return [Way("torch", multiply), Way("torch.compile", torch.compile(multiply, dynamic=False), compiled=True)]


def library_ways(
    given: Tensor, vectors: Tensor, k: int, context: Context, mask: Tensor | None = None
) -> tuple[list[Way], dict[str, str]]:
    """What numpy, faiss and usearch do on a CPU, and why some of them do not."""
    ways, absent = [], {}
    for name, make in (("numpy", _numpy), ("faiss", _faiss), ("usearch", _usearch)):
        try:
            ways.append(Way(name, make(given, vectors, k, context, mask), _SETTLE))
        except _Absent as reason:
            absent[name] = str(reason)
    return ways, absent


class _Absent(Exception):
    """A library cannot do this; the words say why."""


def _numpy(given: Tensor, vectors: Tensor, k: int, context: Context, mask: Tensor | None) -> Callable[[], object]:
    if vectors.dtype != torch.float32:
        raise _Absent("multiplies no half-precision matrices at speed")
    queries, matrix = given.numpy(), vectors.numpy()
    kept = None if mask is None else mask.numpy()

    def search() -> object:
        products = queries @ matrix.T
        if kept is not None:
            products[:, ~kept] = -np.inf
        return numpy_best(products, k)

    return search


def _faiss(given: Tensor, vectors: Tensor, k: int, context: Context, mask: Tensor | None) -> Callable[[], object]:
    """Brute force over its own copy: IndexFlatIP, and for half precision the scalar quantizer of that format."""
    if importlib.util.find_spec("faiss") is None:
        raise _Absent("not installed")
    import faiss

    faiss.omp_set_num_threads(context.threads)
    faiss.cvar.distance_compute_blas_threshold = 1 << 30
    index = faiss_index(vectors)
    queries = given.float().numpy()
    if mask is None:
        return lambda: index.search(queries, k)
    bits = np.packbits(mask.numpy(), bitorder="little")
    selector = faiss.IDSelectorBitmap(bits)
    params = faiss.SearchParameters(sel=selector)
    return lambda: index.search(queries, k, params=params)


def faiss_index(vectors: Tensor) -> Any:
    import faiss

    def make() -> Any:
        width, product = vectors.shape[1], faiss.METRIC_INNER_PRODUCT
        formats = {torch.bfloat16: faiss.ScalarQuantizer.QT_bf16, torch.float16: faiss.ScalarQuantizer.QT_fp16}
        if vectors.dtype == torch.float32:
            index = faiss.IndexFlatIP(width)
        else:
            index = faiss.IndexScalarQuantizer(width, formats[vectors.dtype], product)
        for first in range(0, len(vectors), _CHUNK_ROWS):
            index.add(vectors[first : first + _CHUNK_ROWS].float().numpy())
        return index

    return _shelf.take("faiss", (vectors.data_ptr(), tuple(vectors.shape), vectors.dtype), make)


def _usearch(given: Tensor, vectors: Tensor, k: int, context: Context, mask: Tensor | None) -> Callable[[], object]:
    if importlib.util.find_spec("usearch") is None:
        raise _Absent("not installed")
    if vectors.dtype == torch.bfloat16:
        raise _Absent("takes no bfloat16 arrays")
    if mask is not None:
        raise _Absent("exact search takes no mask")
    from usearch.index import MetricKind, search

    queries, matrix = given.numpy(), vectors.numpy()
    return lambda: search(matrix, queries, k, MetricKind.Cos, exact=True, threads=context.threads)

"""Exact top-k by cosine over all vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import torch
from torch import Tensor

from remory.errors import InvalidInput
from remory.ops.library import ops, use_plain, without_autocast

# The kernels' candidates are few beside the vectors; above, they are not.
_KERNEL_MOST_K = {"cpu": 1000, "cuda": 1024}
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_CHUNK_QUERIES = 64
# Elements of the vectors that are handled at a time. What is cast should stay in the cache; what is not goes in long
# runs, because every call on several threads waits for the last of them. The limit in rows keeps what is done with one
# number a row on one thread.
_CAST_ELEMENTS = 1 << 21
_CHUNK_ELEMENTS = 1 << 24
_CHUNK_ROWS = 1 << 15
# Float32 scores held at a time, 16 MiB of them.
_BLOCK_SCORES = 1 << 22
# Norms between which no square, no product and no sum of a few million of them leaves float32's normal range.
_SMALLEST_NORM, _LARGEST_NORM = 2.0**-40, 2.0**60


def cosine_topk(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The k vectors of highest cosine for each query: scores [Q, k] float32 and ids [Q, k] int64, best first.

    queries [Q, D] and vectors [N, D]: float32, bfloat16 or float16 each, contiguous in their last dimension, of any
    norm but zero. mask: [N] bool, or a bit for each vector, [ceil(N / 8)] uint8, the lowest bit first; only vectors
    where it is true take part, and what the others hold is never looked at. Equal scores go to the lower id, and equal
    vectors have equal scores. Where fewer than k take part, the rest is -inf and -1. k may be larger than N; above
    1,000 on the CPU and 1,024 on a GPU the slower plain definition runs. A score is within `score_error(D)` of the
    exact cosine.

    Raises InvalidInput with the tensor and the row for a NaN, an infinity or a row of zeros, which has no direction;
    RuntimeError with the numbers when shapes, dtypes, devices or k do not fit. While a CUDA graph is captured, and in
    what torch.compile makes, nobody looks: then such a row shows as a NaN in scores[q, 0] for every q, with the lowest
    such vector in ids[q, 0], or -1 where it is the query.
    """
    _require_tensors(queries, vectors)
    if k > _KERNEL_MOST_K.get(queries.device.type, 0) or use_plain(queries, vectors):
        return cosine_topk_plain(queries, vectors, k, mask)
    scores, ids = ops.cosine_topk(queries, vectors, k, mask)
    if not (torch.compiler.is_compiling() or (scores.is_cuda and torch.cuda.is_current_stream_capturing())):
        _refuse_reported(queries, vectors, scores, ids)
    return scores, ids


def cosine_topk_plain(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The definition of `cosine_topk`.

    One pass of float32 matrix products finds all vectors that can be among the best, by a bound on its error; these
    few are then scored row by row in float64, because the rounding of a large product depends on where in the matrix
    a row lies. Beside its inputs it holds 16 MiB of scores, a chunk of vectors, and the candidates.
    """
    _check(queries, vectors, k, mask)
    if mask is not None and mask.dtype == torch.uint8:
        mask = _unpack(mask, len(vectors))
    directions = _directions(queries)
    scores = torch.full((len(queries), k), float("-inf"), dtype=torch.float32, device=queries.device)
    ids = torch.full((len(queries), k), -1, dtype=torch.int64, device=queries.device)
    for first in range(0, len(queries), _CHUNK_QUERIES):
        some = directions[first : first + _CHUNK_QUERIES]
        candidates = _find_candidates(some.detach().float(), vectors.detach(), k, mask)
        for query, found in enumerate(candidates):
            exact = _score(directions[first + query], vectors, found)
            # Candidates come in the order of their ids, and a stable sort keeps it among equal scores.
            best, order = exact.sort(descending=True, stable=True)
            count = min(k, len(found))
            scores[first + query, :count] = best[:count]
            ids[first + query, :count] = found[order[:count]]
    return scores, ids


def score_error(dimension: int) -> float:
    """How far a score of `cosine_topk` may be from the exact cosine of what it was given.

    A float32 dot product of D terms is off by at most D * u of the product of the norms, u = 2^-24, in any order of
    summation (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1); the two norms, half as much each;
    square roots, divisions and casts, a few u. Rounded up.
    """
    return (2 * dimension + 16) * 2.0**-24


@dataclass(frozen=True)
class _Chunk:
    """Some vectors that take part: ids [C] and scores [Q, C] float32, which are -inf where float32 cannot say."""

    ids: Tensor
    scores: Tensor
    has_extremes: bool


def _find_candidates(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None) -> list[Tensor]:
    """For each query the ids, ascending, of all vectors that can be among its k best."""
    error = score_error(vectors.shape[1])
    if torch.get_float32_matmul_precision() != "highest":
        error += 2.0**-7  # both factors may be rounded to bfloat16
    step = _BLOCK_SCORES // max(len(queries), 1)
    found = [[torch.empty(0, dtype=torch.int64, device=vectors.device)] for _ in queries]
    floor = torch.full((len(queries), 1), float("-inf"), dtype=torch.float32, device=vectors.device)
    for start in range(0, len(vectors), step):
        chunks = list(_score_chunks(queries, vectors, start, min(start + step, len(vectors)), mask))
        if not chunks:
            continue
        ids = torch.cat([chunk.ids for chunk in chunks])
        scores = torch.cat([chunk.scores for chunk in chunks], dim=1)
        if len(ids) >= k:
            worst = scores.topk(k, sorted=False).values.amin(dim=1, keepdim=True)
            floor = torch.maximum(floor, worst - 2 * error)
        keep = scores >= floor
        if any(chunk.has_extremes for chunk in chunks):
            keep |= torch.cat([chunk.scores[0].isneginf() for chunk in chunks])
        for parts, kept in zip(found, keep, strict=True):
            parts.append(ids[kept])
    return [torch.cat(parts) for parts in found]


def _score_chunks(queries: Tensor, vectors: Tensor, start: int, stop: int, mask: Tensor | None) -> Iterator[_Chunk]:
    """The vectors from `start` to `stop` that take part, with their float32 cosines."""
    # Two columns, because a product with only one takes a slower path in some libraries.
    columns = (queries.repeat(2, 1) if len(queries) == 1 else queries).T
    for begin, end in _spans(start, stop, _chunk_rows(vectors, vectors.dtype != torch.float32)):
        ids = torch.arange(begin, end, device=vectors.device)
        kept = None if mask is None else mask[begin:end].nonzero()[:, 0]
        rows = vectors[begin:end]
        if kept is not None and 2 * len(kept) < len(ids):
            ids, rows, kept = ids[kept], rows[kept], None
        rows = rows.float()
        norms = torch.linalg.vector_norm(rows, dim=1)
        with without_autocast(rows.device):
            products = rows @ columns
        scores = (products[:, : len(queries)] / norms[:, None]).T
        if kept is not None and len(kept) < len(ids):
            ids, norms, scores = ids[kept], norms[kept], scores[:, kept]
        if not len(ids):
            continue
        smallest, largest = (bound.item() for bound in norms.aminmax())
        # A NaN is neither within nor without.
        has_extremes = not (smallest > _SMALLEST_NORM and largest < _LARGEST_NORM)
        if has_extremes:
            extreme = ~((norms > _SMALLEST_NORM) & (norms < _LARGEST_NORM))
            _require_directions(vectors[ids[extreme]], ids[extreme], "vectors")
            scores = scores.masked_fill(extreme, float("-inf"))
        yield _Chunk(ids, scores, has_extremes)


def _score(direction: Tensor, vectors: Tensor, ids: Tensor) -> Tensor:
    """Cosines [C] float32 of the vectors `ids` [C] with a unit vector [D] float64. Every row is summed alike."""
    pieces = ids.tensor_split(max(1, -(-len(ids) // _chunk_rows(vectors, cast=True))))
    parts = []
    for piece in pieces:
        rows = vectors[piece].double()
        parts.append((rows * direction).sum(dim=1) / rows.square().sum(dim=1).sqrt())
    return torch.cat(parts).clamp(-1, 1).float()


def _directions(queries: Tensor) -> Tensor:
    """The queries as unit vectors [Q, D] float64."""
    _require_directions(queries, torch.arange(len(queries), device=queries.device), "queries")
    rows = queries.double()
    return rows / rows.square().sum(dim=1, keepdim=True).sqrt()


def _refuse_reported(queries: Tensor, vectors: Tensor, scores: Tensor, ids: Tensor) -> None:
    """Raise for what a kernel has met: it reports a row without a direction by a NaN."""
    if math.isnan(scores.sum()):  # a few operations cost as much as a small search: this is one
        _require_directions(queries, torch.arange(len(queries), device=queries.device), "queries")
        row = ids[0, :1]
        _require_directions(vectors[row], row, "vectors")


def _unpack(bits: Tensor, count: int) -> Tensor:
    """A mask of bits [ceil(count / 8)] uint8 as [count] bool."""
    return ((bits[:, None] >> torch.arange(8, device=bits.device)) & 1).bool().flatten()[:count]


def _require_directions(rows: Tensor, ids: Tensor, name: str) -> None:
    """Refuse rows that are not finite or all zero; `ids` are their numbers in the tensor `name`."""
    finite = rows.isfinite().all(dim=1)
    if not finite.all():
        raise InvalidInput(f"cosine_topk: {name}[{int(ids[(~finite).nonzero()[0]])}] has a NaN or an infinity")
    zero = ~rows.any(dim=1)
    if zero.any():
        raise InvalidInput(f"cosine_topk: {name}[{int(ids[zero.nonzero()[0]])}] is zero: it has no direction")


def _chunk_rows(vectors: Tensor, cast: bool) -> int:
    elements = _CAST_ELEMENTS if cast else _CHUNK_ELEMENTS
    return min(max(elements // max(vectors.shape[1], 1), 2), _CHUNK_ROWS)


def _spans(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    for begin in range(start, stop, step):
        yield begin, min(begin + step, stop)


def _require_tensors(queries: object, vectors: object) -> None:
    for name, given in (("queries", queries), ("vectors", vectors)):
        if not isinstance(given, Tensor):
            _refuse(
                f"{name} must be a torch.Tensor, got {type(given).__name__}; torch.from_numpy makes one of an array"
            )


def _check(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None) -> None:
    _require_tensors(queries, vectors)
    for name, pattern, tensor in (("queries", "[Q, D]", queries), ("vectors", "[N, D]", vectors)):
        if tensor.dim() != 2:
            _refuse(f"{name} must be {pattern}, got {list(tensor.shape)}: {tensor.dim()} dimensions, expected 2")
        if tensor.dtype not in _DTYPES:
            _refuse(f"{name} must be float32, bfloat16 or float16, got {_name(tensor.dtype)}")
        if tensor.numel() and tensor.shape[1] > 1 and tensor.stride(1) != 1:
            _refuse(f"{name} must be contiguous in its last dimension, got strides {list(tensor.stride())}")
    count, width = vectors.shape
    if width != queries.shape[1]:
        _refuse(
            f"vectors must be [N, D] = [N, {queries.shape[1]}], got {list(vectors.shape)}: "
            f"dimension 1 (D) is {width}, expected {queries.shape[1]}"
        )
    if mask is not None:
        if mask.dtype not in (torch.bool, torch.uint8):
            _refuse(f"mask must be bool, got {_name(mask.dtype)}; bits are uint8")
        bits = mask.dtype == torch.uint8
        size, pattern = (-(-count // 8), "ceil(N/8)") if bits else (count, "N")
        if mask.shape != (size,):
            _refuse(f"mask must be [{pattern}] = [{size}], got {list(mask.shape)}")
    for name, other in (("vectors", vectors), ("mask", mask)):
        if other is not None and other.device != queries.device:
            _refuse(f"{name} must be on {queries.device} as queries is, got {other.device}")
    if k < 1:
        _refuse(f"k is {k}, expected at least 1")


def _refuse(reason: str) -> NoReturn:
    raise RuntimeError(f"cosine_topk: {reason}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@torch.library.register_fake("remory::cosine_topk")
def _(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    shape = (queries.shape[0], k)
    return queries.new_empty(shape, dtype=torch.float32), queries.new_empty(shape, dtype=torch.int64)

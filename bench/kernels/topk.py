"""`cosine_topk`: batches, dtypes, masks, and inputs made to be unpleasant."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from bench.kernels import vectors as data
from bench.kernels.amounts import topk_amount
from bench.kernels.ceilings import product_ceiling, read_ceiling
from bench.kernels.comparison import require_scores
from bench.kernels.vectors import K
from bench.kernels.work import Case, Context, Work
from torch import Tensor

from remory import ops

ROWS, QUICK_ROWS, DIMENSION = 1_000_000, 20_000, 384
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}
# Queries from which on arithmetic and not memory is the limit.
_PRODUCT_BATCH = 8


def cases(context: Context) -> Iterator[Case]:
    rows = QUICK_ROWS if context.quick else ROWS
    batches = (1, 32, 256, 1024) if context.is_cuda else (1, 32, 256)
    for dtype in DTYPES:
        for batch in batches[:2] if context.quick else batches:
            yield _case(rows, batch, dtype)
        if dtype == torch.float32:
            yield _case(rows, 1, dtype, mask="half, bytes")
            yield _case(rows, 1, dtype, mask="1 in 100, bits")
            yield _case(rows, 1, dtype, kind="equal")
            yield _case(rows, 1, dtype, kind="ascending")
            yield _case(rows, 1, dtype, k=1000)


def _case(rows: int, batch: int, dtype: torch.dtype, kind: str = "random", mask: str = "", k: int = K) -> Case:
    def prepare(context: Context) -> Work:
        vectors = data.unit_vectors(kind, rows, DIMENSION, dtype, context.device)
        queries = data.queries(kind, batch, vectors)
        kept = _mask(mask, rows, context.device)
        given = _pack(kept) if kept is not None and mask.endswith("bits") else kept

        # On a GPU the kernel alone, as a captured graph would hold it: the function then waits to look at the result.
        search = torch.ops.remory.cosine_topk if context.is_cuda else ops.cosine_topk

        def op() -> tuple[Tensor, Tensor]:
            return search(queries, vectors, k, given)

        def check() -> None:
            scores, ids = op()
            require_scores(scores, _definition(queries, vectors, k, kept), _TOLERANCE[torch.float32])
            if kind == "equal":
                assert torch.equal(ids[0].cpu(), torch.arange(k)), "equal scores do not go to the lower ids"

        others, absent = data.torch_ways(queries, vectors, k, kept), {}
        if not context.is_cuda:
            libraries, absent = data.library_ways(queries, vectors, k, context, kept)
            others += libraries
        taking_part = rows if kept is None else int(kept.sum())
        mask_bytes = 0 if given is None else given.nbytes
        ceiling = product_ceiling(dtype, context) if batch >= _PRODUCT_BATCH else read_ceiling(vectors)
        amount = topk_amount(batch, taking_part, DIMENSION, dtype.itemsize, k, mask_bytes)
        return Work(op, amount, ceiling, others, absent, check)

    words = f"{rows:,} x {DIMENSION}, batch {batch}"
    words += "".join(f", {word}" for word in (kind if kind != "random" else "", f"mask {mask}" if mask else "") if word)
    words += f", k {k}" if k != K else ""
    parameters = {"rows": rows, "batch": batch, "kind": kind, "mask": mask, "k": k}
    return Case("cosine_topk", words, dtype, prepare, parameters)


def _mask(mask: str, rows: int, device: str) -> Tensor | None:
    if not mask:
        return None
    share = 0.5 if mask.startswith("half") else 0.01
    return torch.rand(rows, generator=torch.Generator(device).manual_seed(2), device=device) < share


def _pack(mask: Tensor) -> Tensor:
    """[ceil(N / 8)] uint8, the lowest bit first."""
    padded = torch.nn.functional.pad(mask, (0, -len(mask) % 8)).view(-1, 8)
    weights = torch.tensor([1 << bit for bit in range(8)], device=mask.device)
    return (padded * weights).sum(dim=1).to(torch.uint8)


def _definition(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None) -> Tensor:
    """Scores [Q, k] float64 of the best k, by float64 over pieces."""
    best = torch.full((len(queries), k), -torch.inf, dtype=torch.float64, device=queries.device)
    directions = torch.nn.functional.normalize(queries.double())
    for first in range(0, len(vectors), 1 << 16):
        rows = torch.nn.functional.normalize(vectors[first : first + (1 << 16)].double())
        scores = directions @ rows.T
        if mask is not None:
            scores = scores.masked_fill(~mask[first : first + len(rows)], -torch.inf)
        best = torch.cat([best, scores], dim=1).topk(k).values
    return best

"""Whether the ops are right on a device: against float64, in a captured graph, under opcheck, and when they refuse.

    python -m pytest bench/gpu/checks.py -o addopts= --device cuda

The gates and the small networks are those of the tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.ops.comparison import assert_close, inside_wider
from tests.ops.conftest import Network
from torch import Tensor

from remory import ops
from remory.errors import InvalidInput

DTYPES = (torch.float32, torch.bfloat16)
SEARCHED = (*DTYPES, torch.float16)
KERNELS = torch.ops.remory
NETWORKS: list[dict[str, Any]] = [
    {},
    {"summary_conditioned": False},
    {"tail": True, "pointer_heads": 3, "pointer_head_dim": 10},
    {"salient": True, "window": 100, "pointer_heads": 3, "pointer_head_dim": 10},
    {"window": 1},
]


def randn(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def moved(given: Any, device: str, dtype: torch.dtype | None = None) -> Any:
    """Tensors among arguments on the device, floating-point ones in the dtype; a slice stays one."""
    if isinstance(given, dict):
        return {name: moved(value, device, dtype) for name, value in given.items()}
    if isinstance(given, list | tuple):
        return type(given)(moved(value, device, dtype) for value in given)
    if not isinstance(given, Tensor):
        return given
    return given.to(device, dtype if dtype is not None and given.is_floating_point() else given.dtype)


def wider(tensor: Tensor, device: str) -> Tensor:
    """A slice out of a wider tensor on the device, whose surroundings are NaN."""
    wide = inside_wider(tensor)
    assert wide._base is not None
    return wide._base.to(device)[tuple(slice(1, 1 + size) for size in tensor.shape)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize(
    ("tokens", "width", "count"), [(1, 1, 1), (129, 151, 70), (300, 576, 300), (70_000, 16, 69_999)]
)
@pytest.mark.parametrize("sliced", [False, True])
def test_capture(
    device: str, dtype: torch.dtype, out_dtype: torch.dtype, tokens: int, width: int, count: int, sliced: bool
) -> None:
    hidden, residual = (randn(tokens, width, dtype=dtype, seed=seed) for seed in (1, 2))
    rows = torch.randint(tokens, (count,), generator=torch.Generator().manual_seed(3))
    out = torch.zeros(count, 3 * width, dtype=out_dtype)
    place = wider if sliced else Tensor.to
    given = place(hidden, device), place(residual, device), rows.to(device), place(out, device)
    ops.capture(*given, 1)
    result = given[3].cpu()
    assert_close(result[:, width : 2 * width], hidden[rows].double() + residual[rows].double())
    assert not result[:, :width].any() and not result[:, 2 * width :].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("tokens", "width", "count"), [(1, 1, 1), (129, 151, 70), (8192, 576, 4096), (70_000, 16, 69_999)]
)
@pytest.mark.parametrize("sliced", [False, True])
def test_inject(device: str, dtype: torch.dtype, tokens: int, width: int, count: int, sliced: bool) -> None:
    embeddings, rows = randn(tokens, width, dtype=dtype), randn(count, width, dtype=torch.bfloat16)
    positions = torch.randperm(tokens, generator=torch.Generator().manual_seed(4))[:count]
    positions[count // 2] = -1 if count > 1 else positions[0]
    place = wider if sliced else Tensor.to
    given = place(embeddings, device), place(rows, device), positions.to(device)
    ops.inject(*given)
    kept = positions >= 0
    expected = embeddings.clone()
    expected[positions[kept]] = rows[kept].to(dtype)
    assert torch.equal(given[0].cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("lengths", "tokens", "block", "ratio", "window", "heads", "kv_heads", "head_dim"),
    [
        ([1], 1, 1, 1, 1, 1, 1, 1),
        ([129, 1, 64], 129, 129, 16, 258, 4, 2, 16),
        ([151, 0], 151, 151, 8, 33, 9, 3, 64),
        ([50, 17], 50, 50, 7, 20, 6, 1, 20),
        ([1024, 700, 3], 1024, 1024, 16, 256, 9, 3, 64),
        ([1024, 1024], 1024, 1024, 16, 2048, 32, 8, 128),
    ],
)
def test_slot_attention(
    device: str,
    dtype: torch.dtype,
    lengths: list[int],
    tokens: int,
    block: int,
    ratio: int,
    window: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
) -> None:
    slots = -(-block // ratio)
    q = randn(len(lengths), slots, heads, head_dim, dtype=dtype)
    k, v = (randn(len(lengths), tokens + slots, kv_heads, head_dim, dtype=dtype, seed=seed) for seed in (1, 2))
    for number, length in enumerate(lengths):
        k[number, length:tokens] = v[number, length:tokens] = float("nan")
    numbers = torch.tensor(lengths)
    actual = ops.slot_attention(*moved([q, k, v, numbers], device), block, ratio, window)
    expected = ops.slot_attention_plain(q.double(), k.double(), v.double(), numbers, block, ratio, window)
    assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("overrides", NETWORKS)
def test_encode(device: str, dtype: torch.dtype, overrides: dict[str, Any]) -> None:
    network = Network()
    network = Network(geometry={**network.geometry, **overrides})
    given = network.make_inputs([50, 17, 1], 50, dtype)
    actual = ops.encode(**moved(given, device)).cpu()
    if given["salient"] and dtype == torch.bfloat16:
        # Where scores are nearly equal other tokens may be kept; the tests of the CPU take that apart.
        assert actual.isfinite().all()
        return
    assert_close(actual, ops.encode_plain(**moved(given, "cpu", torch.float64)))


def test_the_projection_of_many_rows(device: str) -> None:
    """Enough rows for the kernel of sm_90a, which small networks never reach, with a tail in every dimension and an odd
    number of tiles of rows."""
    blocks, tokens = 32, 1027
    network = Network(width=264, captured=3)
    network = replace(network, geometry={**network.geometry, "block": tokens, "ratio": 64, "window": 200})
    given = moved(network.make_inputs([tokens] * (blocks - 1) + [700], tokens, torch.bfloat16), device)
    assert_close(ops.encode(**given).cpu(), ops.encode_plain(**moved(given, device, torch.float64)).cpu())
    if device.startswith("cuda"):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            ops.encode(**given)
            torch.cuda.synchronize()
        if not any("scale_rows_kernel" in event.key for event in profile.key_averages()):
            pytest.skip("torch multiplied: no sm_90 here, or built without CUTLASS")


def exact(queries: Tensor, vectors: Tensor, k: int, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores and ids by float64, ties to the lower id."""
    directions = torch.nn.functional.normalize(vectors.double())
    scores = (torch.nn.functional.normalize(queries.double()) @ directions.T).clamp(-1, 1).float()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    scores, ids = scores.sort(dim=1, descending=True, stable=True)
    scores = torch.nn.functional.pad(scores, (0, max(k - len(vectors), 0)), value=float("-inf"))[:, :k]
    ids = torch.nn.functional.pad(ids, (0, max(k - len(vectors), 0)), value=-1)[:, :k]
    return scores, ids.masked_fill(scores.isneginf(), -1)


@pytest.mark.parametrize("dtype", SEARCHED)
@pytest.mark.parametrize(
    ("batch", "rows", "dimension", "k"),
    [
        (1, 1, 1, 1),
        (1, 0, 8, 3),
        (3, 129, 151, 10),
        (32, 5_000, 384, 10),
        (1, 70_000, 64, 1000),
        (129, 3_000, 48, 1024),
    ],
)
@pytest.mark.parametrize("masked", ["", "bytes", "bits", "none"])
def test_cosine_topk(
    device: str, dtype: torch.dtype, batch: int, rows: int, dimension: int, k: int, masked: str
) -> None:
    queries, vectors = randn(batch, dimension, dtype=dtype), randn(rows, dimension, dtype=dtype, seed=1)
    vectors[rows // 2 :] = vectors[: rows - rows // 2].clone()  # every score occurs twice
    mask = None
    if masked:
        mask = torch.rand(rows, generator=torch.Generator().manual_seed(5)) < (0.5 if masked != "none" else 0)
    given = mask if masked != "bits" or mask is None else pack(mask)
    scores, ids = (x.cpu() for x in ops.cosine_topk(*moved([queries, vectors], device), k, moved(given, device)))
    expected, _ = exact(queries, vectors, k, mask)
    assert torch.equal(scores.isneginf(), expected.isneginf())
    assert torch.equal(ids < 0, expected.isneginf())
    found = ids >= 0
    assert (scores - expected)[found].abs().max().item() <= 1e-6 if found.any() else True
    require_order(scores, ids)
    for query in range(0, batch, 7):
        chosen = ids[query][found[query]]
        assert mask is None or bool(mask[chosen].all())
        own = torch.cosine_similarity(queries[query].double()[None], vectors[chosen].double())
        assert (own - scores[query][found[query]]).abs().max().item() <= 1e-6 if len(chosen) else True


def require_order(scores: Tensor, ids: Tensor) -> None:
    """Best first; among equal scores the lower id, and no id twice."""
    for row_scores, row_ids in zip(scores, ids, strict=True):
        pairs = [(-score, id) for score, id in zip(row_scores.tolist(), row_ids.tolist(), strict=True) if id >= 0]
        assert pairs == sorted(set(pairs))


def pack(mask: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(mask, (0, -len(mask) % 8)).view(-1, 8)
    return (padded * (1 << torch.arange(8))).sum(dim=1).to(torch.uint8)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_rows_without_direction_are_reported_in_band(device: str, value: float) -> None:
    queries, vectors = randn(3, 40, dtype=torch.float32), randn(1000, 40, dtype=torch.float32, seed=1)
    vectors[[901, 407]] = value
    scores, ids = KERNELS.cosine_topk(queries.to(device), vectors.to(device), 5, None)
    assert scores[:, 0].isnan().all() and ids[:, 0].tolist() == [407] * 3
    with pytest.raises(InvalidInput, match=r"vectors\[407\]"):
        ops.cosine_topk(queries.to(device), vectors.to(device), 5)
    allowed = torch.ones(1000, dtype=torch.bool)
    allowed[[407, 901]] = False
    assert ops.cosine_topk(queries.to(device), vectors.to(device), 5, allowed.to(device))[0].isfinite().all()
    queries[1] = value
    scores, ids = KERNELS.cosine_topk(queries.to(device), vectors.to(device), 5, allowed.to(device))
    assert scores[1, 0].isnan() and ids[1, 0] == -1
    with pytest.raises(InvalidInput, match=r"queries\[1\]"):
        ops.cosine_topk(queries.to(device), vectors.to(device), 5, allowed.to(device))


@pytest.mark.parametrize(
    "call",
    [
        "ops.capture(torch.ones(4, 8, device=d), None, torch.tensor([4], device=d), torch.ones(1, 8, device=d), 0)",
        "ops.inject(torch.ones(4, 8, device=d), torch.ones(1, 8, device=d), torch.tensor([4], device=d))",
        "ops.slot_attention(torch.ones(1, 1, 1, 2, device=d), *[torch.ones(1, 5, 1, 2, device=d)] * 2, "
        "torch.tensor([5], device=d), 4, 4, 8)",
    ],
)
def test_a_number_out_of_range_ends_in_an_error(device: str, call: str) -> None:
    """In a process of its own: a kernel that has trapped takes its context with it."""
    program = f"import torch\nfrom remory import ops\nd = {device!r}\n{call}\n"
    program += "torch.cuda.synchronize()\n" if device.startswith("cuda") else ""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "Error" in done.stderr, done.stderr


def calls(device: str) -> dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """A small call of each op."""
    network = moved(Network().make_inputs([50, 17], 50, torch.float32), device)
    hidden, out = randn(9, 8, dtype=torch.float32).to(device), torch.zeros(5, 16, device=device)
    rows = torch.tensor([0, 8, 3, 3, 1], device=device)
    q, k, v = (randn(2, n, heads, 8, dtype=torch.float32).to(device) for n, heads in ((3, 4), (14, 2), (14, 2)))
    lengths = torch.tensor([11, 4], device=device)
    queries, vectors = randn(2, 8, dtype=torch.float32).to(device), randn(50, 8, dtype=torch.float32).to(device)
    embeddings = torch.zeros(9, 8, device=device)
    return {
        "capture": (KERNELS.capture, (hidden, hidden, rows, out, 1), {}),
        "inject": (KERNELS.inject, (embeddings, hidden[:3].clone(), torch.tensor([7, -1, 0], device=device)), {}),
        "slot_attention": (KERNELS.slot_attention, (q, k, v, lengths, 11, 4, 8), {}),
        "encode": (KERNELS.encode, (), network),
        "cosine_topk": (KERNELS.cosine_topk, (queries, vectors, 4, None), {}),
    }


OPS = ("capture", "inject", "slot_attention", "encode", "cosine_topk")


@pytest.mark.parametrize("op", OPS)
def test_opcheck(device: str, op: str) -> None:
    function, arguments, named = calls(device)[op]
    torch.library.opcheck(function.default, arguments, named)


@pytest.mark.parametrize("op", OPS)
def test_a_captured_graph_replays(device: str, op: str) -> None:
    """New values in the same memory, and the replayed graph gives what a call would."""
    if not device.startswith("cuda"):
        pytest.skip("graphs are CUDA's")
    function, arguments, named = calls(device)[op]
    run: Callable[[], Any] = lambda: function(*arguments, **named)  # noqa: E731 - called three times alike
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        run()
    torch.cuda.current_stream().wait_stream(warm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = run()
    changed = next(value for value in (*arguments, *named.values()) if isinstance(value, Tensor))
    if op == "inject":
        changed = arguments[1]
    changed.mul_(0.5).add_(0.25)
    graph.replay()
    torch.cuda.synchronize()
    replayed = [x.clone() for x in tensors_of(held, arguments, op)]
    again = tensors_of(run(), arguments, op)
    for one, other in zip(replayed, again, strict=True):
        assert torch.equal(one.isnan(), other.isnan()) and torch.allclose(one.nan_to_num(), other.nan_to_num())


def tensors_of(result: Any, arguments: tuple[Any, ...], op: str) -> list[Tensor]:
    """What an op gives: its result, or the tensor it writes into."""
    if op in ("capture", "inject"):
        return [arguments[3] if op == "capture" else arguments[0]]
    return list(result) if isinstance(result, tuple) else [result]

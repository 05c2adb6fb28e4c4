"""Each op beside the same work in plain torch, on the CPU: one line a case, the geometric mean of the speed-ups last.

Both sides run by turns, each from a cold cache; times are medians. GB/s and GFLOP/s count what the op has to move and
compute, whichever side does it; the last column is the op's share of what torch was measured to reach here: copying or
adding long vectors for the movers, a large matrix product of the same dtype for the rest.

A second list: blocks that have summaries of their own in one call of `encode`, beside a call for each.

    python bench/ops.py [--rounds 15] [--threads N]
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from remory import ops
from remory.network import Geometry, MemoryNetwork, embedded_checkpoint, load_checkpoint

DTYPES = (torch.float32, torch.bfloat16)
CACHE_BYTES = 128 << 20


@dataclass(frozen=True)
class Case:
    """Two ways to do the same work; `gigabytes` are moved or `gigaflops` computed by either."""

    op: str
    shape: str
    dtype: torch.dtype
    run: Callable[[], object]
    other: Callable[[], object]
    gigabytes: float = 0.0
    gigaflops: float = 0.0


@dataclass(frozen=True)
class Ceiling:
    """What the machine reaches: streams through memory in GB/s, matrix products in GFLOP/s by dtype."""

    stream: float
    product: dict[torch.dtype, float]

    def share(self, case: Case, seconds: float) -> float:
        if case.gigabytes:
            return case.gigabytes / seconds / self.stream
        return case.gigaflops / seconds / self.product[case.dtype]


def seconds_of(run: Callable[[], object], cache: Tensor) -> float:
    cache.add_(1)  # as large as any cache: what the last run left there is gone
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(runs: list[Callable[[], object]], rounds: int, cache: Tensor) -> list[float]:
    """Median seconds of each, run by turns after one round to warm up."""
    times = [[seconds_of(run, cache) for run in runs] for _ in range(rounds + 1)][1:]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def measure_ceiling(rounds: int, cache: Tensor) -> Ceiling:
    left, right, out = torch.ones(32 << 20), torch.ones(32 << 20), torch.empty(32 << 20)
    copy, add = measure([lambda: out.copy_(left), lambda: torch.add(left, right, out=out)], rounds, cache)
    stream = max(2 * out.nbytes / copy, 3 * out.nbytes / add) / 1e9
    product = {}
    for dtype in DTYPES:
        rows, weight = torch.ones(4096, 2048, dtype=dtype), torch.ones(2048, 2048, dtype=dtype)
        (seconds,) = measure([partial(torch.matmul, rows, weight.T)], rounds, cache)
        product[dtype] = 2 * 4096 * 2048 * 2048 / seconds / 1e9
    return Ceiling(stream, product)


def capture_case(tokens: int, width: int, dtype: torch.dtype) -> Case:
    """One layer of three; every other token is source."""
    hidden, residual = torch.randn(tokens, width).to(dtype), torch.randn(tokens, width).to(dtype)
    rows = torch.arange(0, tokens, 2)
    out = torch.zeros(len(rows), 3 * width, dtype=dtype)
    return Case(
        "capture",
        f"{tokens} tokens of {width}, {len(rows)} rows",
        dtype,
        lambda: ops.capture(hidden, residual, rows, out, 1),
        lambda: ops.capture_plain(hidden, residual, rows, out, 1),
        gigabytes=3 * len(rows) * width * dtype.itemsize / 1e9,
    )


def inject_case(tokens: int, width: int, count: int, dtype: torch.dtype) -> Case:
    """Stored bfloat16 rows into a chunk of embeddings."""
    embeddings = torch.randn(tokens, width).to(dtype)
    rows, positions = torch.randn(count, width).bfloat16(), torch.randperm(tokens)[:count]
    return Case(
        "inject",
        f"{count} rows of {width} into {tokens}",
        dtype,
        lambda: ops.inject(embeddings, rows, positions),
        lambda: ops.inject_plain(embeddings, rows, positions),
        gigabytes=count * width * (2 + dtype.itemsize) / 1e9,
    )


def attention_case(blocks: int, block: int, ratio: int, window: int, dtype: torch.dtype) -> Case:
    heads, kv_heads, head_dim = 9, 3, 64
    slots = -(-block // ratio)
    q = torch.randn(blocks, slots, heads, head_dim).to(dtype)
    k, v = (torch.randn(blocks, block + slots, kv_heads, head_dim).to(dtype) for _ in range(2))
    lengths = torch.full((blocks,), block)
    seen = sum(
        max(0, min(block, anchor + window // 2) - max(0, anchor - window // 2))
        for anchor in range(ratio // 2, block, ratio)
    )
    return Case(
        "slot_attention",
        f"{blocks} x {block}, window {window}",
        dtype,
        lambda: ops.slot_attention(q, k, v, lengths, block, ratio, window),
        lambda: ops.slot_attention_plain(q, k, v, lengths, block, ratio, window),
        gigaflops=4 * blocks * heads * head_dim * seen / 1e9,
    )


def product_gigaflops(blocks: int, source: int, geometry: Geometry) -> float:
    """The matrix products of `encode`; attention itself, a few per cent, is left out."""
    g, matrices = geometry, geometry.tensor_shapes()
    slots = blocks * g.slots
    flops = 0
    for name, shape in matrices.items():
        if len(shape) != 2 or name == "depth_embedding.weight":
            continue
        reads_source = name == "fc.weight" or name.endswith(("self_attn.k_proj.weight", "self_attn.v_proj.weight"))
        if name.startswith(f"layers.{g.num_hidden_layers - 1}."):
            reads_source = False
        rows = (source if reads_source else 0) + (0 if name == "fc.weight" else slots)
        flops += 2 * rows * math.prod(shape)
    return flops / 1e9


def encode_arguments(blocks: int, tokens: int, geometry: Geometry, dtype: torch.dtype) -> dict[str, Any]:
    g = geometry
    state = MemoryNetwork(geometry, output_embedding_rms=0.1, summary_gate_init=0.5, seed=1).to(dtype).state_dict()
    return {
        "features": torch.randn(blocks, tokens, g.feature_size).to(dtype),
        "lengths": torch.full((blocks,), tokens),
        "summary": torch.randn(200, g.hidden_size).to(dtype) if g.summary_conditioned else None,
        "weights": [state[tensor] for tensor in g.tensor_shapes()],
        "input_depths": torch.zeros(blocks, dtype=torch.int64),
        "heads": g.num_attention_heads,
        "kv_heads": g.num_key_value_heads,
        "head_dim": g.head_dim,
        "layers": g.num_hidden_layers,
        "block": g.block_tokens,
        "ratio": g.compression_ratio,
        "window": g.local_window,
        "eps": g.rms_norm_eps,
        "theta": g.rope_theta,
        "summary_conditioned": g.summary_conditioned,
        "tail": g.base == "tail",
        "salient": g.base == "salient",
        "pointer_heads": g.pointer_heads,
        "pointer_head_dim": g.pointer_head_dim,
        "embeddings": torch.randn(blocks, tokens, g.hidden_size).to(dtype) if g.reads_embeddings else None,
        "idf": torch.rand(blocks, tokens) if g.pointer_heads else None,
    }


def encode_case(name: str, blocks: int, geometry: Geometry, dtype: torch.dtype) -> Case:
    tokens = geometry.block_tokens
    arguments = encode_arguments(blocks, tokens, geometry, dtype)
    return Case(
        "encode",
        f"{blocks} x {tokens}, {name}",
        dtype,
        lambda: ops.encode(**arguments),
        lambda: ops.encode_plain(**arguments),
        gigaflops=product_gigaflops(blocks, blocks * tokens, geometry),
    )


def batch_case(blocks: int, tokens: int, geometry: Geometry, dtype: torch.dtype) -> Case:
    """Summaries of 20 to 160 rows, one to a block."""
    together = encode_arguments(blocks, tokens, geometry, dtype)
    together["summary"] = torch.randn(blocks, 160, geometry.hidden_size).to(dtype)
    together["summary_lengths"] = torch.linspace(20, 160, blocks).long()
    by_block = ("features", "lengths", "input_depths", "embeddings", "idf")
    alone = []
    for b, rows in enumerate(together["summary_lengths"].tolist()):
        one = {name: together[name][b : b + 1] for name in by_block}
        alone.append({**together, **one, "summary": together["summary"][b, :rows], "summary_lengths": None})
    return Case(
        "encode",
        f"{blocks} x {tokens}, own summaries",
        dtype,
        lambda: ops.encode(**together),
        lambda: [ops.encode(**arguments) for arguments in alone],
        gigaflops=product_gigaflops(blocks, blocks * tokens, geometry),
    )


def small_network(**overrides: object) -> Geometry:
    """The size that fits a 135M actor: width 576, three layers captured, windows of 256 in blocks of 1024."""
    fields = {
        "hidden_size": 576,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "intermediate_size": 1536,
        "num_hidden_layers": 2,
        "layers_captured": 3,
        "block_tokens": 1024,
        "compression_ratio": 16,
        "local_window": 256,
        "max_depth": 8,
        "summary_conditioned": False,
    }
    return Geometry.from_mapping({**fields, **overrides})


def cases() -> Iterator[Case]:
    for dtype in DTYPES:
        yield capture_case(1024, 576, dtype)
        yield capture_case(16384, 576, dtype)
        yield capture_case(4096, 5120, dtype)
    for dtype in DTYPES:
        yield inject_case(8192, 576, 4096, dtype)
        yield inject_case(8192, 5120, 4096, dtype)
    for dtype in DTYPES:
        yield attention_case(1, 1024, 16, 256, dtype)
        yield attention_case(16, 1024, 16, 256, dtype)
        yield attention_case(16, 1024, 16, 2048, dtype)
    for dtype in DTYPES:
        yield encode_case("2 layers", 1, small_network(), dtype)
        yield encode_case("2 layers", 16, small_network(), dtype)
        conditioned = small_network(num_hidden_layers=4, summary_conditioned=True, local_window=2048)
        yield encode_case("4 layers, summary, wide window", 4, conditioned, dtype)
        pointing = small_network(base="tail", pointer_heads=3, pointer_head_dim=64, vocabulary=100)
        yield encode_case("2 layers, tail and pointer", 4, pointing, dtype)
        choosing = small_network(
            base="salient",
            local_window=2048,
            salience_channels=256,
            salience_reach=12,
            pointer_heads=3,
            pointer_head_dim=64,
            vocabulary=100,
        )
        yield encode_case("2 layers, salient and pointer", 4, choosing, dtype)


def batch_cases() -> Iterator[Case]:
    geometry = load_checkpoint(embedded_checkpoint()).geometry
    for dtype in DTYPES:
        for blocks in (2, 8):
            yield batch_case(blocks, 1024, geometry, dtype)
            yield batch_case(blocks, 128, geometry, dtype)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def compare(cases: Iterator[Case], other: str, rounds: int, ceiling: Ceiling, cache: Tensor) -> list[float]:
    """Print a line a case under a heading that calls the other side `other`; how much faster the op is in each."""
    print(f"{'op':14} {'case':41} {'dtype':8} {other:>9} {'op ms':>9} {'gain':>8} {'reached':>16} {'ceiling':>8}")
    gains = []
    for case in cases:
        beside, seconds = measure([case.other, case.run], rounds, cache)
        amount, unit = (case.gigabytes, "GB/s") if case.gigabytes else (case.gigaflops, "GFLOP/s")
        gains.append(beside / seconds)
        print(
            f"{case.op:14} {case.shape:41} {name_of(case.dtype):8} {beside * 1e3:9.3f} {seconds * 1e3:9.3f} "
            f"{gains[-1]:7.2f}x {amount / seconds:8.1f} {unit:7} {ceiling.share(case, seconds):7.0%}",
            flush=True,
        )
    return gains


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed runs a side")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    cache = torch.zeros(CACHE_BYTES // 4)

    with torch.no_grad():
        ceiling = measure_ceiling(options.rounds, cache)
        products = ", ".join(f"{gigaflops:.0f} GFLOP/s in {name_of(t)}" for t, gigaflops in ceiling.product.items())
        print(f"torch {torch.__version__}, {options.threads} threads; ceiling: {ceiling.stream:.1f} GB/s, {products}\n")
        gains = compare(cases(), "plain ms", options.rounds, ceiling, cache)
        print(f"\ngeometric mean of {len(gains)} speed-ups: {statistics.geometric_mean(gains):.2f}x\n")
        gains = compare(batch_cases(), "each ms", options.rounds, ceiling, cache)
        print(f"\ngeometric mean of {len(gains)} gains from one call: {statistics.geometric_mean(gains):.2f}x")


if __name__ == "__main__":
    main()

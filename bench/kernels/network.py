"""`encode` at the geometry of the embedded checkpoint beside its definition, eager and compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from bench.kernels.amounts import encode_amount
from bench.kernels.ceilings import product_ceiling
from bench.kernels.comparison import require_close
from bench.kernels.work import Case, Context, Way, Work
from torch import Tensor

from remory import ops

# Imported where it is used: it needs packages that a machine with a GPU may lack, and without them only the cases of
# `encode` fail.
if TYPE_CHECKING:
    from remory.network import Geometry

DTYPES = (torch.float32, torch.bfloat16)
WINDOW = 256
SUMMARY_ROWS = 150
# As many blocks as a compaction encodes at once.
PRODUCT_BLOCKS = 4
EAGER, COMPILED = "torch eager", "torch.compile"


def full_geometry() -> Geometry:
    """The embedded checkpoint's: every slot sees the whole block, rows start from the tokens it chooses."""
    from remory.network import embedded_checkpoint, load_checkpoint

    return load_checkpoint(embedded_checkpoint()).geometry


def near_geometry() -> Geometry:
    """The same sizes with a window. A base that chooses its tokens has none, so rows start from the last ones."""
    from remory.network.geometry import SALIENT, TAIL

    geometry = full_geometry()
    if geometry.base == SALIENT:
        geometry = replace(geometry, base=TAIL, salience_channels=0, salience_reach=0)
    return replace(geometry, local_window=WINDOW)


def arguments(
    geometry: Geometry,
    blocks: int,
    tokens: int,
    dtype: torch.dtype,
    device: str = "cpu",
) -> dict[str, Any]:
    """Keyword arguments of `encode` for full blocks with one summary for all."""
    from remory.network import MemoryNetwork
    from remory.network.geometry import SALIENT, TAIL

    g = geometry
    network = MemoryNetwork(g, output_embedding_rms=0.1, summary_gate_init=0.5, seed=1).to(device, dtype)
    state = network.state_dict()

    def make(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).to(dtype)

    return {
        "features": make(blocks, tokens, g.feature_size),
        "lengths": torch.full((blocks,), tokens, device=device),
        "summary": make(SUMMARY_ROWS, g.hidden_size) if g.summary_conditioned else None,
        "weights": [state[tensor] for tensor in g.tensor_shapes()],
        "input_depths": torch.zeros(blocks, dtype=torch.int64, device=device),
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
        "tail": g.base == TAIL,
        "salient": g.base == SALIENT,
        "pointer_heads": g.pointer_heads,
        "pointer_head_dim": g.pointer_head_dim,
        "embeddings": make(blocks, tokens, g.hidden_size) if g.reads_embeddings else None,
        "idf": torch.rand(blocks, tokens, device=device) if g.pointer_heads else None,
    }


def cases(context: Context) -> Iterator[Case]:
    shapes = [(1, "near"), (16, "near"), (16, "full")]
    if context.quick:
        shapes = [(1, "near"), (1, "full")]
    if context.is_cuda:
        shapes += [(64, "near"), (64, "full")]
    for dtype in DTYPES:
        for blocks, window in shapes:
            yield _case(blocks, window, dtype)
    for dtype in DTYPES:
        for tokens in (128,) if context.quick else (128, 1024):
            yield _own_summaries_case(8, tokens, dtype)


def _case(blocks: int, window: str, dtype: torch.dtype) -> Case:
    def prepare(context: Context) -> Work:
        geometry = near_geometry() if window == "near" else full_geometry()
        given = arguments(geometry, blocks, geometry.block_tokens, dtype, context.device)

        def check() -> None:
            # In bfloat16 the two may choose other tokens where scores are nearly equal; the tests look at that.
            if not given["salient"] or dtype == torch.float32:
                require_close(ops.encode(**given), ops.encode_plain(**given), dtype)

        torch.compiler.reset()
        compiled = torch.compile(ops.encode_plain, dynamic=False)
        return Work(
            lambda: ops.encode(**given),
            encode_amount(geometry, blocks, geometry.block_tokens, SUMMARY_ROWS, dtype.itemsize),
            product_ceiling(dtype, context),
            [
                Way(EAGER, lambda: ops.encode_plain(**given)),
                Way(COMPILED, lambda: compiled(**given), compiled=True),
            ],
            check=check,
        )

    words = f"{blocks} x 1024, {'window ' + str(WINDOW) if window == 'near' else 'full window'}"
    memory = ("op", EAGER, COMPILED) if blocks == 16 else ()
    return Case("encode", words, dtype, prepare, {"blocks": blocks, "window": window}, peak_memory=memory)


def _own_summaries_case(blocks: int, tokens: int, dtype: torch.dtype) -> Case:
    """Blocks with summaries of 20 to 160 rows, one to a block, in one call; beside it a call a block."""

    def prepare(context: Context) -> Work:
        geometry = full_geometry()
        together = arguments(geometry, blocks, tokens, dtype, context.device)
        lengths = torch.linspace(20, 160, blocks).long()
        together["summary"] = torch.randn(blocks, 160, geometry.hidden_size, device=context.device).to(dtype)
        together["summary_lengths"] = lengths.to(context.device)
        alone = [_of_block(together, block, rows) for block, rows in enumerate(lengths.tolist())]
        return Work(
            lambda: ops.encode(**together),
            encode_amount(geometry, blocks, tokens, int(lengths.sum()), dtype.itemsize, own_summaries=True),
            product_ceiling(dtype, context),
            [
                Way("a call a block", lambda: [ops.encode(**one) for one in alone]),
                Way(EAGER, lambda: ops.encode_plain(**together)),
            ],
        )

    words = f"{blocks} x {tokens}, own summaries"
    return Case("encode", words, dtype, prepare, {"blocks": blocks, "tokens": tokens, "own_summaries": True})


def _of_block(together: dict[str, Any], block: int, summary_rows: int) -> dict[str, Any]:
    by_block = ("features", "lengths", "input_depths", "embeddings", "idf")
    one = {name: together[name][block : block + 1] for name in by_block if together[name] is not None}
    return {**together, **one, "summary": together["summary"][block, :summary_rows], "summary_lengths": None}

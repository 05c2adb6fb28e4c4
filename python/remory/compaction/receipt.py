"""What a compaction says about itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from remory.compaction.memory import Memory, pack_ids
from remory.compaction.pyramid import Node

SCHEMA = "remory.receipt.v1"


def write_receipt(
    *,
    memory_rows: Tensor,
    rows_sha256: str,
    frontier: Sequence[Node],
    source_tokens: int,
    kept_tokens: int,
    prefix_ids: Tensor,
    history_ids: Tensor,
    summary_ids: Tensor,
    previous: Memory | None,
    branches: Sequence[Memory],
    strategy: str,
    expanded: bool,
    features: Mapping[str, int],
    timings_ms: Mapping[str, float],
) -> dict[str, Any]:
    """The receipt of one compaction, JSON-ready.

    `source_tokens` counts what was encoded (history, and with `reencode` the older summaries and rows), `kept_tokens`
    the raw tokens behind rows that were there before and were not read as source; `compression_ratio` is both by the
    rows. Hashes are SHA-256 of little-endian int32 ids and of the rows' bfloat16 bytes; `depths` counts rows by depth;
    spans in `frontier` count raw tokens of the whole lineage. `features` counts source tokens by where their features
    came from: "prefill" (read for this compaction) or "live" (kept when the session ran); empty without source.
    `expanded` appears only when the memory is no smaller than what it replaces.
    """
    rows_per_node = memory_rows.shape[0] // len(frontier)
    depths: dict[str, int] = {}
    for node in frontier:
        depths[str(node.depth)] = depths.get(str(node.depth), 0) + rows_per_node
    receipt = {
        "schema": SCHEMA,
        "strategy": strategy,
        "source_tokens": source_tokens,
        "history_tokens": history_ids.numel(),
        "summary_tokens": summary_ids.numel(),
        "soft_tokens": memory_rows.shape[0],
        "compression_ratio": round((source_tokens + kept_tokens) / memory_rows.shape[0], 3),
        "memory_bytes": memory_rows.nbytes,
        "prefix_sha256": _digest(prefix_ids),
        "history_sha256": _digest(history_ids),
        "summary_sha256": _digest(summary_ids),
        "rows_sha256": rows_sha256,
        "previous": previous.handle if previous else None,
        "branches": [branch.handle for branch in branches],
        "depths": depths,
        "frontier": [{"start": node.start, "stop": node.stop, "depth": node.depth} for node in frontier],
        "features": dict(features),
        "timings_ms": {name: round(value, 3) for name, value in timings_ms.items()},
    }
    if expanded:
        receipt["expanded"] = True
    return receipt


def _digest(ids: Tensor) -> str:
    return hashlib.sha256(pack_ids(ids)).hexdigest()

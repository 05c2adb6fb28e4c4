"""The names of `sgl_kernel` that SGLang 0.5.23 imports on every CPU, and the one operator that it calls there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF


def assign_req_to_token_pool_cpu(
    requests: Tensor, table: Tensor, starts: Tensor, ends: Tensor, places: Tensor, width: int
) -> None:
    """Write where the cache holds the new tokens of each request: row `requests[i]` of `table` [R, width], columns
    [starts[i], ends[i]), from `places` [sum of their lengths], in order.
    """
    done = 0
    for request, start, end in zip(requests.tolist(), starts.tolist(), ends.tolist(), strict=True):
        table[request, start:end] = places[done : done + end - start].to(table.dtype)
        done += end - start


@torch.library.custom_op("sgl_kernel::murmur_hash32_cpu", mutates_args=())
def murmur_hash32_cpu(seed: Tensor, positions: Tensor, col_indices: Tensor) -> Tensor:
    """MurmurHash3 (x86, 32 bits) of 16 bytes: `seed` [n] of 64 bits, `positions` [n] and `col_indices` [m] of 32 each.

    Returns [n, m] uint32: the noise with which a request that has a seed draws its tokens.
    """
    seeds, places, columns = seed.view(torch.int64)[:, None], positions.long()[:, None], col_indices.long()[None]
    hashed = torch.zeros_like(seeds)
    for block in (seeds & _LOW, (seeds >> 32) & _LOW, places & _LOW, columns & _LOW):
        mixed = (_rotated(block * 0xCC9E2D51 & _LOW, 15) * 0x1B873593) & _LOW
        hashed = (_rotated(hashed ^ mixed, 13) * 5 + 0xE6546B64) & _LOW
    hashed = hashed ^ 16
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashed = ((hashed ^ hashed >> shift) * factor) & _LOW
    return (hashed ^ hashed >> 16).to(torch.uint32)


@murmur_hash32_cpu.register_fake
def _(seed: Tensor, positions: Tensor, col_indices: Tensor) -> Tensor:
    return col_indices.new_empty((seed.numel(), col_indices.numel()), dtype=torch.uint32)


def _rotated(values: Tensor, bits: int) -> Tensor:
    """32-bit values in int64, rotated to the left."""
    return (values << bits | values >> 32 - bits) & _LOW


def _missing(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name} needs the compiled kernels, which this CPU does without")

    return refuse


# Of speculative decoding and of moving the cache, neither of which runs here.
copy_all_layer_kv_cache_cpu = _missing("copy_all_layer_kv_cache_cpu")
rotate_input_ids_cpu = _missing("rotate_input_ids_cpu")
fill_accept_out_cache_loc_cpu = _missing("fill_accept_out_cache_loc_cpu")
fill_bonus_tokens_cpu = _missing("fill_bonus_tokens_cpu")
assign_draft_cache_locs_contiguous_cpu = _missing("assign_draft_cache_locs_contiguous_cpu")
assign_extend_cache_locs_cpu = _missing("assign_extend_cache_locs_cpu")
build_tree_kernel_efficient_cpu = _missing("build_tree_kernel_efficient_cpu")
verify_tree_greedy_cpu = _missing("verify_tree_greedy_cpu")
build_draft_decode_metadata_cpu = _missing("build_draft_decode_metadata_cpu")

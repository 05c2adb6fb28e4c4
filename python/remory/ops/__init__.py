"""Remory's ops: a function each, with its plain-torch definition beside it.

The compiled kernels have no gradient. An op called with a tensor that needs one, while gradients are recorded, runs
its plain definition instead, which is differentiable; so does an op on a GPU for which no kernel was built.
"""

from __future__ import annotations

from remory.ops.capture import capture, capture_plain
from remory.ops.cosine_topk import cosine_topk, cosine_topk_plain
from remory.ops.encode import encode
from remory.ops.encode_plain import encode_plain
from remory.ops.inject import inject, inject_plain
from remory.ops.library import kernels
from remory.ops.slot_attention import slot_attention, slot_attention_plain

__all__ = [
    "capture",
    "capture_plain",
    "cosine_topk",
    "cosine_topk_plain",
    "encode",
    "encode_plain",
    "inject",
    "inject_plain",
    "kernels",
    "slot_attention",
    "slot_attention_plain",
]

"""Every op once at small odd sizes, for compute-sanitizer, under which everything is slow.

compute-sanitizer --tool memcheck python bench/gpu/small.py cuda
"""

from __future__ import annotations

import sys

import torch
from tests.ops.conftest import Network

from remory import ops


def main(device: str) -> None:
    if device.startswith("cuda") and not ops.kernels()["cuda"]:
        sys.exit("the extension has no CUDA kernels: build it with -DREMORY_CUDA=ON")
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        for width in (64, 37):
            hidden = torch.randn(129, width, device=device).to(dtype)
            out = torch.zeros(70, 2 * width, device=device).to(dtype)
            ops.capture(hidden, hidden, torch.arange(0, 70, device=device), out, 1)
            ops.inject(hidden, out[:, :width], torch.randperm(129, device=device)[:70])
        q, k = torch.randn(2, 7, 6, 16, device=device).to(dtype), torch.randn(2, 57, 2, 16, device=device).to(dtype)
        ops.slot_attention(q, k, k, torch.tensor([50, 17], device=device), 50, 8, 20)
        for changes in (
            {},
            {"tail": True, "pointer_heads": 3, "pointer_head_dim": 10},
            {"salient": True, "window": 100},
        ):
            network = Network(geometry={**Network().geometry, **changes})
            ops.encode(**on(device, network.make_inputs([50, 17], 50, dtype)))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        vectors = torch.randn(1511, 40, device=device).to(dtype)
        for batch, k in ((1, 10), (33, 129)):
            ops.cosine_topk(vectors[:batch].clone(), vectors, k, torch.arange(1511, device=device) % 3 > 0)
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def on(device: str, inputs: dict[str, object]) -> dict[str, object]:
    def move(value: object) -> object:
        if isinstance(value, list):
            return [move(one) for one in value]
        return value.to(device) if isinstance(value, torch.Tensor) else value

    return {name: move(value) for name, value in inputs.items()}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda")

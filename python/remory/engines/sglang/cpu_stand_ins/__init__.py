"""What SGLang imports on a CPU and finds in no package that is published for one.

SGLang 0.5.23 runs on a CPU with plain torch operations, but two imports fail before it gets that far:

- `sgl_kernel`, its compiled kernels. There is a build for CUDA, and for CPUs one that is compiled from its sources and
  made for Intel's AMX. Our module of that name has the few functions that SGLang's own modules import on any CPU.
- `torchvision`. Its published wheel is built for CUDA: beside a CPU's torch its library is not loaded, and then its
  Python part describes two operators that nobody declared. We declare them; nothing calls them.

Wherever the real thing can be imported, it is left alone.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

# What declared operators: they are gone with it.
_declared: list[Any] = []


def install() -> None:
    """Put the stand-ins in the place of what cannot be imported. For each process, before it imports SGLang."""
    _stand_in_for_kernels()
    _declare_vision_operators()


def _stand_in_for_kernels() -> None:
    try:
        importlib.import_module("sgl_kernel")
    # The build for CUDA fails with one or the other on a machine without its libraries.
    except (ImportError, OSError):
        sys.modules["sgl_kernel"] = importlib.import_module(f"{__name__}.sgl_kernel")


def _declare_vision_operators() -> None:
    import torch

    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        return
    except RuntimeError:
        schemas = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            schemas.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _declared.append(schemas)

"""Loads the compiled extension: `ops` holds its functions as the dispatcher knows them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_LIBRARY = Path(__file__).parents[1] / "_C.so"


def _load() -> None:
    if not _LIBRARY.exists():
        raise ImportError(
            f"Remory's extension is not built: {_LIBRARY} is missing. Run `make setup`, or `pip install .`"
        )
    try:
        torch.ops.load_library(str(_LIBRARY))
    except OSError as error:
        raise ImportError(
            f"Remory's extension does not load under torch {torch.__version__}: {error}. "
            "Build it again with `make setup`; it needs torch 2.11 or newer"
        ) from error


_load()
ops = torch.ops.remory


def kernels() -> dict[str, bool]:
    """For each type of device, whether its kernels were compiled into the extension."""
    return {"cpu": True, "cuda": ops.has_cuda_kernels()}


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Within, matrix products keep the dtype of their factors, whatever the caller has torch do."""
    if not (torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def use_plain(first: Tensor, *others: Tensor | None) -> bool:
    """Whether an op's plain definition is to run: autograd would record it, or no kernel was built for the device."""
    # A loop: what a call costs from cold caches is how much code it passes through.
    if torch.is_grad_enabled():
        for tensor in (first, *others):
            if tensor is not None and tensor.requires_grad:
                return True
    return first.is_cuda and not _serves(first.device)


@cache
def _serves(device: torch.device) -> bool:
    """Whether the extension has kernels that this GPU can run: they are compiled from compute capability 8.0 on."""
    return kernels()["cuda"] and torch.cuda.get_device_capability(device) >= (8, 0)

"""Remory: soft memory for language-model agents.

The names below are loaded when they are first used, so that a program that only talks to a server does not
import torch.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Chats": "remory.client",
    "Client": "remory.client",
    "Harness": "remory.client",
    "Notes": "remory.client",
    "ScopedMemory": "remory.client",
    "Compactor": "remory.compaction",
    "Memory": "remory.compaction",
    "plan_pyramid": "remory.compaction",
    "Checkpoint": "remory.network",
    "Geometry": "remory.network",
    "MemoryNetwork": "remory.network",
    "load_checkpoint": "remory.network",
    "save_checkpoint": "remory.network",
}

__all__ = [*sorted(_HOMES), "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'remory' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)

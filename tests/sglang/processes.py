"""What the processes of a server are, and waiting for what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def family(pid: int | None = None) -> list[psutil.Process]:
    """All processes that descend from one, by default from this one, and live."""
    return [process for process in psutil.Process(pid).children(recursive=True) if lives(process)]


def servers(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those among them that run SGLang's HTTP server."""
    return [process for process in processes if "remory.engines.sglang.server" in process.cmdline()]


def named(name: str, processes: list[psutil.Process]) -> psutil.Process:
    """The one process that SGLang calls so."""
    (found,) = (process for process in processes if process.cmdline()[0] == f"sglang::{name}")
    return found


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s until {what}")
        time.sleep(0.02)

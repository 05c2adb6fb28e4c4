"""What the processes of a server are, what they share, and waiting for what becomes of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

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


def shared(processes: list[psutil.Process]) -> list[Path]:
    """The files in shared memory that processes have mapped, semaphores too: those are mapped under other names."""
    maps = "\n".join(Path(f"/proc/{process.pid}/maps").read_text() for process in processes)
    mapped = {int(number) for number in re.findall(r" (\d+) +/dev/shm/", maps)}
    return [file for file in Path("/dev/shm").iterdir() if file.stat().st_ino in mapped]


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

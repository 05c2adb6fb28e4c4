"""`python -m remory.engines.sglang.server ARGUMENTS…`: SGLang's own server, as a child that never outlives its parent.

The arguments are SGLang's. Its API key comes through the environment, where other users of the machine do not see it.
SGLang starts its processes by importing this module anew (as `__mp_main__`), so what stands at the end of this file is
done in each of them, before they import SGLang.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Sequence

PARENT = "REMORY_PARENT"
KEY = "REMORY_SGLANG_KEY"
CPU = "SGLANG_USE_CPU_ENGINE"

_PR_SET_PDEATHSIG = 1


class _Secret(str):
    """A text that is not shown where SGLang logs its settings."""

    def __repr__(self) -> str:
        return "'…'"


def main(arguments: Sequence[str]) -> int:
    """Serve until the process is ended; returns the exit code."""
    if lack := _lack():
        print(f"remory: {lack}", file=sys.stderr)
        return 1
    from sglang.launch_server import run_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    load_plugins()
    settings = prepare_server_args(list(arguments))
    if key := os.environ.pop(KEY, None):
        settings.api_key = _Secret(key)
    try:
        run_server(settings)
    finally:
        kill_process_tree(os.getpid(), include_parent=False)
    return 0


def _lack() -> str | None:
    """What this interpreter lacks, in words; None if it can be tried."""
    if importlib.util.find_spec("sglang") is None:
        return (
            f"SGLang is not installed for {sys.executable}: give --sglang-python an interpreter that has it (`make "
            "setup-sglang` makes .venv-sglang/bin/python for CPUs), or on a GPU pip install 'remory[sglang]'"
        )
    import torch

    if PARENT in os.environ and CPU not in os.environ and not torch.cuda.is_available():
        return f"torch {torch.__version__} of {sys.executable} sees no GPU"
    return None


def _end_with_parent(is_parent: Callable[[int], bool]) -> None:
    """Have the kernel end this process with the thread that started it: who is killed by -9 ends nobody himself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have ended before that, and then there is another in its place.
    if not is_parent(os.getppid()):
        os._exit(1)


def _prepare() -> None:
    """What each of SGLang's processes needs before anything else."""
    if __name__ == "__mp_main__":
        # All of SGLang's processes are of one group, which no foster parent is of.
        _end_with_parent(lambda pid: os.getpgid(pid) == os.getpgrp())
    elif PARENT in os.environ:
        _end_with_parent(lambda pid: pid == int(os.environ[PARENT]))
    if os.environ.get(CPU) == "1":
        from remory.engines.sglang import cpu_stand_ins

        cpu_stand_ins.install()


if __name__ in ("__main__", "__mp_main__"):
    _prepare()
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Peak memory of one way to do a case's work: what it needs beyond inputs and weights.

On the CPU in a process of its own, because a resident set remembers; a GPU's allocator can be told to forget.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.kernels.work import Call, Case, Context, Work


def of_case(case: Case, work: Work, context: Context) -> dict[str, int]:
    """Bytes by way, of those that the case names; `work` is what it prepared."""
    if context.is_cuda:
        return {way: _cuda_peak(_call_of(work, way)) for way in case.peak_memory}
    return {way: _in_own_process(case, way, context) for way in case.peak_memory}


def _in_own_process(case: Case, way: str, context: Context) -> int:
    request = {
        "case": case.id,
        "way": way,
        "device": context.device,
        "threads": context.threads,
        "quick": context.quick,
    }
    command = [sys.executable, "-m", "bench.kernels.memory", json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"peak memory of {way}: {(done.stderr.strip().splitlines() or ['no words'])[-1]}")
    return int(done.stdout.splitlines()[-1])


def _measure(request: dict[str, Any]) -> int:
    import torch
    from bench.kernels import registry

    context = Context(request["device"], request["threads"], request["quick"])
    torch.set_num_threads(context.threads)
    with torch.no_grad():
        case = next(case for case in registry.cases(context) if case.id == request["case"])
        return _resident_peak(_call_of(case.prepare(context), request["way"]))


def _call_of(work: Work, way: str) -> Call:
    return work.op if way == "op" else next(other.call for other in work.others if other.name == way)


def _warm_up(call: Call) -> None:
    """Twice: the first call compiles."""
    for _ in range(2):
        call()


def _resident_peak(call: Call) -> int:
    """Of the resident set, which the kernel keeps since it was last told to forget it."""
    _warm_up(call)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def _cuda_peak(call: Call) -> int:
    import torch

    _warm_up(call)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


if __name__ == "__main__":
    # Buffers go back to the system as soon as they are free, so that the peak is what is held at once.
    if os.environ.get("MALLOC_MMAP_THRESHOLD_") is None:
        os.execve(sys.executable, [*sys.orig_argv], {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"})
    print(_measure(json.loads(sys.argv[1])))

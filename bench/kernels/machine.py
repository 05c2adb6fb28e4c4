"""What ran this: processor, threads, memory, versions, commit. No name of a machine or a person."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch

_FLAGS = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16")
_PACKAGES = ("torch", "numpy", "faiss-cpu", "usearch", "triton", "pytest-benchmark")


def facts(device: str, threads: int) -> dict[str, Any]:
    """What a reader needs to compare figures with those of another machine."""
    found = {
        "processor": _cpu("model name") or platform.machine(),
        "family": " ".join(f"{name} {_cpu(name)}" for name in ("cpu family", "model", "stepping") if _cpu(name)),
        "flags": [flag for flag in _FLAGS if flag in _cpu("flags").split()],
        "hypervisor": "hypervisor" in _cpu("flags").split(),
        "cores": os.cpu_count(),
        "threads": threads,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "caches": _caches(),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "device": device,
    }
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(device)
        found["gpu"] = {
            "name": properties.name,
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "cuda": torch.version.cuda,
        }
    return found


def slug(facts: dict[str, Any]) -> str:
    """A folder's name for the results of this kind of machine."""
    name = facts["gpu"]["name"] if "gpu" in facts else f"{facts['processor']} {facts['threads']} threads"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def sentence(facts: dict[str, Any]) -> str:
    """One line for the head of a table."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    machine = (
        f"{facts['cores']} cores, {facts['threads']} threads of {facts['processor']} ({', '.join(facts['flags'])})"
    )
    gpu = f"; {facts['gpu']['name']}, CUDA {facts['gpu']['cuda']}" if "gpu" in facts else ""
    return f"{machine}, {facts['memory_gib']} GiB{gpu}; {versions}"


def commit() -> dict[str, Any]:
    """The commit that was measured, and whether files differ from it; empty outside a repository."""
    here = Path(__file__).parent

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"id": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return {}


def _cpu(name: str) -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next(
        (line.partition(":")[2].strip() for line in lines if line.split("\t")[0].split(":")[0].strip() == name), ""
    )


def _caches() -> dict[str, str]:
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        found[f"L{level} {kind.lower()}"] = size
    return found


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""

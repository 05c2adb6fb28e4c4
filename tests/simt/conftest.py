"""The CUDA ops, run by the emulation on tensors of the CPU: `torch.ops.remory_simt`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
# An even seed and the next one run everything in reverse orders: see csrc/simt/simt.h.
SEEDS = (0, 1, 6, 7)


def build() -> Path:
    """Builds the emulation, or finds that it is up to date."""
    folder = ROOT / "build" / "simt"
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    cmake = shutil.which("cmake", path=tools)
    if cmake is None:
        pytest.fail("There is no cmake to build the emulation of the CUDA kernels with. Run `make setup`")
    options = ["-DREMORY_SIMT=ON", f"-DPython_EXECUTABLE={sys.executable}"]
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=tools) else []
    for command in (
        [cmake, *generator, "-S", str(ROOT), "-B", str(folder), *options],
        [cmake, "--build", str(folder), "--target", "_simt", "--parallel", str(os.cpu_count())],
    ):
        result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PATH": tools})
        if result.returncode != 0:
            pytest.fail(f"The emulation of the CUDA kernels does not build:\n{result.stdout[-4000:]}{result.stderr}")
    return folder / "_simt.so"


@pytest.fixture(scope="session")
def library() -> Any:
    """The namespace of the emulated ops. `make test-asan` names a library of its own making."""
    named = os.environ.get("REMORY_SIMT_LIBRARY")
    torch.ops.load_library(str(named or build()))
    namespace = torch.ops.remory_simt
    for op in ("capture", "inject"):
        torch.library.register_fake(f"remory_simt::{op}", lambda *arguments: None)
    return namespace


@pytest.fixture(params=SEEDS)
def simt(library: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The emulated ops, a test once for every seed."""
    library.configure(request.param)
    yield library
    library.configure(0)


@pytest.fixture
def simt_once(library: Any) -> Any:
    """The emulated ops in the natural order, for tests to which the order is nothing, or that set it themselves."""
    return library

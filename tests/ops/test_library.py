from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from remory import ops
from remory.ops import library


def test_kernels_names_the_devices_that_were_compiled() -> None:
    assert ops.kernels()["cpu"] is True
    assert ops.kernels()["cuda"] is torch.ops.remory.has_cuda_kernels()


def run_loader(tmp_path: Path) -> str:
    """Import a copy of the loader in a package folder of its own, and return what it says."""
    package = tmp_path / "ops"
    package.mkdir()
    loader = package / "library.py"
    loader.write_text(Path(library.__file__).read_text())
    result = subprocess.run([sys.executable, loader], capture_output=True, text=True)
    assert result.returncode == 1
    return result.stderr


def test_a_missing_extension_says_what_to_do(tmp_path: Path) -> None:
    assert "_C.so is missing. Run `make setup`" in run_loader(tmp_path)


def test_an_extension_that_does_not_load_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "_C.so").write_bytes(b"not a library")
    message = run_loader(tmp_path)
    assert f"does not load under torch {torch.__version__}" in message
    assert "Build it again with `make setup`" in message

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cuda import check_sass
from tests.cuda.check_sass import Kernel

FOLDER = Path(__file__).parent
NVCC = shutil.which(os.environ.get("CUDACXX", "nvcc"))
TOOL = FOLDER.parents[1] / "build" / "cuda-tools" / "nvidia" / "cu13" / "bin" / "cuobjdump"

RESOURCES = """
arch = sm_90a
Resource usage:
 Common:
  GLOBAL:11
 Function _ZN6remory4cuda12capture_rowsEv:
  REG:48 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:620 TEXTURE:0 SURFACE:0 SAMPLER:0
arch = sm_80
 Function _ZN6remory4cuda12capture_rowsEv:
  REG:40 STACK:16 SHARED:0 LOCAL:0 CONSTANT[0]:620 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
SASS = """
\tcode for sm_90a
\t\tFunction : _ZN6remory4cuda12capture_rowsEv
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;  /* 0x000 */
                                                                              /* 0x001 */
        /*0020*/                   LDG.E R4, desc[UR4][R2.64] ;               /* 0x000 */
        /*0030*/              @UP1 STG.E.128 desc[UR4][R2.64], R4 ;           /* 0x000 */
        /*0040*/                   STL [R1], R4 ;                             /* 0x000 */
\tcode for sm_80
\t\tFunction : _ZN6remory4cuda12capture_rowsEv
        /*0010*/                   EXIT ;                                     /* 0x000 */
"""


def test_what_the_tools_say_is_read_by_kernel_and_architecture() -> None:
    kernels = check_sass.read_resources(RESOURCES)
    check_sass.count_instructions(SASS, kernels)
    first, second = kernels.values()
    assert (first.architecture, first.registers, first.stack, first.shared) == ("sm_90a", 48, 0, 1024)
    assert (first.spills, first.count("LDG"), first.count_packets("LDG"), first.count_packets("STG")) == (1, 2, 1, 1)
    assert (second.architecture, second.registers, second.stack, second.spills) == ("sm_80", 40, 16, 0)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void remory::cuda::(anonymous namespace)::rows<(int)8, float>(int*)", "rows<8, float>"),
        ("remory::cuda::scale((anonymous namespace)::Thing)", "scale"),
        ("_ZN7cutlass13device_kernelINS_4gemmEEE", "cutlass::device_kernel<…>"),
    ],
)
def test_names_are_short(name: str, short: str) -> None:
    assert check_sass.shorten(name) == short


def make(name: str, **counts: int) -> Kernel:
    opcodes = {opcode.replace("_", "."): count for opcode, count in counts.items()}
    kernel = Kernel(name, "sm_90a", name=name)
    kernel.counts.update(opcodes)
    return kernel


def make_all() -> list[Kernel]:
    return [
        make("capture_rows<1, float, float>"),
        make("capture_rows<4, float, float>", LDG_E_128=1, STG_E_128=1),
        make("inject_rows<8, bfloat16, float>", LDG_E_128=1, STG_E_128=2),
        make("cutlass::device_kernel<…>", HGMMA=8, UTMALDG_2D=2),
    ]


def test_a_good_library_has_no_faults() -> None:
    assert check_sass.find_faults(make_all()) == []


@pytest.mark.parametrize("missing", range(1, 4))
def test_a_missing_kernel_is_a_fault(missing: int) -> None:
    kernels = make_all()
    gone = kernels.pop(missing)
    kernels = [kernel for kernel in kernels if kernel.base != gone.base]
    assert check_sass.find_faults(kernels) == [f"there is no kernel {gone.base}"]


@pytest.mark.parametrize(
    ("kernel", "opcode", "words"),
    [
        (1, "LDG.E.128", "has no load of 128 bits"),
        (2, "STG.E.128", "has no store of 128 bits"),
        (3, "HGMMA", "has no HGMMA"),
        (3, "UTMALDG.2D", "has no UTMALDG"),
    ],
)
def test_a_missing_instruction_is_a_fault(kernel: int, opcode: str, words: str) -> None:
    kernels = make_all()
    del kernels[kernel].counts[opcode]
    (fault,) = check_sass.find_faults(kernels)
    assert fault.endswith(words)


def test_spills_and_stack_frames_are_faults() -> None:
    kernels = make_all()
    kernels[0].counts["LDL.64"] = 3
    kernels[2].stack = 32
    faults = check_sass.find_faults(kernels)
    assert [fault.partition(") ")[2] for fault in faults] == [
        "spills: 3 loads and stores of local memory",
        "has a stack frame of 32 bytes",
    ]


def test_a_library_that_does_not_load_is_a_fault(tmp_path: Path) -> None:
    library = tmp_path / "_C.so"
    library.write_bytes(b"not a library")
    (fault,) = check_sass.load(library)
    assert "loading fails" in fault


def test_a_library_without_cuda_kernels_is_a_fault() -> None:
    from remory.ops import library

    if library.kernels()["cuda"]:
        pytest.skip("this extension was built with CUDA kernels")
    (fault,) = check_sass.load(library._LIBRARY)
    assert "has_cuda_kernels() is false" in fault


@pytest.mark.skipif(
    NVCC is None or not TOOL.exists(),
    reason="needs nvcc, and the tools that `make check-sass` installs",
)
def test_faulty_kernels_are_found(tmp_path: Path) -> None:
    compiled = tmp_path / "faulty.o"
    command = [NVCC, "-std=c++17", "-c", "-gencode", "arch=compute_90a,code=sm_90a", "-o", compiled]
    subprocess.run([*command, FOLDER / "faulty.cu"], check=True)
    faults = check_sass.find_faults(check_sass.inspect(compiled, str(TOOL)))
    assert any(fault.startswith("spilling (sm_90a) spills: ") for fault in faults)
    assert "capture_rows<4> (sm_90a) has no load of 128 bits" in faults
    assert "capture_rows<4> (sm_90a) has no store of 128 bits" in faults
    assert not any(fault.startswith("capture_rows<1>") for fault in faults)

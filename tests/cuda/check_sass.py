"""What was compiled for GPUs, read without one: `make check-sass`, or python -m tests.cuda.check_sass LIBRARY.

Prints a line for each kernel of a built extension, and fails if one spills registers or has a stack frame, if a row
mover does not move 16 bytes at once, if the projection for sm_90a multiplies without its tensor cores, or if the
library does not load and register its ops under the torch of this environment.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# Each has instantiations by the number of elements it moves at once; those of 1 serve rows that are not aligned.
MOVERS = ("capture_rows", "inject_rows")
PROJECTION = "cutlass::device_kernel"

LOADER = """
import sys, torch
torch.ops.load_library(sys.argv[1])
ops = torch._C._dispatch_get_all_op_names()
ours = sorted(op for op in ops if op.startswith("remory::"))
missing = [op for op in ours if not any(
    torch._C._dispatch_has_kernel_for_dispatch_key(op, key) for key in ("CUDA", "CompositeExplicitAutograd"))]
sys.exit(
    "the library registers no ops" if not ours
    else "has_cuda_kernels() is false" if not torch.ops.remory.has_cuda_kernels()
    else f"no CUDA kernel is registered for {', '.join(missing)}" if missing
    else 0
)
"""


@dataclass
class Kernel:
    """One kernel for one architecture; `counts` holds its instructions by name, modifiers included."""

    symbol: str
    architecture: str
    registers: int = 0
    stack: int = 0
    shared: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    name: str = ""

    def count(self, *starts: str) -> int:
        return sum(count for opcode, count in self.counts.items() if opcode.startswith(starts))

    def count_packets(self, start: str) -> int:
        wide = (opcode for opcode in self.counts if opcode.startswith(start) and opcode.split(".").count("128"))
        return sum(self.counts[opcode] for opcode in wide)

    @property
    def spills(self) -> int:
        return self.count("STL", "LDL")

    @property
    def base(self) -> str:
        """The name without namespaces of ours and template arguments."""
        return self.name.partition("<")[0]


def read_resources(text: str) -> dict[tuple[str, str], Kernel]:
    """The kernels in what `cuobjdump -res-usage` says, by symbol and architecture."""
    kernels: dict[tuple[str, str], Kernel] = {}
    architecture = symbol = ""
    for line in text.splitlines():
        if found := re.match(r"\s*arch = (\S+)", line):
            architecture = found[1]
        elif found := re.match(r"\s*Function (\S+):", line):
            symbol = found[1]
        elif found := re.match(r"\s*REG:(\d+) STACK:(\d+) SHARED:(\d+)", line):
            registers, stack, shared = map(int, found.groups())
            kernels[symbol, architecture] = Kernel(symbol, architecture, registers, stack, shared)
    return kernels


def count_instructions(text: str, kernels: dict[tuple[str, str], Kernel]) -> None:
    """Adds to each kernel the instructions in what `cuobjdump -sass` says."""
    architecture = ""
    counts: Counter[str] = Counter()
    for line in text.splitlines():
        if found := re.match(r"\s*code for (\S+)", line):
            architecture = found[1]
        elif found := re.match(r"\s*Function : (\S+)", line):
            counts = kernels[found[1], architecture].counts
        elif found := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", line):
            counts[found[1]] += 1


def give_names(kernels: Iterable[Kernel]) -> None:
    """Readable names: without return types, arguments, and what lies around a kernel of ours."""
    kernels = list(kernels)
    symbols = "\n".join(kernel.symbol for kernel in kernels)
    filter_ = shutil.which("c++filt") or shutil.which("llvm-cxxfilt")
    names = (
        subprocess.run([filter_], input=symbols, capture_output=True, text=True, check=True).stdout
        if filter_
        else symbols
    )
    for kernel, name in zip(kernels, names.splitlines(), strict=True):
        kernel.name = shorten(name)


def shorten(name: str) -> str:
    """`void remory::cuda::(anonymous namespace)::capture_rows<8, float, float>(…)` is capture_rows<8, float, float>;
    of a symbol that no tool could read, what it begins with: cutlass::device_kernel<…>."""
    if name.startswith("_ZN"):
        return read_symbol(name)
    name = re.sub(r"remory::\w+::|\(anonymous namespace\)::|\((?:int|bool|unsigned int)\)", "", name)
    name = re.sub(r"^void ", "", name)
    depth = 0
    for index, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return name[:index]
    return name


def read_symbol(symbol: str) -> str:
    parts, position = [], len("_ZN")
    while found := re.match(r"\d+", symbol[position:]):
        position += found.end() + int(found[0])
        parts.append(symbol[position - int(found[0]) : position])
    return "::".join(parts) + "<…>"


def inspect(library: Path, cuobjdump: str) -> list[Kernel]:
    def dump(option: str) -> str:
        return subprocess.run([cuobjdump, option, library], capture_output=True, text=True, check=True).stdout

    kernels = read_resources(dump("-res-usage"))
    count_instructions(dump("-sass"), kernels)
    give_names(kernels.values())
    return sorted(kernels.values(), key=lambda kernel: (kernel.architecture, kernel.name))


def find_faults(kernels: list[Kernel]) -> list[str]:
    """One sentence for each thing that is not as it must be in the kernels of an extension."""
    faults = []
    for kernel in kernels:
        where = f"{kernel.name[:100]} ({kernel.architecture})"
        if kernel.spills:
            faults.append(f"{where} spills: {kernel.spills} loads and stores of local memory")
        elif kernel.stack:
            faults.append(f"{where} has a stack frame of {kernel.stack} bytes")
        if kernel.base in MOVERS and not re.match(r"\w+<1[,>]", kernel.name):
            if not kernel.count_packets("LDG"):
                faults.append(f"{where} has no load of 128 bits")
            if not kernel.count_packets("STG"):
                faults.append(f"{where} has no store of 128 bits")
        if kernel.base == PROJECTION:
            faults += [f"{where} has no {opcode}" for opcode in ("HGMMA", "UTMALDG") if not kernel.count(opcode)]
    present = {kernel.base for kernel in kernels}
    faults += [f"there is no kernel {base}" for base in (*MOVERS, PROJECTION) if base not in present]
    return faults


def table(kernels: list[Kernel]) -> str:
    titles = ("kernel", "arch", "regs", "shared", "spills", "ld.128", "st.128", "HGMMA", "UTMALDG")
    rows = [
        (
            kernel.name if len(kernel.name) <= 60 else kernel.name[:59] + "…",
            kernel.architecture,
            *map(
                str,
                (
                    kernel.registers,
                    kernel.shared,
                    kernel.spills,
                    kernel.count_packets("LDG"),
                    kernel.count_packets("STG"),
                    kernel.count("HGMMA"),
                    kernel.count("UTMALDG"),
                ),
            ),
        )
        for kernel in kernels
    ]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (titles, *rows)
    )


def load(library: Path) -> list[str]:
    """What goes wrong when a fresh process loads the library: it must not need a driver, a GPU or a torch with CUDA."""
    result = subprocess.run([sys.executable, "-c", LOADER, library], capture_output=True, text=True)
    return [] if result.returncode == 0 else [f"loading fails: {result.stderr.strip()}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path, help="a _C.so built with REMORY_CUDA=ON")
    parser.add_argument("--cuobjdump", default="cuobjdump", help="the tool, with nvdisasm beside it")
    arguments = parser.parse_args()

    kernels = inspect(arguments.library, arguments.cuobjdump)
    print(table(kernels))
    faults = find_faults(kernels) + load(arguments.library)
    print(*(f"FAULT: {fault}" for fault in faults), sep="\n")
    print(f"{len(kernels)} kernels, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

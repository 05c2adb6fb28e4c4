"""The cases of many clients: what they send, for how long, and what came of it."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import psutil
from bench.service import generator
from bench.service.generator import Load, Samples, Source, ask, once
from bench.service.processes import Clock, Subject
from bench.service.traffic import DIMENSION, Traffic

SET_CLIENTS = 8
SHARED_KEYS = 4
CHANGES = 100
PERCENTILES = (50, 90, 99)
# From these shares on something counts as what limits: of one server's processor, of all processors.
_MOSTLY, _BUSY = 0.8, 0.95
_NOTICED, _MUCH_FSYNC = 0.2, 0.4


@dataclass(frozen=True)
class Effort:
    """How much is measured: `rounds` of `seconds` after `warmup` seconds, by `clients` in `processes` processes."""

    clients: int = 16
    processes: int = 1
    rounds: int = 3
    seconds: float = 5.0
    warmup: float = 1.0


class Refused(Exception):
    """A request that a case builds on was not answered with success."""


@dataclass(frozen=True)
class Case:
    """`writes`: every success is a commit, so fsync in the store's folder is measured beside."""

    name: str
    clients: int
    source: Callable[[int], Source]
    writes: bool = False


@dataclass(frozen=True)
class Usage:
    """Processor seconds a second, by who used them. `others`: everybody else on the machine."""

    server: float
    generator: float
    database: float
    others: float


@dataclass(frozen=True)
class Figures:
    """One case. `rate`: successes a second, the median of `rates`, one a round. `ms`: latencies of all answers of all
    rounds, as p50, p90, p99 and max. `server_ms`: the servers' processor time for each of them. `fsync_ms`: the median
    of one fsync; `fsync_share`: how much of the time so many fsyncs one after the other take as there were commits.
    `limit`: what all this means, in words.
    """

    name: str
    clients: int
    rate: float
    rates: list[float]
    ms: dict[str, float]
    done: int
    conflicts: int
    errors: int
    first_error: str
    usage: Usage
    server_ms: float
    fsync_ms: float | None
    fsync_share: float | None
    limit: str


def small_cases(traffic: Traffic, effort: Effort, subject: Subject) -> Iterator[Case]:
    """Values, their changes, and setting vectors. What a case needs is written when its turn comes."""
    send(subject, lambda client: traffic.fill(), 1)
    yield Case("value reads", effort.clients, traffic.reads)
    yield Case("durable value writes", effort.clients, traffic.writes, writes=True)
    own = partial(_compare, traffic, "own", effort.clients)
    yield Case("compare-and-set, own keys", effort.clients, own, writes=True)
    shared = partial(_compare, traffic, "shared", SHARED_KEYS)
    yield Case(f"compare-and-set, {SHARED_KEYS} shared keys", effort.clients, shared, writes=True)
    first, last = _span_of_changes(traffic, subject)
    yield Case(f"pages of {CHANGES} changes", effort.clients, partial(traffic.changes, first=first, last=last))
    yield Case(f"sets of vectors of {DIMENSION}", SET_CLIENTS, traffic.vector_sets, writes=True)


def measure(case: Case, effort: Effort, subject: Subject) -> Figures:
    """Run a case in all its rounds."""
    load = Load(case.clients, case.source, subject.addresses, effort.processes, effort.warmup, effort.seconds)
    rounds, syncs = [], []
    for _ in range(effort.rounds):
        syncs += subject.sync_seconds() if case.writes else []
        rounds.append(generator.run(load, subject.clock))
    return summarize(case, rounds, statistics.median(syncs) if syncs else None, len(subject.servers))


def send(subject: Subject, part: Callable[[int], Iterator[bytes]], clients: int) -> Samples:
    """Let each client send its part once. Raises Refused when a request did not succeed."""
    samples, _, _ = generator.run(Load(clients, lambda client: once(part(client)), subject.addresses), subject.clock)
    if samples.done != sum(samples.outcomes.values()):
        raise Refused(f"{dict(samples.outcomes)}: {samples.first_error}")
    return samples


def summarize(case: Case, rounds: Sequence[tuple[Samples, Clock, Clock]], fsync: float | None, servers: int) -> Figures:
    """What the rounds of a case come to. `fsync`: seconds. `servers`: how many there are that can be watched."""
    whole = Samples()
    for samples, _, _ in rounds:
        whole.add(samples)
        whole.wall += samples.wall
    usage = _usage(whole, [(before, after) for _, before, after in rounds])
    rates = [samples.rate for samples, _, _ in rounds]
    share = None if fsync is None else fsync * whole.rate
    return Figures(
        name=case.name,
        clients=case.clients,
        rate=statistics.median(rates),
        rates=rates,
        ms=_percentiles(whole),
        done=whole.done,
        conflicts=whole.conflicts,
        errors=whole.errors,
        first_error=whole.first_error,
        usage=usage,
        server_ms=usage.server * whole.wall / max(1, len(whole.latencies)) * 1e3,
        fsync_ms=None if fsync is None else fsync * 1e3,
        fsync_share=share,
        limit="one request at a time" if case.clients == 1 else _limit(usage, share, servers),
    )


def _compare(traffic: Traffic, name: str, keys: int, client: int) -> Source:
    return traffic.compare_and_set(f"{name}-{client % keys}")


def _span_of_changes(traffic: Traffic, subject: Subject) -> tuple[int, int]:
    """The first change of the writes, and the last one of all: a page without hits goes on to there."""
    first = ask(subject.addresses[0], traffic.call("memory/changes", "writes", limit=1))
    last = ask(subject.addresses[0], traffic.call("memory/changes", "writes", prefix="no such key"))
    end = json.loads(last.body)["next_cursor"]
    items = json.loads(first.body)["items"]
    return items[0]["sequence"] if items else end, end


def _usage(whole: Samples, spans: Sequence[tuple[Clock, Clock]]) -> Usage:
    wall = sum(after.wall - before.wall for before, after in spans)
    server, database, machine = (
        sum(getattr(after, field) - getattr(before, field) for before, after in spans) / wall
        for field in ("server", "database", "machine")
    )
    own = whole.cpu / wall
    return Usage(server, own, database, max(0.0, machine - server - database - own))


def _percentiles(samples: Samples) -> dict[str, float]:
    if not samples.latencies:
        return {}
    ms = np.frombuffer(samples.latencies, dtype=np.int64) / 1e6
    found = {f"p{share}": float(np.percentile(ms, share, method="higher")) for share in PERCENTILES}
    return {**found, "max": float(ms.max())}


def _limit(usage: Usage, fsync_share: float | None, servers: int) -> str:
    if not servers:
        return "the server is not seen from here"
    found = []
    if usage.server >= _MOSTLY * servers:
        found.append("server's Python, one thread at a time")
    if usage.server + usage.generator + usage.database + usage.others >= _BUSY * (psutil.cpu_count() or 1):
        found.append("processors, others' work too" if usage.others > _NOTICED else "processors")
    if fsync_share is not None and fsync_share >= _MUCH_FSYNC:
        found.append(f"fsync, {fsync_share:.0%} of the time")
    return ", ".join(found) or "waiting: locks and round trips"

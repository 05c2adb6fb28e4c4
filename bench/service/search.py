"""Searching a large collection: over HTTP, beside the op alone on the same vectors, and after a restart."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
from bench.service import generator
from bench.service.cases import SET_CLIENTS, Case, Figures, Refused, send, summarize
from bench.service.generator import Load, Source, ask, once
from bench.service.processes import Subject
from bench.service.traffic import GROUP, GROUPS, TOP_K, Traffic

ROUNDS = 5
QUERIES = 20


@dataclass(frozen=True)
class SearchFigures:
    """`cases`: searches one after the other over HTTP, exact and filtered. `op_ms`: the op alone on the same vectors,
    its p50 and p99, in both ways. `first_ms`: the first search after the load, which reads all vectors in.
    `restarted_ms`: the same in a server that was just started, which took `start_seconds`. `loaded_rate`: vectors a
    second while loading.
    """

    vectors: int
    loaded_rate: float
    first_ms: float
    cases: list[Figures]
    op_ms: list[dict[str, float]]
    restarted_ms: float | None
    start_seconds: float | None


def measure_search(traffic: Traffic, subject: Subject, count: int) -> SearchFigures:
    """Load `count` vectors into one scope and search them. Raises Refused."""
    loaded = send(subject, lambda client: traffic.collection(client, SET_CLIENTS, count), SET_CLIENTS)
    first = _first_search_ms(traffic, subject)
    cases, op_ms = [], []
    with _op(traffic, count) as op:
        for filtered in (False, True):
            figures, alone = _beside_the_op(traffic, subject, op, filtered)
            cases.append(figures)
            op_ms.append(alone)
    restarted = start = None
    if subject.start is not None:
        start = subject.restart()
        restarted = _first_search_ms(traffic, subject)
    return SearchFigures(count, loaded.rate, first, cases, op_ms, restarted, start)


def _beside_the_op(
    traffic: Traffic, subject: Subject, op: Connection, filtered: bool
) -> tuple[Figures, dict[str, float]]:
    """Searches over HTTP and the op alone by turns, the same queries."""
    rounds, alone = [], []
    for number in range(ROUNDS):
        source = partial(_searches, traffic, filtered, number)
        rounds.append(generator.run(Load(1, source, subject.addresses[:1]), subject.clock))
        op.send((number * QUERIES, QUERIES, filtered))
        alone += op.recv()
    name = f"exact search, {'1 of ' + str(GROUPS) + ' passes the filter' if filtered else 'all vectors'}"
    case = Case(name, 1, partial(_searches, traffic, filtered, 0))
    low, high = np.percentile(alone, [50, 99], method="higher") * 1e3
    return summarize(case, rounds, None, 1), {"p50": float(low), "p99": float(high)}


def _searches(traffic: Traffic, filtered: bool, round_number: int, client: int) -> Source:
    return once(traffic.searches(QUERIES, filtered, round_number * QUERIES))


def _first_search_ms(traffic: Traffic, subject: Subject) -> float:
    (request,) = traffic.searches(1, False)
    began = time.perf_counter()
    answer = ask(subject.addresses[0], request)
    seconds = time.perf_counter() - began
    if answer.status != 200 or len(json.loads(answer.body)["items"]) == 0:
        raise Refused(answer.body.decode())
    return seconds * 1e3


@contextmanager
def _op(traffic: Traffic, count: int) -> Iterator[Connection]:
    """A process that holds the vectors and runs the op: is sent (first query, queries, filtered), answers seconds."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run_op, args=(traffic, count, theirs), daemon=True)
    process.start()
    theirs.close()
    ours.recv()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _run_op(traffic: Traffic, count: int, pipe: Connection) -> None:
    # As the server does: threads that spin while they wait would take the processors from it.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    import torch

    from remory import ops

    vectors = torch.from_numpy(traffic.vectors(0, count))
    mask = torch.arange(count) % GROUPS == GROUP
    with torch.inference_mode():
        ops.cosine_topk(torch.from_numpy(traffic.queries(1)), vectors, TOP_K)
        pipe.send("ready")
        while True:
            first, number, filtered = pipe.recv()
            seconds = []
            for query in torch.from_numpy(traffic.queries(number, first)).split(1):
                began = time.perf_counter()
                ops.cosine_topk(query, vectors, TOP_K, mask if filtered else None)
                seconds.append(time.perf_counter() - began)
            pipe.send(seconds)

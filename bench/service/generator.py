"""Closed-loop clients on raw keep-alive sockets: each sends its next request when the last one is answered.

The load shares the machine with the server, so it has to cost little: one thread per process waits for all its sockets
at once, requests are bytes made beforehand, and of an answer only the status and the length are looked at.
"""

from __future__ import annotations

import gc
import multiprocessing
import select
import socket
import time
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

SILENT_SECONDS = 60
_HEAD_START = 0.05
_RECEIVED = 1 << 18


class Answer(NamedTuple):
    status: int
    body: bytes


class NoAnswer(Exception):
    """The server hung up, or said nothing for SILENT_SECONDS."""


# What one client sends: yields requests, is sent the answers. It ends the client's work by returning.
Source = Generator[bytes, Answer, None]
Address = tuple[str, int]


@dataclass(frozen=True)
class Load:
    """`clients` clients, the i-th sending `source(i)` to the i-th address, counted round. `seconds` None: until the
    sources end, without a warm-up.
    """

    clients: int
    source: Callable[[int], Source]
    addresses: Sequence[Address]
    processes: int = 1
    warmup: float = 0.0
    seconds: float | None = None


@dataclass
class Samples:
    """What was answered within the timed part. `latencies`: nanoseconds, of every answer. `wall` and `cpu`: seconds of
    that part, and of the generator's processor time in it. `outcomes`: answers by status, with the error's code.
    """

    latencies: array[int] = field(default_factory=lambda: array("q"))
    outcomes: Counter[str] = field(default_factory=Counter)
    first_error: str = ""
    wall: float = 0.0
    cpu: float = 0.0

    @property
    def done(self) -> int:
        return self.outcomes["200"]

    @property
    def conflicts(self) -> int:
        return self.outcomes["409"]

    @property
    def errors(self) -> int:
        return sum(self.outcomes.values()) - self.done - self.conflicts

    @property
    def rate(self) -> float:
        """Successes a second."""
        return self.done / self.wall if self.wall else 0.0

    def add(self, other: Samples) -> None:
        """Take in what another process, or another round, has seen. `wall` stays for the caller to set."""
        self.latencies += other.latencies
        self.outcomes += other.outcomes
        self.first_error = self.first_error or other.first_error
        self.cpu += other.cpu


@dataclass(frozen=True)
class Span:
    """When the timed part begins and ends, in seconds of the monotonic clock, which all processes share."""

    begin: float
    end: float


def run(load: Load, watch: Callable[[], Any]) -> tuple[Samples, Any, Any]:
    """Let a load run; what was answered, and what `watch` returned at the begin and at the end of the timed part.

    Raises NoAnswer when a process of the generator dies.
    """
    context = multiprocessing.get_context("fork")
    pipes, children = [], []
    for index in range(min(load.processes, load.clients)):
        ours, theirs = context.Pipe()
        child = context.Process(target=_work, args=(load, index, theirs), daemon=True)
        child.start()
        theirs.close()
        pipes.append(ours)
        children.append(child)
    for pipe in pipes:
        _take(pipe)
    begin = time.monotonic() + _HEAD_START + load.warmup
    span = Span(begin, float("inf") if load.seconds is None else begin + load.seconds)
    for pipe in pipes:
        pipe.send(span)
    _sleep_until(begin)
    before = watch()
    if load.seconds is not None:
        _sleep_until(span.end)
        after = watch()
    seen = Samples()
    last = begin
    for pipe in pipes:
        samples, ended = _take(pipe)
        seen.add(samples)
        last = max(last, ended)
    if load.seconds is None:
        after = watch()
    for child in children:
        child.join()
    seen.wall = (span.end if load.seconds is not None else last) - begin
    return seen, before, after


def ask(address: Address, request: bytes) -> Answer:
    """One request on a connection of its own."""
    with socket.create_connection(address, SILENT_SECONDS) as connection:
        connection.sendall(request)
        return _receive(connection)


def _take(pipe: Connection) -> Any:
    """What a process of the generator says next. Raises NoAnswer when it has died."""
    try:
        return pipe.recv()
    except EOFError as error:
        raise NoAnswer("a process of the generator died; its error stands above") from error


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def _work(load: Load, index: int, pipe: Connection) -> None:
    """One process of the generator: every `processes`-th client."""
    numbers = range(index, load.clients, min(load.processes, load.clients))
    clients = [_Client(load.addresses[number % len(load.addresses)], load.source(number)) for number in numbers]
    gc.collect()
    gc.disable()
    pipe.send("ready")
    span = pipe.recv()
    _sleep_until(span.begin - load.warmup)
    pipe.send(_drive(clients, span))


class _Client:
    """One connection and what it sends."""

    def __init__(self, address: Address, source: Source):
        self._address = address
        self._source = source
        # Made before the clock runs: many requests take longer to make than to be answered.
        self._next: bytes | None = next(source, None)
        self.connect()

    def connect(self) -> None:
        self.socket = socket.create_connection(self._address, SILENT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent = 0

    def send(self) -> bool:
        """Send the next request; False when there is none."""
        if self._next is None:
            return False
        self.sent = time.monotonic_ns()
        self.socket.sendall(self._next)
        return True

    def receive(self) -> Answer:
        return _receive(self.socket)

    def prepare(self, answer: Answer) -> None:
        try:
            self._next = self._source.send(answer)
        except StopIteration:
            self._next = None


def _drive(clients: list[_Client], span: Span) -> tuple[Samples, float]:
    """Let clients work to the span's end, or to the end of their sources; also the moment of the last answer."""
    samples, poll = Samples(), select.epoll()
    by_descriptor: dict[int, _Client] = {}
    begin, end = int(span.begin * 1e9), span.end * 1e9
    now = time.monotonic_ns()
    cpu: float | None = None

    def start(client: _Client) -> None:
        if client.send():
            by_descriptor[client.socket.fileno()] = client
            poll.register(client.socket.fileno(), select.EPOLLIN)

    for client in clients:
        start(client)
    while by_descriptor:
        ready = poll.poll(SILENT_SECONDS)
        if not ready:
            samples.outcomes["silent"] += len(by_descriptor)
            break
        for descriptor, _ in ready:
            client = by_descriptor[descriptor]
            try:
                answer = client.receive()
            except (NoAnswer, OSError) as error:
                samples.outcomes["hung up"] += 1
                samples.first_error = samples.first_error or repr(error)
                del by_descriptor[descriptor]
                client.socket.close()
                client.connect()
                start(client)
                continue
            now = time.monotonic_ns()
            if cpu is None and now >= begin:
                cpu = time.process_time()
            if begin <= client.sent and now <= end:
                _count(samples, answer, now - client.sent)
            client.prepare(answer)
            if now >= end or not client.send():
                poll.unregister(descriptor)
                del by_descriptor[descriptor]
    samples.cpu = time.process_time() - (cpu or 0.0)
    return samples, now / 1e9


def _count(samples: Samples, answer: Answer, latency: int) -> None:
    samples.latencies.append(latency)
    if answer.status in (200, 409):
        samples.outcomes[str(answer.status)] += 1
        return
    samples.outcomes[f"status {answer.status}"] += 1
    samples.first_error = samples.first_error or answer.body.decode(errors="replace")[:300]


def _receive(connection: socket.socket) -> Answer:
    """The answer to the one request that is under way."""
    data = connection.recv(_RECEIVED)
    while (head := data.find(b"\r\n\r\n")) < 0:
        data += _more(connection)
    place = data.find(b"\r\nContent-Length: ", 0, head)
    if place < 0:
        raise NoAnswer(f"the answer has no Content-Length: {data[:head]!r}")
    start = place + len(b"\r\nContent-Length: ")
    length = int(data[start : data.index(b"\r\n", start)])
    body = head + 4
    while len(data) < body + length:
        data += _more(connection)
    return Answer(int(data[9:12]), data[body:])


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(_RECEIVED)
    if not data:
        raise NoAnswer("the server closed the connection")
    return data


def endless(requests: Sequence[bytes]) -> Source:
    """The same requests round and round."""
    while True:
        for request in requests:  # noqa: UP028 - `yield from` would pass the answers on to the list's iterator
            yield request


def once(requests: Iterator[bytes]) -> Source:
    """Each request once, made when its turn comes."""
    for request in requests:  # noqa: UP028 - as above
        yield request

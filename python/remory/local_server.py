"""A server of one's own for as long as a command runs, and the steps of such a command on the console."""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from remory.errors import RemoryError

# A start may take long, as long as it tells of steps.
_SILENT_SECONDS = 600.0
_START_SECONDS = 1800.0
_STOP_SECONDS = 10.0
_READY = re.compile(r"ready at (http://\S+)")


@contextmanager
def show_step(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner while something is done, and how long it took; yields what changes the spinner's words."""
    start = time.monotonic()
    with console.status(f"{text} …") as status:
        yield lambda detail: status.update(f"{text}: {detail}")
    console.print(f"[green]✓[/] {text} [dim]({time.monotonic() - start:.1f} s)[/]")


@contextmanager
def serving(options: argparse.Namespace, console: Console, name: str, more: Sequence[str] = ()) -> Iterator[str]:
    """The URL of the server that `options.url` names, or of one of our own for as long as it is needed.

    Our own is started with `options.model`, `.checkpoint`, `.device`, `.dtype`, `.backend` and `.sglang_python` and
    with `more` arguments of `serve`, on a free port, with a temporary data folder that has `name` in its name. Raises
    RemoryError with its last words when it does not start.
    """
    if options.url:
        yield options.url
        return
    with tempfile.TemporaryDirectory(prefix=f"remory-{name}-") as folder, _ending_on_signals():
        log = Path(folder) / "server.log"
        process = _start(options, Path(folder), log, more)
        try:
            with show_step(console, "Starting a server") as tell:
                url = _await_ready(process, log, tell)
            yield url
        finally:
            _stop(process)


def _start(options: argparse.Namespace, folder: Path, log: Path, more: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "remory.cli", "serve", "--port", "0", "--data", str(folder / "data"), *more]
    for name in ("model", "checkpoint", "device", "dtype", "backend", "sglang_python"):
        if (value := getattr(options, name)) is not None:
            command += [f"--{name.replace('_', '-')}", value]
    with log.open("w") as errors:
        # A session of its own: Ctrl-C must reach us alone, and the end must reach all of its processes.
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)


def _await_ready(process: subprocess.Popen[str], log: Path, tell: Callable[[str], None]) -> str:
    assert process.stdout is not None
    began = changed = time.monotonic()
    last = ""
    while time.monotonic() - changed < _SILENT_SECONDS and time.monotonic() - began < _START_SECONDS:
        if not select.select([process.stdout], [], [], 0.5)[0]:
            if (line := _last_line(log)) != last:
                last, changed = line, time.monotonic()
            tell(last.rpartition(": ")[2])
            continue
        line = process.stdout.readline()
        if found := _READY.search(line):
            return found[1]
        if not line:
            raise RemoryError(f"the server did not start: {_reason(log)}")
    waited = time.monotonic() - began
    raise RemoryError(f"the server was not ready after {waited:.0f} s; its last words: {_last_line(log)}")


def _reason(log: Path) -> str:
    """Why a server ended: what it said for its user, else its last words."""
    told = [line for line in log.read_text().splitlines() if line.startswith("remory: ")]
    return told[0].removeprefix("remory: ") if told else _last_line(log)


def _last_line(log: Path) -> str:
    return (log.read_text().strip().splitlines() or ["no word from it yet"])[-1]


def _stop(process: subprocess.Popen[str]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(_STOP_SECONDS)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack as Ctrl-C does, so that the server never outlives us."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(sign, lambda number, frame: sys.exit(128 + number)) for sign in signals]
    try:
        yield
    finally:
        for sign, handler in zip(signals, before, strict=True):
            signal.signal(sign, handler)

"""`remory demo`: a session is played, loses its history twice and goes on, on a real model behind a real server."""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from remory.client import Answer, Client, Harness, generate_timed
from remory.client.rendering import Message
from remory.demo_report import FULL, MEMORY, RECALL, SUMMARY, Arm, Question, Report, Stage
from remory.errors import RemoryError

_SESSION = Path(__file__).with_name("data") / "demo_session.json"
_ANSWER_SAMPLING = {"temperature": 0.0, "max_new_tokens": 24}
# Greedy decoding of a small model repeats itself without end. The penalty counts what the summary itself has said and
# not, as a repetition penalty would, the names and numbers of the conversation.
_SUMMARY_SAMPLING = {"temperature": 0.0, "max_new_tokens": 120, "frequency_penalty": 0.2}
_RECALL = {"handle": True}
_PLAIN_WIDTH = 110
_START_SECONDS = 240.0
_STOP_SECONDS = 10.0
_READY = re.compile(r"ready at (http://\S+)")


def run(options: argparse.Namespace) -> int:
    """Play the demo as the command line asks for it, print the tables and the JSON line; returns the exit code."""
    # A file or a pipe has no width of its own.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    session = f"demo-{secrets.token_hex(4)}"
    with _service(options, console) as url, Client(url, session=session, key=options.key) as client:
        report = _Play(client, console).report()
    report.print(console)
    print(json.dumps(report.figures(), ensure_ascii=False))
    return 0


class _Play:
    """Plays the recorded session on a server, and asks the questions at every stage."""

    def __init__(self, client: Client, console: Console):
        session = json.loads(_SESSION.read_text())
        self.parts: list[list[Message]] = session["parts"]
        self.questions = [Question(**question) for question in session["questions"]]
        self.client = client
        self.console = console
        self.info = client.info()
        if self.info["checkpoint"] is None:
            raise RemoryError(f"{client.base_url} serves without a memory checkpoint: start it with --checkpoint")
        self.full = Harness(client, self.parts[0], sampling=_ANSWER_SAMPLING)
        self.compacted = Harness(client, self.parts[0], sampling=_ANSWER_SAMPLING, summary_sampling=_SUMMARY_SAMPLING)

    def report(self) -> Report:
        """Everything that was measured. Deletes the memories it made, whatever happens."""
        try:
            stages = [self._before(), *(self._compaction(number) for number in range(1, len(self.parts) + 1))]
        finally:
            for memory in self.client.memories():
                self.client.delete(memory["handle"])
        return Report(self.info, self.questions, stages)

    def _before(self) -> Stage:
        tokens = self.full.context_tokens()
        self.console.print(f"  Part 1 of the recorded session: {len(self.parts[0])} messages, {tokens:,} tokens")
        return Stage(tokens, None, {FULL: self._ask(FULL, self._ask_full)})

    def _compaction(self, number: int) -> Stage:
        if number > 1:
            part = self.parts[number - 1]
            self.full.append(*part)
            self.compacted.append(*part)
            self.console.print(f"  Part {number} goes on from the memory: {len(part)} more messages")
        tokens = self.full.context_tokens()
        with _step(self.console, f"Compaction {number}: the model sums up, then the memory is encoded"):
            compaction = self.compacted.compact()
        prefix_ids = self.client.tokenize(messages=self.compacted.prefix, add_generation_prompt=False)
        contract = self.info["summary_contract"]
        head_ids = [
            *prefix_ids,
            *contract["student_summary_before_ids"],
            *compaction.summary_ids,
            *contract["student_summary_after_ids"],
        ]

        def ask_summary(question: str) -> Answer:
            ids = self.compacted.continuation_ids({"role": "user", "content": question})
            return generate_timed(self.client, head_ids + ids, _ANSWER_SAMPLING)

        arms = {
            FULL: self._ask(FULL, self._ask_full),
            SUMMARY: self._ask(SUMMARY, ask_summary),
            MEMORY: self._ask(MEMORY, self._ask_memory),
            RECALL: self._ask(RECALL, self._ask_recall),
        }
        return Stage(tokens, compaction, arms)

    def _ask_full(self, question: str) -> Answer:
        return self.full.generate(question, keep=False)

    def _ask_memory(self, question: str) -> Answer:
        return self.compacted.generate(question, keep=False)

    def _ask_recall(self, question: str) -> Answer:
        return self.compacted.generate(question, keep=False, recall=_RECALL)

    def _ask(self, arm: str, ask: Callable[[str], Answer]) -> Arm:
        with _step(self.console, f"{len(self.questions)} questions with {arm}"):
            return Arm([ask(question.question) for question in self.questions])


@contextmanager
def _step(console: Console, text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner while something is done, and how long it took; yields what changes the spinner's words."""
    start = time.monotonic()
    with console.status(f"{text} …") as status:
        yield lambda detail: status.update(f"{text}: {detail}")
    console.print(f"[green]✓[/] {text} [dim]({time.monotonic() - start:.1f} s)[/]")


@contextmanager
def _service(options: argparse.Namespace, console: Console) -> Iterator[str]:
    """The URL of the server that the command line names, or of one of our own for as long as it is needed."""
    if options.url:
        yield options.url
        return
    with tempfile.TemporaryDirectory(prefix="remory-demo-") as folder, _ending_on_signals():
        log = Path(folder) / "server.log"
        process = _start(options, Path(folder), log)
        try:
            with _step(console, "Starting a server") as tell:
                url = _await_ready(process, log, tell)
            yield url
        finally:
            _stop(process)


def _start(options: argparse.Namespace, folder: Path, log: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "remory.cli", "serve", "--port", "0", "--data", str(folder / "data")]
    for name in ("model", "checkpoint", "device", "dtype"):
        if (value := getattr(options, name)) is not None:
            command += [f"--{name}", value]
    with log.open("w") as errors:
        # A session of its own: Ctrl-C must reach us alone, and the end must reach all of its processes.
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)


def _await_ready(process: subprocess.Popen[str], log: Path, tell: Callable[[str], None]) -> str:
    assert process.stdout is not None
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if not select.select([process.stdout], [], [], 0.5)[0]:
            tell(_last_line(log).rpartition(": ")[2])
            continue
        line = process.stdout.readline()
        if found := _READY.search(line):
            return found[1]
        if not line:
            raise RemoryError(f"the server did not start: {_reason(log)}")
    raise RemoryError(f"the server was not ready after {_START_SECONDS:.0f} s; its last words: {_last_line(log)}")


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

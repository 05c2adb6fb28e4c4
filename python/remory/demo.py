"""`remory demo`: a session is played, loses its history twice and goes on, on a real model behind a real server."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from remory.client import Answer, Client, Harness, generate_timed
from remory.client.rendering import Message
from remory.demo_report import FULL, MEMORY, RECALL, SUMMARY, Arm, Question, Report, Stage
from remory.errors import RemoryError
from remory.local_server import serving, show_step

_SESSION = Path(__file__).with_name("data") / "demo_session.json"
_ANSWER_SAMPLING = {"temperature": 0.0, "max_new_tokens": 24}
# Greedy decoding of a small model repeats itself without end. The penalty grows with every repetition, so that a name
# or a number may be said a second time.
SUMMARY_SAMPLING = {"temperature": 0.0, "max_new_tokens": 120, "frequency_penalty": 0.2}
_RECALL = {"handle": True}
_PLAIN_WIDTH = 110


def run(options: argparse.Namespace) -> int:
    """Play the demo as the command line asks for it, print the tables and the JSON line; returns the exit code."""
    # A file or a pipe has no width of its own.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    session = f"demo-{secrets.token_hex(4)}"
    with serving(options, console, "demo") as url, Client(url, session=session, key=options.key) as client:
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
        self.compacted = Harness(client, self.parts[0], sampling=_ANSWER_SAMPLING, summary_sampling=SUMMARY_SAMPLING)

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
        with show_step(self.console, f"Compaction {number}: the model sums up, then the memory is encoded"):
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
        with show_step(self.console, f"{len(self.questions)} questions with {arm}"):
            return Arm([ask(question.question) for question in self.questions])

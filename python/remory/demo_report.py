"""What `remory demo` measured, as tables for a person and as figures for a program."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from remory.client import Answer, Compaction

FULL, SUMMARY, MEMORY = ("full history", "summary only", "summary + memory")
RECALL = "summary + memory + recall"


@dataclass(frozen=True)
class Question:
    """A question about something decided early in the session, and what a right answer contains."""

    question: str
    expected: str

    def answered_by(self, answer: Answer) -> bool:
        """Whether the answer contains what was expected, in any case of letters."""
        return self.expected.lower() in answer.text.lower()


@dataclass(frozen=True)
class Arm:
    """The answers that one way to continue gave, in the order of the questions."""

    answers: Sequence[Answer]

    @property
    def read_tokens(self) -> int:
        """Tokens of the first question's context that the server did not have prefilled."""
        return self.answers[0].context_tokens - self.answers[0].cached_tokens

    @property
    def first_token_s(self) -> float:
        """Seconds to the first token of the first question."""
        return self.answers[0].first_token_s

    @property
    def later_first_token_s(self) -> float:
        """The same for the other questions, whose context the server still has prefilled: their median."""
        return statistics.median(answer.first_token_s for answer in self.answers[1:])

    @property
    def total_s(self) -> float:
        """Seconds for all answers."""
        return sum(answer.total_s for answer in self.answers)

    def figures(self, questions: Sequence[Question]) -> dict[str, Any]:
        """The arm as JSON-able values."""
        return {
            "context_tokens": self.answers[0].context_tokens,
            "read_tokens": self.read_tokens,
            "first_token_s": round(self.first_token_s, 3),
            "later_first_token_s": round(self.later_first_token_s, 3),
            "continuation_s": round(self.total_s, 3),
            "right": sum(question.answered_by(a) for question, a in zip(questions, self.answers, strict=True)),
            "answers": [answer.text for answer in self.answers],
        }


@dataclass(frozen=True)
class Stage:
    """One point of the session: the tokens of its full history, the compaction just done, the answers by arm."""

    history_tokens: int
    compaction: Compaction | None
    arms: dict[str, Arm]


@dataclass(frozen=True)
class Report:
    """All stages: before a compaction, then after each. `info` is the service's /v1/remory/info."""

    info: dict[str, Any]
    questions: Sequence[Question]
    stages: Sequence[Stage]

    def print(self, console: Console) -> None:
        """Print the tables and what to make of them."""
        console.print()
        console.print(self._measurements())
        for number, stage in enumerate(self.stages):
            console.print(self._answers(number, stage))
        for number, stage in enumerate(self.stages[1:], 1):
            assert stage.compaction is not None
            console.print(f"[bold]Summary {number}[/], written by the model:")
            console.print(Padding(escape(" ".join(stage.compaction.summary.split())), (0, 0, 1, 2)))
        console.print(self._verdict())
        console.print()

    def figures(self) -> dict[str, Any]:
        """The same as JSON-able values. Times in seconds."""
        return {
            "actor": self.info["actor"]["name"],
            "checkpoint": self.info["checkpoint"]["name"],
            "trained": self.info["checkpoint"]["trained"],
            "questions": len(self.questions),
            "stages": [self._stage_figures(stage) for stage in self.stages],
        }

    def _stage_figures(self, stage: Stage) -> dict[str, Any]:
        figures: dict[str, Any] = {"full_history_tokens": stage.history_tokens}
        if (compaction := stage.compaction) is not None:
            receipt = compaction.receipt
            figures |= {
                "tokens_before": compaction.tokens_before,
                "tokens_after": compaction.tokens_after,
                "summary_tokens": len(compaction.summary_ids),
                "rows": receipt["soft_tokens"],
                "compression_ratio": receipt["compression_ratio"],
                "memory_bytes": receipt["memory_bytes"],
                "summary_s": round(compaction.summary_s, 3),
                "encode_s": round(compaction.encode_s, 3),
            }
        return figures | {"arms": {name: arm.figures(self.questions) for name, arm in stage.arms.items()}}

    def _measurements(self) -> Table:
        table = Table(title="What the model has to read", title_justify="left", title_style="bold")
        table.add_column("")
        for name in self._names():
            table.add_column(name, justify="right")
        compactions = [stage.compaction for stage in self.stages]
        receipts = [None if done is None else done.receipt for done in compactions]

        def row(what: str, values: Sequence[Any], form: str, unit: str = "") -> None:
            table.add_row(what, *("" if value is None else f"{value:{form}}{unit}" for value in values))

        def arm(name: str, figure: str) -> list[Any]:
            return [getattr(stage.arms[name], figure) if name in stage.arms else None for stage in self.stages]

        row("full history, tokens", [stage.history_tokens for stage in self.stages], ",")
        row("with summary and memory, tokens", [done and done.tokens_after for done in compactions], ",")
        row("  of these the summary", [done and len(done.summary_ids) for done in compactions], ",")
        row("  of these rows of memory", [receipt and receipt["soft_tokens"] for receipt in receipts], ",")
        row("tokens a row stands for", [receipt and receipt["compression_ratio"] for receipt in receipts], ".1f")
        row("memory stored", [receipt and receipt["memory_bytes"] / 1024 for receipt in receipts], ",.0f", " KiB")
        table.add_section()
        row("time for the summary", [done and done.summary_s for done in compactions], ".1f", " s")
        row("time to encode and store", [done and done.encode_s for done in compactions], ".1f", " s")
        for name, words in ((FULL, "full history"), (MEMORY, "memory"), (RECALL, "memory and recall")):
            table.add_section()
            row(f"{words}: tokens read for the first question", arm(name, "read_tokens"), ",")
            row(f"{words}: first token, first question", arm(name, "first_token_s"), ".2f", " s")
            row(f"{words}: first token, later questions", arm(name, "later_first_token_s"), ".2f", " s")
            row(f"{words}: all {len(self.questions)} answers", arm(name, "total_s"), ".1f", " s")
        return table

    def _answers(self, number: int, stage: Stage) -> Table:
        table = Table(
            title=f"Answers {self._names()[number]}", title_justify="left", title_style="bold", show_lines=True
        )
        table.add_column("question and expected words", ratio=2)
        for name in stage.arms:
            table.add_column(name, ratio=3)
        for index, question in enumerate(self.questions):
            cells = [self._cell(question, arm.answers[index]) for arm in stage.arms.values()]
            table.add_row(f"{question.question}\n[dim]{question.expected}[/]", *cells)
        return table

    def _cell(self, question: Question, answer: Answer) -> str:
        text = escape(" ".join(answer.text.split()) or "(nothing)")
        return f"[green]✓ {text}[/]" if question.answered_by(answer) else text

    def _recalled_tokens(self) -> float:
        """Tokens of context that recalled texts took, the median over all questions."""
        pairs = (
            zip(stage.arms[RECALL].answers, stage.arms[MEMORY].answers, strict=True)
            for stage in self.stages
            if RECALL in stage.arms
        )
        more = [recall.context_tokens - memory.context_tokens for pair in pairs for recall, memory in pair]
        return statistics.median(more)

    def _names(self) -> list[str]:
        return ["before", *(f"after compaction {number}" for number in range(1, len(self.stages)))]

    def _verdict(self) -> str:
        actor, checkpoint = self.info["actor"]["name"], self.info["checkpoint"]
        lines = [
            f"[bold]How to read this.[/] {actor} answers greedily; a tick means that the answer contains the expected "
            "words. The server keeps prompts that it has read, so only what is new is read, and later questions start "
            "at once. The summaries are the model's own; one of this size writes poor ones."
        ]
        lines.append(
            f"«{RECALL}» searches the removed history, which is kept as text beside the rows, and puts what fits the "
            f"question into the prompt word for word: {self._recalled_tokens():.0f} tokens in the median."
        )
        if not checkpoint["trained"]:
            lines.append(
                f"The memory checkpoint {checkpoint['name']} is [bold]untrained[/]: its rows are the embeddings of the "
                f"last {checkpoint['block_tokens'] // checkpoint['compression_ratio']} tokens of every "
                f"{checkpoint['block_tokens']:,}, so expect «{MEMORY}» to answer no better than those tokens and the "
                "summary allow. The sizes, the times and the whole way from history to memory and back are real."
            )
        return "\n".join(lines)

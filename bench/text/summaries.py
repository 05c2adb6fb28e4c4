"""Summaries of the shipped dialogues by the embedded actor: what of the planted facts is kept, and what was made up.

For each dialogue: its words, seconds of the summary, planted facts found in l1 and l2 (whole tokens, whatever their
case), entities and numbers of the summary that the messages do not hold, and how the summary was made. The two last
rows are what one gets without a summariser at the same length: the end and the beginning of the dialogue.

    python -m bench.text.summaries [--limit N] [--data FILE] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from remory.actors import embedded_actor
from remory.engines.transformers import TransformersEngine
from remory.language.embedder import load_embedder
from remory.language.summarizer import ActorSummarizer, TextSummary, Turn

DATA = Path(__file__).parent / "data" / "dialogues.json"
_NUMBER = re.compile(r"(?<![\w.,:])\d+(?:[.,:]\d+)*(?!\w|[.,:]\d)")


@dataclass(frozen=True)
class Figures:
    """One dialogue. `tail` and `lead` are the facts that its last and first characters hold, as many as l1 and l2."""

    name: str
    words: int
    seconds: float
    planted: int
    found: int
    missed: tuple[str, ...]
    ungrounded: tuple[str, ...]
    method: str
    summary_words: int
    tail: int
    lead: int


def holds(text: str, phrase: str) -> bool:
    """Whether the phrase occurs as whole tokens; 42 does not occur in 1427, nor in 42.5."""
    words = r"\s+".join(re.escape(word) for word in phrase.split())
    after = r"(?!\w|[.,:]\d)" if phrase[-1:].isdigit() else r"(?!\w)"
    return re.search(rf"(?<!\w)(?<!\d[.,:]){words}{after}", text, re.IGNORECASE) is not None


def measure(dialogue: dict[str, Any], summarizer: ActorSummarizer) -> tuple[Figures, TextSummary]:
    turns = [Turn(message["role"], message["text"]) for message in dialogue["messages"]]
    began = time.perf_counter()
    summary = summarizer.summarize(turns)
    seconds = time.perf_counter() - began
    said = "\n".join(turn.text for turn in turns)
    kept = f"{summary.l1}\n{summary.l2}"
    values = [fact["value"] for fact in dialogue["facts"]]
    missed = tuple(value for value in values if not holds(kept, value))
    stated = (*summary.entities, *_NUMBER.findall(f"{summary.title}\n{kept}"))
    figures = Figures(
        name=dialogue["id"],
        words=len(said.split()),
        seconds=seconds,
        planted=len(values),
        found=len(values) - len(missed),
        missed=missed,
        ungrounded=tuple(one for one in stated if not holds(said, one)),
        method=summary.method,
        summary_words=len(kept.split()),
        tail=sum(holds(said[-len(kept) :], value) for value in values),
        lead=sum(holds(said[: len(kept)], value) for value in values),
    )
    return figures, summary


def table_of(all_figures: Sequence[Figures]) -> Table:
    planted = sum(one.planted for one in all_figures)

    def share(found: int) -> str:
        return f"{found} / {planted} = {found / planted:.0%}" if planted else "-"

    def median(values: Sequence[float]) -> float:
        return statistics.median(values)

    table = Table(title="summaries by the embedded actor", title_justify="left")
    table.add_column("dialogue")
    for column in ("words", "of the summary", "seconds", "facts kept", "ungrounded"):
        table.add_column(column, justify="right")
    table.add_column("method")
    for one in all_figures:
        made_up = ", ".join(one.ungrounded) or "0"
        found = f"{one.found} / {one.planted}"
        table.add_row(
            one.name, str(one.words), str(one.summary_words), f"{one.seconds:.1f}", found, made_up, one.method
        )
    table.add_section()
    table.add_row(
        "all: medians, sums",
        f"{median([one.words for one in all_figures]):.0f}",
        f"{median([one.summary_words for one in all_figures]):.0f}",
        f"{median([one.seconds for one in all_figures]):.1f}",
        share(sum(one.found for one in all_figures)),
        str(sum(len(one.ungrounded) for one in all_figures)),
        f"{sum(one.method == 'model' for one in all_figures)} model",
    )
    table.add_row("the end of the dialogue, as long", "", "", "", share(sum(one.tail for one in all_figures)), "", "-")
    table.add_row("its beginning, as long", "", "", "", share(sum(one.lead for one in all_figures)), "", "-")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.text.summaries",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--limit", type=int, metavar="N", help="the first N dialogues only")
    parser.add_argument("--data", type=Path, metavar="FILE", default=DATA, help="other dialogues of the same form")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write figures and summaries there")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    dialogues = json.loads(options.data.read_text())[: options.limit]
    if not dialogues:
        print(f"bench: no dialogues in {options.data}", file=sys.stderr)
        return 1
    engine = TransformersEngine(embedded_actor(), None)
    try:
        summarizer = ActorSummarizer(engine, load_embedder())
        # The first one makes what constraints need of the vocabulary.
        summarizer.summarize([Turn("user", "The archive has to be copied once."), Turn("assistant", "I will copy it.")])
        measured = [measure(dialogue, summarizer) for dialogue in dialogues]
    finally:
        engine.close()
    console.print(table_of([figures for figures, _ in measured]))
    if options.json:
        rows = [{**asdict(figures), "summary": asdict(summary)} for figures, summary in measured]
        options.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False))
    return 1 if any(figures.ungrounded for figures, _ in measured) else 0


if __name__ == "__main__":
    sys.exit(main())

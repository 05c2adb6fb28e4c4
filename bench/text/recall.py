"""How well notes are found again: recall@1, recall@3 and the mean reciprocal rank of 100 questions to 200 notes.

The notes, among them many that are nearly alike, and the questions stand in `data/recall.json`. They go through the
service's own code with the embedded embedding model: by cosine alone, and by the hybrid of cosine and words. Where a
question has several answers, recall is the share of them (or of k) that was found, and the reciprocal rank is that of
the first. The last line is all figures as JSON. The exit code is 1 when a bar was missed.

    python -m bench.text.recall                            on SQLite, a quarter of a minute
    python -m bench.text.recall --store postgresql://…     on an empty PostgreSQL database
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.service.report import Bar, show_bars
from rich.console import Console
from rich.table import Table

from remory.language.embedder import Embedder, load_embedder
from remory_service import notes
from remory_service.config import Config
from remory_service.runtime import Runtime
from remory_service.search import Searcher
from remory_service.store.database import close_store, open_store
from remory_service.texts import COSINE, HYBRID, Texts

DATA = Path(__file__).parent / "data" / "recall.json"
ALL = "all"
BARS = {COSINE: 0.90, HYBRID: 0.95}
_SEEN = 20


@dataclass(frozen=True)
class Quality:
    """Means over the questions of a kind."""

    questions: int
    recall_1: float
    recall_3: float
    reciprocal_rank: float


@dataclass(frozen=True)
class _Asked:
    """A question, and the ids of its answers among those found, the best first."""

    kind: str
    answers: frozenset[str]
    found: Sequence[str]

    def recall(self, k: int) -> float:
        return len(self.answers & set(self.found[:k])) / min(k, len(self.answers))

    def reciprocal_rank(self) -> float:
        return next((1 / rank for rank, one in enumerate(self.found, 1) if one in self.answers), 0.0)


class _Prepared(Embedder):
    """The vectors of some texts, all made in one go, which takes a fifth of the time."""

    def __init__(self, embedder: Embedder, texts: Sequence[str]):
        self.model = embedder.model
        self._dimension = embedder.dimension
        self._vectors = dict(zip(texts, embedder.embed(texts), strict=True))

    @property
    def dimension(self) -> int:
        return self._dimension

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._vectors[text] for text in texts])


def measure(folder: Path, store: str | None, embedder: Embedder) -> dict[str, dict[str, Quality]]:
    """By mode and by kind of question, on a fresh store."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    every = [note["content"] for note in data["notes"]] + [one["question"] for one in data["questions"]]
    prepared = _Prepared(embedder, list(dict.fromkeys(every)))
    open_store(folder, store)
    try:
        texts = Texts(Runtime(Config(data=folder, store=store), embedder=prepared), Searcher(1 << 30))
        scope = notes.notes_of(str(uuid.uuid4()))
        saved: dict[str, str] = {}
        for note in data["notes"]:
            metadata = json.dumps(note["metadata"]).encode()
            saved[notes.save(texts, scope, None, note["content"], metadata, 0)] = note["id"]
        return {mode: _quality(_ask(texts, scope, saved, data["questions"], mode)) for mode in BARS}
    finally:
        close_store()


def _ask(texts: Texts, scope: Any, saved: dict[str, str], questions: Any, mode: str) -> list[_Asked]:
    asked = []
    for one in questions:
        conditions = notes.conditions_of(one.get("filter", {}))
        found = notes.recall(texts, scope, one["question"], _SEEN, conditions, mode)
        ids = [saved[recalled.passage.name] for recalled in found]
        asked.append(_Asked(one["kind"], frozenset(one["answers"]), ids))
    return asked


def _quality(asked: Sequence[_Asked]) -> dict[str, Quality]:
    kinds = [*dict.fromkeys(one.kind for one in asked), ALL]
    found = {}
    for kind in kinds:
        some = [one for one in asked if kind in (one.kind, ALL)]
        sums = [
            sum(one.recall(1) for one in some),
            sum(one.recall(3) for one in some),
            sum(one.reciprocal_rank() for one in some),
        ]
        found[kind] = Quality(len(some), *(total / len(some) for total in sums))
    return found


def main() -> int:
    options = _parser().parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with tempfile.TemporaryDirectory(prefix="remory-bench-") as folder:
        measured = measure(Path(folder), options.store, load_embedder())
    table = Table(title="how well notes are found again", title_justify="left")
    for column in ("mode", "kind of question", "questions", "recall@1", "recall@3", "MRR"):
        table.add_column(column, justify="left" if column in ("mode", "kind of question") else "right")
    for mode, kinds in measured.items():
        for kind, quality in kinds.items():
            figures = (quality.recall_1, quality.recall_3, quality.reciprocal_rank)
            style = "bold" if kind == ALL else None
            table.add_row(mode, kind, str(quality.questions), *(f"{figure:.3f}" for figure in figures), style=style)
        table.add_section()
    console.print(table)
    bars = [
        Bar(f"recall@3, {mode}: at least {bar:.2f}", f"{found:.3f}", found >= bar)
        for mode, bar in BARS.items()
        for found in [measured[mode][ALL].recall_3]
    ]
    show_bars(console, bars)
    print(json.dumps({mode: {kind: asdict(one) for kind, one in kinds.items()} for mode, kinds in measured.items()}))
    return 0 if all(bar.met for bar in bars) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.text.recall", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", metavar="URL", help="an empty PostgreSQL database (default: an SQLite file)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

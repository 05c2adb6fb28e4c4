"""How many facts of a removed history are found again by `recall`, word for word, within a budget of tokens.

The 30 dialogues of `data/dialogues.json` are cut into chunks as a compaction cuts them, with the embedded actor's own
tokenizer and chat template, and kept as the histories of one long session, a compaction for each dialogue. Every
planted fact is asked for by what it is about and the dialogue's topic, once in its own history and once in those of the
whole session. Found means that the fact's value stands in the texts that would go into the prompt. Beside it stands the
end of the history, as much as fits the same budget. The last line is all figures as JSON.

    python -m bench.text.history
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from remory.actors import embedded_actor, load_tokenizer
from remory.compaction.history import cut_history
from remory.language.embedder import load_embedder
from remory_service.api.bodies import RecallBody
from remory_service.api.recall import Prompt, fit, recollections
from remory_service.config import Config
from remory_service.histories import Histories
from remory_service.runtime import Runtime
from remory_service.search import Searcher
from remory_service.speech import Speech
from remory_service.store import histories, passages
from remory_service.store.database import close_store, connection, now_ms, open_store, transaction
from remory_service.store.passages import Collection, Text
from remory_service.texts import COSINE, HYBRID, Question, Texts

DATA = Path(__file__).parent / "data" / "dialogues.json"
BUDGETS = (128, 256, 512)


@dataclass(frozen=True)
class _History:
    """A dialogue as the actor reads it, and where it is kept."""

    topic: str
    facts: Sequence[dict[str, str]]
    ids: list[int]
    collection: int


def main() -> int:
    argparse.ArgumentParser(
        prog="python -m bench.text.history", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    tokenizer = load_tokenizer(embedded_actor())
    speech = Speech(tokenizer, {tokenizer.eos_token_id})
    with tempfile.TemporaryDirectory(prefix="remory-bench-") as folder:
        open_store(Path(folder))
        try:
            figures = _measure(Path(folder), speech)
        finally:
            close_store()
    table = Table(title="facts of a removed history that are found again", title_justify="left")
    for column in ("searched", "mode", *(f"{budget} tokens" for budget in BUDGETS)):
        table.add_column(column, justify="left" if column in ("searched", "mode") else "right")
    for (searched, mode), found in figures["found"].items():
        table.add_row(searched, mode, *(f"{share:.1%}" for share in found))
    console.print(table)
    console.print(f"{figures['facts']} facts in {figures['tokens']:,} tokens, {figures['chunks']} chunks")
    figures["found"] = [
        {"searched": key[0], "mode": key[1], "shares": shares} for key, shares in figures["found"].items()
    ]
    print(json.dumps(figures | {"budgets": BUDGETS}))
    return 0


def _measure(folder: Path, speech: Speech) -> dict[str, Any]:
    texts = Texts(Runtime(Config(data=folder), embedder=load_embedder()), Searcher(1 << 30))
    kept = [_keep(dialogue, speech) for dialogue in json.loads(DATA.read_text(encoding="utf-8"))]
    every = [history.collection for history in kept]
    Histories(texts).embed(every, lambda: None)
    asked_for = {f"{one.topic}: {fact['about']}" for one in kept for fact in one.facts}
    questions = {text: texts.ask(text) for text in sorted(asked_for)}
    found: dict[tuple[str, str], list[float]] = {}
    for searched, mode in (
        ("its own history", COSINE),
        ("its own history", HYBRID),
        ("the whole session", COSINE),
        ("the whole session", HYBRID),
        ("end of its own history", "none"),
    ):
        shares = []
        for budget in BUDGETS:
            asked = RecallBody(handle=True, max_tokens=budget, mode=HYBRID if mode == "none" else mode)
            hits = []
            for history in kept:
                places = every if searched == "the whole session" else [history.collection]
                for fact in history.facts:
                    if mode == "none":
                        text = speech.tokenizer.decode(history.ids[-budget:], skip_special_tokens=True)
                    else:
                        text = _recalled(texts, places, questions[f"{history.topic}: {fact['about']}"], asked, speech)
                    hits.append(_holds(text, fact["value"]))
            shares.append(sum(hits) / len(hits))
        found[searched, mode] = shares
    with connection():
        chunks = sum(len(passages.page(collection, 10_000)) for collection in every)
    tokens = sum(len(history.ids) for history in kept)
    return {"found": found, "facts": sum(len(h.facts) for h in kept), "tokens": tokens, "chunks": chunks}


def _keep(dialogue: dict[str, Any], speech: Speech) -> _History:
    messages = [{"role": message["role"], "content": message["text"]} for message in dialogue["messages"]]
    rendered = speech.tokenizer.apply_chat_template(messages, tokenize=False)
    ids = speech.tokenizer.encode(rendered, add_special_tokens=False)
    with connection(), transaction():
        collection = passages.make_collection(Collection(histories.KIND, dialogue["id"]))
        for number, chunk in enumerate(cut_history(ids, speech.tokenizer, speech.ends)):
            passages.put(collection, Text(f"{number:06}", chunk.text, b"{}", {}), now_ms())
    return _History(dialogue["topic"], dialogue["facts"], ids, collection)


def _recalled(texts: Texts, places: Sequence[int], question: Question, asked: RecallBody, speech: Speech) -> str:
    with connection():
        found = recollections(texts, places, question, asked)
    prompt = Prompt([], speech, asked.max_tokens, lambda: None)
    return "\n".join(item.text for item in fit(found, asked, prompt).items)


def _holds(text: str, value: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text, re.IGNORECASE) is not None


if __name__ == "__main__":
    sys.exit(main())

"""Retrieved text as a rival of memory: the sentences of a removed history that are nearest to a question."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from remory.language.embedder import Embedder

_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"')\]]))\s+")
_SHORTEST = 3

Encode = Callable[[Sequence[str]], list[list[int]]]


class SentenceIndex:
    """The sentences and lines of a history, oldest first, each with its tokens and its vector.

    `encode` makes token ids of texts, without special tokens.
    """

    def __init__(self, embedder: Embedder, encode: Encode):
        self._embedder = embedder
        self._encode = encode
        self._ids: list[list[int]] = []
        self._vectors = np.zeros((0, embedder.dimension), np.float32)
        self._questions: dict[str, np.ndarray] = {}

    def add(self, texts: Sequence[str]) -> None:
        """Add messages behind those that are there."""
        sentences = [sentence for text in texts for sentence in cut_sentences(text)]
        if sentences:
            self._ids += self._encode([f"{sentence}\n" for sentence in sentences])
            self._vectors = np.concatenate([self._vectors, self._embedder.embed(sentences)])

    def best(self, question: str, tokens: int) -> list[int]:
        """At most `tokens` token ids: the sentences nearest to the question that fit, in the order of the history.

        Where not even the nearest fits, its beginning.
        """
        if not self._ids:
            return []
        if question not in self._questions:
            self._questions[question] = self._embedder.embed([question])[0]
        order = np.argsort(-(self._vectors @ self._questions[question]), kind="stable")
        chosen: list[int] = []
        left = tokens
        for place in order.tolist():
            if len(self._ids[place]) <= left:
                chosen.append(place)
                left -= len(self._ids[place])
        if not chosen:
            return self._ids[int(order[0])][:tokens]
        return [token for place in sorted(chosen) for token in self._ids[place]]


def cut_sentences(text: str) -> list[str]:
    """The lines of a text, and the sentences of each, without blank ones and those of one or two characters."""
    pieces = (piece.strip() for line in text.splitlines() for piece in _SENTENCE_END.split(line))
    return [piece for piece in pieces if len(piece) >= _SHORTEST]

"""Remembered texts: made into vectors, kept as passages, found again by meaning and by words.

Chat memories, notes and removed histories all go through here: one place embeds, one place ranks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from remory.search import Condition
from remory.search.packing import pack_vector, unpack_vector
from remory_service.errors import Unavailable
from remory_service.runtime import Runtime
from remory_service.search import Searcher
from remory_service.store import passages, words
from remory_service.store.passages import Passage, PassageVectors
from remory_service.store.words import Match

COSINE, HYBRID = "cosine", "hybrid"
# How many of each ranking are fused, and how much less a place counts than the one before it (Cormack, Clarke and
# Büttcher, «Reciprocal rank fusion», SIGIR 2009). What a passage gets for its words is weighed by the square of their
# share of the question: of passages that share a common word or two with it, one is always the first.
_FUSED = 200
_RANK_CONSTANT = 20
# Found beyond those asked for, in case some are deleted before they are read.
_SPARE = 16
_TRIES = 3


@dataclass(frozen=True)
class Question:
    """A text to search for, and its vector [D] float32 by the model of that name."""

    text: str
    vector: np.ndarray
    model: str


@dataclass(frozen=True)
class Recalled:
    """A passage that was found. `score`: its cosine with the question, -1 to 1."""

    passage: Passage
    score: float


class Texts:
    """Embeds and finds texts, with the runtime's embedder and the store. Thread-safe."""

    def __init__(self, runtime: Runtime, searcher: Searcher):
        self._runtime = runtime
        self._searcher = searcher
        self._places = threading.BoundedSemaphore(max(1, runtime.config.threads // 2))

    @property
    def model(self) -> str:
        """The name of the model that embeds. Raises Unavailable."""
        name: str = self._runtime.embedder().model
        return name

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text. Takes its time: not inside a transaction. Raises Unavailable or EmbedderFailed."""
        embedder = self._runtime.embedder()
        with self._place():
            rows = embedder.embed(texts)
        return [Vector(embedder.model, embedder.dimension, pack_vector(row)) for row in rows]

    def ask(self, text: str) -> Question:
        """A question to `recall` with. Raises Unavailable, EmbedderFailed."""
        embedder = self._runtime.embedder()
        with self._place():
            return Question(text, embedder.embed([text])[0], embedder.model)

    def recall(
        self,
        collections: Sequence[int],
        question: Question,
        k: int,
        conditions: Sequence[Condition] = (),
        mode: str = COSINE,
    ) -> list[Recalled]:
        """The `k` best passages of these collections that meet all conditions; needs a connection.

        By descending cosine, or with mode "hybrid" by the reciprocal ranks of cosine and words together. Only passages
        with a vector of the question's own model are found. Raises EmbedderFailed when the store has that model with
        vectors of another dimension.
        """
        model = passages.find_model(question.model, len(question.vector))
        if model is None:
            return []
        asked = _Asked(collections, question, model, conditions)
        for _ in range(_TRIES):
            scores = self._by_words(asked, k) if mode == HYBRID else self._nearest(asked, k + _SPARE)
            recalled = _load(scores, k, conditions)
            # What was deleted or changed since is not among them; the next search finds others in its place.
            if len(recalled) == k or len(recalled) == len(scores):
                break
        return recalled

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among those who embed: as many threads of the server stay free for what needs no model."""
        if not self._places.acquire(blocking=False):
            raise Unavailable("many texts are being embedded now")
        try:
            yield
        finally:
            self._places.release()

    def _nearest(self, asked: _Asked, k: int) -> dict[int, float]:
        """The cosines of the k nearest passages, best first."""
        hits = [
            hit
            for collection in asked.collections
            for hit in self._searcher.search(
                PassageVectors(collection, asked.model), asked.question.vector, k, asked.conditions
            ).hits
        ]
        return {hit.id: hit.score for hit in sorted(hits, key=lambda hit: (-hit.score, hit.key))[:k]}

    def _by_words(self, asked: _Asked, k: int) -> dict[int, float]:
        """Cosines of passages, best first by the ranks of cosine and words together."""
        near = self._nearest(asked, max(k + _SPARE, _FUSED))
        matches = list(_meeting(words.find(asked.collections, asked.question.text), asked.conditions))
        missing = [match.passage for match in matches if match.passage not in near]
        vectors = passages.vectors_of(missing, asked.model)
        cosines = near | {passage: _cosine(asked.question.vector, content) for passage, content in vectors.items()}
        sums = {passage: 1 / (_RANK_CONSTANT + rank) for rank, passage in enumerate(near, 1)}
        for match, rank in zip(matches, _ranks([match.share for match in matches]), strict=True):
            if match.passage in cosines:
                sums[match.passage] = sums.get(match.passage, 0) + match.share**2 / (_RANK_CONSTANT + rank)
        best = sorted(sums, key=lambda passage: (-sums[passage], -cosines[passage], passage))
        return {passage: cosines[passage] for passage in best}


@dataclass(frozen=True)
class _Asked:
    """What is searched for, and where; `model`: the id of that of the question."""

    collections: Sequence[int]
    question: Question
    model: int
    conditions: Sequence[Condition]


@dataclass(frozen=True)
class Vector:
    """One text's vector, packed for the store, and what made it."""

    model: str
    dimension: int
    content: bytes

    def by_model(self) -> dict[int, bytes]:
        """The vector under its model's id, as passages take it. Needs a transaction."""
        return {passages.make_model(self.model, self.dimension): self.content}


def _load(scores: Mapping[int, float], k: int, conditions: Sequence[Condition]) -> list[Recalled]:
    """The first `k` of the passages that are still there and still meet the conditions."""
    recalled: list[Recalled] = []
    ids = list(scores)
    while ids and len(recalled) < k:
        some, ids = ids[: k - len(recalled)], ids[k - len(recalled) :]
        found = passages.get_many(some)
        recalled += [
            Recalled(found[passage], scores[passage])
            for passage in some
            if passage in found and _meets(found[passage].metadata, conditions)
        ]
    return recalled


def _meeting(matches: Sequence[Match], conditions: Sequence[Condition]) -> Iterator[Match]:
    """The first matches that meet the conditions, as many as are fused."""
    left = _FUSED
    for begin in range(0, len(matches), _FUSED):
        some = matches[begin : begin + _FUSED]
        held = passages.metadata_of([match.passage for match in some]) if conditions else {}
        for match in some:
            if left and (not conditions or (match.passage in held and _meets(held[match.passage], conditions))):
                left -= 1
                yield match
        if not left:
            return


def _ranks(shares: Sequence[float]) -> list[int]:
    """Ranks of descending shares; equal shares have the same."""
    ranks: list[int] = []
    for place, share in enumerate(shares):
        ranks.append(ranks[-1] if place and share == shares[place - 1] else place + 1)
    return ranks


def _meets(metadata: bytes, conditions: Sequence[Condition]) -> bool:
    if not conditions:
        return True
    held: Mapping[str, Any] = json.loads(metadata)
    return all(condition.is_met(held) for condition in conditions)


def _cosine(question: np.ndarray, content: bytes) -> float:
    vector = unpack_vector(content, len(question)).astype(np.float64)
    exact = question.astype(np.float64)
    cosine = float(vector @ exact / (np.linalg.norm(vector) * np.linalg.norm(exact)))
    return round(min(max(cosine, -1.0), 1.0), 12) + 0.0

"""Vectors of every passage by another embedding model, while servers go on with the one they have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from remory.errors import EmbedderFailed
from remory.search.packing import pack_vector
from remory_service.errors import ServiceError
from remory_service.store import passages
from remory_service.store.database import connection, transaction

# What is lost when it is stopped. A batch must not hold the store's one writer up for long either.
_BATCH_TEXTS = 128
_BATCH_CHARACTERS = 64_000
_MOST_FAILURES = 8

_Lacking = tuple[int, int, str]


class StillLacking(ServiceError):
    """Some passages have no vector of the model that is to be the only one."""


@dataclass
class Progress:
    """How far it is: passages that got a vector, and those that, when the round began, were still to get one.
    `refused`: those whose text the model cannot embed, with what it said of the last of them.
    """

    done: int = 0
    left: int = 0
    refused: int = 0
    reason: str = ""


@dataclass(frozen=True)
class StoredVectors:
    """A model that the store has vectors of, and of how many passages."""

    model: str
    dimension: int
    passages: int


class Reembedding:
    """Gives every passage of the open store that lacks one a vector of `embedder`, a `remory.language.Embedder`.

    `progress` is how far it is, whatever ends it: what was done by then stays.
    """

    def __init__(self, embedder: Any):
        self.progress = Progress()
        self._embedder = embedder
        self._model = 0
        self._refused: set[int] = set()
        self._failures = 0

    def run(self, watch: Callable[[Progress], None] = lambda progress: None) -> None:
        """Work until nothing lacks; `watch` is called after each batch.

        A passage that is changed or deleted while the model works on it is left to the next round. Texts that the model
        refuses are left out and counted. Raises EmbedderFailed when it refuses many in a row, or when the store has
        that model with vectors of another dimension.
        """
        dimension = self._embedder.dimension
        with connection(), transaction():
            self._model = passages.make_model(self._embedder.model, dimension)
        while self._round(watch):
            pass

    def _round(self, watch: Callable[[Progress], None]) -> bool:
        """Go through all that lacks a vector once; False when there was nothing to try."""
        with connection():
            self.progress.left = passages.count_lacking(self._model) - len(self._refused)
        watch(self.progress)
        tried, after = False, 0
        while True:
            with connection():
                page = passages.lacking(self._model, None, after, _BATCH_TEXTS)
            if not page:
                return tried
            after = page[-1][1]
            for batch in _batches([one for one in page if one[1] not in self._refused]):
                tried = True
                self._embed(batch)
                watch(self.progress)

    def _embed(self, batch: Sequence[_Lacking]) -> None:
        try:
            rows = self._embedder.embed([text for _, _, text in batch])
        except EmbedderFailed as failed:
            if len(batch) == 1:
                self._refuse(batch[0], failed)
            else:
                # One of them may be the reason.
                for one in batch:
                    self._embed([one])
            return
        self._failures = 0
        self._store(batch, [pack_vector(row) for row in rows])

    def _refuse(self, one: _Lacking, failed: EmbedderFailed) -> None:
        self._failures += 1
        if self._failures == _MOST_FAILURES:
            raise failed
        self._refused.add(one[1])
        self.progress.refused += 1
        self.progress.reason = str(failed)
        self.progress.left -= 1

    def _store(self, batch: Sequence[_Lacking], vectors: Sequence[bytes]) -> None:
        with connection(), transaction():
            there = passages.get_many([passage for _, passage, _ in batch])
            for (collection, passage, text), vector in zip(batch, vectors, strict=True):
                if passage in there and there[passage].text == text:
                    passages.set_vector(collection, passage, self._model, vector)
                    self.progress.done += 1
                self.progress.left -= 1


def stored_vectors() -> list[StoredVectors]:
    """The models that the open store has vectors of, the oldest first."""
    with connection():
        return [StoredVectors(*row) for row in passages.count_vectors()]


def prune(name: str) -> int:
    """Remove the vectors of all models but one from the open store, and return how many those were.

    Raises StillLacking when a passage has no vector of that one.
    """
    with connection(), transaction():
        model = passages.find_model(name)
        lacking = passages.count_lacking(model or 0)
        if lacking or model is None:
            raise StillLacking(f"nothing is removed: {lacking} passages have no vector of {name}")
        return passages.remove_other_vectors(model)


def _batches(page: Sequence[_Lacking]) -> Iterator[list[_Lacking]]:
    """Passages in their order, no more characters together than are embedded in some seconds."""
    sizes = itertools.accumulate(len(text) for _, _, text in page)
    numbered = zip(page, sizes, strict=True)
    for _, some in itertools.groupby(numbered, key=lambda pair: pair[1] // _BATCH_CHARACTERS):
        yield [one for one, _ in some]

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from bench.text.recall import ALL, BARS, measure

from remory.errors import EmbedderFailed
from remory.language.embedder import Embedder, SentenceEncoder
from remory.search import Condition
from remory_service.config import Config
from remory_service.errors import Unavailable
from remory_service.runtime import Runtime
from remory_service.search import Searcher
from remory_service.store import passages
from remory_service.store.database import transaction
from remory_service.store.passages import Collection, Text
from remory_service.texts import COSINE, HYBRID, Question, Texts

MODES = pytest.mark.parametrize("mode", [COSINE, HYBRID])


@pytest.fixture
def texts(store: object, embedder: SentenceEncoder) -> Iterator[Texts]:
    yield Texts(Runtime(Config(), embedder=embedder), Searcher(1 << 30))


def fill(texts: Texts, contents: list[str], owner: str = "a", **metadata: object) -> int:
    """A collection of these texts, named by their places; its id."""
    vectors = texts.embed(contents)
    with transaction():
        collection = passages.make_collection(Collection("notes", owner))
        for number, (content, vector) in enumerate(zip(contents, vectors, strict=True)):
            data = json.dumps({"number": number, **metadata}).encode()
            passages.put(collection, Text(f"{owner} {number}", content, data, vector.by_model()), 0)
    return collection


def names(texts: Texts, collections: list[int], question: str, k: int, mode: str, *conditions: Condition) -> list[str]:
    return [one.passage.name for one in texts.recall(collections, texts.ask(question), k, conditions, mode)]


def test_the_shipped_set_is_found(tmp_path: Path, database_url: str | None, embedder: SentenceEncoder) -> None:
    measured = measure(tmp_path, database_url, embedder)
    for mode, bar in BARS.items():
        assert measured[mode][ALL].questions == 100
        assert measured[mode][ALL].recall_3 >= bar
    # What it is for, and not at the others' cost.
    assert measured[HYBRID]["exact"].recall_3 > measured[COSINE]["exact"].recall_3
    for kind, quality in measured[COSINE].items():
        assert measured[HYBRID][kind].recall_3 >= quality.recall_3


def test_codes_are_found_by_their_words(texts: Texts) -> None:
    contents = [f"Error E{number} is a fault of the disk." for number in range(4100, 4200)]
    collection = fill(texts, contents)
    assert names(texts, [collection], "E4172", 1, HYBRID) == ["a 72"]
    found = texts.recall([collection], texts.ask("What does E4172 mean?"), 100, (), HYBRID)
    assert found[0].passage.name == "a 72"
    assert len(found) == 100
    vectors, asked = texts.embed([one.passage.text for one in found]), texts.ask("What does E4172 mean?").vector
    for one, vector in zip(found, vectors, strict=True):
        assert one.score == pytest.approx(float(np.frombuffer(vector.content, np.float32)[-384:] @ asked), abs=1e-5)


@MODES
def test_several_collections_are_one(texts: Texts, mode: str) -> None:
    first = fill(texts, ["The blue lamp stands in the hall.", "The garden is wet."], "a")
    second = fill(texts, ["The blue lamp is broken.", "Bread is baked at six."], "b")
    found = names(texts, [first, second], "blue lamp", 2, mode)
    assert set(found) == {"a 0", "b 0"}
    assert len(names(texts, [first, second], "blue lamp", 9, mode)) == 4
    assert names(texts, [second], "blue lamp", 1, mode) == ["b 0"]
    assert names(texts, [], "blue lamp", 1, mode) == []


@MODES
def test_conditions_hold_before_the_best_are_chosen(texts: Texts, mode: str) -> None:
    collection = fill(texts, [f"The blue lamp, number {number}." for number in range(300)])
    wanted = Condition("number", (7, 150, 299, 1000))
    found = names(texts, [collection], "The blue lamp, number 20.", 3, mode, wanted)
    assert sorted(found) == ["a 150", "a 299", "a 7"]
    assert names(texts, [collection], "lamp", 3, mode, wanted, Condition("number", (8,))) == []


@MODES
def test_only_vectors_of_the_questions_model_are_compared(texts: Texts, mode: str) -> None:
    collection = fill(texts, ["The blue lamp."])
    question = texts.ask("blue lamp")
    other = Question(question.text, question.vector[:8], "other")
    assert texts.recall([collection], other, 3, (), mode) == []
    with transaction():
        passages.make_model("other", 8)
        passages.put(collection, Text("new", "blue lamp", b"{}", {}), 0)
    assert texts.recall([collection], other, 3, (), mode) == []
    assert [one.passage.name for one in texts.recall([collection], question, 3, (), mode)] == ["a 0"]
    with pytest.raises(EmbedderFailed, match="gives vectors of 4 elements and the store has it with 8"):
        texts.recall([collection], Question("x", question.vector[:4], "other"), 3, (), mode)


def test_without_an_embedder(store: object) -> None:
    texts = Texts(Runtime(Config()), Searcher(1 << 30))
    for ask in (lambda: texts.model, lambda: texts.embed(["a"]), lambda: texts.ask("a")):
        with pytest.raises(Unavailable, match="the embedder is not ready: starting"):
            ask()


def test_no_text_has_no_vector(texts: Texts) -> None:
    assert texts.embed([]) == []


class _Slow(Embedder):
    """Takes its time until it is told to end."""

    model = "slow"
    dimension = 2

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.begun.release()
        assert self.go.wait(60)
        return np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(texts), 1))


def test_embedding_takes_half_of_the_threads_at_most() -> None:
    slow = _Slow()
    texts = Texts(Runtime(Config(threads=4), embedder=slow), Searcher(1 << 30))
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(texts.ask, "a") for _ in range(2)]
        for _ in running:
            assert slow.begun.acquire(timeout=60)
        with pytest.raises(Unavailable, match="being embedded"):
            texts.embed(["b"])
        slow.go.set()
        assert [one.result(60).model for one in running] == ["slow", "slow"]
    assert len(texts.embed(["b"])) == 1

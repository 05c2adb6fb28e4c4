"""The sentences nearest to a question, within a number of tokens."""

from __future__ import annotations

import pytest

from remory.actors import embedded_actor, load_tokenizer
from remory.evaluation.retrieval import SentenceIndex, cut_sentences

TALK = [
    "Good morning. The kettle is in the blue cupboard. It was rainy again!",
    "$ df\n/dev/sda1 41 % full\nThe backup runs at four in the morning.",
    "We painted the boat last summer, and the neighbours came to help.",
]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(embedded_actor())


@pytest.fixture(scope="module")
def index(embedder, tokenizer):
    def encode(texts):
        return [tokenizer.encode(text, add_special_tokens=False) for text in texts]

    made = SentenceIndex(embedder, encode)
    made.add(TALK[:2])
    made.add(TALK[2:])
    return made


def test_texts_are_cut_at_lines_and_sentences():
    assert cut_sentences('He said "stop." Then 3.5 l ran out!\n\n  a\nnext line') == [
        'He said "stop."',
        "Then 3.5 l ran out!",
        "next line",
    ]


def test_the_nearest_sentence_comes_first(index, tokenizer):
    found = index.best("When does the nightly backup start?", 12)
    assert tokenizer.decode(found).strip() == "The backup runs at four in the morning."


def test_what_fits_stands_in_the_order_of_the_history(index, tokenizer):
    everything = index.best("boat", 1000)
    lines = tokenizer.decode(everything).strip().split("\n")
    assert lines == [sentence for text in TALK for sentence in cut_sentences(text)]
    for room in (5, 20, 40):
        assert len(index.best("boat", room)) <= room


def test_the_beginning_of_the_nearest_where_nothing_fits(index, tokenizer):
    assert tokenizer.decode(index.best("Where is the kettle?", 2)) in "The kettle is in the blue cupboard."


def test_an_empty_history_gives_nothing(embedder):
    assert SentenceIndex(embedder, lambda texts: []).best("anything", 9) == []

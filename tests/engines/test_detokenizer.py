from __future__ import annotations

import pytest

from remory.engines.detokenizer import Detokenizer

from ..conftest import make_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer()


def push_all(tokenizer, text: str, stops: tuple[str, ...] = ()) -> tuple[Detokenizer, list[str]]:
    detokenizer, shown = Detokenizer(tokenizer, stops), []
    for token in tokenizer.encode(text, add_special_tokens=False):
        detokenizer.push(token)
        shown.append(detokenizer.text)
        if detokenizer.matched is not None:
            break
    return detokenizer, shown


@pytest.mark.parametrize("text", ["plain words", "naïve café — 東京 🙂🙂", "a\n\tb", ""])
def test_the_text_comes_back_and_never_shows_half_a_character(tokenizer, text):
    detokenizer, shown = push_all(tokenizer, text)
    assert detokenizer.finish() == text
    assert all(text.startswith(part) for part in shown)


def test_no_part_of_a_stop_text_is_ever_shown(tokenizer):
    detokenizer, shown = push_all(tokenizer, "before</answer>after", ("</answer>",))
    assert detokenizer.matched == "</answer>"
    assert detokenizer.finish() == "before"
    assert all("<" not in part for part in shown)


def test_a_false_beginning_of_a_stop_text_is_shown_in_the_end(tokenizer):
    detokenizer, _ = push_all(tokenizer, "x</ans", ("</answer>",))
    assert detokenizer.text == "x"
    assert detokenizer.finish() == "x</ans"


def test_the_first_of_several_stop_texts_counts(tokenizer):
    detokenizer, _ = push_all(tokenizer, "one two three", ("three", "two"))
    assert (detokenizer.matched, detokenizer.finish()) == ("two", "one ")

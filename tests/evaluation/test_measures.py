"""Right, refused, how old, how unlikely: each on cases whose outcome a person can see."""

from __future__ import annotations

import math

import pytest

from remory.errors import EngineFailed
from remory.evaluation.measures import age_bin, is_refusal, is_right, mean_loss


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It listens on port 9417.", "9417"),
        ("The AMBER relay,\n of course", "amber  relay"),
        ("See /srv/app/conf.toml for it", "/srv/app/conf.toml"),
        ("(12.5 GiB)", "12.5 GiB"),
        ("In 12 days. Or so", "12 days"),
        ("the room: 7, upstairs", "7"),
        ("It was v2.", "v2"),
    ],
)
def test_expected_words_in_an_answer_are_right(answer, expected):
    assert is_right(answer, [expected])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It listens on port 94170.", "9417"),
        ("19417", "9417"),
        ("12.5 hours", "5"),
        ("12.5 hours", "12"),
        ("1,200 rows", "200"),
        ("at 10:30", "10"),
        ("version v2.1", "v2"),
        ("the ambers", "amber"),
        ("amber, the relay", "amber relay"),
        ("", "amber"),
    ],
)
def test_a_part_of_a_longer_word_or_number_is_not(answer, expected):
    assert not is_right(answer, [expected])


def test_any_accepted_form_is_right():
    assert is_right("twelve days", ["12 days", "twelve days"])
    assert not is_right("a dozen days", ["12 days", "twelve days"])


@pytest.mark.parametrize(
    "answer",
    [
        "This was not mentioned in our conversation.",
        "I don't know.",
        "There is no information about that.",
        "It is unknown.",
        "The conversation does not say which port it is.",
        "I’m sorry, but I cannot find it.",
        "I am not sure which one.",
        "The text doesn't specify the colour.",
    ],
)
def test_saying_not_to_know_is_a_refusal(answer):
    assert is_refusal(answer)


@pytest.mark.parametrize(
    "answer", ["Port 9417.", "The north gate, known to all", "It is not the relay but the lamp.", ""]
)
def test_an_answer_is_no_refusal(answer):
    assert not is_refusal(answer)


def test_ages_fall_into_bins():
    assert [age_bin(tokens) for tokens in (0, 255, 256, 1023, 1024, 2047, 2048, 90_000)] == [
        "0-255",
        "0-255",
        "256-511",
        "512-1023",
        "1024-2047",
        "1024-2047",
        "2048+",
        "2048+",
    ]


def scored(*entries):
    return {"meta_info": {"input_token_logprobs": [[value, token, None] for value, token in entries]}}


def test_the_loss_is_the_mean_over_the_last_tokens():
    answer = scored((None, 5), (-9.0, 6), (math.log(0.5), 7), (math.log(0.25), 8))
    assert mean_loss(answer, [7, 8]) == pytest.approx(1.5 * math.log(2))


@pytest.mark.parametrize(
    ("answer", "ids"),
    [
        (scored((None, 5), (-1.0, 6)), [5, 6]),
        (scored((None, 5), (-1.0, 6)), [7]),
        (scored((-1.0, 6)), [6, 6]),
        (scored((-1.0, 6)), []),
        ({"meta_info": {}}, [6]),
    ],
)
def test_tokens_that_were_not_scored_are_an_error(answer, ids):
    with pytest.raises(EngineFailed, match="did not score"):
        mean_loss(answer, ids)

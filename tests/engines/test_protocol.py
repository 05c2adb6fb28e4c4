"""What engine and plug-in tell each other survives the way, and what does not fit is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remory.engines.sglang.protocol import (
    Blob,
    Encode,
    Greeting,
    Injection,
    Order,
    Report,
    States,
    count,
    places_of,
    runs_of,
)
from remory.errors import InvalidInput

NAME = "ab" * 32
BLOB = Blob(NAME, 4, 3)
ENCODE = Encode("folder", NAME, 2, ((2, 5), (7, 9)), ((0, 3, 0), (3, 5, 1)), BLOB)
ORDERS = [
    Order(),
    Order(injection=Injection(BLOB, ((0, 1), (3, 6)))),
    Order(states=States(0), inline=True, revision="one"),
    Order(injection=Injection(BLOB, ((1, 5),)), encode=ENCODE),
    Order(greeting=True),
]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_survives_the_way(order: Order) -> None:
    assert Order.load(order.dump()) == order


@pytest.mark.parametrize(
    "report",
    [
        Report(),
        Report(BLOB, {"live": 1, "prefill": 2}, {"encode": 0.5}),
        Report(greeting=Greeting("r", "float32", "cpu", 64, 4, 384, 2041, True, None, (1, 2))),
        Report(error="why"),
    ],
)
def test_a_report_survives_the_way(report: Report) -> None:
    assert Report.load(report.dump()) == report


def changed(**fields: Any) -> str:
    return json.dumps(json.loads(ORDERS[3].dump()) | fields)


def encode(**fields: Any) -> str:
    told = json.loads(ORDERS[3].dump())
    return json.dumps(told | {"encode": told["encode"] | fields})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "JSON text"),
        ("", "JSON text"),
        ("[]", "JSON object"),
        ("{}", "one version"),
        (changed(version=2), "one version"),
        (changed(more=1), "more"),
        (changed(injection=1), "injection must be an object"),
        (changed(injection={"rows": None, "runs": [[0, 4]]}), "blob must be an object"),
        (changed(injection={"rows": {"sha256": NAME, "rows": 4, "width": 3}, "runs": [[0, 3]]}), "4 rows .* 3 places"),
        (changed(injection={"rows": {"sha256": NAME, "rows": 1 << 62, "width": 3}, "runs": [[0, 3]]}), "3 places"),
        (changed(states={"first": 0}), "not both"),
        (changed(states={"first": -1}, encode=None), "whole number"),
        (encode(runs=[]), "no place"),
        (encode(runs=[[2, 5], [4, 6]]), "must lie behind"),
        (encode(runs=[[5, 5]]), "no run"),
        (encode(runs=[[True, 5]]), "no run"),
        (encode(runs=[[0, 5]]), "before encode.first"),
        (encode(leaves=[[0, 3, 0]]), "cover 3 of 5"),
        (encode(leaves=[[0, 3, 0], [4, 5, 0]]), "follow each other"),
        (encode(leaves=[[0, 5]]), "three whole numbers"),
        (encode(checkpoint=7), "by text"),
        (encode(summary={"sha256": "x", "rows": 1, "width": 3}), "64 hexadecimal"),
        (encode(summary={"sha256": NAME, "rows": 0, "width": 3}), "positive"),
        (encode(summary={"sha256": NAME, "rows": 1, "width": 3, "dtype": "int8"}), "dtype"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(text: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Order.load(text)


@pytest.mark.parametrize(("order", "length"), [(ORDERS[1], 6), (ORDERS[2], 1), (ORDERS[3], 9)])
def test_places_must_lie_in_the_prompt(order: Order, length: int) -> None:
    order.check_length(length)
    with pytest.raises(InvalidInput, match=str(length - 1)):
        order.check_length(length - 1)


@given(st.sets(st.integers(0, 300)))
def test_runs_stand_for_their_places(places: set[int]) -> None:
    ordered = sorted(places)
    runs = runs_of(ordered)
    assert places_of(runs) == ordered
    assert count(runs) == len(ordered)
    assert all(one[1] < other[0] for one, other in zip(runs, runs[1:], strict=False))

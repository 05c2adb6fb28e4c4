from __future__ import annotations

import json
from typing import Any

import pytest

from remory_service.canonical import NotFinite, canonical_size, dump


@pytest.mark.parametrize(
    ("value", "canonical"),
    [
        (None, "null"),
        (1.0, "1"),
        (-0.0, "0"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (2**53, "9007199254740992"),
        (12345678901234567890, "12345678901234567000"),
        ({"b": 1, "a": [True, 2**70]}, '{"a":[true,1.1805916207174113e+21],"b":1}'),
        ("é\u0000\u2028\U0001f980", '"é\\u0000\u2028\U0001f980"'),
        ({}, "{}"),
    ],
)
def test_sizes_are_those_of_rfc_8785(value: Any, canonical: str) -> None:
    assert canonical_size(value) == len(canonical.encode())


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_numbers_that_are_none_have_no_size(number: float) -> None:
    with pytest.raises(NotFinite):
        canonical_size({"a": [1, number]})


@pytest.mark.parametrize("value", [12345678901234567890, 1.0, 1e20, {"b": 1, "a": "é\u0000"}, [[[]]], "\U0001f980"])
def test_what_is_kept_is_what_was_sent(value: Any) -> None:
    kept = dump(value)
    assert json.dumps(json.loads(kept)) == json.dumps(value)
    assert b": " not in kept


def test_what_is_no_json_is_not_kept() -> None:
    with pytest.raises(NotFinite):
        dump([float("nan")])

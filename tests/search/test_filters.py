from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remory.errors import InvalidInput
from remory.search.filters import Columns, Condition, canonical

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


def equal(left: Any, right: Any) -> bool:
    """JSON equality, by its definition."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return left == right


@given(VALUES, VALUES)
def test_canonical_values_are_equal_as_json_is(left: Any, right: Any) -> None:
    assert (canonical(left) == canonical(right)) == equal(left, right)
    assert canonical(left) == canonical(json.loads(json.dumps(left)))


@pytest.mark.parametrize(
    ("stored", "wanted", "matches"),
    [
        ("1", 1.0, True),
        ("1.0", 1, True),
        ("1e2", 100, True),
        ("-0.0", 0, True),
        ("true", 1, False),
        ("1", True, False),
        ("false", 0, False),
        ("true", True, True),
        ("null", None, True),
        ("0", None, False),
        ('""', None, False),
        ('"1"', 1, False),
        ("9007199254740993", 9007199254740993, True),
        ("9007199254740993", 9007199254740992, False),
        ("9007199254740993", 9007199254740992.0, False),
        ("9007199254740992", 9007199254740992.0, True),
        ("1" + "0" * 300, 10**300, True),
        ("1" + "0" * 299 + "1", 10**300, False),
        ('"\\u00e9"', "é", True),
        ('"e\\u0301"', "é", False),
        ("[1, [2.0]]", [1.0, [2]], True),
        ("[1, 2]", [2, 1], False),
        ("[true]", [1], False),
        ("[]", {}, False),
        ('{"a": 1, "b": [null]}', {"b": [None], "a": 1.0}, True),
        ('{"a": 1, "b": null}', {"a": 1}, False),
        ('{"a": 1}', {"a": True}, False),
        ('["array", 1]', [1], False),
    ],
)
def test_equality(stored: str, wanted: Any, matches: bool) -> None:
    columns = Columns([f'{{"x": {stored}}}'.encode()])
    assert columns.match({"x": wanted}, 1).tolist() == [matches]


def test_absent_is_not_null_and_keys_are_top_level() -> None:
    columns = Columns([b"{}", b'{"x": null}', b'{"y": {"x": 1}}', b'{"x": 1, "y": 2}', b'{"y.x": 1}'])
    assert columns.match({"x": None}, 5).tolist() == [False, True, False, False, False]
    assert columns.match({"x": 1}, 5).tolist() == [False, False, False, True, False]
    assert columns.match({"y": {"x": 1}}, 5).tolist() == [False, False, True, False, False]
    assert columns.match({"y.x": 1}, 5).tolist() == [False, False, False, False, True]
    assert columns.match({"z": None}, 5).tolist() == [False] * 5


def test_all_filters_must_match() -> None:
    columns = Columns([b'{"x": 1, "y": 1}', b'{"x": 1, "y": 2}', b'{"x": 2, "y": 1}'])
    assert columns.match({"x": 1, "y": 1}, 3).tolist() == [True, False, False]
    assert columns.match({}, 3).tolist() == [True] * 3


def test_columns_follow_the_list() -> None:
    metadata = [b'{"x": 1}']
    columns = Columns(metadata)
    assert columns.match({"x": 2}, 1).tolist() == [False]
    metadata += [b'{"x": 2}', b'{"x": 1}']
    assert columns.match({"x": 2}, 3).tolist() == [False, True, False]
    assert columns.match({"x": 1}, 2).tolist() == [True, False]


def test_kept_rows_keep_their_values() -> None:
    metadata = [json.dumps({"x": number % 3}).encode() for number in range(10)]
    columns = Columns(metadata)
    columns.match({"x": 1}, 6)
    slots = np.array([0, 1, 4, 7, 9])
    kept = columns.keep(slots, [metadata[slot] for slot in slots])
    assert kept.match({"x": 1}, 5).tolist() == [False, True, True, True, False]
    assert kept.match({"x": 0}, 5).tolist() == [True, False, False, False, True]


def test_values_of_rows_that_are_not_kept_go() -> None:
    metadata = [
        json.dumps({"x": f"{number:010000}", "y": [{"z": "z" * 10_000}, number]}).encode() for number in range(9)
    ]
    columns = Columns(metadata)
    empty = columns.nbytes
    columns.match({"x": 1, "y": 1}, 9)
    assert 180_000 < columns.nbytes - empty < 200_000
    slots = np.array([2, 7])
    kept = columns.keep(slots, [metadata[slot] for slot in slots])
    assert 40_000 < kept.nbytes < 45_000
    assert kept.match({"x": f"{7:010000}"}, 2).tolist() == [False, True]
    assert kept.match({"x": f"{3:010000}"}, 2).tolist() == [False, False]


def test_what_it_holds_is_told_while_a_column_is_made() -> None:
    columns = Columns([b'{"x": 1}'])
    columns.match({"x": 1}, 1)
    with ThreadPoolExecutor(1) as pool, columns._lock:
        assert pool.submit(lambda: columns.nbytes).result(timeout=20) > 0


def test_keys_nobody_asks_for_any_more_are_forgotten() -> None:
    columns = Columns([b'{"x": 1}'] * 1000)
    for number in range(500):
        columns.match({f"key {number}": 1}, 1000)
    assert columns.match({"x": 1}, 1000).all()
    assert columns.nbytes < 500 * 1000


@pytest.mark.parametrize("metadata", [b"", b"\xff", b"[1]", b'{"x":' + b"[" * 100_000, b'{"x":' + b"1" * 10_000 + b"}"])
def test_what_cannot_be_read_matches_nothing(metadata: bytes) -> None:
    columns = Columns([metadata, b'{"x": 1}'])
    assert columns.match({"x": 1}, 2).tolist() == [False, True]


def test_values_that_are_not_json_are_refused() -> None:
    columns = Columns([b'{"x": 1}'])
    with pytest.raises(InvalidInput, match="a filter's value must be JSON, got bytes"):
        columns.match({"x": [b"1"]}, 1)
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput, match="the filter's value for 'x' is nested too deep"):
        columns.match({"x": deep}, 1)


# Conditions


def test_any_of_several_values() -> None:
    columns = Columns([b'{"x": 1}', b'{"x": "1"}', b'{"x": [1]}', b'{"x": null}', b"{}"])

    def match(*any_of: Any) -> list[int]:
        return np.flatnonzero(columns.match([Condition("x", any_of)], 5)).tolist()

    assert match(1, "1") == [0, 1]
    assert match([1], None, 7) == [2, 3]
    assert match(7, 8) == match() == []
    assert columns.match([Condition("x", (1, "1")), Condition("x", ("1", [1]))], 5).tolist() == [
        False,
        True,
        False,
        False,
        False,
    ]
    assert columns.match([], 5).all()


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"a": {"b": {"c": 1}}}, True),
        ({"a": {"b": {"c": 2}}}, False),
        ({"a.b.c": 1}, True),
        # A key of that very name is the one that is meant.
        ({"a.b.c": 2, "a": {"b": {"c": 1}}}, False),
        ({"a.b": {"c": 1}}, False),
        ({"a": {"b.c": 1}}, False),
        ({"a": {"b": [{"c": 1}]}}, False),
        ({"a": "b"}, False),
        ({"a": None}, False),
        ({}, False),
    ],
)
def test_dotted_keys_reach_into_objects(metadata: dict[str, Any], expected: bool) -> None:
    condition = Condition("a.b.c", (1,), dotted=True)
    assert condition.is_met(metadata) is expected
    assert Columns([json.dumps(metadata).encode()]).match([condition], 1).tolist() == [expected]
    plain = Condition("a.b.c", (1,))
    assert plain.is_met(metadata) is (metadata.get("a.b.c") == 1)
    assert Columns([json.dumps(metadata).encode()]).match([plain], 1).tolist() == [plain.is_met(metadata)]


def test_columns_of_one_name_dotted_and_not_are_two() -> None:
    columns = Columns([b'{"a": {"b": 1}}', b'{"a.b": 1}'])
    for _ in range(2):
        assert columns.match([Condition("a.b", (1,), dotted=True)], 2).tolist() == [True, True]
        assert columns.match([Condition("a.b", (1,))], 2).tolist() == [False, True]
    kept = columns.keep(np.array([0]), [b'{"a": {"b": 1}}'])
    assert kept.match([Condition("a.b", (1,), dotted=True)], 1).tolist() == [True]
    assert kept.match([Condition("a.b", (1,))], 1).tolist() == [False]


@given(st.dictionaries(st.sampled_from(["a", "b", "a.b", "a.b.a"]), VALUES), st.lists(VALUES, max_size=3))
def test_columns_and_conditions_agree(metadata: dict[str, Any], any_of: list[Any]) -> None:
    columns = Columns([json.dumps(metadata).encode()])
    for key in ("a", "a.b", "a.b.a", "", "."):
        for dotted in (False, True):
            held = [metadata[key]] if key in metadata else []
            condition = Condition(key, (*any_of, *held), dotted)
            expected = condition.is_met(metadata)
            assert columns.match([condition], 1).tolist() == [expected]
            assert expected or not held


def test_values_of_a_condition_must_be_json() -> None:
    for condition in (Condition("x", ([b"1"],)), Condition("x", (1, {1, 2}))):
        with pytest.raises(InvalidInput, match="a filter's value must be JSON, got"):
            condition.is_met({"x": 1})
        with pytest.raises(InvalidInput, match="a filter's value must be JSON, got"):
            Columns([b'{"x": 1}']).match([condition], 1)

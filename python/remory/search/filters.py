"""Filters on metadata: which rows hold, at a place, a value that is equal as JSON to one of those asked for."""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from remory.errors import InvalidInput

# A caller may ask for any key; each that was asked for costs four bytes a row.
_MOST_COLUMNS = 64
_ABSENT = 0
# A value's number and its place in a dict.
_TOKEN_BYTES = 100


def canonical(value: Any) -> Hashable:
    """Something that is equal for two JSON values exactly when they are: 1 and 1.0 are, true and 1 are not.

    Integers compare exactly at any size, objects whatever the order of their keys. Raises InvalidInput for what JSON
    has no word for, and RecursionError where values are nested beyond what the interpreter follows.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return ("array", *map(canonical, value))
    if isinstance(value, Mapping):
        return ("object", frozenset((key, canonical(inner)) for key, inner in value.items()))
    raise InvalidInput(f"a filter's value must be JSON, got {type(value).__name__}")


@dataclass(frozen=True)
class Condition:
    """That metadata holds one of the values `any_of` under `key`: a top-level key, or with `dotted`, where there is
    none of that name, keys of nested objects with dots between.
    """

    key: str
    any_of: tuple[Any, ...]
    dotted: bool = False

    def is_met(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a metadata object holds one of the values. Raises InvalidInput as `canonical` does."""
        held = _value_at(metadata, self.key, self.dotted)
        return held is not _NOTHING and canonical(held) in self._wanted

    @functools.cached_property
    def _wanted(self) -> frozenset[Hashable]:
        return frozenset(canonical(value) for value in self.any_of)


def conditions_of(filters: Mapping[str, Any] | Sequence[Condition]) -> Sequence[Condition]:
    """Conditions as they are, or one for each key and value of an object."""
    if isinstance(filters, Mapping):
        return [Condition(key, (value,)) for key, value in filters.items()]
    return filters


_NOTHING = object()


def _value_at(metadata: Mapping[str, Any], key: str, dotted: bool) -> Any:
    if key in metadata:
        return metadata[key]
    if not dotted:
        return _NOTHING
    held: Any = metadata
    for step in key.split("."):
        if not isinstance(held, Mapping) or step not in held:
            return _NOTHING
        held = held[step]
    return held


class Columns:
    """The values of one growing list of metadata, by key, as numbers that are equal where the values are.

    A column is made when its key is first asked for and brought up to date by each later question. Thread-safe.
    """

    def __init__(self, metadata: Sequence[bytes]) -> None:
        """`metadata`: JSON objects as UTF-8. The list may grow later; what is in it stays."""
        self._metadata = metadata
        self._columns: OrderedDict[tuple[str, bool], _Column] = OrderedDict()
        self._lock = threading.Lock()
        self._nbytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held, about. Does not wait for a column that is being made."""
        return self._nbytes

    def match(self, filters: Mapping[str, Any] | Sequence[Condition], count: int) -> np.ndarray:
        """[count] bool: which of the first `count` rows meet all conditions; of a mapping, hold an equal value under
        every key.

        A row whose metadata cannot be read matches nothing. Raises InvalidInput for a value that is not JSON or is
        nested too deep.
        """
        matching = np.ones(count, dtype=bool)
        for condition in conditions_of(filters):
            try:
                wanted = [canonical(value) for value in condition.any_of]
            except RecursionError:
                raise InvalidInput(f"the filter's value for {condition.key!r} is nested too deep") from None
            with self._lock:
                matching &= self._column(condition).match(wanted, self._metadata, count)
                self._weigh()
        return matching

    def keep(self, slots: np.ndarray, metadata: Sequence[bytes]) -> Columns:
        """The columns of a list that has only the rows `slots`, ascending; `metadata` are theirs."""
        kept = Columns(metadata)
        with self._lock:
            for key, column in self._columns.items():
                kept._columns[key] = column.keep(slots)
        kept._weigh()
        return kept

    def _weigh(self) -> None:
        self._nbytes = sum(column.nbytes for column in self._columns.values())

    def _column(self, condition: Condition) -> _Column:
        key = (condition.key, condition.dotted)
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column(*key)
            if len(self._columns) > _MOST_COLUMNS:
                self._columns.popitem(last=False)
        self._columns.move_to_end(key)
        return column


class _Column:
    """One key's values as numbers; 0 where the key is absent."""

    def __init__(self, key: str, dotted: bool) -> None:
        self._key = key
        self._dotted = dotted
        self._tokens = np.empty(0, dtype=np.int32)
        self._count = 0
        self._token_of: dict[Hashable, int] = {}
        self._value_bytes = 0

    @property
    def nbytes(self) -> int:
        return self._tokens.nbytes + self._value_bytes

    def match(self, wanted: Sequence[Hashable], metadata: Sequence[bytes], count: int) -> np.ndarray:
        if self._count < count:
            self._extend(metadata, count)
        tokens = [token for value in wanted if (token := self._token_of.get(value)) is not None]
        if len(tokens) == 1:
            return self._tokens[:count] == tokens[0]
        return np.isin(self._tokens[:count], np.array(tokens, dtype=np.int32))

    def keep(self, slots: np.ndarray) -> _Column:
        """Only the values of these rows are kept, under numbers of their own."""
        tokens = self._tokens[slots[slots < self._count]]
        present = np.unique(tokens[tokens != _ABSENT])
        values = list(self._token_of)
        kept = _Column(self._key, self._dotted)
        fresh = np.full(len(values) + 1, _ABSENT, dtype=np.int32)
        fresh[present] = [kept._number(values[token - 1]) for token in present.tolist()]
        kept._tokens, kept._count = fresh[tokens], len(tokens)
        return kept

    def _extend(self, metadata: Sequence[bytes], count: int) -> None:
        if len(self._tokens) < count:
            grown = np.empty(max(count, 2 * len(self._tokens)), dtype=np.int32)
            grown[: self._count] = self._tokens[: self._count]
            self._tokens = grown
        for slot in range(self._count, count):
            self._tokens[slot] = self._token(metadata[slot])
        self._count = count

    def _token(self, metadata: bytes) -> int:
        try:
            values = json.loads(metadata)
            held = _value_at(values, self._key, self._dotted) if isinstance(values, dict) else _NOTHING
            if held is _NOTHING:
                return _ABSENT
            value = canonical(held)
        except (ValueError, RecursionError):
            return _ABSENT
        return self._number(value)

    def _number(self, value: Hashable) -> int:
        token = self._token_of.get(value)
        if token is None:
            token = self._token_of[value] = len(self._token_of) + 1
            self._value_bytes += _TOKEN_BYTES + _weight(value)
        return token


def _weight(value: Hashable) -> int:
    """Bytes that a canonical value holds, about."""
    total, left = 0, [value]
    while left:
        part = left.pop()
        total += sys.getsizeof(part)
        if isinstance(part, tuple | frozenset):
            left.extend(part)
    return total

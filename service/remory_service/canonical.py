"""JSON as it is measured, kept and sent: RFC 8785 for sizes, the sender's own numbers and order for what is kept."""

from __future__ import annotations

import json
from typing import Any

import rfc8785


class NotFinite(ValueError):
    """A number of the value is NaN, infinite, or an integer beyond a 64-bit float."""


def canonical_size(value: Any) -> int:
    """Bytes of a JSON value in the canonical form of RFC 8785. Raises NotFinite."""
    try:
        return len(rfc8785.dumps(value))
    except rfc8785.IntegerDomainError:
        return len(rfc8785.dumps(_as_doubles(value)))
    except rfc8785.FloatDomainError as error:
        raise NotFinite("NaN and Infinity are no JSON") from error


def dump(value: Any) -> bytes:
    """A JSON value as compact UTF-8, its numbers and the order of its fields as they came. Raises NotFinite."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except ValueError as error:
        raise NotFinite("NaN and Infinity are no JSON") from error


def _as_doubles(value: Any) -> Any:
    """The value with its integers beyond 2^53 as the doubles that RFC 8785 writes them as."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        try:
            return float(value)
        except OverflowError as error:
            raise NotFinite("an integer is beyond a 64-bit float") from error
    if isinstance(value, dict):
        return {key: _as_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_doubles(item) for item in value]
    return value

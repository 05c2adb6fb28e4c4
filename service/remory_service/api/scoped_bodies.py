"""The bodies of the scoped memory's routes. Unknown fields are ignored; null stands for a field that is not sent."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

LONGEST_TEXT = 512
MOST_DIMENSIONS = 16384
MOST_FILTERS = 32
LONGEST_TTL = 315_576_000
LONGEST_LEASE = 30 * 24 * 3600
_LARGEST = 2**63 - 1


def _text(text: str) -> str:
    size = len(text.encode())
    if size > LONGEST_TEXT:
        raise ValueError(f"may have {LONGEST_TEXT} bytes of UTF-8, this has {size}")
    for place, character in enumerate(text):
        if unicodedata.category(character) == "Cc":
            raise ValueError(f"has the control character U+{ord(character):04X} at position {place}")
    return text


Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT), AfterValidator(_text)]
Prefix = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_text)]
Token = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Revision = Annotated[int, Field(ge=0, le=_LARGEST)]
ScopeKind = Literal["session", "actor", "workflow", "global"]
Kind = Literal["value", "vector"]
Vector = Annotated[list[float], Field(min_length=1, max_length=MOST_DIMENSIONS, fail_fast=True)]
Limit = Annotated[int, Field(ge=1, le=1000)]

_EXPECTED = "The live revision that the entry must have; 0: it must not exist."


class Body(BaseModel):
    """A JSON object with at least these fields."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class Context(Body):
    """Which scope is meant: `session` needs session_id, `actor` actor_id, `workflow` root_id, `global` nothing. A
    worker's key sends lease_token, task_id and step_id instead.
    """

    session_id: Text | None = None
    actor_id: Text | None = None
    root_id: Text | None = None
    lease_token: Token | None = None
    task_id: Text | None = None
    step_id: Text | None = None


class ScopedBody(Context):
    """A request about one scope."""

    scope: ScopeKind


class KeyBody(ScopedBody):
    """A request about one key: 1 to 512 bytes of UTF-8 without control characters."""

    key: Text


class WriteBody(KeyBody):
    """Set a value."""

    value: Any = Field(description="Any JSON, at most 1 MiB in the canonical form of RFC 8785.")
    ttl_seconds: Annotated[int, Field(ge=1, le=LONGEST_TTL)] | None = Field(
        default=None, description="How long it lives; for ever without."
    )
    expected_revision: Revision | None = Field(default=None, description=_EXPECTED)


class DeleteBody(KeyBody):
    """Delete an entry."""

    expected_revision: Revision | None = Field(default=None, description=_EXPECTED)


class ListBody(ScopedBody):
    """List live keys in ascending order of their UTF-8 bytes."""

    kind: Kind | None = Field(default=None, description="Default value.")
    prefix: Prefix | None = None
    cursor: Text | None = Field(default=None, description="next_cursor of the page before.")
    limit: Limit | None = Field(default=None, description="Default 100.")


class ChangesBody(Context):
    """Read the change feed after a cursor."""

    scope: ScopeKind | None = Field(default=None, description="Without it: all scopes that the caller may see.")
    after: Annotated[int, Field(ge=0, le=_LARGEST)] | None = Field(default=None, description="Default 0.")
    limit: Limit | None = Field(default=None, description="Default 100.")
    prefix: Prefix | None = None


class VectorBody(KeyBody):
    """Set a vector."""

    embedding: Vector = Field(description="Finite numbers, whose norm is not zero and at most 1e150.")
    metadata: dict[str, Any] | None = Field(default=None, description="At most 16,384 canonical bytes.")
    expected_revision: Revision | None = Field(default=None, description=_EXPECTED)


class SearchBody(ScopedBody):
    """Search a scope's vectors by cosine."""

    query_embedding: Vector = Field(description="Vectors of another dimension are not compared.")
    top_k: Annotated[int, Field(ge=1, le=1000)] | None = Field(default=None, description="Default 10.")
    filters: Annotated[dict[str, Any], Field(max_length=MOST_FILTERS)] | None = Field(
        default=None, description="Values that top-level metadata keys must have."
    )
    strategy: Literal["linear", "hnsw"] | None = Field(
        default=None, description="linear is exact, hnsw may miss some; without it the server chooses."
    )


class LeaseBody(Body):
    """Lend a worker's key one session, one workflow and, if named, one actor, for one step of a task."""

    task_id: Text
    step_id: Text
    root_id: Text
    session_id: Text
    actor_id: Text | None = None
    ttl_seconds: Annotated[int, Field(ge=1, le=LONGEST_LEASE)] | None = Field(default=None, description="Default 300.")


class HeldLeaseBody(Body):
    """A lease that is held."""

    lease_token: Token
    task_id: Text
    step_id: Text


class RenewBody(HeldLeaseBody):
    """Let a lease end later."""

    ttl_seconds: Annotated[int, Field(ge=1, le=LONGEST_LEASE)] | None = Field(
        default=None, description="From now; default 300."
    )

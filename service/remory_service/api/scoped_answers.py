"""What the scoped memory's routes answer, for the OpenAPI document. Times are milliseconds since the epoch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from remory_service.api.scoped_bodies import Kind, ScopeKind


class ScopedFault(BaseModel):
    """What went wrong. `revision` on a conflict: the live one, 0 when there is none."""

    code: str
    message: str
    revision: int | None = None
    oldest_sequence: int | None = None


class ScopedErrorAnswer(BaseModel):
    """Every error of this group."""

    error: ScopedFault


class WrittenAnswer(BaseModel):
    revision: int
    expires_at: int | None = Field(description="null: never.")


class ReadAnswer(BaseModel):
    """`revision` 0 and `value` null when nothing is found."""

    found: bool
    revision: int
    value: Any


class ErasedAnswer(BaseModel):
    """`deleted` is false when nothing lived under the key."""

    deleted: bool


class ListedEntry(BaseModel):
    """`expires_at` of values, `dimension` of vectors."""

    key: str
    revision: int
    updated_at: int
    expires_at: int | None = None
    dimension: int | None = None


class ListAnswer(BaseModel):
    items: list[ListedEntry]
    kind: Kind
    next_cursor: str | None = Field(description="null on the last page.")


class ChangeItem(BaseModel):
    """`scope_id` is empty for global. A value over 65,536 canonical bytes is left out and `value_omitted` true."""

    sequence: int
    scope: ScopeKind
    scope_id: str
    kind: Kind
    key: str
    action: Literal["set", "delete"]
    revision: int
    principal: str
    created_at: int
    value: Any
    value_omitted: bool


class ChangesAnswer(BaseModel):
    items: list[ChangeItem]
    next_cursor: int = Field(
        description="Pass it as `after` to go on; less than `after` only when that was beyond all changes."
    )
    oldest_sequence: int = Field(description="The oldest change that is still kept; the next one when none is.")


class VectorSetAnswer(BaseModel):
    revision: int
    dimension: int


class VectorAnswer(BaseModel):
    """`embedding` and `metadata` null, `dimension` and `revision` 0 when nothing is found."""

    found: bool
    key: str
    revision: int
    dimension: int
    embedding: list[float] | None
    metadata: dict[str, Any] | None


class SearchHit(BaseModel):
    key: str
    revision: int
    metadata: dict[str, Any]
    score: float = Field(ge=-1, le=1)


class SearchAnswer(BaseModel):
    """`scanned` counts the vectors whose cosine was computed from the stored elements: with linear all of the query's
    dimension that pass the filters, with hnsw the graph's candidates and those that are not in it yet."""

    items: list[SearchHit]
    dimension: int
    scanned: int
    strategy: Literal["linear", "hnsw"]


class LeaseAnswer(BaseModel):
    lease_token: str
    expires_at: int


class ReleasedAnswer(BaseModel):
    """`released` is false when the lease had ended before."""

    released: bool

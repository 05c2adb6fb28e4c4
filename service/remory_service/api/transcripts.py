"""Routes for a session's own token transcripts: what was kept of it, and how it is deleted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from flask import Response, g, jsonify
from flask_openapi3 import APIBlueprint, Tag
from pydantic import BaseModel, Field

from remory_service.api.bodies import ErrorAnswer, HistoryQuery, SessionHeader
from remory_service.identity import checked_session
from remory_service.store import transcripts
from remory_service.store.transcripts import TranscriptInfo

transcript_routes = APIBlueprint(
    "transcripts",
    __name__,
    abp_tags=[Tag(name="transcripts", description="Tokens that a session agreed to have kept.")],
    abp_security=[{"bearer": []}, {"header": []}],
    abp_responses=dict.fromkeys((400, 401, 403, 413, 422, 500, 503), ErrorAnswer),
)


class TranscriptItem(BaseModel):
    """A compaction: what it removed. Or a continuation: what followed a memory, the answer last."""

    kind: Literal["compaction", "continuation"]
    handle: str = Field(description="The memory that was made, or behind which it was said.")
    created_at: str
    tokens: int
    bytes: int
    actor_revision: str


class TranscriptsAnswer(BaseModel):
    """A page of the session's transcripts, and how many there are in all."""

    transcripts: list[TranscriptItem]
    count: int
    bytes: int
    next_offset: int | None = Field(description="Where the next page begins; null at the end.")


class DeletedTranscripts(BaseModel):
    """How many were deleted."""

    deleted: int


@transcript_routes.get("/v1/transcripts", responses={200: TranscriptsAnswer})
def list_transcripts(header: SessionHeader, query: HistoryQuery) -> Response:
    """The session's transcripts, those of the newest memory first."""
    owner = g.caller.user, checked_session(header.session)
    found = transcripts.page(*owner, query.limit + 1, query.offset)
    count, size = transcripts.totals_of(*owner)
    next_offset = query.offset + query.limit if len(found) > query.limit else None
    shown = [_shown(info) for info in found[: query.limit]]
    return jsonify({"transcripts": shown, "count": count, "bytes": size, "next_offset": next_offset})


@transcript_routes.delete("/v1/transcripts", responses={200: DeletedTranscripts})
def delete_transcripts(header: SessionHeader) -> Response:
    """Delete all of the session's transcripts. Its memories stay."""
    return jsonify({"deleted": transcripts.delete_session(g.caller.user, checked_session(header.session))})


def _shown(info: TranscriptInfo) -> dict[str, Any]:
    created = datetime.fromtimestamp(info.created_at / 1000, UTC).isoformat(timespec="milliseconds")
    return {
        "kind": info.kind,
        "handle": info.handle,
        "created_at": created.replace("+00:00", "Z"),
        "tokens": info.tokens,
        "bytes": info.size,
        "actor_revision": info.actor_revision,
    }

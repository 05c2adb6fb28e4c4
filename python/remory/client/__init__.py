"""The Python client of a Remory service: generation, compaction, scoped memory, and the harness on top of it."""

from remory.client.client import Client, Stream
from remory.client.errors import (
    ConnectionFailed,
    CursorExpired,
    Forbidden,
    InvalidKey,
    InvalidMetadata,
    InvalidRequest,
    InvalidScope,
    InvalidVector,
    LeaseExpired,
    LeaseRequired,
    NotFound,
    RemoryHTTPError,
    RevisionConflict,
    ServerBusy,
    ServerFailed,
    Unauthorized,
    ValueTooLarge,
)
from remory.client.feed import Change, ChangeFeed
from remory.client.harness import Answer, Compaction, Harness, SummaryFailed, generate_timed
from remory.client.lease import Lease
from remory.client.rendering import RenderingMismatch
from remory.client.scoped import Entry, Match, Matches, Scope, ScopedMemory, Value, Vector, Written, WrittenVector

__all__ = [
    "Answer",
    "Change",
    "ChangeFeed",
    "Client",
    "Compaction",
    "ConnectionFailed",
    "CursorExpired",
    "Entry",
    "Forbidden",
    "Harness",
    "InvalidKey",
    "InvalidMetadata",
    "InvalidRequest",
    "InvalidScope",
    "InvalidVector",
    "Lease",
    "LeaseExpired",
    "LeaseRequired",
    "Match",
    "Matches",
    "NotFound",
    "RemoryHTTPError",
    "RenderingMismatch",
    "RevisionConflict",
    "Scope",
    "ScopedMemory",
    "ServerBusy",
    "ServerFailed",
    "Stream",
    "SummaryFailed",
    "Unauthorized",
    "Value",
    "ValueTooLarge",
    "Vector",
    "Written",
    "WrittenVector",
    "generate_timed",
]

"""The Python client of a Remory service: generation, compaction, scoped memory, notes, chats, and the harness."""

from remory.client.chats import Chat, ChatMemory, ChatMessage, Chats, MemoryMatch
from remory.client.client import Client, Stream
from remory.client.errors import (
    Conflict,
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
from remory.client.notes import Note, Notes, NotesPage
from remory.client.rendering import RenderingMismatch
from remory.client.scoped import Entry, Match, Matches, Scope, ScopedMemory, Value, Vector, Written, WrittenVector

__all__ = [
    "Answer",
    "Change",
    "ChangeFeed",
    "Chat",
    "ChatMemory",
    "ChatMessage",
    "Chats",
    "Client",
    "Compaction",
    "Conflict",
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
    "MemoryMatch",
    "NotFound",
    "Note",
    "Notes",
    "NotesPage",
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

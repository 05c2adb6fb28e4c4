"""The Python client of a Remory service, and the harness that keeps a conversation on it."""

from remory.client.client import (
    Client,
    ConnectionFailed,
    InvalidRequest,
    NotFound,
    RemoryHTTPError,
    ServerBusy,
    ServerFailed,
    Stream,
    Unauthorized,
)
from remory.client.harness import Answer, Compaction, Harness, SummaryFailed, generate_timed
from remory.client.rendering import RenderingMismatch

__all__ = [
    "Answer",
    "Client",
    "Compaction",
    "ConnectionFailed",
    "Harness",
    "InvalidRequest",
    "NotFound",
    "RemoryHTTPError",
    "RenderingMismatch",
    "ServerBusy",
    "ServerFailed",
    "Stream",
    "SummaryFailed",
    "Unauthorized",
    "generate_timed",
]

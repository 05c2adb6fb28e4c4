"""The change feed of scoped memory as something to iterate over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from remory.client.client import Client
from remory.client.errors import ConnectionFailed, CursorExpired, ServerBusy

_ROUTE = "/api/v2/memory/changes"
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0


@dataclass(frozen=True)
class Change:
    """One write or delete. `sequence` ascends over all changes of the service; `created_at` is in epoch milliseconds.

    `revision`: what was written, or what was deleted. `principal`: the user who did it. `value` is None for deletes,
    for vectors, and for values above 65,536 canonical bytes, which say `value_omitted`: read the key to have them.
    """

    sequence: int
    kind: Literal["value", "vector"]
    action: Literal["set", "delete"]
    scope: str
    scope_id: str
    key: str
    revision: int
    principal: str
    created_at: int
    value: Any
    value_omitted: bool


class ChangeFeed:
    """Changes after `cursor`, oldest first. Made by `ScopedMemory.changes` and `Scope.changes`.

    Iterating ends when everything has been handed out, or with `follow` never; iterating again goes on from `cursor`.
    `cursor` is the sequence of the last change handed out: keep it once that change is dealt with, and start another
    feed from it. `oldest_sequence`: the oldest change that the service still has, None before the first request.
    """

    def __init__(
        self,
        client: Client,
        context: Mapping[str, Any],
        *,
        after: int = 0,
        prefix: str | None = None,
        page_size: int = 1000,
        follow: bool = False,
        poll_seconds: float = 1.0,
        patience_seconds: float = 60.0,
        resnapshot: Callable[[], object] | None = None,
    ):
        self.cursor = after
        self.oldest_sequence: int | None = None
        self._client = client
        self._body = {**context, "limit": page_size} | ({} if prefix is None else {"prefix": prefix})
        self._follow = follow
        self._poll_seconds = poll_seconds
        self._patience_seconds = patience_seconds
        self._resnapshot = resnapshot
        self._closed = threading.Event()

    def close(self) -> None:
        """End the iterating, also one that waits in another thread."""
        self._closed.set()

    def __iter__(self) -> Iterator[Change]:
        while not self._closed.is_set():
            before = self.cursor
            page = self._next_page()
            if page is None:
                continue
            for item in page["items"]:
                change = Change(**{name: item[name] for name in Change.__dataclass_fields__})
                self.cursor = change.sequence
                yield change
                if self._closed.is_set():
                    return
            self.cursor = page["next_cursor"]
            if self.cursor > before:
                continue
            if not self._follow:
                return
            self._closed.wait(self._poll_seconds)

    def _next_page(self) -> dict[str, Any] | None:
        """The page after the cursor, or None when the cursor had expired and begins anew."""
        try:
            page = self._ask_patiently()
        except CursorExpired as error:
            self._begin_anew(str(error), error)
            return None
        if page is None:
            return None
        self.oldest_sequence = page["oldest_sequence"]
        if page["next_cursor"] < self.cursor:
            # What was read after the backup is gone, and its numbers are given to other changes.
            end = page["next_cursor"]
            reason = f"the changes end at {end}, before the cursor {self.cursor}: an older store was restored"
            self._begin_anew(reason, CursorExpired(reason, fields={"oldest_sequence": page["oldest_sequence"]}))
            return None
        return page

    def _begin_anew(self, reason: str, error: CursorExpired) -> None:
        """Let the caller read the state anew, if it said how. Raises CursorExpired otherwise."""
        if self._resnapshot is None:
            raise CursorExpired(
                f"{reason}; read what you follow anew and start with after=0, or give a resnapshot function",
                error.status,
                error.detail,
                error.request_id,
                fields=error.fields,
            ) from None
        self._resnapshot()
        self.cursor = 0

    def _ask_patiently(self) -> dict[str, Any] | None:
        """One page. A server that is away is asked again until patience ends; None when closed meanwhile."""
        deadline: float | None = None
        wait = _FIRST_WAIT_SECONDS
        while not self._closed.is_set():
            try:
                return self._client.call("POST", _ROUTE, self._body | {"after": self.cursor})
            except (ConnectionFailed, ServerBusy):
                now = time.monotonic()
                deadline = now + self._patience_seconds if deadline is None else deadline
                if now + wait > deadline:
                    raise
            self._closed.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
        return None

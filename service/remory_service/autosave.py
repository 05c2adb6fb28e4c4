"""Memories that chats get by themselves, when their messages without one have become many.

One thread of the process makes them, chat after chat; no request waits for it. What it has not come to when the server
ends is found again at the next start.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass

from remory.errors import RemoryError
from remory_service.errors import ServiceError, Unavailable
from remory_service.remembering import NoChat, NothingNew, Remembering, Until
from remory_service.runtime import Runtime
from remory_service.store import chat_memories
from remory_service.store.database import connection, snapshot

log = logging.getLogger(__name__)

REASON = "autosave"
MOST_WAITING = 10_000
FIRST_PAUSE, LONGEST_PAUSE, LONGEST_COMMON_PAUSE = 5.0, 3600.0, 60.0
_STOP_SECONDS = 2.0
_WAY_SECONDS = 1.0
_LOOK_SECONDS = 0.5
_SCANNED_AT_ONCE = 100
# The tokens of a long text need not be made to the end to see that it is long.
_COUNTED_AT_ONCE = 8192


class Autosave:
    """Makes a memory of a chat whose messages without one have more than `tokens` of the actor's tokens; 0: never.

    It reaches to the last message of the assistant: a question that is not answered yet waits for its answer. Messages
    of a memory that was deleted are left out. What fails is tried again after `first_pause` seconds, then after twice
    as long, up to an hour; all chats rest for as long, up to a minute, until one succeeds. Thread-safe.
    """

    def __init__(self, runtime: Runtime, remembering: Remembering, tokens: int, first_pause: float = FIRST_PAUSE):
        self._runtime = runtime
        self._remembering = remembering
        self._tokens = tokens
        self._first_pause = first_pause
        self._changed = threading.Condition()
        # Chats to look at, and from when on (monotonic seconds).
        self._due: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        # After a failure nothing is tried before then; the pause after the next one.
        self._rests_until = 0.0
        self._common_pause = first_pause
        self._counted: dict[int, _Counted] = {}
        # Up to where the store's chats were looked through, None at their end; whether some had no place here since.
        self._scanned: int | None = 0
        self._missed = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin with the chats of the store that have many messages already, as soon as the models answer."""
        if self._tokens and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="remory-autosave", daemon=True)
            self._thread.start()

    def tell(self, chat: int, changed: bool = False) -> None:
        """Say that a chat has new messages, or that old ones `changed`. Returns at once; without a start it is
        forgotten.
        """
        with self._changed:
            if changed:
                self._counted.pop(chat, None)
            if self._thread is None or self._closed or chat in self._due:
                return
            if len(self._due) < MOST_WAITING:
                self._due[chat] = time.monotonic()
                self._changed.notify()
            else:
                self._missed = True

    def close(self) -> None:
        """Stop; waits two seconds at most for what is being made. Nothing of it is half stored."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while self._runtime.state == "starting" and not self._closed:
            with self._changed:
                self._changed.wait(_LOOK_SECONDS)
        while not self._ended:
            if time.monotonic() < self._rests_until:
                self._rest()
            elif (chat := self._next()) is not None:
                self._tend(chat)
            elif (self._scanned is not None or self._missed) and len(self._due) < MOST_WAITING:
                self._scan()
            else:
                self._rest()

    @property
    def _ended(self) -> bool:
        return self._closed or self._runtime.stopping

    def _next(self) -> int | None:
        """A chat to look at now."""
        with self._changed:
            now = time.monotonic()
            chat = next((chat for chat, due in self._due.items() if due <= now), None)
            if chat is not None:
                del self._due[chat]
            return chat

    def _rest(self) -> None:
        """Wait until there is something to do, or half a second, in which the server may have begun to stop."""
        with self._changed:
            now = time.monotonic()
            left = max(self._rests_until, min(self._due.values(), default=now + _LOOK_SECONDS)) - now
            if not self._closed and left > 0:
                self._changed.wait(min(left, _LOOK_SECONDS))

    def _scan(self) -> None:
        """Look for some more chats of the store."""
        if self._scanned is None:
            self._scanned, self._missed = 0, False
        # The boundary of this thread: a store that cannot be reached now is asked again.
        try:
            with connection():
                found = chat_memories.waiting_chats(self._scanned, self._tokens, _SCANNED_AT_ONCE)
        except Exception as error:
            pause = self._pause()
            log.warning("autosave: the chats cannot be read and are tried again in %g s: %s", pause, _reason(error))
            return
        self._scanned = found[-1] if len(found) == _SCANNED_AT_ONCE else None
        # Or two servers on one store would go through the same chats side by side.
        random.shuffle(found)
        for chat in found:
            self.tell(chat)

    def _tend(self, chat: int) -> None:
        """Make a chat's memory if it is time for one."""
        # The boundary of this thread: whatever a model or the store raises, the other chats go on.
        try:
            self._save(chat)
            self._pauses.pop(chat, None)
        except (NothingNew, NoChat):
            self._pauses.pop(chat, None)
        except Exception as error:
            if not self._ended:
                self._put_off(chat, error)

    def _save(self, chat: int) -> None:
        last = self._last(chat)
        if last is not None:
            try:
                self._remembering.create(chat, Until(last, released=False), REASON, lambda: self._check(chat))
            except _GivesWay:
                with self._changed:
                    self._due[chat] = time.monotonic() + _WAY_SECONDS
                return
            self._common_pause = self._first_pause
            # One memory has its bounds, and messages may have come meanwhile.
            self.tell(chat, changed=True)

    def _last(self, chat: int) -> int | None:
        """Up to which message a chat's memory is to reach; None when it needs none yet."""
        known = self._counted.get(chat, _Counted(0, 0, 0))
        with connection(), snapshot():
            backlog = chat_memories.measure(chat, known.last)
            if backlog.known != known.said:
                known = _Counted(0, 0, 0)
            # A token has a byte at least.
            if backlog.last_answer is None or known.tokens + backlog.said - known.said <= self._tokens:
                return None
            tokens = self._count(chat)
        if tokens > self._tokens:
            return backlog.last_answer
        with self._changed:
            if len(self._counted) >= MOST_WAITING:
                self._counted.clear()
            self._counted[chat] = _Counted(backlog.last, backlog.said, tokens)
        return None

    def _count(self, chat: int) -> int:
        """The tokens of a chat's messages, to the end or until they are more than may wait. Needs a snapshot."""
        tokenizer, count = self._runtime.loaded().engine.tokenizer, 0
        for spoken in chat_memories.spoken(chat_memories.waiting(chat, released=False)):
            for begin in range(0, len(spoken.text), _COUNTED_AT_ONCE):
                piece = spoken.text[begin : begin + _COUNTED_AT_ONCE]
                count += len(tokenizer.encode(piece, add_special_tokens=False))
                if count > self._tokens:
                    return count
        return count

    def _put_off(self, chat: int, error: Exception) -> None:
        self._pause()
        pause = self._pauses.get(chat, self._first_pause)
        self._pauses[chat] = min(2 * pause, LONGEST_PAUSE)
        log.warning("autosave: a chat's memory failed and is tried again in %g s: %s", pause, _reason(error))
        with self._changed:
            self._due[chat] = time.monotonic() + pause

    def _pause(self) -> float:
        """Let everything rest after a failure, longer after each in a row; for how many seconds."""
        pause = self._common_pause
        self._common_pause = min(2 * pause, LONGEST_COMMON_PAUSE)
        self._rests_until = time.monotonic() + pause
        return pause

    def _check(self, chat: int) -> None:
        if self._ended:
            raise Unavailable("the server is stopping")
        # Whoever asks for a memory gets it, and with the reason that was given.
        if self._remembering.is_wanted_by_others(chat):
            raise _GivesWay


class _GivesWay(Exception):
    """A request wants a memory of the chat that is being saved."""


@dataclass(frozen=True)
class _Counted:
    """What the messages of a chat up to the number `last` say: bytes and tokens."""

    last: int
    said: int
    tokens: int


def _reason(error: Exception) -> str:
    """An error in one line; only those that are meant for callers say what they say, for they never hold a message."""
    if isinstance(error, RemoryError | ServiceError):
        return " ".join(f"{type(error).__name__}: {error}".split())
    return type(error).__name__

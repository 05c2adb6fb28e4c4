"""How a chat's memory is made: messages are chosen, summarised, embedded, and all of it is stored in one step.

The models take seconds to minutes. Meanwhile no connection is held; what was read is compared with what is there when
the memory is stored, so that it is of just the messages that it says, whatever else went on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar

from remory.language.summarizer import TextSummary, Turn
from remory_service.errors import BadRequest, NotFound, Unavailable
from remory_service.runtime import Runtime
from remory_service.store import chat_memories, chats
from remory_service.store.chat_memories import ChatMemory, Head, Made
from remory_service.store.database import connection, snapshot, transaction
from remory_service.texts import Texts, Vector

USER, ASSISTANT = "user", "assistant"
# What one memory is made of at most, unless there is no pair of messages in it; what comes after waits for the next.
# The bytes that a model reads of its messages, those that the store has of them, and how many they are.
MOST_BYTES = 8 << 20
MOST_STORED = 64 << 20
MOST_MESSAGES = 10_000
# A request that makes a memory keeps its thread for as long as the models take, or for its turn in its chat.
_THREADS_SHARE = 4
_MOST_IN_CHAT = 3
_TRIES = 3
_LOOK_SECONDS = 0.2
_Given = TypeVar("_Given")
Check = Callable[[], None]


class NothingNew(BadRequest):
    """There is no pair of messages of which no memory was made."""

    def __init__(self) -> None:
        super().__init__("No new messages to create memory from")


class NoChat(NotFound):
    """There is no such chat for whoever asks, or no more."""

    def __init__(self) -> None:
        super().__init__("Chat not found")


class NoMemory(NotFound):
    """There is no such memory for whoever asks, or no more."""

    def __init__(self) -> None:
        super().__init__("Memory not found")


class _Changed(Exception):
    """The messages are not what they were when they were read."""


@dataclass(frozen=True)
class Until:
    """Up to where a memory reaches: a message's number, a time (epoch ms), both or neither; and whether it takes
    messages that a deleted memory released.
    """

    last: int | None = None
    as_of: int | None = None
    released: bool = True


@dataclass(frozen=True)
class Created:
    """A new memory's id, and the vector by which it is found."""

    id: str
    vector: Vector


class Remembering:
    """Makes memories of chats with the runtime's models; `clock` in epoch ms. Thread-safe: in a chat, one at a time.

    A quarter of the server's threads may be at it, and three in one chat, of which two wait: Unavailable for the rest.
    Nothing here is called while holding a connection. `check` is called often and may raise to give up. Whatever is
    raised, nothing was stored: Unavailable, SummarizerFailed, EmbedderFailed, and what the functions name.
    """

    def __init__(self, runtime: Runtime, texts: Texts, clock: Callable[[], int]):
        self._runtime = runtime
        self._texts = texts
        self._clock = clock
        self._places = _Places(max(1, runtime.config.threads // _THREADS_SHARE))

    def create(self, chat: int, until: Until, reason: str, check: Check) -> Created:
        """Make a memory of the oldest messages of a chat that have none. Raises NothingNew, NoChat."""
        return self._in_turn(chat, lambda: self._create(chat, until, reason, check), check)

    def is_wanted_by_others(self, chat: int) -> bool:
        """Whether somebody waits for the one who makes a memory of this chat now."""
        return self._places.wanted(chat) > 1

    def regenerate(self, memory: ChatMemory, check: Check) -> None:
        """Make a memory anew of its messages as they are now. Raises NoMemory, BadRequest when they say nothing."""
        self._in_turn(memory.chat_number, lambda: self._regenerate(memory, check), check)

    def _in_turn(self, chat: int, attempt: Callable[[], _Given], check: Check) -> _Given:
        """What an attempt gives, in the chat's turn; once more when the messages changed under it."""
        with self._places.of(chat, check):
            for _ in range(_TRIES):
                try:
                    return attempt()
                except _Changed:
                    continue
        raise Unavailable("the chat's messages change faster than they are summarised: try again")

    def _create(self, chat: int, until: Until, reason: str, check: Check) -> Created:
        with connection(), snapshot():
            if not chats.exists(chat):
                raise NoChat
            heads = within_bounds(chat_memories.waiting(chat, until.last, until.as_of, until.released))
            turns = _turns(heads)
        written = self._write(turns, check)
        with connection(), transaction():
            _check_same(chat, heads, until)
            name = chat_memories.add(chat, heads, written.made(), reason, self._clock())
        return Created(name, written.vector)

    def _regenerate(self, memory: ChatMemory, check: Check) -> None:
        with connection(), snapshot():
            heads = chat_memories.remembered(memory.number)
            turns = _turns(heads)
        if not turns:
            raise BadRequest("The memory has no messages to regenerate it from")
        written = self._write(turns, check)
        with connection(), transaction():
            if not chat_memories.exists(memory):
                raise NoMemory
            if chat_memories.remembered(memory.number) != heads:
                raise _Changed
            chat_memories.change(memory, written.made(), self._clock())

    def _write(self, turns: Sequence[Turn], check: Check) -> _Written:
        check()
        summary = self._runtime.loaded().summarizer.summarize(turns, check)
        check()
        text = _searched(summary)
        (vector,) = self._texts.embed([text])
        check()
        return _Written(summary, text, vector)


@dataclass(frozen=True)
class _Written:
    """What the models made of messages."""

    summary: TextSummary
    text: str
    vector: Vector

    def made(self) -> Made:
        """As the store takes it. Needs a transaction."""
        return Made(asdict(self.summary), self.text, self.vector.by_model())


@dataclass
class _Place:
    """A chat's place for the one whose turn it is, and how many want it or have it."""

    lock: threading.Lock
    wanted: int = 0


class _Places:
    """One place for each chat of which a memory is being made, and `most` in all of them, with those who wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._of_chats: dict[int, _Place] = {}

    @contextmanager
    def of(self, chat: int, check: Check) -> Iterator[None]:
        """Wait for a chat's place and have it for the block. `check` may raise to end the wait. Raises Unavailable."""
        place = self._want(chat)
        try:
            while not place.lock.acquire(timeout=_LOOK_SECONDS):
                check()
            try:
                yield
            finally:
                place.lock.release()
        finally:
            with self._lock:
                place.wanted -= 1
                if not place.wanted:
                    del self._of_chats[chat]

    def wanted(self, chat: int) -> int:
        """How many have a chat's place or wait for it."""
        with self._lock:
            place = self._of_chats.get(chat)
            return 0 if place is None else place.wanted

    def _want(self, chat: int) -> _Place:
        with self._lock:
            if sum(place.wanted for place in self._of_chats.values()) >= self._most:
                raise Unavailable(f"{self._most} memories of chats are being made, more not at once: try again")
            place = self._of_chats.get(chat, _Place(threading.Lock()))
            if place.wanted >= _MOST_IN_CHAT:
                raise Unavailable(f"{_MOST_IN_CHAT} requests for memories of this chat are under way: try again")
            place.wanted += 1
            self._of_chats[chat] = place
            return place


@dataclass
class _Sum:
    """What messages are together."""

    said: int = 0
    stored: int = 0
    count: int = 0

    def add(self, head: Head) -> bool:
        """Count one more; whether all are within the bounds of a memory. What says nothing is not read."""
        self.said += head.said
        self.stored += head.stored if head.said else 0
        self.count += 1
        return self.said <= MOST_BYTES and self.stored <= MOST_STORED and self.count <= MOST_MESSAGES


def within_bounds(heads: Iterable[Head]) -> list[Head]:
    """The first of these messages that make a memory: something that a user and that an assistant said among them.
    Raises NothingNew.
    """
    lacking, size, taken = {USER, ASSISTANT}, _Sum(), list[Head]()
    for head in heads:
        if not size.add(head) and not lacking:
            return taken
        taken.append(head)
        if head.said:
            lacking.discard(head.role)
    if lacking:
        raise NothingNew
    return taken


def read_of(heads: Sequence[Head]) -> list[Head]:
    """Those of a memory's messages that are read for it: of many or long ones the last, and with them the last that
    each of the two said.
    """
    lacking, size, read = {USER, ASSISTANT}, _Sum(), list[Head]()
    for head in reversed(heads):
        if head.said and (size.add(head) or head.role in lacking):
            read.append(head)
            lacking.discard(head.role)
    return read[::-1]


def _turns(heads: Sequence[Head]) -> list[Turn]:
    return [Turn(spoken.role, spoken.text) for spoken in chat_memories.spoken(read_of(heads))]


def _searched(summary: TextSummary) -> str:
    """The text that a memory is found by."""
    lists = (summary.topics, summary.decisions, summary.actions, summary.entities)
    return "\n".join([summary.title, summary.l2, summary.l1, *("; ".join(items) for items in lists if items)])


def _check_same(chat: int, heads: Sequence[Head], until: Until) -> None:
    """Raises NothingNew when others took messages of these meanwhile, NoChat, or _Changed."""
    if list(chat_memories.waiting(chat, heads[-1].number, released=until.released)) == heads:
        return
    if not chats.exists(chat):
        raise NoChat
    if chat_memories.any_taken(chat, heads):
        raise NothingNew
    raise _Changed

"""How a chat's memory is made: messages are chosen, summarised, embedded, and all of it is stored in one step.

The models take seconds to minutes. Meanwhile no connection is held; what was read is compared with what is there when
the memory is stored, so that it is of just the messages that it says, whatever else went on.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from remory.language.summarizer import TextSummary, Turn
from remory_service.errors import BadRequest, NotFound, Unavailable
from remory_service.runtime import Runtime
from remory_service.store import chat_memories, chats
from remory_service.store.chat_memories import ChatMemory, Head, Made, Spoken
from remory_service.store.database import connection, snapshot, transaction
from remory_service.texts import Texts, Vector

USER, ASSISTANT = "user", "assistant"
# What one memory is made of at most, unless there is no pair of messages in it; what comes after waits for the next.
MOST_BYTES = 8 << 20
_TRIES = 3
_LOOK_SECONDS = 0.2
_FILE_NAMES = ("filename", "name")
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
    """Up to where a memory reaches: a message's number, a time (epoch ms), both or neither."""

    last: int | None = None
    as_of: int | None = None


class Remembering:
    """Makes memories of chats with the runtime's models; `clock` in epoch ms. Thread-safe: in a chat, one at a time.

    Nothing here is called while holding a connection. `check` is called often and may raise to give up. Whatever is
    raised, nothing was stored: Unavailable, SummarizerFailed, EmbedderFailed, and what the functions name.
    """

    def __init__(self, runtime: Runtime, texts: Texts, clock: Callable[[], int]):
        self._runtime = runtime
        self._texts = texts
        self._clock = clock
        self._places = _Places()

    def create(self, chat: int, until: Until, reason: str, check: Check) -> str:
        """Make a memory of the oldest messages of a chat that have none; its id. Raises NothingNew, NoChat."""
        return self._in_turn(chat, lambda: self._create(chat, until, reason, check), check)

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

    def _create(self, chat: int, until: Until, reason: str, check: Check) -> str:
        with connection(), snapshot():
            if not chats.exists(chat):
                raise NoChat
            heads = within_bounds(chat_memories.waiting(chat, until.last, until.as_of))
            turns = _turns(chat_memories.spoken(chat, heads))
        if not turns:
            raise NothingNew
        written = self._write(turns, check)
        with connection(), transaction():
            _check_same(chat, heads)
            return chat_memories.add(chat, heads, written.made(), reason, self._clock())

    def _regenerate(self, memory: ChatMemory, check: Check) -> None:
        with connection(), snapshot():
            heads = chat_memories.remembered(memory.number)
            turns = _turns(chat_memories.spoken_of(memory.number))
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
    """One place for each chat of which a memory is being made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_chats: dict[int, _Place] = {}

    @contextmanager
    def of(self, chat: int, check: Check) -> Iterator[None]:
        """Wait for a chat's place and have it for the block. `check` may raise to end the wait."""
        with self._lock:
            place = self._of_chats.setdefault(chat, _Place(threading.Lock()))
            place.wanted += 1
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


def within_bounds(heads: Sequence[Head]) -> list[Head]:
    """The first of these messages that make a memory, a user's and an assistant's among them. Raises NothingNew."""
    lacking, size = {USER, ASSISTANT}, 0
    for place, head in enumerate(heads):
        size += head.size
        if size > MOST_BYTES and not lacking:
            return list(heads[:place])
        lacking.discard(head.role)
    if lacking:
        raise NothingNew
    return list(heads)


def text_of(spoken: Spoken) -> str:
    """What a message says, as a model reads it: its texts, its tools' results, the names of its files."""
    said = [_said(part) for part in json.loads(spoken.parts)]
    names = [_file_name(file) for file in json.loads(spoken.files)]
    return "\n".join(text for text in said + names if text.strip())


def _turns(messages: Sequence[Spoken]) -> list[Turn]:
    turns = [Turn(message.role, text_of(message)) for message in messages]
    return [turn for turn in turns if turn.text]


def _said(part: dict[str, Any]) -> str:
    if part["type"] == "text":
        return part["text"]
    if "output" in part:
        output = part["output"]
        return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return _file_name(part) if part["type"] == "file" else ""


def _file_name(file: dict[str, Any]) -> str:
    return next((file[field] for field in _FILE_NAMES if isinstance(file.get(field), str)), "")


def _searched(summary: TextSummary) -> str:
    """The text that a memory is found by."""
    lists = (summary.topics, summary.decisions, summary.actions, summary.entities)
    return "\n".join([summary.title, summary.l2, summary.l1, *("; ".join(items) for items in lists if items)])


def _check_same(chat: int, heads: Sequence[Head]) -> None:
    """Raises NothingNew when others took messages of these meanwhile, NoChat, or _Changed."""
    if chat_memories.waiting(chat, heads[-1].number) == heads:
        return
    if not chats.exists(chat):
        raise NoChat
    if chat_memories.any_taken(chat, heads):
        raise NothingNew
    raise _Changed

"""Cuts a removed history into chunks that can be found again: at the ends of messages, a tool's result with its call.

Only token ids are known of a history, so messages are told apart by the tokens that end them, and roles and a tool's
result by how the common chat templates begin a message.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from remory.actors import special_ids

# Small enough that a few fit a prompt and that an embedder's window takes one whole.
CHUNK_TOKENS = 96
# What is shown of a call in front of its results, at least.
_CALL_TOKENS = 48
# A call and its results that are longer than a chunk by no more than this stay whole.
_PAIR = 1.5
_HEADER_TOKENS = 12
_TOOL_ROLES = ("tool", "ipython", "function", "observation")
_ROLES = ("system", "developer", "user", "assistant", "model", *_TOOL_ROLES)
_HEADER = re.compile(rf"\s*({'|'.join(_ROLES)})[ \t]*\n+", re.IGNORECASE)
_OPEN_HEADER = re.compile(rf"\s*({'|'.join(_ROLES)})?\s*", re.IGNORECASE)
_TOOL_RESULT = re.compile(r"<tool_response>|\[TOOL_RESULTS\]|<\|tool_response|<\|tool_output", re.IGNORECASE)


@dataclass(frozen=True)
class Chunk:
    """A part of a history: its token ids, and what it says, message after message with their roles.

    The ids of all chunks are those of the history. A chunk of a long tool result says the beginning of its call first.
    """

    ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Message:
    """A message among token ids: they are `ids[start:stop]`, what it says begins at `body`. `role` may be unknown: "".

    `is_result`: it answers a tool call before it.
    """

    start: int
    body: int
    stop: int
    role: str
    text: str
    is_result: bool

    def __len__(self) -> int:
        return self.stop - self.start


def find_messages(ids: Sequence[int], tokenizer: Any, ends: Collection[int]) -> list[Message]:
    """The messages that token ids hold, without a gap between them. `ends`: the tokens that end one."""
    special = special_ids(tokenizer)
    piece = cache(lambda token: tokenizer.decode([token]))
    messages = []
    start = 0
    while start < len(ids):
        stop = next((place + 1 for place in range(start, len(ids)) if ids[place] in ends), len(ids))
        # The line break that a template puts behind a message belongs to it.
        while stop < len(ids) and ids[stop] not in special and not piece(ids[stop]).strip():
            stop += 1
        messages.append(_message(ids, start, stop, tokenizer, special))
        start = stop
    return messages


def cut_history(ids: Sequence[int], tokenizer: Any, ends: Collection[int], limit: int = CHUNK_TOKENS) -> list[Chunk]:
    """Chunks of a history, in order. `ends`: the tokens that end a message. `limit`: tokens of a chunk, about.

    Short messages that follow each other share a chunk; what is longer than a chunk is cut at the ends of its lines.
    """
    cutter = _Cutter(ids, tokenizer, limit)
    parts: list[_Part] = []
    for group in _groups(find_messages(ids, tokenizer, ends)):
        if group[-1].stop - group[0].start <= limit * (_PAIR if len(group) > 1 else 1):
            parts.append(_Part(group[0].start, group[-1].stop, "\n".join(_told(one.role, one.text) for one in group)))
        else:
            parts += cutter.cut(group)
    return [Chunk(tuple(ids[part.start : part.stop]), part.text) for part in _packed(parts, limit)]


@dataclass(frozen=True)
class _Part:
    """A run of ids and what it says. `alone`: it is cut out of a group, and shares its chunk with nothing else."""

    start: int
    stop: int
    text: str
    alone: bool = False


class _Cutter:
    """Cuts groups that are longer than a chunk."""

    def __init__(self, ids: Sequence[int], tokenizer: Any, limit: int):
        self._ids = ids
        self._tokenizer = tokenizer
        self._limit = limit
        self._breaks = cache(lambda token: "\n" in tokenizer.decode([token]))

    def cut(self, group: Sequence[Message]) -> Iterator[_Part]:
        """The parts of a message and of the tool results that answer it."""
        call, results = group[0], group[1:]
        if not results:
            yield from self._cut_alone(call)
            return
        size = sum(map(len, results))
        shown = max(_CALL_TOKENS, self._limit - size)
        lead = self._say(call.body, min(call.body + shown, call.stop)).strip()
        if call.stop - call.body > shown:
            yield from self._cut_alone(call)
            lead += " …"
            start = call.stop
        else:
            # Said in front of every part, so the first of them has its ids too.
            start = call.start
        room = max(self._limit - min(len(call), shown), self._limit // 2)
        for begin, stop, said in self._filled(results, room):
            yield _Part(min(start, begin), stop, f"{_told(call.role, lead)}\n{said}", alone=True)
            start = stop

    def _cut_alone(self, message: Message) -> Iterator[_Part]:
        for start, stop in self._windows(message, self._limit):
            yield _Part(start, stop, _told(message.role, self._say(max(start, message.body), stop)), alone=True)

    def _filled(self, results: Sequence[Message], room: int) -> Iterator[tuple[int, int, str]]:
        """Runs of neighbouring results, or of windows of them, that fill a chunk together: start, stop, text."""
        begin = end = results[0].start
        said: list[str] = []
        for result in results:
            for start, stop in self._windows(result, room):
                if said and stop - begin > room:
                    yield begin, end, "\n".join(said)
                    begin, said = start, []
                said.append(_told(result.role, self._say(max(start, result.body), stop)))
                end = stop
        yield begin, end, "\n".join(said)

    def _windows(self, message: Message, size: int) -> Iterator[tuple[int, int]]:
        """Runs of at most `size` ids that end with a line where one ends in their second half."""
        start = message.start
        while start < message.stop:
            stop = min(start + size, message.stop)
            if stop < message.stop:
                half = max(start + size // 2, message.body)
                lines = (place + 1 for place in range(stop - 1, half, -1) if self._breaks(self._ids[place]))
                stop = next(lines, stop)
            yield start, stop
            start = stop

    def _say(self, start: int, stop: int) -> str:
        # A cut may lie inside a character of several tokens.
        text = self._tokenizer.decode(list(self._ids[start:stop]), skip_special_tokens=True)
        return text.strip("\N{REPLACEMENT CHARACTER}")


def _message(ids: Sequence[int], start: int, stop: int, tokenizer: Any, special: Collection[int]) -> Message:
    """A message, its role read from its first line where a special token stands before it, as templates have it."""
    body, role = start, ""
    if ids[start] in special:
        for length in range(2, min(_HEADER_TOKENS, stop - start) + 1):
            header = tokenizer.decode(list(ids[start : start + length]), skip_special_tokens=True)
            if (found := _HEADER.fullmatch(header)) is not None:
                body, role = start + length, found[1].lower()
            elif role:
                break
    text = tokenizer.decode(list(ids[body:stop]), skip_special_tokens=True)
    # With special tokens, for some templates mark a result by one.
    beginning = tokenizer.decode(list(ids[body : body + _HEADER_TOKENS])).lstrip()
    is_result = role in _TOOL_ROLES or _TOOL_RESULT.match(beginning) is not None
    return Message(start, body, stop, role, text, is_result)


def is_open_header(message: Message) -> bool:
    """Whether a message says nothing yet: it is empty, or only the beginning of a turn, as generation prompts are."""
    return _OPEN_HEADER.fullmatch(message.text) is not None


def _groups(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages, each with the tool results that answer it."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.is_result and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _packed(parts: Sequence[_Part], limit: int) -> list[_Part]:
    """Neighbouring parts together as far as a chunk holds them. What says nothing joins the one before."""
    packed: list[_Part] = []
    for part in parts:
        last = packed[-1] if packed else None
        silent = not part.text.strip() or (last is not None and not last.text.strip())
        fits = last is not None and not (last.alone or part.alone) and part.stop - last.start <= limit
        if last is not None and (silent or fits):
            text = "\n".join(text for text in (last.text, part.text) if text.strip())
            packed[-1] = _Part(last.start, part.stop, text, last.alone or part.alone)
        else:
            packed.append(part)
    return [part for part in packed if part.text.strip()]


def _told(role: str, text: str) -> str:
    return f"{role}: {text.strip()}" if role and text.strip() else text.strip()

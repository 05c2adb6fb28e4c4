"""Cuts a removed history into chunks that can be found again: at the ends of messages, a tool's result with its call.

Only token ids are known of a history, so messages are told apart by the tokens that end them, and a tool's result by
how the common chat templates begin it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

# Small enough that a few fit a prompt and that an embedder's window takes one whole.
CHUNK_TOKENS = 160
_CALL_TOKENS = 48
_ROLES = ("system", "developer", "user", "assistant", "model", "tool", "ipython", "function", "observation")
_TOOL_ROLES = ("tool", "ipython", "function", "observation")
_HEADER = re.compile(rf"\s*({'|'.join(_ROLES)})[ \t]*\n+", re.IGNORECASE)
_TOOL_RESULT = re.compile(r"\s*<tool_response>|\s*\[TOOL_RESULTS\]|\s*<\|tool_response", re.IGNORECASE)

Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class Chunk:
    """A part of a history: its token ids in order, and the same as text, message after message with their roles.

    A chunk inside a long tool result has the beginning of its call in front.
    """

    ids: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class _Message:
    ids: tuple[int, ...]
    role: str
    text: str

    @property
    def is_result(self) -> bool:
        return self.role in _TOOL_ROLES or _TOOL_RESULT.match(self.text) is not None

    def told(self, text: str | None = None) -> str:
        text = (self.text if text is None else text).strip()
        return f"{self.role}: {text}" if self.role else text


def cut_history(ids: Sequence[int], tokenizer: Any, ends: Collection[int], limit: int = CHUNK_TOKENS) -> list[Chunk]:
    """Chunks of a history, in order. `ends`: the tokens that end a message. `limit`: tokens of a chunk, about.

    Short messages that follow each other share a chunk; what is longer than a chunk is cut at the ends of its lines.
    """

    @cache
    def piece(token: int) -> str:
        return tokenizer.decode([token])

    def decode(some: Sequence[int]) -> str:
        # A cut may lie inside a character of several tokens.
        return tokenizer.decode(list(some), skip_special_tokens=True).strip("\N{REPLACEMENT CHARACTER}")

    groups = _groups(_messages(ids, decode, piece, ends))
    chunks: list[Chunk] = []
    packed: list[_Message] = []
    for group in groups:
        size = sum(len(message.ids) for message in group)
        if packed and sum(len(message.ids) for message in packed) + size > limit:
            chunks.append(_whole(packed))
            packed = []
        if size > limit:
            chunks += _windows(group, decode, piece, limit)
        else:
            packed += group
    if packed:
        chunks.append(_whole(packed))
    return [chunk for chunk in chunks if chunk.text.strip()]


def _messages(
    ids: Sequence[int], decode: Decode, piece: Callable[[int], str], ends: Collection[int]
) -> Iterator[_Message]:
    start = 0
    while start < len(ids):
        stop = next((place + 1 for place in range(start, len(ids)) if ids[place] in ends), len(ids))
        # The line break that a template puts behind a message belongs to it.
        while stop < len(ids) and ids[stop] not in ends and not piece(ids[stop]).strip():
            stop += 1
        some = tuple(ids[start:stop])
        text = decode(some)
        header = _HEADER.match(text)
        if text.strip():
            yield _Message(some, header[1].lower() if header else "", text[header.end() :] if header else text)
        start = stop


def _groups(messages: Iterator[_Message]) -> list[list[_Message]]:
    """Messages, each with the tool results that answer it."""
    groups: list[list[_Message]] = []
    for message in messages:
        if message.is_result and groups:
            groups[-1].append(message)
        else:
            groups.append([message])
    return groups


def _whole(messages: Sequence[_Message]) -> Chunk:
    ids = tuple(itertools.chain.from_iterable(message.ids for message in messages))
    return Chunk(ids, "\n".join(message.told() for message in messages))


def _windows(group: Sequence[_Message], decode: Decode, piece: Callable[[int], str], limit: int) -> Iterator[Chunk]:
    """The chunks of a message that is too long for one; of a tool's result each with the beginning of its call."""
    call = group[0]
    beginning = call.ids[:_CALL_TOKENS]
    named = without_role(decode(beginning))
    if len(call.ids) > len(beginning):
        named += " …"
    for number, message in enumerate(group):
        prefix, lead = ("", ()) if number == 0 else (call.told(named) + "\n", beginning)
        for window in _cut(message.ids, piece, max(limit - len(lead), limit // 2)):
            text = without_role(decode(window))
            if text.strip():
                yield Chunk((*lead, *window), prefix + message.told(text))


def _cut(ids: Sequence[int], piece: Callable[[int], str], limit: int) -> Iterator[tuple[int, ...]]:
    """Runs of at most `limit` ids that end with a line where one ends in their second half."""
    start = 0
    while start < len(ids):
        stop = min(start + limit, len(ids))
        if stop < len(ids):
            lines = (place + 1 for place in range(stop - 1, start + limit // 2, -1) if "\n" in piece(ids[place]))
            stop = next(lines, stop)
        yield tuple(ids[start:stop])
        start = stop


def without_role(text: str) -> str:
    """A message's text without the line that names its role, where it has one."""
    header = _HEADER.match(text)
    return text[header.end() :] if header else text

"""How an actor's chat template writes messages, as token ids, and which tokens of a message are marked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from remory.errors import InvalidInput
from remory.training.sessions import Turn

_FIRST = "\N{SYMBOL FOR START OF TEXT}"
_STOP = re.compile(r"[.!?;](?=\s|<|$)|\n")
_MARK = "\N{SYMBOL FOR END OF TEXT}"
_SYSTEM = {"role": "system", "content": "-"}
_USER = {"role": "user", "content": "-"}
_ASSISTANT = {"role": "assistant", "content": "-"}


class Phrasing:
    """A tokenizer and its chat template. Raises InvalidInput for a template that cannot be taken apart."""

    def __init__(self, tokenizer: Any) -> None:
        if not tokenizer.is_fast:
            raise InvalidInput(
                "the actor has no fast tokenizer (tokenizer.json), which says where a token stands in a text"
            )
        self.tokenizer = tokenizer
        self.end_ids = self.encode(self.around("assistant")[1].rstrip("\n"))
        if not self.end_ids:
            raise InvalidInput(
                "the chat template writes nothing behind an assistant's message: no token ends an answer"
            )
        self._generation = self._difference([_SYSTEM, _USER], generation=True)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)

    def prefix(self, system: str, task: str) -> list[int]:
        """Token ids of what no compaction removes: the system message and the task."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": task}]
        return self.tokenizer.encode(self._render(messages), add_special_tokens=False)

    def turn(self, turn: Turn) -> tuple[list[int], list[bool]]:
        """Token ids of one message with its markup, and whether each token touches one of its marks."""
        before, after = self.around(turn.role)
        text = before + turn.text + after
        written = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        marks = [(start + len(before), stop + len(before)) for start, stop in turn.marks]
        # The end of the sentence too: a telegram without stops is hard to read.
        marks += [found.span() for _, stop in marks if (found := _STOP.search(text, stop))]
        marked = [any(a < stop and b > start for start, stop in marks) for a, b in written["offset_mapping"]]
        return written["input_ids"], marked

    def places(self, turn: Turn, start: int, stop: int) -> list[int]:
        """Which of the message's tokens touch the characters [start, stop) of its text."""
        before, after = self.around(turn.role)
        written = self.tokenizer(before + turn.text + after, add_special_tokens=False, return_offsets_mapping=True)
        first, last = start + len(before), stop + len(before)
        return [index for index, (a, b) in enumerate(written["offset_mapping"]) if a < last and b > first]

    @lru_cache(maxsize=1 << 16)  # noqa: B019 - one phrasing lives as long as its training run
    def length(self, turn: Turn) -> int:
        return len(self.turn(turn)[0])

    def count(self, turns: Sequence[Turn]) -> int:
        """Tokens of some messages with their markup."""
        return sum(map(self.length, turns))

    def question(self, text: str) -> list[int]:
        """Token ids of a user's message and of the header under which the assistant answers."""
        before, after = self.around("user")
        return self.encode(before + text + after + self._generation)

    @lru_cache(maxsize=16)  # noqa: B019
    def around(self, role: str) -> tuple[str, str]:
        """What the template writes before and after a message's text in the middle of a conversation."""
        try:
            return self._around(role)
        except InvalidInput:
            if role == "user":
                raise
            return self._around("user")  # a template without tool messages

    def _around(self, role: str) -> tuple[str, str]:
        message = {"role": role, "content": _FIRST + _MARK}
        if role == "user":
            # Some templates write the last assistant message in another way until the user answers it.
            for opened in ([_SYSTEM, _USER, _ASSISTANT], [_SYSTEM, _USER, _ASSISTANT, _USER]):
                with contextlib.suppress(InvalidInput):
                    return _split(self._difference(opened, message))
            raise InvalidInput("the chat template changes or refuses what stands before when a user's message is added")
        opened = [_SYSTEM, _USER, _ASSISTANT, _USER]
        text = self._difference(opened, message, _USER)
        before, after = self.around("user")
        follower = before + _USER["content"] + after
        if not text.endswith(follower):
            raise InvalidInput(f"the chat template writes a user's message differently behind one of role {role}")
        return _split(text.removesuffix(follower))

    def _difference(self, opened: list[dict[str, str]], *more: dict[str, str], generation: bool = False) -> str:
        first, whole = self._render(opened), self._render([*opened, *more], generation)
        if not whole.startswith(first):
            raise InvalidInput("the chat template changes what stands before when a message is added")
        return whole[len(first) :]

    def _render(self, messages: list[dict[str, str]], generation: bool = False) -> str:
        try:
            return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generation)
        except Exception as error:  # whatever a template raises
            raise InvalidInput(f"the chat template refuses {[m['role'] for m in messages]}: {error}") from error


def _split(text: str) -> tuple[str, str]:
    before, mark, after = text.partition(_FIRST + _MARK)
    if not mark:
        raise InvalidInput("the chat template leaves out a message's text")
    return before, after

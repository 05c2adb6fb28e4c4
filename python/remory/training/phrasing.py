"""How an actor's chat template writes messages, as token ids, and which tokens of a message are marked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from remory.errors import InvalidInput
from remory.training.sessions import Turn

_FIRST = "\N{SYMBOL FOR START OF TEXT}"
_MARK = "\N{SYMBOL FOR END OF TEXT}"
_SYSTEM = {"role": "system", "content": "-"}
_USER = {"role": "user", "content": "-"}
_ASSISTANT = {"role": "assistant", "content": "-"}


class Phrasing:
    """A tokenizer and its chat template. Raises InvalidInput for a template that cannot be taken apart."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.end_ids = self.encode(self.around("assistant")[1].rstrip("\n"))
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
        written = self.tokenizer(before + turn.text + after, add_special_tokens=False, return_offsets_mapping=True)
        marks = [(start + len(before), stop + len(before)) for start, stop in turn.marks]
        marked = [any(a < stop and b > start for start, stop in marks) for a, b in written["offset_mapping"]]
        return written["input_ids"], marked

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
        """What the template writes before and after a message's text behind a conversation that has begun."""
        opened = [_SYSTEM, _USER, _ASSISTANT, _USER] if role == "assistant" else [_SYSTEM, _USER, _ASSISTANT]
        try:
            text = self._difference(opened, {"role": role, "content": _FIRST + _MARK})
        except InvalidInput:
            if role == "user":
                raise
            return self.around("user")  # a template without tool messages
        before, _, after = text.partition(_FIRST + _MARK)
        return before, after

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

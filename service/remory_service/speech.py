"""How one actor's prompts are written: where its messages end, and how a message of the server's own looks."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import jinja2

from remory.actors import special_ids
from remory.compaction.history import find_messages, is_open_header

_MARK = "\N{SYMBOL FOR START OF TEXT}\N{SYMBOL FOR END OF TEXT}"


class Speech:
    """An actor's tokenizer with its chat template. `ends`: the tokens that end a message."""

    def __init__(self, tokenizer: Any, ends: Collection[int]):
        self.tokenizer = tokenizer
        self.ends = frozenset(ends)
        names = sorted((tokenizer.convert_ids_to_tokens(number) for number in special_ids(tokenizer)), key=len)
        self._special = re.compile("|".join(map(re.escape, reversed(names)))) if names else None
        self._first = tokenizer.encode("")

    def frame(self) -> tuple[list[int], list[int]]:
        """What stands before and after the text of a system message; for a template that has none which can stand
        alone, nothing and an empty line.
        """
        before, mark, after = self._rendered().partition(_MARK)
        if not mark:
            return [], self.encode("\n\n")
        return self._inner(before), self.tokenizer.encode(after, add_special_tokens=False)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, none of which means anything to the chat template: what is stored may come from
        anybody, and must not speak in another's role.
        """
        while self._special is not None and self._special.search(text):
            text = self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
        return self.tokenizer.encode(text, add_special_tokens=False)

    def last_message(self, ids: Sequence[int]) -> tuple[int, str]:
        """Where the last message begins that says something, and what it says; a generation prompt says nothing."""
        for message in reversed(find_messages(ids, self.tokenizer, self.ends)):
            if not is_open_header(message):
                return message.start, message.text
        return 0, ""

    def behind_first(self, ids: Sequence[int], place: int) -> int:
        """`place`, but never before what the tokenizer itself puts in front of every text."""
        return max(place, len(self._first)) if list(ids[: len(self._first)]) == self._first else place

    def _rendered(self) -> str:
        """A system message of nothing but the mark in the template, or "" where the template has none such."""
        text = self._render([{"role": "system", "content": _MARK}])
        return text if text.count(_MARK) == 1 else ""

    def _render(self, messages: Sequence[dict[str, str]]) -> str:
        if self.tokenizer.chat_template is None:
            return ""
        try:
            return self.tokenizer.apply_chat_template(messages, tokenize=False)
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError):
            return ""

    def _inner(self, before: str) -> list[int]:
        """Ids of what a template puts before a message, without the token that begins a prompt and nothing else."""
        ids = self.tokenizer.encode(before, add_special_tokens=False)
        bos = self.tokenizer.bos_token_id
        if not ids or ids[0] != bos:
            return ids
        talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        begins_messages = self._render(talk).count(self.tokenizer.bos_token) > 1
        return ids if begins_messages else ids[1:]

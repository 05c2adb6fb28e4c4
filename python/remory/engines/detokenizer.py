"""Token ids to text while they come, held back where a character or a stop text may still be incomplete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_REPLACEMENT = "\ufffd"


class Detokenizer:
    """The text of one growing sequence of output ids, cut at the first stop text.

    Only the newest tokens are decoded again, so the cost of a token does not grow with the output.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stops = [stop for stop in stops if stop]
        self._settled = ""
        self._pending: list[int] = []
        self._context: list[int] = []
        self.matched: str | None = None
        self.text = ""

    def push(self, token: int) -> None:
        """Take one more token; `text` grows, `matched` names the stop text that ended it, if one did."""
        self._pending.append(token)
        fresh = self._decode_pending()
        if not fresh.endswith(_REPLACEMENT):
            self._settle(fresh)
            fresh = ""
        self._show(self._settled + fresh)

    def finish(self) -> str:
        """The whole text, with nothing held back (an incomplete character becomes U+FFFD)."""
        if self.matched is None:
            self.text = self._settled + self._decode_pending()
        return self.text

    def _decode_pending(self) -> str:
        # Some tokenizers drop the space of the first token they see, hence the difference of two decodings.
        before = self._tokenizer.decode(self._context, skip_special_tokens=True)
        whole = self._tokenizer.decode(self._context + self._pending, skip_special_tokens=True)
        return whole[len(before) :]

    def _settle(self, fresh: str) -> None:
        self._settled += fresh
        # Tokens without text, such as special ones, leave what came before them as the context of what follows.
        self._context = self._pending if fresh else self._context + self._pending
        self._pending = []

    def _show(self, text: str) -> None:
        text = text.rstrip(_REPLACEMENT)
        search_from = max(0, len(self.text) - max(map(len, self._stops), default=0))
        found = [(text.find(stop, search_from), stop) for stop in self._stops]
        hits = [hit for hit in found if hit[0] >= 0]
        if hits:
            at, self.matched = min(hits)
            self.text = text[:at]
            return
        self.text = text[: len(text) - self._held(text)]

    def _held(self, text: str) -> int:
        """How many characters at the end could be the beginning of a stop text."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:size]):
                    longest = size
                    break
        return longest

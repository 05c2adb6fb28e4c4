"""Spans of a text to be recalled: runs of rare tokens, whole words where the text has words, each behind a cue."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from remory.actors import special_ids
from remory.training.phrasing import Phrasing

_SPAN = (3, 8)
_CUE = (6, 12)
_CUE_WORDS = 2
_TRIES = 16
# How vocabularies write the space or line break that a word begins with.
_WORD_STARTS = ("\N{LATIN CAPITAL LETTER G WITH DOT ABOVE}", "\N{LOWER ONE EIGHTH BLOCK}", " ", "\n", "\t")
_LINE_BREAKS = ("\N{LATIN CAPITAL LETTER C WITH DOT ABOVE}", "\n")


@dataclass(frozen=True)
class Span:
    """Tokens `start` to `stop` of a block, asked for by those from `cue` to `start`; `marked`: what a memory keeps."""

    cue: int
    start: int
    stop: int
    quote: str
    answer: str
    marked: frozenset[int]


class SpanChooser:
    """Chooses spans by a random state. idf [V]: the inverse document frequency of each token."""

    def __init__(self, phrasing: Phrasing, idf: Tensor) -> None:
        self._tokenizer = phrasing.tokenizer
        self._idf: list[float] = idf.float().tolist()

    def choose(self, r: random.Random, ids: Sequence[int], count: int) -> list[Span]:
        """Up to `count` spans of a block that do not overlap, in the order they were found: each the rarest of some."""
        text = _Text(ids, self._pieces, self._tokenizer)
        taken: set[int] = set()
        chosen = []
        for _ in range(count):
            drawn = filter(None, (text.draw(r) for _ in range(_TRIES)))
            for cue, start, stop in sorted(drawn, key=lambda bounds: -self._rarity(ids, *bounds[1:])):
                span = None if taken & set(range(start, stop)) else self._make(text, cue, start, stop)
                if span is not None:
                    taken.update(range(start, stop))
                    chosen.append(span)
                    break
        return chosen

    @cached_property
    def _pieces(self) -> list[str | None]:
        """Each token as its vocabulary writes it; None for one that is no text."""
        special = special_ids(self._tokenizer)
        numbers = range(len(self._idf))
        pieces = self._tokenizer.convert_ids_to_tokens(list(numbers))
        return [None if number in special else piece for number, piece in zip(numbers, pieces, strict=True)]

    def _rarity(self, ids: Sequence[int], start: int, stop: int) -> float:
        return sum(self._idf[token] for token in ids[start:stop]) / (stop - start)

    def _make(self, text: _Text, cue: int, start: int, stop: int) -> Span | None:
        """The span with its wording; None where it could not be asked for or told."""
        quote, answer = text.read(cue, start), text.read(start, stop)
        readable = any(map(str.isalnum, answer)) and any(map(str.isalnum, quote))
        if not readable or "\N{REPLACEMENT CHARACTER}" in quote + answer or text.count(cue, start) > 1:
            return None
        words = sorted(text.words(cue, start), key=lambda word: -self._rarity(text.ids, *word))
        marked = {place for word in words[:_CUE_WORDS] for place in range(*word)}
        return Span(cue, start, stop, quote, answer, frozenset(marked | set(range(start, stop))))


class _Text:
    """A block's tokens, and where its words begin."""

    def __init__(self, ids: Sequence[int], pieces: Sequence[str | None], tokenizer: object) -> None:
        self.ids = list(ids)
        self._tokenizer: object = tokenizer
        self._is_text = [pieces[token] is not None for token in self.ids]
        self._begins = [self._is_beginning(place, pieces) for place in range(len(self.ids))]
        # In a script without spaces every token may begin a word.
        if sum(self._begins) * 12 < len(self.ids):
            self._begins = list(self._is_text)
        # A name or an address may have more tokens than a span: it may end before the next sign in it.
        self._signs = [piece is None or not piece[0].isalnum() for piece in (pieces[token] for token in self.ids)]
        self._starts = [place for place in range(_CUE[0], len(self.ids)) if self._begins[place]]

    def draw(self, r: random.Random) -> tuple[int, int, int] | None:
        """(cue, start, stop) of some span and the cue before it, none of them beyond a message's markup."""
        if not self._starts:
            return None
        start = r.choice(self._starts)
        stop = min(start + r.randint(*_SPAN), len(self.ids))
        while stop - start >= _SPAN[0] and stop < len(self.ids) and not self._may_end(stop):
            stop -= 1
        cue = max(start - r.randint(*_CUE), 0)
        while start - cue > _CUE[0] and not self._begins[cue]:
            cue += 1
        if stop - start < _SPAN[0] or not all(self._is_text[cue:stop]):
            return None
        return cue, start, stop

    def _may_end(self, stop: int) -> bool:
        return self._begins[stop] or self._signs[stop]

    def read(self, start: int, stop: int) -> str:
        return self._tokenizer.decode(self.ids[start:stop]).strip()  # type: ignore[attr-defined]

    def count(self, start: int, stop: int) -> int:
        """How often the block holds the tokens from `start` to `stop`."""
        wanted, size = self.ids[start:stop], stop - start
        return sum(self.ids[place : place + size] == wanted for place in range(len(self.ids) - size + 1))

    def words(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The words between two tokens, as (start, stop); what stands before the first beginning counts as one."""
        cuts = [place for place in range(start, stop) if place == start or self._begins[place]]
        return list(zip(cuts, [*cuts[1:], stop], strict=True))

    def _is_beginning(self, place: int, pieces: Sequence[str | None]) -> bool:
        piece = pieces[self.ids[place]]
        before = pieces[self.ids[place - 1]] if place else None
        if piece is None:
            return False
        return piece.startswith(_WORD_STARTS) or before is None or before.endswith(_LINE_BREAKS)

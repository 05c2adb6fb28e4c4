"""Samples from own data: spans of it to be recalled by their cue, the text that follows, and text from elsewhere.

Nobody wrote questions or marks there. What a memory should keep is guessed from how rare tokens are: spans of rare
tokens are asked for by the words before them. What follows is taught by the frozen actor, which reads the whole block.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from remory.errors import InvalidInput
from remory.training.actor import Strand, Teacher, TrainingActor
from remory.training.cache import TensorCache
from remory.training.documents import Document, Documents
from remory.training.phrasing import Phrasing
from remory.training.samples import FOLLOWING, Part, Question, Sample, draw_unrelated
from remory.training.settings import StageSettings
from remory.training.spans import Span, SpanChooser

_FEWEST_TOKENS = 24
# So many rows for each span: its own tokens and the rarest words of its cue.
_ROWS_PER_SPAN = 8
_UNSCORED = 4
_QUESTIONS = (
    "What comes right after “{}”?",
    "Which words stand directly behind “{}”?",
    "Go on from here, word for word: {}",
    "How did this go on: “{} …”?",
    "We had this: “{}”. What were the next words?",
    "Complete it exactly as it was written: {}",
    "Give me the few words that followed “{}”.",
    "“{}” – and then?",
    "I remember it up to “{}”. What is next?",
    "Quote what is said immediately after “{}”.",
)
_SUMMARIES = (
    "The user and the assistant read a text together.",
    "So far some text was read, and questions about it will follow.",
    "The conversation so far is about a text.",
    "Some material was gone through; its details matter.",
    "The work goes on from what was read.",
)


@dataclass(frozen=True)
class Own:
    """What a run takes from own data: files and folders, the share of samples 0 to 1, the cache and its most bytes."""

    paths: tuple[Path, ...]
    share: float
    cache: Path
    cache_bytes: int


@dataclass(frozen=True)
class _Place:
    """Parts of a document, one behind the other, by their bounds."""

    document: int
    bounds: tuple[tuple[int, int], ...]


class Sources:
    """Draws samples from documents, the same one by seed. idf [V]: the rarity of each of the actor's tokens.

    Blocks lie on a grid, so that they come again and what the actor made of them is found in the cache. Raises
    InvalidInput when no document is long enough.
    """

    def __init__(
        self,
        documents: Documents,
        phrasing: Phrasing,
        actor: TrainingActor,
        cache: TensorCache,
        idf: Tensor,
        ratio: int,
    ) -> None:
        self._documents = documents.documents
        self._phrasing, self._actor, self._cache, self._ratio = phrasing, actor, cache, ratio
        self._chooser = SpanChooser(phrasing, idf)
        self._before, self._after = (tuple(phrasing.encode(text)) for text in phrasing.around("user"))
        self._grids: dict[tuple[int, ...], list[_Place]] = {}
        longest = max((len(document.ids) for document in self._documents), default=0)
        if longest < _FEWEST_TOKENS:
            raise InvalidInput(f"own data needs a text of at least {_FEWEST_TOKENS} tokens; the longest has {longest}")

    def draw(self, seed: str, stage: StageSettings, rooms: Sequence[int]) -> Sample:
        """The sample of this seed, for ever. It has one part where the document has no room for a second one."""
        r = random.Random(seed)
        place = r.choice(self._grid(tuple(rooms)))
        document = self._documents[place.document]
        blocks = [self._wrap(document, start, stop) for start, stop in place.bounds]
        rows = stage.tokens // self._ratio
        count = max(1, rows // _ROWS_PER_SPAN // len(blocks))
        spans = [self._chooser.choose(r, block, count) for block in blocks]
        asked = [(number, span) for number, own in enumerate(spans) for span in own]
        r.shuffle(asked)
        # All of them: the ones whose answers were kept are asked.
        questions = tuple(
            Question(self._ask(r, span), number, tuple(range(span.start, span.stop)))
            for number, span in asked
            if stage.questions
        )
        summary = tuple(self._phrasing.encode(r.choice(_SUMMARIES)))
        following = self._follow(document, place, blocks) if stage.questions else ()
        unrelated = self._elsewhere(r, place.document) if stage.questions else ()
        read = [self._part(document, block, own) for block, own in zip(blocks, spans, strict=True)]
        return Sample(document.prefix, summary, tuple(read), questions, following, unrelated)

    def _grid(self, sizes: tuple[int, ...]) -> list[_Place]:
        """All blocks of all documents, a second one behind each where there is room and enough text."""
        if sizes not in self._grids:
            places = [
                _Place(number, bounds)
                for number, document in enumerate(self._documents)
                for start in range(0, len(document.ids), max(self._room(document, sizes[0]), 1))
                if (bounds := self._cut(document, start, sizes))
            ]
            if not places:
                raise InvalidInput(f"blocks of {sizes[0]} tokens leave no room for {_FEWEST_TOKENS} of own text")
            self._grids[sizes] = places
        return self._grids[sizes]

    def _cut(self, document: Document, start: int, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
        bounds = []
        for size in sizes:
            stop = min(start + self._room(document, size), len(document.ids))
            if stop - start < _FEWEST_TOKENS:
                break
            bounds.append((start, stop))
            start = stop
        return tuple(bounds)

    def _room(self, document: Document, size: int) -> int:
        return size - len(self._before) - len(self._after) if document.bare else size

    def _wrap(self, document: Document, start: int, stop: int) -> tuple[int, ...]:
        """Token ids of a block; plain text stands in a user's message."""
        ids = tuple(document.ids[start:stop])
        return (*self._before, *ids, *self._after) if document.bare else ids

    def _part(self, document: Document, ids: tuple[int, ...], spans: Sequence[Span]) -> Part:
        marked = frozenset[int]().union(*(span.marked for span in spans))
        features = self._cache.get(
            "features", (document.prefix, ids), lambda: self._actor.read_features(document.prefix, ids)
        )
        return Part(ids, tuple(place in marked for place in range(len(ids))), features["features"])

    def _ask(self, r: random.Random, span: Span) -> Strand:
        question = self._phrasing.question(r.choice(_QUESTIONS).format(span.quote))
        return Strand((*question, *self._phrasing.encode(span.answer), *self._phrasing.end_ids), len(question))

    def _follow(self, document: Document, place: _Place, blocks: Sequence[tuple[int, ...]]) -> tuple[Strand, ...]:
        strand = self._strand(document, place.bounds[-1][1])
        if strand is None:
            return ()
        context = (*document.prefix, *(token for block in blocks for token in block))
        taught = self._cache.get(
            f"teacher from {strand.scored}", (context, strand.ids), lambda: self._actor.teach(context, strand)
        )
        return (Strand(strand.ids, strand.scored, Teacher(taught["ids"], taught["logs"])),)

    def _elsewhere(self, r: random.Random, number: int) -> tuple[Strand, ...]:
        others = [other for other in range(len(self._documents)) if other != number]
        if not others:
            return draw_unrelated(r, self._phrasing)
        document = self._documents[r.choice(others)]
        strand = self._strand(document, r.randrange(max(1, len(document.ids) - FOLLOWING)))
        return () if strand is None else (strand,)

    def _strand(self, document: Document, start: int) -> Strand | None:
        """A document's text from `start` on, if there is some, in a user's message if it is plain."""
        ids = document.ids[start : start + FOLLOWING]
        if len(ids) <= 2 * _UNSCORED:
            return None
        before = self._before if document.bare else ()
        return Strand((*before, *ids), len(before) + _UNSCORED)

"""Draws of facts from all attributes: single ones, several of one entity, several that cannot be mixed up."""

from __future__ import annotations

import random
from collections.abc import Sequence

from remory.training.generator.business import BUSINESS
from remory.training.generator.engineering import ENGINEERING
from remory.training.generator.running import RUNNING
from remory.training.generator.statements import Attribute, Triple, bare, draw_triple
from remory.training.generator.words import pick

ATTRIBUTES: tuple[Attribute, ...] = (*RUNNING, *ENGINEERING, *BUSINESS)


def draw(r: random.Random) -> Triple:
    """A triple of any attribute."""
    return draw_triple(r, pick(r, ATTRIBUTES))


def draw_profile(r: random.Random, number: int) -> list[Triple]:
    """Triples of one entity under attributes of different kinds."""
    while True:
        first = draw(r)
        maker_free = [a for a in ATTRIBUTES if set(a.entities) & set(first.attribute.entities)]
        found = [first]
        for attribute in r.sample(maker_free, min(len(maker_free), 8)):
            if len(found) == number:
                return found
            value = attribute.value(r)
            kinds = [one.attribute.kind for one in found]
            if attribute.kind in kinds or _is_taken(value, first.entity, found, attribute):
                continue
            found.append(Triple(attribute, first.entity, value, pick(r, attribute.labels)))


def _is_taken(value: str, entity: str, found: Sequence[Triple], attribute: Attribute) -> bool:
    answer = bare(value).lower()
    texts = [entity, *attribute.questions, *(one.answer for one in found)]
    return any(answer in text.lower() for text in texts) or any(one.answer.lower() in answer for one in found)


def are_separate(triples: Sequence[Triple]) -> bool:
    """Whether no answer or entity of one triple stands in another."""
    answers = [one.answer.lower() for one in triples]
    texts = [" ".join((one.entity, *one.attribute.questions)).lower() for one in triples]
    entities = [bare(one.entity).lower() for one in triples]
    return not any(
        answers[i] in answers[j] or answers[i] in texts[j] or entities[i] in entities[j] or entities[i] in answers[j]
        for i in range(len(triples))
        for j in range(len(triples))
        if i != j
    )

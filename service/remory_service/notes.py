"""Notes: texts of one user or of everybody, found again by meaning. Each is a passage named by its UUID.

No function may be called within a transaction: the embedding model is waited for, and nobody must wait for that.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remory.search import Condition
from remory_service.errors import NotFound
from remory_service.store import passages
from remory_service.store.database import connection, transaction
from remory_service.store.passages import Collection, Passage, Text
from remory_service.texts import Recalled, Texts, Vector

KIND = "notes"


class UnknownNote(NotFound):
    """No note of that scope has the id."""


@dataclass(frozen=True)
class NotesPage:
    """Some notes, oldest first, and the id of the one that follows."""

    notes: list[Passage]
    next_id: str | None


def notes_of(user: str | None) -> Collection:
    """The notes of a user; None for those of everybody."""
    return Collection(KIND, "global" if user is None else f"user:{user}")


def save(texts: Texts, scope: Collection, name: str | None, content: str, metadata: bytes, now: int) -> str:
    """Save a note and return its id; one that the scope has is replaced and keeps its place.

    One whose text stays needs no embedding. `metadata`: a JSON object as UTF-8. Raises Unavailable, EmbedderFailed.
    """
    name = name or str(uuid.uuid4())
    model = texts.model
    with connection():
        known = _is_embedded(scope, name, content, model)
    if known and _put(scope, Text(name, content, metadata, {}), model, None, now):
        return name
    (vector,) = texts.embed([content])
    _put(scope, Text(name, content, metadata, {}), model, vector, now)
    return name


def recall(
    texts: Texts, scope: Collection, query: str, k: int, conditions: Sequence[Condition], mode: str
) -> list[Recalled]:
    """The `k` notes closest to a query that meet all conditions. Raises Unavailable, EmbedderFailed."""
    question = texts.ask(query)
    with connection():
        collection = passages.find_collection(scope)
        return [] if collection is None else texts.recall([collection], question, k, conditions, mode)


def delete(scope: Collection, name: str) -> None:
    """Delete a note with all by which it is found. Raises UnknownNote."""
    with connection(), transaction():
        collection = passages.find_collection(scope)
        if collection is None or not passages.remove(collection, name):
            raise UnknownNote(f"this scope has no memory {name}")


def page(scope: Collection, limit: int, offset: str | int) -> NotesPage:
    """Up to `limit` notes from the one with the id `offset` on, or without the first `offset`. Raises UnknownNote."""
    with connection():
        collection = passages.find_collection(scope)
        first = passages.get(collection, offset) if isinstance(offset, str) and collection is not None else None
        if isinstance(offset, str) and first is None:
            raise UnknownNote(f"this scope has no memory {offset}")
        if collection is None:
            return NotesPage([], None)
        first_id, skip = (0, offset) if isinstance(offset, int) else (first.id if first else 0, 0)
        found = passages.page(collection, limit + 1, first_id, skip)
    return NotesPage(found[:limit], found[limit].name if len(found) > limit else None)


def conditions_of(filter: Mapping[str, Any]) -> list[Condition]:
    """A filter as conditions: a list means any of its values, or an equal list."""
    return [
        Condition(key, (*value, value) if isinstance(value, list) else (value,), dotted=True)
        for key, value in filter.items()
    ]


def _put(scope: Collection, text: Text, model: str, vector: Vector | None, now: int) -> bool:
    """Store a note; without a vector only if the one it has still is that of the text, else False."""
    with connection(), transaction():
        if vector is None and not _is_embedded(scope, text.name, text.text, model):
            return False
        vectors = {} if vector is None else vector.by_model()
        passages.put(passages.make_collection(scope), Text(text.name, text.text, text.metadata, vectors), now)
    return True


def _is_embedded(scope: Collection, name: str, content: str, model: str) -> bool:
    """Whether a note is there with this text and a vector of this model."""
    collection, number = passages.find_collection(scope), passages.find_model(model)
    note = None if collection is None or number is None else passages.get(collection, name)
    return note is not None and note.text == content and bool(passages.vectors_of([note.id], number or 0))

"""Passages: texts of collections, with their words and, by model, their vectors. Every function needs a connection.

A passage changes in one step with all by which it is found. Its vectors carry ascending numbers, one for each write of
a store, by which images of them in memory follow (see remory_service.search).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remory.errors import EmbedderFailed
from remory_service.store import words
from remory_service.store.schema import StoredCollection, StoredModel, StoredPassage
from remory_service.store.statements import first, run

_FIELDS = "id, collection_id, name, text, metadata, created_at, updated_at"
_FOLLOWED = """
    SELECT e.passage_id, p.name, e.sequence, 0, m.dimension, p.metadata, e.content
    FROM embedding e JOIN embedding_model m ON m.id = e.model_id LEFT JOIN passage p ON p.id = e.passage_id
    WHERE e.collection_id = ? AND e.model_id = ? AND e.sequence > ? ORDER BY e.sequence LIMIT ?
"""
_FOLLOWED_AT_ONCE = 4096
_ASKED_AT_ONCE = 500
_ADDED_AT_ONCE = 200


@dataclass(frozen=True)
class Collection:
    """A collection as it is named. `kind`: notes, chat or history; `owner`: whose, in that kind's own terms."""

    kind: str
    owner: str


@dataclass(frozen=True)
class Passage:
    """A text and what is kept beside it: a JSON object as UTF-8. Times: epoch ms."""

    id: int
    collection: int
    name: str
    text: str
    metadata: bytes
    created_at: int
    updated_at: int


@dataclass(frozen=True)
class Text:
    """What a passage is made of. `vectors`: packed, by the model's id; none for a passage that gets its own later."""

    name: str
    text: str
    metadata: bytes
    vectors: Mapping[int, bytes]


@dataclass(frozen=True)
class PassageVectors:
    """The vectors that one model made of a collection's passages, to be followed by their sequence."""

    collection: int
    model: int

    def since(self, sequence: int) -> Iterator[list[tuple[Any, ...]]]:
        """Vectors changed after `sequence`, in the order of their changes: passage, name, sequence, 0, dimension,
        metadata, content; content None: there is none any more. In pages as those of a scope.
        """
        while True:
            found = run(_FOLLOWED, self.collection, self.model, sequence, _FOLLOWED_AT_ONCE).fetchall()
            if found:
                yield found
            if len(found) < _FOLLOWED_AT_ONCE:
                return
            sequence = found[-1][2]


def find_collection(collection: Collection) -> int | None:
    """A collection's id, None when nothing was ever put into it."""
    found = first("SELECT id FROM collection WHERE kind = ? AND owner = ?", collection.kind, collection.owner)
    return None if found is None else found[0]


def make_collection(collection: Collection) -> int:
    """A collection's id, of a new one if there is none. Needs a transaction."""
    known = find_collection(collection)
    if known is not None:
        return known
    return StoredCollection.insert(kind=collection.kind, owner=collection.owner).execute()


def find_model(name: str, dimension: int | None = None) -> int | None:
    """The id of an embedding model, None when the store has no vector of it. Raises EmbedderFailed when the store knows
    it with vectors of another dimension than is said.
    """
    found = first("SELECT id, dimension FROM embedding_model WHERE name = ?", name)
    if found is None:
        return None
    if dimension is not None and found[1] != dimension:
        raise EmbedderFailed(
            f"the embedding model {name} gives vectors of {dimension} elements and the store has it with {found[1]}: "
            "another model needs another name"
        )
    return found[0]


def make_model(name: str, dimension: int) -> int:
    """The id of an embedding model. Needs a transaction. Raises EmbedderFailed as `find_model` does."""
    known = find_model(name, dimension)
    return StoredModel.insert(name=name, dimension=dimension).execute() if known is None else known


def put(collection: int, text: Text, now: int) -> int:
    """Set a passage, and return its id. One that there is keeps id and place in the order. Needs a transaction.

    Vectors of the same text by other models stay; those of another text go.
    """
    known = first("SELECT id, text FROM passage WHERE collection_id = ? AND name = ?", collection, text.name)
    data = text.text.encode()
    if known is None:
        values = {"collection": collection, "name": text.name, "text": data, "metadata": text.metadata}
        passage = StoredPassage.insert(**values, created_at=now, updated_at=now).execute()
    else:
        passage = known[0]
        run("UPDATE passage SET text = ?, metadata = ?, updated_at = ? WHERE id = ?", data, text.metadata, now, passage)
        if bytes(known[1]) != data:
            _take_back(passage)
        else:
            # Who follows the vectors must see the metadata beside them.
            run("UPDATE embedding SET sequence = ? WHERE passage_id = ?", _next_sequence(), passage)
    if known is None or bytes(known[1]) != data:
        words.put(passage, collection, text.text)
    for model, content in text.vectors.items():
        set_vector(collection, passage, model, content)
    return passage


def add_many(collection: int, texts: Sequence[Text], now: int) -> list[int]:
    """Put passages that have no vector yet into a new collection, and return their ids. Needs a transaction.

    As `put` does it, in a few statements: a million tokens of history are thousands of passages, and all other writers
    wait.
    """
    ids: dict[str, int] = {}
    for begin in range(0, len(texts), _ADDED_AT_ONCE):
        some = texts[begin : begin + _ADDED_AT_ONCE]
        values = [
            value for text in some for value in (collection, text.name, text.text.encode(), text.metadata, now, now)
        ]
        sql = f"""
            INSERT INTO passage (collection_id, name, text, metadata, created_at, updated_at)
            VALUES {",".join(["(?, ?, ?, ?, ?, ?)"] * len(some))} RETURNING name, id
        """
        ids |= dict(run(sql, *values).fetchall())
    words.add({ids[text.name]: text.text for text in texts}, collection)
    return [ids[text.name] for text in texts]


def set_vector(collection: int, passage: int, model: int, content: bytes) -> None:
    """Set one model's vector of a passage. Needs a transaction."""
    run(
        """
        INSERT INTO embedding (collection_id, passage_id, model_id, sequence, content) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (passage_id, model_id) DO UPDATE SET sequence = excluded.sequence, content = excluded.content
        """,
        collection,
        passage,
        model,
        _next_sequence(),
        content,
    )


def remove(collection: int, name: str) -> bool:
    """Remove a passage with its words and vectors; False when there is none. Needs a transaction."""
    known = first("SELECT id FROM passage WHERE collection_id = ? AND name = ?", collection, name)
    if known is None:
        return False
    words.remove(known)
    _take_back(known[0])
    run("DELETE FROM passage WHERE id = ?", known[0])
    return True


def remove_collection(collection: int) -> None:
    """Remove a collection that nobody will ask for again, with all that is in it. Needs a transaction."""
    words.remove([passage for (passage,) in run("SELECT id FROM passage WHERE collection_id = ?", collection)])
    run("DELETE FROM embedding WHERE collection_id = ?", collection)
    run("DELETE FROM passage WHERE collection_id = ?", collection)
    run("DELETE FROM collection WHERE id = ?", collection)


def get(collection: int, name: str) -> Passage | None:
    """A passage by its name."""
    found = first(f"SELECT {_FIELDS} FROM passage WHERE collection_id = ? AND name = ?", collection, name)
    return None if found is None else _passage(found)


def get_many(passages: Sequence[int]) -> dict[int, Passage]:
    """Passages by id; those that are gone are left out."""
    found: dict[int, Passage] = {}
    for begin in range(0, len(passages), _ASKED_AT_ONCE):
        some = passages[begin : begin + _ASKED_AT_ONCE]
        rows = run(f"SELECT {_FIELDS} FROM passage WHERE id IN ({','.join('?' * len(some))})", *some)
        found |= {row[0]: _passage(row) for row in rows.fetchall()}
    return found


def metadata_of(passages: Sequence[int]) -> dict[int, bytes]:
    """The metadata of passages by id; of those that are gone there is none."""
    found: dict[int, bytes] = {}
    for begin in range(0, len(passages), _ASKED_AT_ONCE):
        some = passages[begin : begin + _ASKED_AT_ONCE]
        rows = run(f"SELECT id, metadata FROM passage WHERE id IN ({','.join('?' * len(some))})", *some)
        found |= {passage: bytes(metadata) for passage, metadata in rows.fetchall()}
    return found


def page(collection: int, limit: int, first_id: int = 0, skip: int = 0) -> list[Passage]:
    """Up to `limit` passages in the order in which they came, from the id `first_id` on, without the first `skip`."""
    sql = f"SELECT {_FIELDS} FROM passage WHERE collection_id = ? AND id >= ? ORDER BY id LIMIT ? OFFSET ?"
    return [_passage(row) for row in run(sql, collection, first_id, limit, skip).fetchall()]


def vectors_of(passages: Sequence[int], model: int) -> dict[int, bytes]:
    """One model's packed vectors of passages, by passage; those that have none are left out."""
    found: dict[int, bytes] = {}
    for begin in range(0, len(passages), _ASKED_AT_ONCE):
        some = passages[begin : begin + _ASKED_AT_ONCE]
        sql = f"""
            SELECT passage_id, content FROM embedding
            WHERE model_id = ? AND content IS NOT NULL AND passage_id IN ({",".join("?" * len(some))})
        """
        found |= {row[0]: bytes(row[1]) for row in run(sql, model, *some).fetchall()}
    return found


def lacking(model: int, collection: int | None, after: int, limit: int) -> list[tuple[int, int, str]]:
    """Passages that have no vector of a model: collection, id and text, by ascending id after `after`; of one
    collection, or of all.
    """
    narrowed, of = ("", []) if collection is None else ("AND p.collection_id = ?", [collection])
    sql = f"""
        SELECT p.collection_id, p.id, p.text FROM passage p
        WHERE p.id > ? {narrowed} AND NOT EXISTS (
            SELECT 1 FROM embedding e WHERE e.passage_id = p.id AND e.model_id = ? AND e.content IS NOT NULL
        ) ORDER BY p.id LIMIT ?
    """
    rows = run(sql, after, *of, model, limit).fetchall()
    return [(collection, passage, bytes(text).decode()) for collection, passage, text in rows]


def count_lacking(model: int) -> int:
    """How many passages have no vector of a model."""
    found = first(
        """
        SELECT count(*) FROM passage p WHERE NOT EXISTS (
            SELECT 1 FROM embedding e WHERE e.passage_id = p.id AND e.model_id = ? AND e.content IS NOT NULL
        )
        """,
        model,
    )
    assert found is not None
    return found[0]


def count_vectors() -> list[tuple[str, int, int]]:
    """Name, dimension and number of vectors of each model, the oldest first."""
    sql = """
        SELECT m.name, m.dimension, count(e.content) FROM embedding_model m LEFT JOIN embedding e ON e.model_id = m.id
        GROUP BY m.id, m.name, m.dimension ORDER BY m.id
    """
    return [(name, dimension, count) for name, dimension, count in run(sql).fetchall()]


def remove_other_vectors(model: int) -> int:
    """Remove all vectors but those of one model, and the other models; returns how many vectors. Needs a transaction.

    Who follows the vectors of another model does not learn of it: nobody asks for them any more.
    """
    found = first("SELECT count(*) FROM embedding WHERE model_id <> ? AND content IS NOT NULL", model)
    assert found is not None
    run("DELETE FROM embedding WHERE model_id <> ?", model)
    run("DELETE FROM embedding_model WHERE id <> ?", model)
    return found[0]


def _take_back(passage: int) -> None:
    """Let no model have a vector of this passage any more, and those who follow learn of it."""
    run("UPDATE embedding SET content = NULL, sequence = ? WHERE passage_id = ?", _next_sequence(), passage)


def _next_sequence() -> int:
    run("UPDATE embedding_feed SET last_sequence = last_sequence + 1")
    found = first("SELECT last_sequence FROM embedding_feed")
    assert found is not None
    return found[0]


def _passage(row: Sequence[Any]) -> Passage:
    passage, collection, name, text, metadata, created_at, updated_at = row
    return Passage(passage, collection, name, bytes(text).decode(), bytes(metadata), created_at, updated_at)

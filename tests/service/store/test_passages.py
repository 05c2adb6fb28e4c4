from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remory.errors import EmbedderFailed
from remory.search.packing import pack_vector
from remory_service.store import passages, words
from remory_service.store.database import transaction
from remory_service.store.passages import Collection, PassageVectors, Text
from remory_service.store.statements import first

NOTES = Collection("notes", "user:a")
MODEL = "small"
ONE, TWO = (pack_vector(np.array(vector, np.float32)) for vector in ([1, 0], [0, 1]))


def put(name: str, text: str = "text", content: bytes | None = ONE, metadata: bytes = b"{}", now: int = 0) -> int:
    """A passage of NOTES with a vector of MODEL, if there is one; its id."""
    with transaction():
        vectors = {} if content is None else {passages.make_model(MODEL, 2): content}
        return passages.put(passages.make_collection(NOTES), Text(name, text, metadata, vectors), now)


def place() -> tuple[int, int]:
    """The ids of NOTES and of MODEL."""
    collection, model = passages.find_collection(NOTES), passages.find_model(MODEL)
    assert collection is not None
    assert model is not None
    return collection, model


def followed(sequence: int = 0) -> list[tuple[Any, ...]]:
    """Passage, name, metadata and content of what changed after a sequence."""
    pages = PassageVectors(*place()).since(sequence)
    return [(row[0], row[1], row[5] and bytes(row[5]), row[6] and bytes(row[6])) for page in pages for row in page]


def last_sequence() -> int:
    found = first("SELECT last_sequence FROM embedding_feed")
    assert found is not None
    return found[0]


def test_a_passage_is_read_as_it_was_put(store: object) -> None:
    text, metadata = "NUL \u0000 and 🦀", '{"a":"\u0000ü"}'.encode()
    id = put("n", text, metadata=metadata, now=7)
    collection, model = place()
    passage = passages.get(collection, "n")
    assert passage == passages.Passage(id, collection, "n", text, metadata, 7, 7)
    assert passages.get_many([id, id + 1]) == {id: passage}
    assert passages.metadata_of([id, id + 1]) == {id: metadata}
    assert passages.vectors_of([id, id + 1], model) == {id: ONE}
    assert passages.get(collection, "m") is None
    assert passages.get(collection + 1, "n") is None


def test_collections_are_made_once(store: object) -> None:
    assert passages.find_collection(NOTES) is None
    with transaction():
        id = passages.make_collection(NOTES)
        assert passages.make_collection(NOTES) == id == passages.find_collection(NOTES)
        others = {passages.make_collection(Collection(*named)) for named in (("chat", "user:a"), ("notes", "user:A"))}
    assert len(others - {id}) == 2


def test_a_model_has_one_dimension(store: object) -> None:
    assert passages.find_model(MODEL) is None
    with transaction():
        id = passages.make_model(MODEL, 2)
        assert passages.make_model(MODEL, 2) == id == passages.find_model(MODEL) == passages.find_model(MODEL, 2)
        assert passages.make_model("other", 3) != id
        with pytest.raises(EmbedderFailed, match="small gives vectors of 3 elements and the store has it with 2"):
            passages.make_model(MODEL, 3)
    with pytest.raises(EmbedderFailed, match="another model needs another name"):
        passages.find_model(MODEL, 3)


def test_a_new_text_takes_the_vectors_of_all_models_back(store: object) -> None:
    id = put("n", "text")
    with transaction():
        other = passages.make_model("other", 2)
        passages.set_vector(place()[0], id, other, TWO)
    before = last_sequence()
    assert put("n", "text that is new", TWO, now=9) == id
    collection, model = place()
    assert passages.vectors_of([id], model) == {id: TWO}
    assert passages.vectors_of([id], other) == {}
    assert followed(before) == [(id, "n", b"{}", TWO)]
    assert [row[6] for page in PassageVectors(collection, other).since(before) for row in page] == [None]
    assert passages.get(collection, "n") == passages.Passage(id, collection, "n", "text that is new", b"{}", 0, 9)
    # Without a vector of its own it has none until it gets one.
    put("n", "a third", None)
    assert passages.vectors_of([id], model) == {}
    assert passages.lacking(model, None, 0, 10) == [(collection, id, "a third")]


def test_new_metadata_leave_the_vectors_and_are_told(store: object) -> None:
    id = put("n", "text")
    before = last_sequence()
    assert put("n", "text", None, b'{"a":1}') == id
    assert followed(before) == [(id, "n", b'{"a":1}', ONE)]
    assert [match.passage for match in words.find([place()[0]], "text")] == [id]


def test_what_is_removed_is_gone_and_told(store: object) -> None:
    id = put("n", "blue lamp")
    put("m", "blue house")
    collection, model = place()
    before = last_sequence()
    with transaction():
        assert passages.remove(collection, "n")
        assert not passages.remove(collection, "n")
        assert not passages.remove(collection + 1, "m")
    assert passages.get(collection, "n") is None
    assert passages.vectors_of([id], model) == {}
    assert [match.passage for match in words.find([collection], "blue lamp")] == [id + 1]
    assert followed(before) == [(id, None, None, None)]
    assert put("n", "blue lamp") > id + 1


def test_a_failure_in_between_undoes_all_of_it(store: object) -> None:
    id = put("n", "blue lamp")
    before = last_sequence()
    for act in (
        lambda: passages.put(place()[0], Text("n", "green lamp", b"{}", {}), 1),
        lambda: passages.put(place()[0], Text("new", "green lamp", b"{}", {place()[1]: TWO}), 1),
        lambda: passages.remove(place()[0], "n"),
        lambda: passages.remove_collection(place()[0]),
    ):
        with pytest.raises(ZeroDivisionError), transaction():
            act()
            _ = 1 // 0
    collection, model = place()
    assert [passage.text for passage in passages.page(collection, 10)] == ["blue lamp"]
    assert passages.vectors_of([id], model) == {id: ONE}
    assert words.find([collection], "green") == []
    assert len(words.find([collection], "blue")) == 1
    assert followed(before) == []


def test_a_collection_goes_with_all_that_is_in_it(store: object) -> None:
    ids = [put(name, f"lamp {name}") for name in "abc"]
    collection, model = place()
    with transaction():
        other = passages.make_collection(Collection("notes", "user:b"))
        kept = passages.put(other, Text("a", "lamp a", b"{}", {model: ONE}), 0)
        passages.remove_collection(collection)
    assert passages.find_collection(NOTES) is None
    assert passages.get_many([*ids, kept]).keys() == {kept}
    assert passages.vectors_of([*ids, kept], model) == {kept: ONE}
    assert [match.passage for match in words.find([collection, other], "lamp")] == [kept]
    put("a")
    assert place()[0] not in (collection, other)


def test_pages(store: object) -> None:
    ids = [put(name) for name in "cabed"]
    collection, _ = place()
    put("a", "changed")

    def page(*asked: int) -> str:
        return "".join(passage.name for passage in passages.page(collection, *asked))

    assert page(3) == "cab"
    assert page(3, ids[2]) == "bed"
    assert page(9, 0, 3) == "ed"
    assert page(9, ids[1], 1) == "bed"
    assert page(9, 0, 2**63 - 1) == page(9, ids[-1] + 1) == ""
    assert passages.page(collection + 1, 9) == []


def test_what_lacks_a_vector(store: object) -> None:
    ids = [put(name, name, ONE if name in "bd" else None) for name in "abcde"]
    collection, model = place()
    lacking = [(collection, ids[at], "abcde"[at]) for at in (0, 2, 4)]
    assert passages.lacking(model, None, 0, 10) == passages.lacking(model, collection, 0, 10) == lacking
    assert passages.lacking(model, None, ids[0], 1) == lacking[1:2]
    assert passages.lacking(model, collection + 1, 0, 10) == []
    assert len(passages.lacking(model + 1, None, 0, 10)) == 5
    assert passages.count_lacking(model) == 3
    assert passages.count_lacking(model + 1) == 5
    assert passages.count_vectors() == [(MODEL, 2, 2)]


def test_new_passages_come_together_as_they_come_alone(store: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "_ADDED_AT_ONCE", 3)
    texts = [passages.Text(f"{number}", f"word{number} all\0", b"{}", {}) for number in range(8)]
    with transaction():
        collection = passages.make_collection(passages.Collection("history", "h"))
        ids = passages.add_many(collection, texts, 7)
        assert passages.add_many(collection, [], 7) == []
    found = passages.page(collection, 10)
    assert [(one.id, one.name, one.text, one.created_at) for one in found] == [
        (id, text.name, text.text, 7) for id, text in zip(ids, texts, strict=True)
    ]
    assert [match.passage for match in words.find([collection], "word5")] == [ids[5]]


def test_many_at_once(store: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "_ASKED_AT_ONCE", 3)
    monkeypatch.setattr(passages, "_FOLLOWED_AT_ONCE", 4)
    ids = [put(f"n{number}") for number in range(8)]
    _, model = place()
    assert list(passages.get_many(ids)) == ids
    assert list(passages.vectors_of(ids, model)) == ids
    assert list(passages.metadata_of(ids)) == ids
    assert [row[0] for row in followed()] == ids
    assert passages.get_many([]) == passages.vectors_of([], model) == passages.metadata_of([]) == {}


def test_other_models_are_removed(store: object) -> None:
    id = put("n")
    collection, model = place()
    with transaction():
        passages.set_vector(collection, id, passages.make_model("other", 3), TWO)
        assert passages.remove_other_vectors(model) == 1
    assert passages.count_vectors() == [(MODEL, 2, 1)]
    with transaction():
        assert passages.make_model("other", 5) > model + 1

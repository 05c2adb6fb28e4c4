from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remory_service.store import passages, words
from remory_service.store.database import transaction
from remory_service.store.passages import Collection, Text
from remory_service.store.words import words_of

NOTES, OTHERS = Collection("notes", "a"), Collection("notes", "b")


def fill(*texts: str, collection: Collection = NOTES) -> tuple[int, list[int]]:
    """Passages of a collection; its id and theirs."""
    with transaction():
        number = passages.make_collection(collection)
        return number, [
            passages.put(number, Text(f"{text[:50]} {at}", text, b"{}", {}), 0) for at, text in enumerate(texts)
        ]


def found(collections: list[int] | int, question: str) -> list[int]:
    return [
        match.passage for match in words.find([collections] if isinstance(collections, int) else collections, question)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" .,;!? \u0000\n", []),
        ("The port 8421, not 8-4-2-1", ["the", "port", "8421", "not", "8", "4", "2", "1"]),
        ("pb-main_03/etc.toml", ["pb", "main", "03", "etc", "toml"]),
        ("Größe GRÖSSE groesse", ["grosse", "grosse", "groesse"]),
        ("café cafe\u0301 ﬁle Ⅷ", ["cafe", "cafe", "file", "viii"]),
        ("İstanbul ǅ", ["istanbul", "dz"]),
        ("don't", ["don", "t"]),
        ("日本語 の東京", ["日本", "本語", "の東", "東京"]),
        ("雨 v2東京", ["雨", "v2", "東京"]),
        ("แมว", ["แม", "มว"]),
        ("كلمة عربية", ["كلمة", "عربية"]),
        ("\U0001e900\U0001e901 🦀", ["\U0001e922\U0001e923"]),
        ("x" * 100, ["x" * 64]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words_of(text) == expected


@given(st.text())
def test_words_are_the_words_of_themselves(text: str) -> None:
    cut = words_of(text)
    assert words_of(" ".join(cut)) == cut


def test_rare_words_and_codes_count_most(store: object) -> None:
    number, ids = fill(
        "The alarm of the archive rang at noon.",
        "The alarm of the office rang at noon.",
        "The alarm of the office rang at one.",
        "Error E4172 of the office.",
        "The garden.",
    )
    assert found(number, "When did the alarm of the archive ring?")[0] == ids[0]
    assert found(number, "E4172 in the archive at noon")[0] == ids[3]
    assert found(number, "garden") == [ids[4]]
    assert found(number, "nothing of this kind") == []
    assert found(number, "") == found(number, "?!") == []


def test_shares_are_of_what_is_asked_for(store: object) -> None:
    number, ids = fill("blue harbour", "blue lamp", "green lamp", "a house")
    by_passage = {match.passage: match.share for match in words.find([number], "the blue harbour")}
    assert by_passage.keys() == {ids[0], ids[1]}
    assert by_passage[ids[0]] == pytest.approx(1)
    assert 0 < by_passage[ids[1]] < 0.5
    # What no passage has is asked for too.
    assert words.find([number], "blue harbour zeppelin")[0].share < 0.75


def test_fillers_are_searched_for_when_there_is_nothing_else(store: object) -> None:
    number, ids = fill("To be or not to be", "a house")
    assert found(number, "to be or not") == [ids[0]]
    assert found(number, "is not house") == [ids[1]]


@pytest.mark.parametrize(
    "text",
    [
        "größe",
        "日本語のテキスト",
        "\U0001e900\U0001e901\U0001e902",
        "कखग",
        "한국어",
        "ĸŋ",
        "ↀↁ",
        "'quoted' \"words\"",
        "a:b & c | !d",
        "c1xword",
    ],
)
def test_every_script_is_found_and_nothing_else(store: object, text: str) -> None:
    number, ids = fill(text, "zebra", "\U0001e905\U0001e906\U0001e907", "北京", "ખગઘ")
    assert found(number, text) == [ids[0]]
    assert found(number, "zebra") == [ids[1]]


def test_what_the_database_might_take_for_its_own_language(store: object) -> None:
    number, ids = fill("near and or not", "words OR owner", "star* (bracket) ^caret -minus +plus")
    for question in ('"', "'", "NEAR(", "owner: c1", "a* OR b", "-minus", "'; DROP TABLE passage; --", "\\", "\u0000"):
        words.find([number], question)
    assert found(number, "bracket)") == [ids[2]]


def test_collections_are_apart(store: object) -> None:
    # Numbers of which one begins with the other must not be mixed up.
    numbers = [fill("blue lamp", collection=Collection("notes", f"{user}"))[0] for user in range(12)]
    _, (id,) = fill("blue harbour", collection=Collection("notes", "0x"))
    own = {number: found(number, "blue lamp") for number in numbers}
    assert all(len(ids) == 1 for ids in own.values())
    assert len({ids[0] for ids in own.values()}) == 12
    assert found(numbers[:3], "blue") == sorted(own[number][0] for number in numbers[:3])
    assert found(numbers, "harbour") == []
    assert found([], "blue") == []
    # What others have does not change how rare a word is.
    before = words.find([numbers[0]], "blue lamp")
    fill(*["lamp"] * 20, collection=OTHERS)
    assert words.find([numbers[0]], "blue lamp") == before


def test_replacing_and_removing(store: object) -> None:
    number, (id,) = fill("blue lamp")
    name = "blue lamp 0"
    with transaction():
        passages.put(number, Text(name, "green lamp", b"{}", {}), 1)
    assert found(number, "blue") == []
    assert found(number, "green lamp") == [id]
    with transaction():
        passages.put(number, Text(name, "green lamp", b'{"a":1}', {}), 2)
    assert found(number, "green") == [id]
    with transaction():
        assert passages.remove(number, name)
    assert found(number, "green lamp") == []


def test_words_that_many_have_are_left_to_the_vectors(store: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MOST_FOUND", 3)
    number, ids = fill(*[f"common {at}" for at in range(4)], "common rare")
    assert found(number, "common") == []
    assert words.find([number], "common rare") == [words.Match(ids[4], 1.0)]


def test_long_texts_and_long_questions(store: object) -> None:
    long = " ".join(f"word{at} größe{at}" for at in range(60_000))
    number, (id,) = fill(long)
    assert found(number, "word7 größe7") == [id]
    assert found(number, " ".join(f"absent{at}" for at in range(63)) + " word1") == [id]
    # Only the first words of a question count.
    assert found(number, " ".join(f"absent{at}" for at in range(64)) + " word1") == []

"""Finding passages by their words, in the full-text index of the database: SQLite's FTS5, PostgreSQL's GIN.

Words are cut and weighed here and not by the databases, so that both find the same. In the index each word stands with
its collection, so that what a question costs, and how rare a word counts, is a matter of the collections asked and not
of all that the store holds. Every function needs a connection.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from remory_service.store.database import is_postgresql
from remory_service.store.statements import first, run

# Scripts that put no spaces between words: there each pair of neighbours counts as a word.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_LONGEST_WORD = 64
_ADDED_AT_ONCE = 200
# PostgreSQL takes a megabyte of them in a text.
_MOST_WORD_BYTES = 500_000
_MOST_ASKED = 64
# A word that more passages have tells nothing that their vectors do not tell better.
_MOST_FOUND = 2000
# Nobody writes a number or a code by the way: what has a digit counts twice.
_CODE_WEIGHT = 2.0
# Words that say nothing about what is asked for. A question of nothing else is searched for as it is.
_FILLER_WORDS = """
    a about after all an and any are as at be been before but by can could did do does for from had has have he her his
    how i if in into is it its me my no not of on one or our out over she should so some such than that the their them
    then there these they this those to under up us was we were what when where which who whom why will with would you
    your
"""
_FILLERS = frozenset(_FILLER_WORDS.split())
_FIND_IN_SQLITE = "SELECT rowid FROM passage_words WHERE passage_words MATCH ? LIMIT ?"
_FIND_IN_POSTGRESQL = "SELECT passage_id FROM passage_words WHERE words @@ ?::tsquery LIMIT ?"


@dataclass(frozen=True)
class Match:
    """A passage that has words of a question. `share`: how much of what the question asks for they are, 0 to 1: each
    word counts by its rarity in the collections, as BM25 has it.
    """

    passage: int
    share: float


def words_of(text: str) -> list[str]:
    """The words of a text in their order: letters and digits alone, without case and accents."""
    plain = "".join(part for part in unicodedata.normalize("NFKD", text) if not unicodedata.combining(part))
    # Folding can bring accents back.
    folded = unicodedata.normalize("NFKD", plain.casefold())
    return [word for run_of in _WORD.findall(folded) for word in _parts(run_of)]


def put(passage: int, collection: int, text: str) -> None:
    """Let a passage be found by its words, and no more by those it had. Needs a transaction."""
    remove([passage])
    add({passage: text}, collection)


def add(texts: Mapping[int, str], collection: int) -> None:
    """Let new passages be found by their words: texts by the passages' ids. Needs a transaction."""
    key, value = ("passage_id", "?::tsvector") if is_postgresql() else ("rowid", "?")
    rows = list(texts.items())
    for begin in range(0, len(rows), _ADDED_AT_ONCE):
        some = rows[begin : begin + _ADDED_AT_ONCE]
        places = ",".join([f"(?, {value})"] * len(some))
        values = [part for passage, text in some for part in (passage, _terms(collection, text))]
        run(f"INSERT INTO passage_words ({key}, words) VALUES {places}", *values)


def remove(passages: Iterable[int]) -> None:
    """Let passages not be found by words any more. Needs a transaction."""
    column = "passage_id" if is_postgresql() else "rowid"
    for passage in passages:
        run(f"DELETE FROM passage_words WHERE {column} = ?", passage)


def find(collections: Sequence[int], question: str) -> list[Match]:
    """Passages that have words of a question, the largest share first, then by id."""
    asked = _asked(question)
    if not asked or not collections:
        return []
    count = _count(collections)
    shares: dict[int, float] = {}
    total = 0.0
    for word in asked:
        found = _having(collections, word)
        if len(found) > _MOST_FOUND:
            continue
        weight = math.log1p((count - len(found) + 0.5) / (len(found) + 0.5))
        weight *= _CODE_WEIGHT if any(character.isdigit() for character in word) else 1.0
        total += weight
        for passage in found:
            shares[passage] = shares.get(passage, 0.0) + weight
    matches = [Match(passage, min(share / total, 1.0)) for passage, share in shares.items()]
    return sorted(matches, key=lambda match: (-match.share, match.passage))


def _parts(word: str) -> Iterator[str]:
    if not _IS_UNSPACED.match(word) or len(word) == 1:
        yield word[:_LONGEST_WORD]
        return
    for place in range(len(word) - 1):
        yield word[place : place + 2]


def _asked(question: str) -> list[str]:
    every = list(dict.fromkeys(words_of(question)))
    telling = [word for word in every if word not in _FILLERS]
    return (telling or every)[:_MOST_ASKED]


def _term(collection: int, word: str) -> str:
    """A word of a collection as one token for every tokenizer: they differ in what they take for a letter."""
    return f"c{collection}x{word}" if word.isascii() else f"c{collection}u{word.encode().hex()}"


def _terms(collection: int, text: str) -> str:
    return " ".join(_bounded(_term(collection, word) for word in dict.fromkeys(words_of(text))))


def _bounded(terms: Iterable[str]) -> Iterator[str]:
    size = 0
    for term in terms:
        size += len(term) + 1
        if size > _MOST_WORD_BYTES:
            return
        yield term


def _having(collections: Sequence[int], word: str) -> list[int]:
    """Passages of these collections that have a word; one more than are of use where there are more."""
    any_of, sql = (" | ", _FIND_IN_POSTGRESQL) if is_postgresql() else (" OR ", _FIND_IN_SQLITE)
    query = any_of.join(_term(collection, word) for collection in collections)
    return [passage for (passage,) in run(sql, query, _MOST_FOUND + 1).fetchall()]


def _count(collections: Sequence[int]) -> int:
    marks = ",".join("?" * len(collections))
    found = first(f"SELECT count(*) FROM passage WHERE collection_id IN ({marks})", *collections)
    assert found is not None
    return found[0]

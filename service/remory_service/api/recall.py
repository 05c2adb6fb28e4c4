"""Memory for generation: stored texts that a request wants in its prompt, found and put into words.

What is recalled stands in one message between memory and continuation. A text goes in whole or not at all, so a tool's
result never comes without its call.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from remory_service.api.bodies import RecallBody, RecallScope
from remory_service.authority import Credentials, authorize, name_scope, readable
from remory_service.errors import BadRequest, Forbidden, NotFound
from remory_service.histories import Histories
from remory_service.identity import Caller
from remory_service.notes import notes_of
from remory_service.search import Searcher
from remory_service.speech import Speech
from remory_service.store import chats, entries, memories, passages
from remory_service.store.database import connection, now_ms
from remory_service.store.entries import VALUE, Place, ScopeVectors
from remory_service.store.memories import Owner
from remory_service.store.passages import Collection
from remory_service.texts import Question, Texts

LEAD = "Recalled from earlier, word for word:"
_QUERY_CHARACTERS = 2000
# Some seconds' work; a request does not wait for more.
_EMBEDDED_AT_MOST = 256
_MOST_VECTORS = 1000
_TOKEN_CHARACTERS = 64
_READERS = frozenset({"invoke", "agent", "admin"})
# More are looked at than are wanted: some may be too long for what is left of the budget.
_SPARE = 8


@dataclass(frozen=True)
class Recollection:
    """A text for a prompt. `source`: handle, chat, notes or scope; `name` names it there. `place` orders the texts of a
    source as they came to be.
    """

    source: str
    name: str
    text: str
    score: float
    place: tuple[int, ...] = ()
    tokens: int = 0


@dataclass(frozen=True)
class Recalled:
    """Texts, and the token ids of the message that they make; both empty when nothing was found."""

    ids: list[int] = field(default_factory=list)
    items: list[Recollection] = field(default_factory=list)

    def shown(self) -> dict[str, Any]:
        """What an answer's meta_info tells: the texts in the order of the prompt, and the tokens of their message."""
        names = ("source", "name", "score", "tokens", "text")
        items = [{name: getattr(item, name) for name in names} for item in self.items]
        return {"recalled": items, "recalled_tokens": len(self.ids)}


@dataclass(frozen=True)
class Asker:
    """Who wants something recalled, and for which of its memories, if for any."""

    caller: Caller
    owner: Owner | None = None
    handle: str | None = None


@dataclass(frozen=True)
class Prompt:
    """What a request sends behind its memory, if it has one: token ids. `room`: tokens that the actor's context has
    left. `check` may raise to give the work up.
    """

    ids: Sequence[int]
    speech: Speech
    room: int
    check: Callable[[], None]


class Recaller:
    """Finds what requests want recalled. Thread-safe."""

    def __init__(self, texts: Texts, searcher: Searcher, kept: Histories):
        self._texts = texts
        self._searcher = searcher
        self._kept = kept

    def recall(self, asker: Asker, asked: RecallBody, prompt: Prompt) -> Recalled:
        """The texts that fit `asked.query` best, or else the last message of the prompt.

        Raises BadRequest for what cannot be asked, Forbidden for what the caller's key or somebody else's scope does
        not allow, NotFound for a chat that is not the caller's, Unavailable and EmbedderFailed. Takes connections of
        its own.
        """
        _check(asker, asked)
        query = asked.query if asked.query is not None else prompt.speech.last_message(prompt.ids)[1]
        if not query.strip():
            raise BadRequest("recall finds no words to search for: give recall.query")
        question = self._texts.ask(query.strip()[-_QUERY_CHARACTERS:])
        return fit(self._found(asker, asked, question, prompt.check), asked, prompt)

    def _found(
        self, asker: Asker, asked: RecallBody, question: Question, check: Callable[[], None]
    ) -> list[Recollection]:
        """The best of all sources: the first of each, then the second of each, and so on, for their scores are not
        alike."""
        found: list[list[Recollection]] = []
        if asked.handle:
            found.append(self._from_history(asker, asked, question, check))
        with connection():
            if asked.chat:
                found.append(self._from_collection("chat", _memories_of(asker, asked.chat), asked, question))
            if asked.notes:
                notes = notes_of(None if asked.notes == "global" else asker.caller.user)
                found.append(self._from_collection("notes", notes, asked, question))
            if asked.scope:
                found.append(self._from_scope(asker, asked.scope, asked.top_k, question))
        ranked = [(rank, -one.score, one) for some in found for rank, one in enumerate(some)]
        return [one for *_, one in sorted(ranked, key=lambda item: item[:2])]

    def _from_history(
        self, asker: Asker, asked: RecallBody, question: Question, check: Callable[[], None]
    ) -> list[Recollection]:
        assert asker.owner is not None and asker.handle is not None
        collections = memories.histories_of(asker.owner, asker.handle)
        # In the background that may not have been done yet. What is too much for a request is done there.
        if not self._kept.embed(collections, check, _EMBEDDED_AT_MOST):
            self._kept.embed_soon(collections)
        with connection():
            return recollections(self._texts, collections, question, asked)

    def _from_collection(
        self, source: str, collection: Collection, asked: RecallBody, question: Question
    ) -> list[Recollection]:
        known = passages.find_collection(collection)
        if known is None:
            return []
        hits = self._texts.recall([known], question, asked.top_k + _SPARE, mode=asked.mode)
        return [Recollection(source, hit.passage.name, hit.passage.text, hit.score, (hit.passage.id,)) for hit in hits]

    def _from_scope(self, asker: Asker, named: RecallScope, top_k: int, question: Question) -> list[Recollection]:
        """Values of a scope, found by the vectors under the same keys, which must be of the embedder's model."""
        now = now_ms()
        authority = authorize(asker.caller, Credentials(None, None, None), now)
        ids = {"session_id": named.session_id, "actor_id": named.actor_id, "root_id": named.root_id}
        scope = readable(authority, name_scope(authority, named.scope, ids))
        if scope is None:
            return []
        found = self._searcher.search(ScopeVectors(scope.id), question.vector, _MOST_VECTORS)
        texts = ((hit, _text_under(scope.id, hit.key, hit.metadata, now)) for hit in found.hits)
        told = (Recollection("scope", hit.key, text, hit.score) for hit, text in texts if text is not None)
        return list(itertools.islice(told, top_k + _SPARE))


def recollections(
    texts: Texts, collections: Sequence[int], question: Question, asked: RecallBody
) -> list[Recollection]:
    """What answers a question in histories, the best first; needs a connection. `collections`: oldest first."""
    hits = texts.recall(collections, question, asked.top_k + _SPARE, mode=asked.mode)
    order = {collection: place for place, collection in enumerate(collections)}
    places = [(order[hit.passage.collection], hit.passage.id) for hit in hits]
    return [
        Recollection("handle", f"{place[0]}-{hit.passage.name}", hit.passage.text, hit.score, place)
        for place, hit in zip(places, hits, strict=True)
    ]


def _memories_of(asker: Asker, chat: str) -> Collection:
    known = chats.find(asker.caller.user, chat.lower().replace("\0", "\N{REPLACEMENT CHARACTER}"))
    if known is None:
        raise NotFound("Chat not found")
    return known.collection


def _text_under(scope: int, key: str, metadata: bytes, now: int) -> str | None:
    """What a scope says under a key: its value, or the `text` in the vector's metadata; None for neither."""
    held = entries.read(Place(scope, VALUE, key), now)
    value = json.loads(held.content) if held is not None else json.loads(metadata).get("text")
    if value is None:
        return None
    return f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def fit(found: Sequence[Recollection], asked: RecallBody, prompt: Prompt) -> Recalled:
    """As many of them as were asked for and fit, the best chosen first. In the message those of one source are in the
    order in which they came to be.
    """
    speech = prompt.speech
    before, after = speech.frame()
    lead = [*before, *speech.encode(LEAD)]
    left = min(asked.max_tokens, prompt.room) - len(lead) - len(after)
    chosen: list[tuple[Recollection, list[int]]] = []
    for one in _unlike(one for one in found if one.score >= asked.min_score):
        if len(chosen) == asked.top_k or left <= 0:
            break
        # No tokenizer makes fewer of a text than this: what is far too long need not be cut into tokens to know.
        if len(one.text) > _TOKEN_CHARACTERS * left:
            continue
        prompt.check()
        ids = speech.encode(f"\n\n{one.text}")
        if len(ids) <= left:
            chosen.append((replace(one, tokens=len(ids)), ids))
            left -= len(ids)
    if not chosen:
        return Recalled()
    chosen.sort(key=lambda item: (item[0].source, item[0].place))
    return Recalled([*lead, *(token for _, ids in chosen for token in ids), *after], [one for one, _ in chosen])


def _check(asker: Asker, asked: RecallBody) -> None:
    """That there is something to recall from, and that the caller's key may. A scope is checked where it is read."""
    roles = asker.caller.roles
    if not (asked.handle or asked.chat or asked.notes or asked.scope):
        raise BadRequest("recall needs a source: handle, chat, notes or scope")
    if asked.handle and asker.handle is None:
        raise BadRequest("recall.handle needs a memory: send its handle")
    if (asked.notes or asked.chat) and not roles & _READERS:
        raise Forbidden("notes and chats are for keys with the role invoke, agent or admin")
    if asked.notes == "user" and not roles & {"invoke", "admin"}:
        raise Forbidden("a key with the role agent alone has no notes of its own")
    if asked.scope and not roles & {"invoke", "admin"}:
        raise Forbidden("recall.scope is for keys with the role invoke or admin; a lease does not lend it")


def _unlike(found: Iterable[Recollection]) -> Iterator[Recollection]:
    """Without those that say the same as a better one."""
    seen: set[str] = set()
    for one in found:
        if one.text not in seen:
            seen.add(one.text)
            yield one

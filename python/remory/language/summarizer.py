"""Chats become summaries: what matters is extracted, a model retells it, and nothing stays that was not said."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from remory.actors import special_ids
from remory.engines.base import Engine, GenerationOutput, GenerationRequest, SamplingParams, Source
from remory.errors import EngineFailed, InvalidInput, SummarizerFailed
from remory.language import extraction, grounding, prompts
from remory.language.embedder import Embedder
from remory.language.endpoint import Endpoint, EndpointFailed
from remory.language.extraction import ACTION, DECISION, NOISE, Message, Selection, Sentence

MODEL, EXTRACTIVE = "model", "extractive"
TITLE_CHARACTERS = prompts.TITLE_CHARACTERS
L1_CHARACTERS = 6_000
L2_CHARACTERS = 500
TOPICS, DECISIONS, ACTIONS, ENTITIES = 8, 12, 12, 30
EMBEDDED_SENTENCES = 1_000
PARTS = 6

# Of the characters of the chat: a short one can be shortened less.
_L1_SHARE, _L1_LEAST = 0.38, 300
_LIST_CHARACTERS = 2_400
_HEADINGS_CHARACTERS = 60
_LONGEST_ITEM = 300
# About 1,200 tokens.
_PART_CHARACTERS = 4_800
_ENDPOINT_PART_CHARACTERS = 24_000
_OVERVIEW = 2
_EMBED_AT_ONCE = 32
_TRIES = 3
_TOPIC_CANDIDATES = 96
_TOPIC_LIKENESS = 0.25
_TOPICS_ALIKE = 0.6

Check = Callable[[], None]


@dataclass(frozen=True)
class Turn:
    """One message as a summariser reads it; `role` is user, assistant, system or tool."""

    role: str
    text: str


@dataclass(frozen=True)
class TextSummary:
    """What is remembered of a chat.

    `title` has at most 80 characters, `l1` is Markdown of at most 6,000, `l2` one or two sentences. At most 8 topics,
    12 decisions, 12 actions and 30 entities. `method` is "model" when sentences of the model are in title or l2, and
    "extractive" when all of it are the chat's own sentences.
    """

    title: str
    l1: str
    l2: str
    topics: tuple[str, ...]
    decisions: tuple[str, ...]
    actions: tuple[str, ...]
    entities: tuple[str, ...]
    method: str


class Summarizer(ABC):
    """Summarises chats. May be called by many threads at once."""

    @abstractmethod
    def summarize(self, turns: Sequence[Turn], check: Check = lambda: None) -> TextSummary:
        """The summary of a chat, oldest turn first.

        `check` is called often and may raise to give up. Raises SummarizerFailed, EmbedderFailed and EngineBusy.
        """


class ActorSummarizer(Summarizer):
    """Extracts what to keep, and has the actor retell the central sentences under a grammar of their own words."""

    def __init__(self, engine: Engine, embedder: Embedder) -> None:
        self._actor = _Actor(engine)
        self._embedder = embedder

    def summarize(self, turns: Sequence[Turn], check: Check = lambda: None) -> TextSummary:
        # What looks like a marker of the chat template must not become one.
        digest = Digest([Turn(turn.role, self._actor.plain(turn.text)) for turn in turns], self._embedder, check)
        retold: dict[int, str] = {}
        for sentence in dict.fromkeys((*digest.overview, *digest.essence)):
            if (text := self._retell(digest, sentence, check)) is not None:
                retold[sentence.order] = text
        essence = _distinct(retold.get(sentence.order, sentence.text) for sentence in digest.essence)
        overview = _distinct(retold.get(sentence.order, sentence.text) for sentence in digest.overview)
        title = self._entitle(digest, essence[0], check) if essence else None
        by_model = title is not None or any(sentence.order in retold for sentence in digest.essence)
        return TextSummary(
            title=title or digest.title,
            l1=digest.markdown(overview),
            l2=" ".join(essence) or digest.l2,
            topics=digest.topics,
            decisions=digest.decisions,
            actions=digest.actions,
            entities=digest.entities,
            method=MODEL if by_model else EXTRACTIVE,
        )

    def _retell(self, digest: Digest, sentence: Sentence, check: Check) -> str | None:
        if sentence.role not in ("user", "assistant") or extraction.is_instruction(sentence.text):
            return None
        text = self._actor.write(*prompts.retelling(sentence.role, sentence.text), len(sentence.text), check)
        if text is None or digest.grounds.missing(text):
            return None
        return text

    def _entitle(self, digest: Digest, text: str, check: Check) -> str | None:
        choices = [title for title in prompts.titles(text) if not digest.grounds.missing(title)]
        return self._actor.write(*prompts.entitling(text, choices), TITLE_CHARACTERS, check) if choices else None


class EndpointSummarizer(Summarizer):
    """Asks an OpenAI-compatible `POST {url}/chat/completions` for JSON; what the messages do not hold is taken out.

    `timeout` is in seconds, for each request. A long chat is sent in up to 6 parts, whose summaries are then merged.
    """

    def __init__(
        self, url: str, model: str, embedder: Embedder, key: str | None = None, timeout: float = 120.0
    ) -> None:
        self._endpoint = Endpoint(url, model, key, timeout)
        self._embedder = embedder

    def summarize(self, turns: Sequence[Turn], check: Check = lambda: None) -> TextSummary:
        digest = Digest(turns, self._embedder, check)
        parts = digest.message_parts(_ENDPOINT_PART_CHARACTERS)
        answers = [self._ask(prompts.summarising(part), check) for part in parts]
        if not answers:
            return digest.extract()
        answer = answers[0] if len(answers) == 1 else self._ask(prompts.summarising(answers, merge=True), check)
        return _grounded(answer, digest)

    def close(self) -> None:
        """Close all connections."""
        self._endpoint.close()

    def _ask(self, messages: list[dict[str, str]], check: Check) -> dict[str, Any]:
        body = {
            "messages": messages,
            "temperature": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "summary", "strict": True, "schema": prompts.SCHEMA},
            },
        }
        for _ in range(_TRIES):
            try:
                answer = self._endpoint.post_attended("/chat/completions", body, check)
            except EndpointFailed as error:
                raise SummarizerFailed(f"the summariser failed: {error}") from error
            if (summary := _summary_in(answer)) is not None:
                return summary
        raise SummarizerFailed(f"the summariser's endpoint gave no JSON of the asked form in {_TRIES} tries")


class Digest:
    """What a chat says, without a model but the embedder: its sentences, and what is kept of them.

    `overview` are sentences that tell what the chat is about, `essence` the one or two that say it shortest.
    """

    def __init__(self, turns: Sequence[Turn], embedder: Embedder, check: Check) -> None:
        self._messages = extraction.read_messages((turn.role, turn.text) for turn in turns)
        self._characters = sum(len(message.text) for message in self._messages)
        self.grounds = grounding.Grounds(message.text for message in self._messages)
        check()
        self._read = extraction.read_sentences(self._messages, check)
        check()
        self._sentences = extraction.shortlist(self._read, EMBEDDED_SENTENCES)
        self._vectors = _embedded(embedder, [sentence.text for sentence in self._sentences], check)
        self._outdated = extraction.outdated_values(self._sentences, self._vectors)
        check()
        self._selection = self._selecting()
        self.essence = self._essence()
        self.overview = self._overview()
        self._limit = min(L1_CHARACTERS, _L1_LEAST + int(_L1_SHARE * self._characters))
        self.decisions = self._items(self._of_kind(DECISION, DECISIONS))
        self.actions = self._items(self._of_kind(ACTION, ACTIONS))
        self.entities = extraction.entities_of(self._read, self.grounds, ENTITIES)
        self.topics = self._topics(embedder, check)

    @property
    def l2(self) -> str:
        """The essence in the chat's own words; of a chat without sentences its beginning."""
        if self.essence:
            return " ".join(sentence.text for sentence in self.essence)
        said = " ".join(sentence.text for sentence in self._read[:3])
        return said if 0 < len(said) <= L2_CHARACTERS else "The messages hold no text that can be summarised."

    @property
    def title(self) -> str:
        """A phrase of the essence, or the first topics."""
        phrases = prompts.titles(self.essence[0].text) if self.essence else []
        topics = " and ".join(self.topics[:2])
        return next((title for title in (*phrases, topics) if 0 < len(title) <= TITLE_CHARACTERS), "Chat")

    def extract(self) -> TextSummary:
        """The summary in the chat's own words."""
        return TextSummary(
            title=self.title,
            l1=self.markdown([sentence.text for sentence in self.overview]),
            l2=self.l2,
            topics=self.topics,
            decisions=self.decisions,
            actions=self.actions,
            entities=self.entities,
            method=EXTRACTIVE,
        )

    def markdown(self, overview: Sequence[str]) -> str:
        """l1: the overview, then details, decisions and actions as lists."""
        lead = " ".join(overview) or self.l2
        selection = self._selecting()
        selection.tell(self.overview)
        told = selection.take(self._limit - len(lead) - _HEADINGS_CHARACTERS, L1_CHARACTERS)
        decided = [sentence for sentence in told if DECISION in sentence.kinds]
        to_do = [sentence for sentence in told if ACTION in sentence.kinds]
        details = [sentence for sentence in told if not sentence.kinds & {DECISION, ACTION}]
        shown = {sentence.order for sentence in (*self.overview, *decided, *to_do)}
        sections = {
            "Details": self._bullets(details, shown),
            "Decisions": self._items(decided),
            "Actions": self._items(to_do),
        }
        lists = [
            "\n".join((f"## {name}", *(f"- {line}" for line in lines))) for name, lines in sections.items() if lines
        ]
        return "\n\n".join((f"## Overview\n{lead}", *lists))

    def message_parts(self, characters: int) -> list[list[dict[str, Any]]]:
        """The messages in at most PARTS parts of about `characters`: the newest, and the most central."""
        parts: list[list[Message]] = []
        room = 0
        for message in _cut(self._messages, characters):
            if not parts or room < len(message.text):
                parts.append([])
                room = characters
            parts[-1].append(message)
            room -= len(message.text)
        turns = [{message.turn for message in part} for part in parts]
        places = [[place for place, sentence in enumerate(self._sentences) if sentence.turn in part] for part in turns]
        return [
            [{"role": message.role, "text": message.text} for message in parts[number]]
            for number in self._chosen_parts(places)
        ]

    def _overview(self) -> list[Sentence]:
        """One sentence of each part of a long chat, several of a short one."""
        parts = self._sentence_parts()
        if len(parts) < 2:
            central = self._selection.central(_OVERVIEW, L2_CHARACTERS, frozenset((DECISION, ACTION)))
            return sorted({*self.essence[:1], *central}, key=lambda sentence: sentence.order)[:_OVERVIEW]
        found = []
        for number in self._chosen_parts(parts):
            places = parts[number]
            inside = Selection([self._sentences[place] for place in places], self._vectors[places], self._outdated)
            found += inside.central(1, L2_CHARACTERS)
        return found

    def _sentence_parts(self) -> list[list[int]]:
        parts: list[list[int]] = []
        room = 0
        for place, sentence in enumerate(self._sentences):
            if not parts or room < len(sentence.text):
                parts.append([])
                room = _PART_CHARACTERS
            parts[-1].append(place)
            room -= len(sentence.text)
        return parts

    def _chosen_parts(self, parts: Sequence[Sequence[int]]) -> list[int]:
        """Which of the parts, lists of places of sentences, are read: all, or the newest and the most central."""
        if len(parts) <= PARTS:
            return list(range(len(parts)))
        central = self._selection.centrality
        worth = [float(central[list(places)].mean()) if len(places) else -1.0 for places in parts]
        best = sorted(range(len(parts) - 1), key=lambda number: -worth[number])[: PARTS - 1]
        return [*sorted(best), len(parts) - 1]

    def _essence(self) -> list[Sentence]:
        """What was wanted, and what came of it: the last decision, else what the newest messages say."""
        opening = self._selection.opening(L2_CHARACTERS // 2)
        outcome = self._selection.outcome(L2_CHARACTERS // 2, opening)
        return [sentence for sentence in (opening, outcome) if sentence is not None]

    def _selecting(self) -> Selection:
        return Selection(self._sentences, self._vectors, self._outdated)

    def _of_kind(self, kind: str, count: int) -> list[Sentence]:
        return self._selecting().take(_LIST_CHARACTERS, count, kind)

    def _items(self, sentences: Sequence[Sentence]) -> tuple[str, ...]:
        items = []
        for sentence in sentences:
            needed = [one.text for one in self._selection.with_needed(sentence)[:-1]]
            own = extraction.plainly(extraction.told(sentence))
            items.append(" ".join((*needed, own)))
        return tuple(dict.fromkeys(item for item in items if len(item) <= _LONGEST_ITEM))

    def _bullets(self, sentences: Sequence[Sentence], shown: set[int]) -> list[str]:
        """Lines with the sentences, each with the one that it needs; `shown` are orders of what stands elsewhere."""
        lines: list[str] = []
        last = None
        for sentence in sentences:
            group = self._selection.with_needed(sentence)
            if sentence.order in shown:
                continue
            if len(group) == 2 and group[0].order == last:
                lines[-1] += " " + self._noted(sentence)
            else:
                lines.append(" ".join(self._noted(one) for one in group if one is sentence or one.order not in shown))
            shown.update(one.order for one in group)
            last = sentence.order
        return list(dict.fromkeys(lines))

    def _noted(self, sentence: Sentence) -> str:
        text = extraction.told(sentence)
        return text + " (Partly corrected later.)" if self._outdated.get(sentence.order) else text

    def _topics(self, embedder: Embedder, check: Check) -> tuple[str, ...]:
        """The phrases of the chat that are nearest to what all of it is about, no two alike."""
        usable = [sentence for sentence in self._sentences if NOISE not in sentence.kinds]
        counts: Counter[str] = Counter()
        for sentence in usable:
            counts.update(set(extraction.phrases_of(sentence)))
        ranked = sorted(counts, key=lambda phrase: (-(counts[phrase] - 1) * len(phrase.split()), -counts[phrase]))
        phrases = ranked[:_TOPIC_CANDIDATES]
        if not phrases:
            return ()
        vectors = _embedded(embedder, phrases, check)
        centre = self._vectors.mean(0)
        nearness = vectors @ (centre / (np.linalg.norm(centre) or 1.0))
        worth = nearness + 0.06 * np.minimum([counts[phrase] - 1 for phrase in phrases], 4)
        chosen: list[int] = []
        for place in np.argsort(-worth, kind="stable").tolist():
            if len(chosen) == TOPICS or nearness[place] < _TOPIC_LIKENESS:
                break
            words = set(phrases[place].split())
            new = all(not words & set(phrases[other].split()) for other in chosen)
            if new and all(vectors[place] @ vectors[other] < _TOPICS_ALIKE for other in chosen):
                chosen.append(place)
        return tuple(phrases[place][:1].upper() + phrases[place][1:] for place in chosen)


class _Actor:
    """The actor as a writer of one short field."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        special = map(engine.tokenizer.convert_ids_to_tokens, special_ids(engine.tokenizer))
        self._markers = re.compile("|".join(map(re.escape, special)) or r"(?!)")

    def plain(self, text: str) -> str:
        """A text in which nothing is a token of the chat template."""
        while self._markers.search(text):
            text = self._markers.sub(" ", text)
        return text

    def write(self, conversation: list[dict[str, str]], regex: str, characters: int, check: Check) -> str | None:
        """What the actor says under `regex`, greedily; None when it cannot say it within about `characters`.

        Raises SummarizerFailed when the actor fails, EngineBusy, and what `check` raises.
        """
        tokenizer = self._engine.tokenizer
        text = self._rendered(conversation)
        limit = (
            len(tokenizer.encode("x" + conversation[-1]["content"], add_special_tokens=False)) + characters // 8 + 16
        )
        sampling = SamplingParams(max_new_tokens=limit, temperature=0.0, regex=regex)
        ids = torch.tensor(tokenizer.encode(text, add_special_tokens=False), dtype=torch.int64)
        last: GenerationOutput | None = None
        try:
            outputs = cast(Any, self._engine.generate(GenerationRequest(Source(ids), sampling)))
            with closing(outputs):
                for output in outputs:
                    check()
                    last = output or last
        except InvalidInput:
            # Its context or its grammar does not hold this one sentence.
            return None
        except EngineFailed as error:
            raise SummarizerFailed("the actor failed while it summarised") from error
        ended = last is not None and last.finish_reason is not None and last.finish_reason["type"] == "stop"
        return last.text.strip() or None if last is not None and ended else None

    def _rendered(self, conversation: list[dict[str, str]]) -> str:
        tokenizer = self._engine.tokenizer
        if tokenizer.chat_template is None:
            return "\n\n".join(turn["content"] for turn in conversation) + "\n\n"
        return tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)


def _distinct(texts: Iterable[str]) -> list[str]:
    """Texts without those that another of them says too."""
    kept: list[str] = []
    for text in texts:
        said = [grounding.normalized(other).rstrip(".") for other in kept]
        own = grounding.normalized(text).rstrip(".")
        if any(own in other for other in said):
            continue
        kept = [other for other, before in zip(kept, said, strict=True) if before not in own]
        kept.append(text)
    return kept


def _embedded(embedder: Embedder, texts: Sequence[str], check: Check) -> np.ndarray:
    """Unit vectors [n, dimension] float32 of n texts, `check` called in between."""
    batches = []
    for start in range(0, len(texts), _EMBED_AT_ONCE):
        check()
        batches.append(embedder.embed(texts[start : start + _EMBED_AT_ONCE]))
    return np.concatenate(batches) if batches else np.zeros((0, 1), np.float32)


def _cut(messages: Iterable[Message], characters: int) -> Iterable[Message]:
    for message in messages:
        for start in range(0, len(message.text), characters):
            yield Message(message.turn, message.role, message.text[start : start + characters])


def _summary_in(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The object of the asked form in a chat completion, or None."""
    try:
        text = answer["choices"][0]["message"]["content"]
        found = json.loads(re.sub(r"\A\s*```(?:json)?|```\s*\Z", "", text))
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in ("title", "l1", "l2")):
        return None
    for name in prompts.FIELDS:
        if not isinstance(found.get(name), list) or not all(isinstance(item, str) for item in found[name]):
            return None
    return {name: found[name] for name in ("title", "l1", "l2", *prompts.FIELDS)}


def _grounded(answer: dict[str, Any], digest: Digest) -> TextSummary:
    """An endpoint's summary without what the messages do not hold; extracts stand in for what is left empty."""
    grounds = digest.grounds
    title = _one_line(answer["title"])
    if len(title) > TITLE_CHARACTERS or not title or grounds.missing(title):
        title = ""
    l2 = _within(_stated(_one_line(answer["l2"]), grounds)[:2], L2_CHARACTERS)
    l1 = _grounded_markdown(answer["l1"], grounds)
    if not l1 and not l2:
        return digest.extract()
    items = {name: _grounded_items(answer[name], grounds) for name in ("topics", "decisions", "actions")}
    entities = [one for one in map(_one_line, answer["entities"]) if grounds.hold(one)]
    return TextSummary(
        title=title or digest.title,
        l1=l1 or digest.markdown([sentence.text for sentence in digest.overview]),
        l2=l2 or digest.l2,
        topics=tuple(items["topics"][:TOPICS]),
        decisions=tuple(items["decisions"][:DECISIONS]),
        actions=tuple(items["actions"][:ACTIONS]),
        entities=_unique(entities, ENTITIES) or digest.entities,
        method=MODEL if title or l2 else EXTRACTIVE,
    )


def _grounded_items(items: Sequence[str], grounds: grounding.Grounds) -> list[str]:
    kept = [item for item in map(_one_line, items) if item and len(item) <= _LONGEST_ITEM and not grounds.missing(item)]
    return list(_unique(kept, len(kept)))


def _unique(items: Sequence[str], limit: int) -> tuple[str, ...]:
    """The first of those that differ only by case or white space, at most `limit`."""
    return tuple({grounding.normalized(item): item for item in reversed(items)}.values())[::-1][:limit]


def _grounded_markdown(text: str, grounds: grounding.Grounds) -> str:
    """Markdown without the sentences that state what the messages do not hold, and without what is left empty."""
    lines: list[str] = []
    for line in grounding.clean(text).split("\n"):
        mark, body = extraction.line_parts(line)
        kept = " ".join(_stated(body, grounds))
        if not body:
            lines.append("")
        elif kept and mark + kept not in lines and sum(map(len, lines)) + len(line) < L1_CHARACTERS - len(lines):
            lines.append(mark + kept)
    full = [
        line
        for number, line in enumerate(lines)
        if not line.startswith("#")
        or any(one and not one.startswith("#") for one in _until_heading(lines[number + 1 :]))
    ]
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(full)).strip()
    return body if any(line and not line.startswith("#") for line in full) else ""


def _until_heading(lines: Sequence[str]) -> Iterable[str]:
    for line in lines:
        if line.startswith("#"):
            return
        yield line


def _stated(text: str, grounds: grounding.Grounds) -> list[str]:
    """The sentences of a line that the messages hold all numbers, dates and names of, each once."""
    sentences = dict.fromkeys(extraction.split_line(text))
    return [sentence for sentence in sentences if not grounds.missing(sentence)]


def _within(sentences: Sequence[str], characters: int) -> str:
    text = ""
    for sentence in sentences:
        longer = f"{text} {sentence}".strip()
        if len(longer) > characters:
            break
        text = longer
    return text


def _one_line(text: str) -> str:
    return " ".join(grounding.clean(text).split())

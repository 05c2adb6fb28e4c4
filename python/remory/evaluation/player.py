"""Plays recorded sessions on a server: compacts them, asks the questions in every arm, and scores what follows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from remory.client import Client
from remory.demo import SUMMARY_SAMPLING
from remory.errors import EngineFailed
from remory.evaluation import arms
from remory.evaluation.arms import Contexts, Contract, Prompt
from remory.evaluation.measures import is_refusal, is_right, mean_loss
from remory.evaluation.retrieval import SentenceIndex
from remory.evaluation.sets import Question, SessionSet
from remory.evaluation.transcripts import Grafts, Lineage, Transcript
from remory.language.embedder import Embedder, load_embedder

ASKED_BRIEFLY = " Answer in a few words."
# The assistant's message is begun for it in every arm: a small actor else retells the question before it answers.
ANSWER_BEGUN = "Answer:"
RECALLED = "Recalled from earlier, word for word:\n\n"
_ANSWER_SAMPLING = {"temperature": 0.0, "max_new_tokens": 24}
_SCORING = {"temperature": 0.0, "max_new_tokens": 0}
# Of what follows, the first tokens are read without being counted: they say what it is about.
_FOLLOWING, _FOLLOWING_READ = 96, 32
_FOREIGN = 128

Record = dict[str, Any]
Tick = Callable[[], None]


@dataclass(frozen=True)
class Plan:
    """What is played: arms in their order, stages (numbers of compactions), questions of each part (None: all)."""

    arms: Sequence[str] = arms.ARMS
    stages: Sequence[int] = (1, 2, 4)
    questions_per_part: int | None = None

    def stages_of(self, sessions: SessionSet, place: int) -> list[int]:
        """The stages that a session has parts for."""
        return [stage for stage in self.stages if stage <= len(sessions.sessions[place].parts)]

    def requests(self, sessions: SessionSet, place: int) -> int:
        """About how many requests a session takes, beside its compactions: what progress is counted in."""
        session = sessions.sessions[place]
        total = 0
        for stage in self.stages_of(sessions, place):
            asked = session.asked_at(stage, self.questions_per_part)
            total += sum(1 if question.absent else 2 for _, question in asked)
            total += (stage < len(session.parts)) + (sessions.stranger_of(place) is not None)
        return total * len(self.arms)


class Player:
    """Plays the sessions of one set. `tick` is called after each request that progress is counted in."""

    def __init__(
        self, client: Client, info: Mapping[str, Any], sessions: SessionSet, plan: Plan, tick: Tick = lambda: None
    ):
        self._client = client
        self._set = sessions
        self._plan = plan
        self._tick = tick
        self._contract = Contract.from_info(info["summary_contract"])
        self._transcripts: dict[str, Transcript] = {}
        self._lineages: dict[str, Lineage] = {}

    @cached_property
    def _embedder(self) -> Embedder:
        return load_embedder()

    def play(self, place: int) -> Record:
        """All that was measured of session `place`, as JSON-able values. Deletes the memories it made but for those of
        the next session, which is likely to be played next.
        """
        began = time.monotonic()
        session = self._set.sessions[place]
        lineage = self._lineage(place)
        index = self._index() if set(self._plan.arms) & set(arms.WITH_RETRIEVAL) else None
        grafts = self._grafts(place) if arms.ANOTHER in self._plan.arms else None
        stages = []
        for stage in range(1, max(self._plan.stages_of(self._set, place), default=0) + 1):
            lineage.reach(stage)
            if index is not None:
                index.add([message["content"] for message in session.parts[stage - 1]])
            if stage in self._plan.stages:
                contexts = self._contexts(place, stage, index, grafts)
                stages.append(self._stage(place, stage, contexts))
        record = {
            "set": self._set.name,
            "id": session.id,
            "title": session.title,
            "seconds": round(time.monotonic() - began, 1),
            "summaries": list(lineage.summaries),
            "failed_summaries": lineage.failed_summaries,
            "stages": stages,
        }
        self._forget(place)
        return record

    def _stage(self, place: int, stage: int, contexts: Contexts) -> Record:
        played = _Stage(self._client, contexts, [arm for arm in self._plan.arms if contexts.has(arm)], self._tick)
        transcript = self._transcript(place)
        session = transcript.session
        begun_ids = self._client.tokenize(ANSWER_BEGUN, add_special_tokens=False)
        questions = []
        for number, question in session.asked_at(stage, self._plan.questions_per_part):
            asking_ids = transcript.asking_ids(question.question + ASKED_BRIEFLY) + begun_ids
            record = _described(number, question)
            if not question.absent:
                record["age_tokens"] = transcript.age(question.part, question.message, stage)
                record["compactions_ago"] = stage - 1 - question.part
            questions.append((question, asking_ids, record))
        # An arm after the other, so that the server has what they share prefilled.
        for arm in played.arms:
            for question, asking_ids, record in questions:
                record.setdefault("arms", {})[arm] = played.ask(arm, question, asking_ids)
        following = transcript.history_ids(stage)[:_FOLLOWING] if stage < len(session.parts) else []
        stranger = self._set.stranger_of(place)
        foreign = [] if stranger is None else self._transcript_of(stranger.id).history_ids(0)[:_FOREIGN]
        return {
            "stage": stage,
            "history_tokens": len(contexts.history_ids),
            "summary_tokens": len(contexts.memory.summary_ids),
            "rows": contexts.memory.rows,
            "another_rows": None if contexts.another is None else contexts.another.rows,
            "arms": played.score_texts(following, foreign),
            "questions": [record for _, _, record in questions],
        }

    def _contexts(self, place: int, stage: int, index: SentenceIndex | None, grafts: Grafts | None) -> Contexts:
        transcript = self._transcript(place)

        def retrieve(query: str, tokens: int) -> list[int]:
            assert index is not None
            return index.best(query, tokens)

        def recall(ids: list[int]) -> list[int]:
            return transcript.telling_ids(RECALLED + self._client.detokenize(ids).strip())

        return Contexts(
            contract=self._contract,
            history_ids=transcript.removed_ids(stage),
            memory=self._lineage(place).reach(stage),
            another=None if grafts is None else grafts.reach(stage),
            retrieve=retrieve,
            recall=recall,
        )

    def _index(self) -> SentenceIndex:
        return SentenceIndex(self._embedder, lambda texts: self._client.tokenize(list(texts), add_special_tokens=False))

    def _grafts(self, place: int) -> Grafts | None:
        other = self._set.next_of(place)
        if other is None:
            return None
        there = self._set.sessions.index(other)
        return Grafts(
            self._client, self._lineage(place), self._transcript(place), self._lineage(there), self._transcript(there)
        )

    def _transcript(self, place: int) -> Transcript:
        return self._transcript_of(self._set.sessions[place].id)

    def _transcript_of(self, name: str) -> Transcript:
        if name not in self._transcripts:
            session = next(session for session in self._set.sessions if session.id == name)
            self._transcripts[name] = Transcript(self._client, session)
        return self._transcripts[name]

    def _lineage(self, place: int) -> Lineage:
        name = self._set.sessions[place].id
        if name not in self._lineages:
            self._lineages[name] = Lineage(self._client, self._transcript(place), self._contract, SUMMARY_SAMPLING)
        return self._lineages[name]

    def _forget(self, place: int) -> None:
        following = self._set.next_of(place)
        kept = self._lineages.get(following.id) if following is not None else None
        needed = {memory.handle for memory in kept.memories} if kept is not None else set()
        for memory in self._client.memories():
            if memory["handle"] not in needed:
                self._client.delete(memory["handle"])
        self._lineages = {} if following is None or kept is None else {following.id: kept}


class _Stage:
    """The requests of one stage of one session."""

    def __init__(self, client: Client, contexts: Contexts, names: Sequence[str], tick: Tick):
        self.arms = names
        self._client = client
        self._contexts = contexts
        self._tick = tick

    def ask(self, arm: str, question: Question, asking_ids: Sequence[int]) -> Record:
        """The greedy answer in an arm, and how unlikely the expected one was."""
        prompt = self._contexts.prompt(arm, asking_ids, question.question)
        answer = self._generate(prompt, _ANSWER_SAMPLING)
        record: Record = {"answer": answer["text"], "refusal": is_refusal(answer["text"])}
        if not question.absent:
            record["right"] = is_right(answer["text"], (question.answer, *question.accept))
            expected = self._client.tokenize(f" {question.answer}", add_special_tokens=False)
            record["loss"] = self._score(prompt, expected, len(expected))
        record["context_tokens"] = prompt.context
        return record

    def score_texts(self, following: Sequence[int], foreign: Sequence[int]) -> dict[str, Record]:
        """For each arm the mean losses of the session's next tokens and of tokens of a foreign session."""
        scores: dict[str, Record] = {arm: {} for arm in self.arms}
        for arm, record in scores.items():
            if len(following) > _FOLLOWING_READ:
                counted = len(following) - _FOLLOWING_READ
                record["following_loss"] = self._score_text(arm, following, counted)
            if foreign:
                record["foreign_loss"] = self._score_text(arm, foreign, len(foreign))
        return scores

    def _score_text(self, arm: str, ids: Sequence[int], counted: int) -> float:
        searched = ""
        if arm in arms.WITH_RETRIEVAL:
            searched = self._client.detokenize(list(ids[:_FOLLOWING_READ]))
        return self._score(self._contexts.prompt(arm, [], searched), ids, counted)

    def _score(self, prompt: Prompt, ids: Sequence[int], counted: int) -> float:
        """Mean loss of the last `counted` of `ids` behind a prompt, nats a token."""
        whole = Prompt([*prompt.ids, *ids], prompt.handle, prompt.context + len(ids))
        first = whole.context - counted - 1
        answer = self._generate(whole, _SCORING, return_logprob=True, logprob_start_len=first)
        return mean_loss(answer, ids[len(ids) - counted :])

    def _generate(self, prompt: Prompt, sampling: Record, **fields: Any) -> Record:
        answer = self._client.generate(input_ids=prompt.ids, sampling_params=sampling, handle=prompt.handle, **fields)
        if (read := answer["meta_info"]["prompt_tokens"]) != prompt.context:
            raise EngineFailed(f"the server read {read} tokens of a prompt that has {prompt.context}")
        self._tick()
        return answer


def _described(number: int, question: Question) -> Record:
    return {
        "number": number,
        "question": question.question,
        "expected": question.answer,
        "kind": question.kind,
        "type": question.type,
        "part": question.part,
    }

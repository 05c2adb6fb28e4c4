"""A recorded session as the actor reads it, and as the product compacts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from remory.client import Client, Harness, SummaryFailed
from remory.client.rendering import Split, Tools, continuation_ids, render_split
from remory.errors import InvalidInput
from remory.evaluation.arms import Contract, Memory
from remory.evaluation.sets import Session

NO_SUMMARY = "(no summary)"


class Transcript:
    """A session's token ids, rendered with the actor's chat template by the server; each is asked for once."""

    def __init__(self, client: Client, session: Session):
        self._client = client
        self.session = session
        self._histories: dict[int, list[int]] = {}
        self._ends: dict[tuple[int, int], int] = {}

    @cached_property
    def prefix_ids(self) -> list[int]:
        """The system message and the task."""
        return self._render(self.session.prefix, None, False)

    def history_ids(self, part: int) -> list[int]:
        """What the compaction of a part removes. Raises InvalidInput for a template that does not allow it."""
        if part not in self._histories:
            rendered = render_split(
                self._render, Split(tuple(self.session.prefix), tuple(self.session.parts[part]), ())
            )
            if rendered.bridge:
                raise InvalidInput(
                    "the actor's chat template wants roles that alternate, which recorded sessions do not"
                )
            self._histories[part] = rendered.history_ids
        return self._histories[part]

    def removed_ids(self, stage: int) -> list[int]:
        """All that `stage` compactions have removed."""
        return [token for part in range(stage) for token in self.history_ids(part)]

    def age(self, part: int, message: int, stage: int) -> int:
        """Tokens between the end of a message and the end of what `stage` compactions have removed."""
        if (part, message) not in self._ends:
            head = [*self.session.prefix, *self.session.parts[part][: message + 1]]
            self._ends[part, message] = len(self._render(head, None, False)) - len(self.prefix_ids)
        before = sum(len(self.history_ids(earlier)) for earlier in range(part))
        return len(self.removed_ids(stage)) - before - self._ends[part, message]

    def asking_ids(self, question: str) -> list[int]:
        """A question as a user message behind all that was removed, and the beginning of the answer."""
        asked = [{"role": "user", "content": question}]
        return continuation_ids(self._render, self.session.prefix, asked)

    def telling_ids(self, text: str) -> list[int]:
        """A system message with a text, behind all that was removed."""
        whole = self._render([*self.session.prefix, {"role": "system", "content": text}], None, False)
        return whole[len(self.prefix_ids) :]

    def _render(
        self, messages: Sequence[Mapping[str, Any]], tools: Tools | None, add_generation_prompt: bool
    ) -> list[int]:
        return self._client.tokenize(messages=list(messages), tools=tools, add_generation_prompt=add_generation_prompt)


class Lineage:
    """A session that the product compacts, part after part, as far as it is asked to; the actor sums up."""

    def __init__(self, client: Client, transcript: Transcript, contract: Contract, sampling: Mapping[str, Any]):
        self._transcript = transcript
        self._contract = contract
        self._harness = Harness(client, transcript.session.prefix, keep_last=0, summary_sampling=sampling)
        self.memories: list[Memory] = []
        self.summaries: list[str] = []
        self.failed_summaries = 0
        self.receipts: list[dict[str, Any]] = []

    def reach(self, stage: int) -> Memory:
        """The memory after `stage` compactions."""
        while len(self.memories) < stage:
            self._compact(self._transcript.session.parts[len(self.memories)])
        return self.memories[stage - 1]

    def _compact(self, part: Sequence[Mapping[str, Any]]) -> None:
        self._harness.append(*part)
        try:
            compaction = self._harness.compact()
        except SummaryFailed:
            # The actor had nothing to say. The session goes on as a product would have to.
            self.failed_summaries += 1
            compaction = self._harness.compact(NO_SUMMARY)
        self.summaries.append(compaction.summary)
        self.receipts.append(compaction.receipt)
        self.memories.append(
            Memory(
                compaction.handle,
                self._transcript.prefix_ids,
                compaction.summary_ids,
                compaction.receipt["soft_tokens"],
                self._contract.markers,
            )
        )


class Grafts:
    """Memories with the prefix and the summary of one session and the rows of another's history."""

    def __init__(
        self, client: Client, own: Lineage, transcript: Transcript, other: Lineage, other_transcript: Transcript
    ):
        self._client = client
        self._own, self._transcript = own, transcript
        self._other, self._other_transcript = other, other_transcript
        # The other's lineage under the own prefix, with the other's summaries: nothing of the own session is in it.
        self._handles: list[str] = []

    def reach(self, stage: int) -> Memory | None:
        """The memory after `stage` compactions; None if the other session has not so many parts."""
        if stage > len(self._other_transcript.session.parts):
            return None
        while len(self._handles) < stage - 1:
            number = len(self._handles) + 1
            self._handles.append(self._compact(number, self._other.reach(number))["handle"])
        own = self._own.reach(stage)
        made = self._compact(stage, own)
        return Memory(made["handle"], own.prefix_ids, own.summary_ids, made["receipt"]["soft_tokens"], own.markers)

    def _compact(self, number: int, summarised: Memory) -> dict[str, Any]:
        previous = self._handles[number - 2] if number > 1 else None
        history = self._other_transcript.history_ids(number - 1)
        return self._client.compact(self._transcript.prefix_ids, history, summarised.summary_ids, previous)

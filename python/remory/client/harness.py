"""A conversation that can lose its history and go on: what an agent keeps between its turns."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from remory.client.client import Client
from remory.client.rendering import (
    Bridge,
    Message,
    Split,
    Tools,
    continuation_ids,
    render_split,
    split,
    summary_request_ids,
)
from remory.errors import InvalidInput, RemoryError


class SummaryFailed(RemoryError):
    """The actor wrote no usable summary. The conversation is as it was."""


@dataclass(frozen=True)
class Answer:
    """One generation. Times are wall-clock seconds as the client saw them.

    `context_tokens`: what the actor had read before its first token, the memory included. `sent_tokens`: the ids of
    the request. `cached_tokens`: how much of the context the server already had prefilled. `recalled`: the stored
    texts that stood in the context for this once.
    """

    text: str
    output_ids: list[int]
    finish_reason: dict[str, Any]
    context_tokens: int
    sent_tokens: int
    cached_tokens: int
    first_token_s: float
    total_s: float
    recalled: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Compaction:
    """One compaction. `tokens_before` and `tokens_after`: what the next generation would read, without and with it."""

    handle: str
    summary: str
    summary_ids: list[int]
    receipt: dict[str, Any]
    tokens_before: int
    tokens_after: int
    summary_s: float
    encode_s: float


@dataclass(frozen=True)
class _State:
    """All that changes, in one value, so that it changes as a whole or not at all.

    `messages` are the prefix and what came after the removed history. `head_tokens`: prefix, summary, rows, markers.
    """

    messages: tuple[Message, ...]
    prefix_length: int | None = None
    handle: str | None = None
    summary: str = ""
    bridge: Bridge = ()
    head_tokens: int = 0
    replaced: tuple[str, ...] = field(default=())


class Harness:
    """Keeps a conversation, continues it, and compacts it.

    `messages` begin with what must stay verbatim: system messages and the first user message (the task). `tools` are
    the definitions the chat template knows. `keep_last` messages stay verbatim in a compaction, and as many more as
    complete their tool calls. `sampling` are the parameters of `generate`, `summary_sampling` those of the summary.

    The conversation changes only after a call has succeeded: whatever fails, `messages` and `handle` are as they were.
    One harness serves one thread.
    """

    def __init__(
        self,
        client: Client,
        messages: Sequence[Message],
        tools: Tools | None = None,
        *,
        keep_last: int = 2,
        sampling: Mapping[str, Any] | None = None,
        summary_sampling: Mapping[str, Any] | None = None,
    ):
        self.client = client
        self.tools = tools
        self.keep_last = keep_last
        self.sampling = {"temperature": 0.0, "max_new_tokens": 512} | dict(sampling or {})
        self.summary_sampling = {"temperature": 0.0, "max_new_tokens": 512} | dict(summary_sampling or {})
        self._info: dict[str, Any] | None = None
        self._state = _State(tuple(messages))
        split(self._state.messages, keep_last)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages still held as text: the prefix, then what no compaction has removed."""
        return self._state.messages

    @property
    def prefix(self) -> tuple[Message, ...]:
        """The messages that no compaction removes: they are bound to the handle."""
        length = self._state.prefix_length
        return self._state.messages[:length] if length else split(self._state.messages, self.keep_last).prefix

    @property
    def handle(self) -> str | None:
        """The memory that stands between the prefix and the other messages, None before the first compaction."""
        return self._state.handle

    @property
    def summary(self) -> str:
        """The text summary stored with the handle, empty before the first compaction."""
        return self._state.summary

    @property
    def replaced_handles(self) -> tuple[str, ...]:
        """Handles of earlier compactions, oldest first: still stored; delete those that no branch needs."""
        return self._state.replaced

    def append(self, *messages: Message) -> None:
        """Add messages that others wrote: the user, a tool, or an assistant elsewhere."""
        extended = (*self._state.messages, *messages)
        split(extended, self.keep_last, self._state.prefix_length)
        self._state = replace(self._state, messages=extended)

    def generate(
        self,
        user: str | None = None,
        *,
        keep: bool = True,
        recall: Mapping[str, Any] | None = None,
        **sampling: Any,
    ) -> Answer:
        """Let the assistant speak, after `user` has if given. `keep=False` only asks: nothing is added.

        `recall` puts stored texts into the prompt for this once: `{"handle": True}` those of the removed history that
        answer `user` best, once there is a memory. Fields as of `/generate`.
        """
        added: list[Message] = [] if user is None else [{"role": "user", "content": user}]
        ids = self.continuation_ids(*added)
        if recall is not None and self._state.handle is None:
            # Nothing was removed yet: all of it is in the prompt.
            recall = {name: value for name, value in recall.items() if name != "handle"}
        answer = generate_timed(self.client, ids, self.sampling | sampling, self._state.handle, recall or None)
        if keep:
            self.append(*added, {"role": "assistant", "content": answer.text})
        return answer

    def context_tokens(self) -> int:
        """How many tokens the actor would read now before the first token of an answer."""
        return self._state.head_tokens + len(self.continuation_ids())

    def continuation_ids(self, *added: Message) -> list[int]:
        """The ids that the next generation sends, if `added` were appended first.

        Before a compaction that is the whole conversation, afterwards what follows the memory; both end with the
        generation prompt.
        """
        state = self._state
        if state.handle is None:
            return self._render((*state.messages, *added), self.tools, True)
        prefix, rest = state.messages[: state.prefix_length], state.messages[state.prefix_length :]
        return continuation_ids(self._render, prefix, (*rest, *added), self.tools, state.bridge)

    def compact(self, summary: str | None = None) -> Compaction:
        """Replace all but the prefix and the last messages by a memory.

        The actor writes the summary under the checkpoint's contract, unless `summary` is given. Raises InvalidInput
        if there is nothing to remove, RenderingMismatch if the chat template does not allow the cut, SummaryFailed
        if the actor's summary is empty or does not fit the contract, RemoryHTTPError if the service fails.
        A compaction that fails on its way back may leave an unused handle on the server (`Client.memories`).
        """
        state = self._state
        parts = split(state.messages, self.keep_last, state.prefix_length)
        if not parts.history:
            raise InvalidInput(
                f"nothing to compact: the {len(parts.prefix)} messages of the prefix and the last "
                f"{len(parts.retained)} are all there are"
            )
        rendered = render_split(self._render, parts, self.tools, state.bridge)
        contract = self._contract()
        start = time.perf_counter()
        summary_ids = self._write_summary(parts) if summary is None else self._summary_ids(summary)
        text = self.client.detokenize(summary_ids)
        summarised = time.perf_counter()
        answer = self.client.compact(rendered.prefix_ids, rendered.history_ids, summary_ids, previous=state.handle)
        encoded = time.perf_counter()
        head_tokens = len(rendered.prefix_ids) + _memory_tokens(contract, answer)
        self._state = _State(
            messages=(*parts.prefix, *parts.retained),
            prefix_length=len(parts.prefix),
            handle=answer["handle"],
            summary=text,
            bridge=rendered.bridge,
            head_tokens=head_tokens,
            replaced=state.replaced if state.handle is None else (*state.replaced, state.handle),
        )
        rest = len(rendered.continuation_ids)
        before = (state.head_tokens or len(rendered.prefix_ids)) + len(rendered.history_ids) + rest
        return Compaction(
            handle=answer["handle"],
            summary=text,
            summary_ids=summary_ids,
            receipt=answer["receipt"],
            tokens_before=before,
            tokens_after=head_tokens + rest,
            summary_s=summarised - start,
            encode_s=encoded - summarised,
        )

    def dump(self) -> dict[str, Any]:
        """The conversation as JSON-able values, for `load` in another process. Holds no key and no URL."""
        return asdict(self._state)

    @classmethod
    def load(cls, client: Client, state: Mapping[str, Any], tools: Tools | None = None, **options: Any) -> Self:
        """Go on with a dumped conversation. `client` needs the session that made the handle; `options` as `Harness`."""
        harness = cls(client, state["messages"], tools, **options)
        tuples = {name: tuple(state[name]) for name in ("messages", "bridge", "replaced")}
        harness._state = _State(**{**state, **tuples})
        return harness

    def _render(self, messages: Iterable[Message], tools: Tools | None, add_generation_prompt: bool) -> list[int]:
        return self.client.tokenize(messages=list(messages), tools=tools, add_generation_prompt=add_generation_prompt)

    def _write_summary(self, parts: Split) -> list[int]:
        contract = self._contract()
        state = self._state
        ids = summary_request_ids(
            self._render, parts, contract["prompt"], self.tools, state.bridge, restored=state.handle is not None
        )
        sampling = self.summary_sampling | {"stop_token_ids": [contract["end_token_id"]]}
        schema = contract["output_schema"]
        if schema is not None:
            sampling["json_schema"] = json.dumps(schema)
        answer = generate_timed(self.client, ids, sampling, state.handle)
        if schema is not None and answer.finish_reason["type"] == "length":
            raise SummaryFailed(f"the summary was cut after {len(answer.output_ids)} tokens and is no complete JSON")
        summary_ids = answer.output_ids
        if summary_ids and summary_ids[-1] in (contract["end_token_id"], self._info_now()["tokenizer"]["eos_token_id"]):
            summary_ids = summary_ids[:-1]
        if not summary_ids:
            raise SummaryFailed("the actor wrote an empty summary")
        return summary_ids

    def _summary_ids(self, summary: str) -> list[int]:
        return self.client.tokenize(summary, add_special_tokens=False)

    def _contract(self) -> dict[str, Any]:
        contract = self._info_now()["summary_contract"]
        if contract is None:
            raise InvalidInput(f"{self.client.base_url} serves without a memory checkpoint: start it with --checkpoint")
        return contract

    def _info_now(self) -> dict[str, Any]:
        if self._info is None:
            self._info = self.client.info()
        return self._info


def generate_timed(
    client: Client,
    input_ids: Sequence[int],
    sampling: Mapping[str, Any],
    handle: str | None = None,
    recall: Mapping[str, Any] | None = None,
) -> Answer:
    """One streamed generation with its times. Raises RemoryHTTPError."""
    fields: dict[str, Any] = {} if recall is None else {"recall": recall}
    start = time.perf_counter()
    with client.stream(input_ids=input_ids, sampling_params=sampling, handle=handle, **fields) as events:
        last = next(events)
        first_token = time.perf_counter()
        for event in events:
            last = event
    total = time.perf_counter()
    meta = last["meta_info"]
    return Answer(
        text=last["text"],
        output_ids=last["output_ids"],
        finish_reason=meta["finish_reason"],
        context_tokens=meta["prompt_tokens"],
        sent_tokens=len(input_ids),
        cached_tokens=meta["cached_tokens"],
        first_token_s=first_token - start,
        total_s=total - start,
        recalled=meta.get("recalled", []),
    )


def _memory_tokens(contract: Mapping[str, Any], compacted: Mapping[str, Any]) -> int:
    """Tokens a handle brings beside its prefix: markers, summary and rows."""
    markers = sum(len(ids) for name, ids in contract.items() if name.endswith(("_before_ids", "_after_ids")))
    return markers + len(compacted["summary_ids"]) + compacted["receipt"]["soft_tokens"]

"""The tools that shorten a long conversation and go on with it. Their docstrings are what a model reads."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from anyio.from_thread import check_cancelled
from pydantic import BaseModel, ConfigDict, Field

from remory.client import Client, InvalidRequest, NotFound
from remory.client.rendering import Message, Tools, continuation_ids, split

_LISTED = 10


class SessionMessage(BaseModel):
    """One message of a conversation, in the form of chat completions. Further fields are kept as they are."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = Field(
        default=None, description="Of an assistant: the calls it made, each with `id` and `function`."
    )
    tool_call_id: str | None = Field(default=None, description="Of a tool: the id of the call that this answers.")


Conversation = Annotated[
    list[SessionMessage],
    Field(min_length=1, description="All messages, oldest first: system messages, the task, and what followed."),
]
Shortened = Annotated[
    list[SessionMessage],
    Field(
        min_length=1,
        description="`messages` of compact_session's answer as they are, then all that was said since, oldest first.",
    ),
]
ToolDefinitions = Annotated[
    list[dict[str, Any]] | None,
    Field(description="The tools that the conversation could call, as JSON function definitions; the same each time."),
]
KeepLast = Annotated[
    int, Field(ge=0, description="So many messages at the end stay word for word, and what completes their tool calls.")
]
Previous = Annotated[
    str | None, Field(description="The handle, if this conversation was compacted before. Pass its `bridge` too.")
]
Bridge = Annotated[
    list[dict[str, Any]] | None, Field(description="`bridge` of compact_session's answer, if it was not empty.")
]
Handle = Annotated[str, Field(description="The `handle` of compact_session's answer, or one from the list.")]
SummaryTokens = Annotated[int, Field(ge=1, description="The summary has at most so many tokens.")]
NewTokens = Annotated[int, Field(ge=1, description="The answer has at most so many tokens.")]
Temperature = Annotated[float, Field(ge=0, le=100, description="0 always takes the likeliest token.")]
Newest = Annotated[int, Field(ge=1, le=100, description="At most so many, the newest.")]


class CompactedSession(BaseModel):
    """What stands for the conversation from now on."""

    handle: str = Field(description="Names the stored memory: for continue_session, and as `previous` next time.")
    summary: str = Field(description="What the model wrote about the removed messages.")
    messages: list[dict[str, Any]] = Field(
        description="Hold these in place of the conversation: its beginning and its last messages, word for word."
    )
    bridge: list[dict[str, Any]] = Field(description="If not empty, pass it wherever the handle is passed.")
    removed_messages: int = Field(description="So many messages became memory.")
    removed_tokens: int = Field(description="So many tokens they had.")
    summary_tokens: int
    memory_rows: int = Field(description="So many positions the memory takes in the context, beside the summary.")
    continuation_tokens: int = Field(description="Tokens of the last messages, which are read after the memory.")
    compression_ratio: float = Field(description="Tokens behind the memory by its rows.")
    expanded: bool = Field(description="True if the memory is no smaller than what it replaced: too little to compact.")


class ContinuedSession(BaseModel):
    """The answer of the service's model."""

    text: str
    finish_reason: str = Field(description="`stop` for a complete answer, `length` when it reached max_new_tokens.")
    context_tokens: int = Field(description="Tokens that the model read, the memory included.")
    new_tokens: int = Field(description="Tokens of the answer.")


class SessionMemory(BaseModel):
    """A stored memory."""

    handle: str
    created_at: str = Field(description="ISO-8601, UTC.")
    summary: str = Field(description="What the model wrote about the removed messages.")
    previous: str | None = Field(description="The handle of the memory that this one went on from.")
    removed_tokens: int = Field(description="Tokens that this compaction removed.")
    memory_rows: int


class SessionMemories(BaseModel):
    """The newest memories of this session."""

    memories: list[SessionMemory] = Field(description="The newest first.")
    total: int = Field(description="How many there are, those not shown included.")


class DeletedMemory(BaseModel):
    """A memory that is gone."""

    handle: str
    deleted: bool


class SessionTools:
    """Tools that make memories of a conversation, go on behind one, list and delete them."""

    def __init__(self, client: Client):
        self._client = client

    def compact_session(
        self,
        messages: Conversation,
        tools: ToolDefinitions = None,
        keep_last: KeepLast = 2,
        previous: Previous = None,
        bridge: Bridge = None,
        max_summary_tokens: SummaryTokens = 512,
    ) -> CompactedSession:
        """Shorten a long conversation: its middle becomes a stored memory and a summary.

        Use it when a conversation nears the end of its context window, or before you set it aside. The system
        messages, the first user message and the last messages stay word for word. From then on hold `messages` of the
        answer in place of the conversation and add to them; continue_session answers behind the memory. To compact
        again pass those messages with what was added, and the handle as `previous`. If this fails, nothing has
        changed: keep the conversation as it is.
        """
        held = list(map(_plain, messages))
        answer = self._client.compact_text(
            held,
            tools=tools,
            keep_last=keep_last,
            previous=previous,
            bridge=bridge,
            max_summary_tokens=max_summary_tokens,
        )
        receipt, retained = answer["receipt"], answer["messages"]
        prefix = split(held, 0).prefix
        return CompactedSession(
            handle=answer["handle"],
            summary=answer["summary"],
            messages=[*map(dict, prefix), *retained],
            bridge=answer["bridge"],
            removed_messages=len(held) - len(prefix) - len(retained),
            removed_tokens=receipt["history_tokens"],
            summary_tokens=receipt["summary_tokens"],
            memory_rows=receipt["soft_tokens"],
            continuation_tokens=len(answer["continuation_ids"]),
            compression_ratio=receipt["compression_ratio"],
            expanded=receipt.get("expanded", False),
        )

    def continue_session(
        self,
        handle: Handle,
        messages: Shortened,
        tools: ToolDefinitions = None,
        bridge: Bridge = None,
        max_new_tokens: NewTokens = 512,
        temperature: Temperature = 0.0,
    ) -> ContinuedSession:
        """Let the service's model answer in a compacted conversation, with the memory in place of what was removed.

        Use it to go on after compact_session, also in a later process or after a restart, and to ask what the removed
        part said. The last message is usually the user's new one. Nothing is stored: add the new message and the answer
        to your `messages` yourself.
        """
        held = list(map(_plain, messages))
        prefix = self._prefix(handle, held, tools)
        ids = continuation_ids(self._render, prefix, held[len(prefix) :], tools, tuple(bridge or ()))
        sampling = {"max_new_tokens": max_new_tokens, "temperature": temperature}
        with self._client.stream(input_ids=ids, sampling_params=sampling, handle=handle) as events:
            last = next(events)
            for event in events:
                # A caller that gave up must not keep the model busy: leaving the stream stops the generation.
                check_cancelled()
                last = event
        meta = last["meta_info"]
        return ContinuedSession(
            text=last["text"],
            finish_reason=meta["finish_reason"]["type"],
            context_tokens=meta["prompt_tokens"],
            new_tokens=meta["completion_tokens"],
        )

    def list_session_memories(self, limit: Newest = _LISTED) -> SessionMemories:
        """List what compact_session has stored in this session, with the summaries, the newest first.

        Use it to find the handle of an earlier conversation, after a restart for example.
        """
        stored = self._client.memories()
        shown = [found for one in stored[:limit] if (found := self._found(one["handle"]))]
        texts = self._client.detokenize([one["summary_ids"] for one in shown]) if shown else []
        return SessionMemories(memories=list(map(_shown, shown, texts)), total=len(stored))

    def delete_session_memory(self, handle: Handle) -> DeletedMemory:
        """Delete a stored memory for good. Use it when its conversation is over, or when the user asks to forget it.

        Memories made from it later stay as they are.
        """
        self._client.delete(handle)
        return DeletedMemory(handle=handle, deleted=True)

    def _prefix(self, handle: str, messages: Sequence[Message], tools: Tools | None) -> Sequence[Message]:
        """The messages in front of the memory, which is bound to their ids. Raises InvalidRequest for others."""
        expected = self._client.memory(handle)["receipt"]["prefix_sha256"]
        prefix = split(messages, 0).prefix
        # Without a task in front, the first retained user message looks like one.
        for length in (len(prefix), len(prefix) - 1):
            if length and _digest(self._render(prefix[:length], tools, False)) == expected:
                return prefix[:length]
        raise InvalidRequest(
            f"these messages do not begin like those that {handle} was made from: pass `messages` of compact_session's "
            "answer unchanged at the front, and the same tools"
        )

    def _render(self, messages: Sequence[Message], tools: Tools | None, generation_prompt: bool) -> list[int]:
        return self._client.tokenize(messages=messages, tools=tools, add_generation_prompt=generation_prompt)

    def _found(self, handle: str) -> dict[str, Any] | None:
        try:
            return self._client.memory(handle)
        except NotFound:
            # Deleted since it was listed.
            return None


def _plain(message: SessionMessage) -> dict[str, Any]:
    return message.model_dump(exclude_unset=True)


def _digest(ids: Sequence[int]) -> str:
    """As in a receipt: SHA-256 of little-endian int32."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


def _shown(stored: Mapping[str, Any], summary: str) -> SessionMemory:
    receipt = stored["receipt"]
    return SessionMemory(
        handle=stored["handle"],
        created_at=stored["created_at"],
        summary=summary,
        previous=receipt["previous"],
        removed_tokens=receipt["history_tokens"],
        memory_rows=receipt["soft_tokens"],
    )

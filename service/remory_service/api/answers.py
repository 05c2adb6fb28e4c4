"""What the native routes answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

Triple = list[float | int | None]


class FinishReason(BaseModel):
    """Why an answer ended."""

    type: str = Field(description="`stop` or `length`.")
    matched: int | str | None = Field(default=None, description="The token id or text that ended it.")
    length: int | None = None


class RecalledText(BaseModel):
    """A stored text that stood in the prompt. `name` names it in its source; `score`: its cosine with the query."""

    source: Literal["handle", "chat", "notes", "scope"]
    name: str
    score: float
    tokens: int
    text: str


class MetaInfo(BaseModel):
    """Facts about one generated sequence."""

    id: str
    finish_reason: FinishReason | None = Field(description="null until the sequence has ended.")
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    e2e_latency: float = Field(description="Seconds.")
    input_token_logprobs: list[Triple] | None = Field(
        default=None, description="[log-probability, token id, null] each."
    )
    output_token_logprobs: list[Triple] | None = None
    hidden_states: list[Any] | None = None
    recalled: list[RecalledText] | None = Field(default=None, description="With `recall`: in the order of the prompt.")
    recalled_tokens: int | None = Field(default=None, description="Of the message that they make.")


class Generation(BaseModel):
    """One generated sequence; `index` only in the events of a streamed list."""

    text: str
    output_ids: list[int]
    meta_info: MetaInfo
    index: int | None = None


class GenerateAnswer(RootModel[Generation | list[Generation]]):
    """One sequence, or a list of them for a list of prompts or for `n` above 1."""

    model_config = ConfigDict(
        openapi_extra={  # type: ignore[typeddict-unknown-key]
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    )


class Node(BaseModel):
    """Rows of one block: the raw tokens they stand for, and the depth."""

    start: int
    stop: int
    depth: int


class MadeBy(BaseModel):
    """The names of what made a memory."""

    checkpoint: str
    actor: str
    actor_revision: str


class Receipt(BaseModel):
    """What a compaction says about itself."""

    model_config = ConfigDict(populate_by_name=True)

    schema_name: str = Field(alias="schema")
    strategy: str
    source_tokens: int
    history_tokens: int
    summary_tokens: int
    soft_tokens: int
    compression_ratio: float
    memory_bytes: int
    prefix_sha256: str
    history_sha256: str
    summary_sha256: str
    rows_sha256: str
    previous: str | None
    branches: list[str]
    depths: dict[str, int] = Field(description="Rows by depth.")
    frontier: list[Node]
    made_by: MadeBy | None = Field(default=None, description="Absent from memories of earlier versions.")
    features: dict[str, int] = Field(
        default_factory=dict,
        description="Source tokens by where their features came from: `prefill`, read for this compaction, or `live`, "
        "kept when the session ran. Empty without source, and in memories of earlier versions.",
    )
    timings_ms: dict[str, float] = Field(description="summary, leaves, merge, store")
    expanded: bool | None = Field(default=None, description="true when the memory is no smaller than what it replaces.")


class CompactAnswer(BaseModel):
    """A new handle."""

    handle: str
    summary_ids: list[int]
    receipt: Receipt


class CompactTextAnswer(CompactAnswer):
    """A new handle, and what goes on behind it."""

    summary: str
    messages: list[dict[str, Any]] = Field(description="The retained messages.")
    continuation_ids: list[int] = Field(description="The retained messages and the generation prompt, as tokens.")
    bridge: list[dict[str, Any]] = Field(description="To be passed with `previous`; empty for most chat templates.")
    recalled: list[RecalledText] | None = Field(
        default=None, description="With `recall`: what the summary's prompt had."
    )
    recalled_tokens: int | None = None


class MemoryItem(BaseModel):
    """A stored memory."""

    handle: str
    created_at: str
    receipt: Receipt


class MemoryAnswer(MemoryItem):
    """A stored memory and its summary."""

    summary_ids: list[int]


class HistoryChunk(BaseModel):
    """A part of a removed history. `name`: the place of its history, and its number in that; recall calls it the same.

    `text` has the roles in front of the messages; a part of a long tool result has the beginning of its call.
    """

    name: str
    ids: list[int]
    text: str


class HistoryAnswer(BaseModel):
    """A page of a memory's kept history."""

    chunks: list[HistoryChunk]
    next_offset: int | None = Field(description="Where the next page begins; null at the end.")


class MemoriesAnswer(BaseModel):
    """A session's memories."""

    memories: list[MemoryItem]


class DeletedAnswer(BaseModel):
    """What was deleted."""

    handle: str
    deleted: bool


class ActorFacts(BaseModel):
    """The actor."""

    name: str
    revision: str
    hidden_size: int
    vocabulary: int
    context_length: int
    dtype: str
    device: str


class CheckpointFacts(BaseModel):
    """The memory checkpoint."""

    model_config = ConfigDict(populate_by_name=True)

    identity: str
    name: str
    schema_name: str | None = Field(alias="schema")
    strategy: str
    trained: bool
    block_tokens: int
    compression_ratio: int
    memory_budget: int
    layer_ids: list[int]
    base: str | None


class TokenizerFacts(BaseModel):
    """The tokenizer."""

    name: str
    sha256: str
    vocabulary: int
    eos_token_id: int | None


class SummaryContractFacts(BaseModel):
    """How a summary is asked for, and the ids around summary and memory in a restored prompt."""

    end_token_id: int
    student_summary_before_ids: list[int]
    student_summary_after_ids: list[int]
    student_memory_before_ids: list[int]
    student_memory_after_ids: list[int]
    prompt: str
    output_schema: dict[str, Any] | None


class InfoAnswer(BaseModel):
    """Who answers. `checkpoint` and `summary_contract` are null without memory."""

    version: str
    collect: bool = Field(description="Tokens of requests with `X-Remory-Collect: yes` are kept.")
    engine: str
    context_length: int
    actor: ActorFacts
    tokenizer: TokenizerFacts
    checkpoint: CheckpointFacts | None
    summary_contract: SummaryContractFacts | None


class TokenizeAnswer(BaseModel):
    """Token ids, how many, and how many the actor can read."""

    tokens: list[int] | list[list[int]]
    count: int | list[int]
    max_model_len: int


class DetokenizeAnswer(BaseModel):
    """Text."""

    text: str | list[str]


class ServerInfoAnswer(BaseModel):
    """The server's settings, without secrets, and the engine's running figures."""

    model_config = ConfigDict(extra="allow")

    version: str
    status: str
    store: Literal["sqlite", "postgresql"]
    engine: dict[str, float]

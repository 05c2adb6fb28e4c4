"""The native routes' bodies. Unknown fields are refused, and so is any value of another JSON type."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from remory_service.api.scoped_bodies import Text
from remory_service.identity import COLLECT_HEADER, SESSION_HEADER


def _one_or_list(value: Any) -> str:
    return "list" if isinstance(value, list) else "one"


def _flat_or_nested(value: Any) -> str:
    return "nested" if isinstance(value, list) and value and isinstance(value[0], list) else "flat"


# A long list that is wrong is wrong at its first place: without fail_fast every element would be an error of its own.
# The discriminators choose by the value's form, so that an error is about the one form that was meant.
Ids = Annotated[list[int], Field(fail_fast=True)]
Texts = Annotated[list[str], Field(fail_fast=True)]
IdsOrList = Annotated[
    Annotated[Ids, Tag("flat")] | Annotated[list[Ids], Field(fail_fast=True), Tag("nested")],
    Discriminator(_flat_or_nested),
]
TextOrList = Annotated[Annotated[str, Tag("one")] | Annotated[Texts, Tag("list")], Discriminator(_one_or_list)]
IntOrList = Annotated[Annotated[int, Tag("one")] | Annotated[Ids, Tag("list")], Discriminator(_one_or_list)]


# Bounds on what multiplies a request's work or is repeated in its answer; far above any real use.
_LARGEST_COUNT = 2**31 - 1
_STOPS = 64
_BRANCHES = 64
_NAME_LENGTH = 256
_QUERY_LENGTH = 4096
_KEEP_HISTORY = "Keep the removed tokens for `recall.handle`. Default: as the server was started."
Stop = Annotated[str, Field(max_length=4096)]
StopOrList = Annotated[
    Annotated[Stop, Tag("one")] | Annotated[list[Stop], Field(fail_fast=True, max_length=_STOPS), Tag("list")],
    Discriminator(_one_or_list),
]
Name = Annotated[str, Field(max_length=_NAME_LENGTH)]
NameOrList = Annotated[
    Annotated[Name, Tag("one")] | Annotated[list[Name], Field(fail_fast=True), Tag("list")],
    Discriminator(_one_or_list),
]


class Body(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Sampling(Body):
    """How tokens are chosen and when to stop; names and defaults are SGLang's. null means the default."""

    max_new_tokens: int | None = Field(
        default=None, ge=0, le=_LARGEST_COUNT, description="Default 128; 0 only reads the prompt."
    )
    temperature: float | None = Field(default=None, ge=0, le=100, description="Default 1; 0 is greedy.")
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1, description="-1 is all.")
    min_p: float | None = Field(default=None, ge=0, le=1)
    stop: StopOrList | None = Field(default=None, description="Texts that end the answer; they are not part of it.")
    stop_token_ids: Ids | None = None
    ignore_eos: bool | None = None
    frequency_penalty: float | None = Field(default=None, ge=-2, le=2)
    presence_penalty: float | None = Field(default=None, ge=-2, le=2)
    repetition_penalty: float | None = Field(default=None, ge=0.01, le=2)
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    json_schema: str | None = Field(default=None, description="A JSON schema as text; the answer fits it.")
    regex: str | None = Field(default=None, description="A regular expression; the answer matches it.")
    n: int | None = Field(
        default=None, ge=1, description="Answers for each prompt; more than 1 makes the answer a list."
    )


SamplingOrList = Annotated[
    Annotated[Sampling, Tag("one")] | Annotated[list[Sampling], Field(fail_fast=True), Tag("list")],
    Discriminator(_one_or_list),
]


class MemoryReference(Body):
    """The memory that stands before `input_ids`."""

    handle: str


class RecallScope(Body):
    """A scope of the scoped memory, named as its routes name it."""

    scope: Literal["session", "actor", "workflow", "global"]
    session_id: Text | None = None
    actor_id: Text | None = None
    root_id: Text | None = None


class RecallBody(Body):
    """Stored texts that go into the prompt, between memory and continuation. At least one source; of several the best
    texts of all.
    """

    handle: bool = Field(default=False, description="From the history that the memory stands for, word for word.")
    chat: Name | None = Field(default=None, description="From the memories of this chat.")
    notes: Literal["user", "global"] | None = Field(default=None, description="From the caller's notes, or from all's.")
    scope: RecallScope | None = Field(
        default=None, description="Values of a scope whose keys have vectors of the server's embedder."
    )
    query: str | None = Field(
        default=None, max_length=_QUERY_LENGTH, description="Default: the last message of the prompt."
    )
    top_k: int = Field(default=8, ge=1, le=64, description="Most texts.")
    max_tokens: int = Field(
        default=512, ge=1, le=_LARGEST_COUNT, description="Most tokens, the message's own included."
    )
    min_score: float = Field(default=-1, ge=-1, le=1, description="Texts with a lower cosine are left out.")
    mode: Literal["hybrid", "cosine"] = Field(
        default="hybrid", description="By meaning and words, or by meaning alone."
    )


class GenerateBody(Body):
    """One prompt or a list of prompts, as text or as token ids; after `remory.handle` only the ids that follow it."""

    text: TextOrList | None = Field(default=None, description="A prompt or a list of prompts.")
    input_ids: IdsOrList | None = Field(default=None, description="Token ids of a prompt or of a list of prompts.")
    sampling_params: SamplingOrList | None = Field(default=None, description="For all prompts, or one for each.")
    stream: bool = Field(default=False, description="Answer with server-sent events.")
    return_hidden_states: bool = False
    return_logprob: bool = False
    logprob_start_len: IntOrList | None = Field(
        default=None, description="First prompt position with log-probabilities; -1 is none of the prompt's."
    )
    rid: NameOrList | None = Field(
        default=None, description="The caller's name of the request, or one for each prompt."
    )
    remory: MemoryReference | None = None
    recall: RecallBody | None = Field(default=None, description="For one prompt; meta_info tells what was recalled.")


class CompactBody(Body):
    """History that becomes memory. All ids are the actor's own tokens, rendered with its chat template."""

    prefix_ids: Ids = Field(description="System prompt, tools and task; they stay as they are.")
    history_ids: Ids = Field(
        description="What is removed. May be empty with `branches`, and with `previous` alone if the checkpoint's "
        "strategy is reencode."
    )
    summary_ids: Ids = Field(description="The summary of history and all that it replaces.")
    previous: str | None = Field(default=None, description="Handle that the session goes on from.")
    branches: Texts = Field(
        default_factory=list, max_length=_BRANCHES, description="Handles of completed sub-agents to fold in."
    )
    keep_history: bool | None = Field(default=None, description=_KEEP_HISTORY)


class CompactTextBody(Body):
    """A conversation whose middle becomes memory; the service renders it and writes the summary."""

    messages: list[dict[str, Any]] = Field(
        min_length=1, description="Messages with `role` and `content`, oldest first."
    )
    tools: list[dict[str, Any]] | None = None
    keep_last: int = Field(
        2, ge=0, description="Messages kept verbatim at the end, and those that complete a tool call."
    )
    previous: str | None = Field(
        None, description="Handle for what was removed between the prefix and what follows it."
    )
    bridge: list[dict[str, Any]] = Field(
        default_factory=list, description="As the answer that made `previous` gave it."
    )
    max_summary_tokens: int = Field(default=512, ge=1, le=_LARGEST_COUNT)
    keep_history: bool | None = Field(default=None, description=_KEEP_HISTORY)
    recall: RecallBody | None = Field(default=None, description="Goes into the prompt that asks for the summary.")


class TokenizeBody(Body):
    """`prompt` or `messages`."""

    prompt: TextOrList | None = Field(default=None, description="A text or a list of texts.")
    messages: list[dict[str, Any]] | None = Field(default=None, description="Rendered with the actor's chat template.")
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool | None = Field(default=None, description="Default: unless the assistant spoke last.")
    add_special_tokens: bool = Field(default=True, description="For `prompt` only.")
    model: str | None = Field(default=None, description="Accepted and not looked at: there is one actor.")


class DetokenizeBody(Body):
    """Token ids to be read as text."""

    tokens: IdsOrList = Field(description="A list of ids or a list of such lists.")
    skip_special_tokens: bool = True
    model: str | None = Field(default=None, description="Accepted and not looked at: there is one actor.")


class HandlePath(BaseModel):
    """A memory in the path."""

    handle: str


class HistoryQuery(BaseModel):
    """Which chunks."""

    limit: int = Field(default=100, ge=1, le=1000)
    offset: int = Field(default=0, ge=0, le=_LARGEST_COUNT)


class SessionHeader(BaseModel):
    """Which session's memories. Checked by `checked_session` and not by this schema, because a missing one is 400."""

    model_config = ConfigDict(json_schema_extra={"required": [SESSION_HEADER]})

    session: str | None = Field(default=None, alias=SESSION_HEADER, description="1 to 256 printable ASCII characters.")


class CollectHeader(BaseModel):
    """Whether the request's tokens may be kept for training; a server that collects nothing passes over it."""

    collect: str | None = Field(
        default=None, alias=COLLECT_HEADER, description="`yes`: a server with --collect may keep this request's tokens."
    )

    @property
    def agrees(self) -> bool:
        """Nothing but a plain yes will do."""
        return self.collect is not None and self.collect.strip().lower() == "yes"


class CompactionHeader(SessionHeader, CollectHeader):
    """The session that a compaction belongs to."""


class OptionalSessionHeader(CollectHeader):
    """Which session's memories, needed only together with a handle."""

    session: str | None = Field(default=None, alias=SESSION_HEADER, description="Needed with `remory.handle`.")


class Place(BaseModel):
    """Where a body does not fit its schema."""

    loc: list[str | int]
    msg: str
    type: str


class ErrorAnswer(BaseModel):
    """What went wrong, in words or as places in the body."""

    detail: str | list[Place]

"""What the rest of Remory knows of an engine: the process that runs the frozen actor.

An engine generates from a `Source` and encodes a history into rows. It knows nothing of
users, handles or HTTP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from remory.network import Checkpoint


@dataclass(frozen=True)
class Source:
    """What the actor reads: token ids, some of them replaced by rows.

    `ids` [N] int64; `rows` [R, D] bfloat16 or None; `positions` [R] int64, strictly ascending indices into
    `ids` whose embeddings the rows replace. `cuts` are positions where something ends that is likely to be read again
    (a prefix, a memory): an engine may keep the actor's state there.
    """

    ids: Tensor
    rows: Tensor | None = None
    positions: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    cuts: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.ids.numel()


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen and when to stop; names and defaults are SGLang's.

    `top_k` -1 means all. `temperature` 0 is greedy. `json_schema` is JSON text. `seed` None draws one. Penalties are
    for what the answer has said, not for its prompt.
    """

    max_new_tokens: int = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    json_schema: str | None = None
    regex: str | None = None


@dataclass(frozen=True)
class GenerationRequest:
    """One sequence to continue. `logprob_start_len` -1: log-probabilities of output tokens only."""

    source: Source
    sampling: SamplingParams = SamplingParams()
    return_logprob: bool = False
    logprob_start_len: int = -1
    return_hidden_states: bool = False


@dataclass(frozen=True)
class GenerationOutput:
    """The answer so far. Text, ids and log-probabilities are cumulative; `finish_reason` is None until the end.

    `finish_reason`: {"type": "stop", "matched": id or text} | {"type": "length", "length": n}.
    Log-probabilities are triples [logprob or None, token id, None]. `hidden_states`: the prompt's [T, D] list,
    then one [D] list for every output token but the last.
    """

    text: str
    output_ids: list[int]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    finish_reason: dict[str, Any] | None = None
    input_token_logprobs: list[list[Any]] | None = None
    output_token_logprobs: list[list[Any]] | None = None
    hidden_states: list[Any] | None = None
    e2e_latency: float = 0.0


@dataclass(frozen=True)
class Leaf:
    """One block of source tokens [start, stop) and the depth the network is told for it."""

    start: int
    stop: int
    input_depth: int


@dataclass(frozen=True)
class Fold:
    """`count` adjacent nodes beginning at index `first` of the node list become one node."""

    first: int
    count: int
    input_depth: int


@dataclass(frozen=True)
class EncodeRequest:
    """One compaction as the engine sees it.

    The actor reads `prefix_ids`, then `context`. `positions` [N] are the places in `context` that are source tokens
    (markers are read but are not source); `leaves` cut these N source tokens into blocks. The node list starts as
    `kept` (rows [n, D] each) followed by the leaves; `folds` are applied to it in order. `summary_ids` follow
    `prefix_ids` in a pass of their own; the states of the last `summary_tokens` of them condition the network. Without
    leaves the context is not read, and without folds too nothing is: `kept` is the result.
    """

    prefix_ids: Tensor
    context: Source
    positions: Tensor
    leaves: Sequence[Leaf]
    folds: Sequence[Fold] = ()
    kept: Sequence[Tensor] = ()
    summary_ids: Tensor | None = None
    summary_tokens: int = 0

    @property
    def reads_nothing(self) -> bool:
        return not self.leaves and not self.folds


@dataclass(frozen=True)
class EncodeResult:
    """Rows [n, D] bfloat16 of each node left in the list, oldest first, and milliseconds by phase.

    `features`: for how many source tokens the features came from where: "prefill", read for this compaction, or "live",
    kept when the session itself ran; empty when no source token was read.
    """

    nodes: list[Tensor]
    timings_ms: dict[str, float]
    features: dict[str, int]


@dataclass(frozen=True)
class ActorInfo:
    """Who the actor is. `revision` names its weights; `context_length` in tokens; `dtype` as torch names it."""

    name: str
    revision: str
    width: int
    vocabulary: int
    context_length: int
    dtype: str
    device: str
    layers: int


class Engine(ABC):
    """Runs one actor. All methods may be called from several threads at once."""

    actor: ActorInfo
    tokenizer: Any

    @abstractmethod
    def generate(self, request: GenerationRequest) -> Iterator[GenerationOutput | None]:
        """Continue a source. Validates before it returns: raises InvalidInput or ContextOverflow at once.

        The work starts with the first step of the iterator, which raises EngineBusy when there is no room. It yields
        cumulative outputs, the last with a `finish_reason`, and None when about 0.2 s passed with nothing new, so that
        the caller can look whether its client is still there. Closing it stops the work. Raises EngineFailed if the
        actor fails.
        """

    @abstractmethod
    def check(self, checkpoint: Checkpoint) -> None:
        """Raises CheckpointError or InvalidInput when this engine cannot encode with a checkpoint, whose weights need
        not be there.
        """

    @abstractmethod
    def prepare(self, checkpoint: Checkpoint) -> Any:
        """Make a checkpoint's network ready to run here; what it returns is for `encode`, and is freed with its last
        holder. Networks do not disturb each other. Raises as `check` does.
        """

    @abstractmethod
    def encode(self, request: EncodeRequest, prepared: Any = None) -> EncodeResult:
        """Run a compaction's passes with a prepared network, by default that of the checkpoint the engine began with.

        Raises InvalidInput, ContextOverflow or EngineFailed; leaves nothing behind.
        """

    def problem(self) -> str | None:
        """Why the actor cannot answer now, although it will again; None while it can.

        Raises EngineFailed when it will not come back by itself.
        """
        return None

    @abstractmethod
    def stats(self) -> dict[str, float]:
        """Running figures for /metrics: requests_running, requests_waiting, cache_bytes, cache_hit_tokens, …"""

    @abstractmethod
    def close(self) -> None:
        """End all work with EngineBusy; the actor is freed with the engine."""

"""What every engine checks before it works: the caller's ids, rows, grammar and checkpoint against the actor."""

from __future__ import annotations

import threading
from typing import Any

from torch import Tensor

from remory.engines.base import ActorInfo, EncodeRequest, SamplingParams, Source
from remory.engines.sampling import Constraint, constraint_vocabulary
from remory.errors import CheckpointError, ContextOverflow, InvalidInput
from remory.network import Checkpoint

_MEMORY_DTYPES = ("bfloat16", "float32")


def check_source(actor: ActorInfo, source: Source, new_tokens: int) -> None:
    """Raises InvalidInput for ids or rows that do not fit the actor, ContextOverflow when there is no room."""
    check_ids(actor, "input_ids", source.ids)
    check_rows(actor, source)
    total = len(source) + new_tokens
    if len(source) >= actor.context_length or total > actor.context_length:
        raise ContextOverflow(
            f"{len(source)} input tokens and {new_tokens} new ones are {total}; "
            f"the actor's context holds {actor.context_length}"
        )


def check_rows(actor: ActorInfo, source: Source) -> None:
    """Whatever reaches the actor as rows is checked before any work: width, places, finite numbers."""
    if source.rows is None:
        return
    if source.rows.ndim != 2 or source.rows.shape[1] != actor.width:
        raise InvalidInput(f"rows are {list(source.rows.shape)}, expected [R, {actor.width}]")
    places = source.positions
    if places.shape != source.rows.shape[:1]:
        raise InvalidInput(f"{source.rows.shape[0]} rows have {places.numel()} positions")
    inside = places.numel() == 0 or (int(places.min()) >= 0 and int(places.max()) < len(source))
    if not inside or bool((places[1:] <= places[:-1]).any()):
        raise InvalidInput(f"positions of rows must ascend within [0, {len(source)})")
    if not bool(source.rows.isfinite().all()):
        raise InvalidInput("rows hold NaN or infinity")


def check_encode(actor: ActorInfo, request: EncodeRequest, slots: int) -> None:
    """Raises InvalidInput or ContextOverflow; `slots` are the rows that the network makes of a block."""
    check_ids(actor, "prefix_ids", request.prefix_ids)
    check_ids(actor, "context", request.context.ids)
    check_rows(actor, request.context)
    if request.summary_ids is not None:
        check_ids(actor, "summary_ids", request.summary_ids)
        if not 1 <= request.summary_tokens <= len(request.summary_ids):
            raise InvalidInput(f"{request.summary_tokens} of {len(request.summary_ids)} summary_ids are the summary")
    parents = slots * max((fold.count for fold in request.folds), default=0)
    context = len(request.context) if request.leaves else 0
    longest = max(context, 0 if request.summary_ids is None else len(request.summary_ids), parents)
    total = len(request.prefix_ids) + longest
    if total > actor.context_length:
        raise ContextOverflow(
            f"the prefix's {len(request.prefix_ids)} tokens and {longest} to be read behind it are {total}; "
            f"the actor's context holds {actor.context_length}"
        )


def check_ids(actor: ActorInfo, name: str, ids: Tensor) -> None:
    """Raises InvalidInput unless there are ids [N] and all are in the actor's vocabulary."""
    if ids.numel() == 0:
        raise InvalidInput(f"{name} is empty")
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= actor.vocabulary:
        raise InvalidInput(f"{name} holds {low if low < 0 else high}; token ids are in [0, {actor.vocabulary})")


def check_checkpoint(actor: ActorInfo, checkpoint: Checkpoint) -> None:
    """Raises CheckpointError or InvalidInput when a checkpoint's network cannot run on this actor's states."""
    if checkpoint.feature_view is not None:
        raise CheckpointError(
            f"checkpoint {checkpoint.name} reads {checkpoint.feature_view!r} states; this engine captures the layers' "
            f"outputs only"
        )
    if actor.dtype not in _MEMORY_DTYPES:
        raise InvalidInput(f"memory needs an actor in bfloat16 or float32, not {actor.dtype}: see --dtype")
    checkpoint.check_actor(width=actor.width, layers=actor.layers, vocabulary=actor.vocabulary)


class Grammars:
    """Makes the constraints of requests that have a JSON schema or a regular expression."""

    def __init__(self, tokenizer: Any, vocabulary: int) -> None:
        self._tokenizer, self._size = tokenizer, vocabulary
        self._lock = threading.Lock()
        self._vocabulary: Any = None

    def constraint(self, sampling: SamplingParams) -> Constraint | None:
        """None for a request without a grammar. Raises InvalidInput when its grammar cannot be used."""
        if sampling.json_schema is None and sampling.regex is None:
            return None
        if sampling.json_schema is not None and sampling.regex is not None:
            raise InvalidInput("json_schema and regex cannot be combined")
        with self._lock:
            if self._vocabulary is None:
                self._vocabulary = constraint_vocabulary(self._tokenizer, self._size)
        return Constraint(self._vocabulary, sampling)

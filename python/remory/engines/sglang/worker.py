"""What the plug-in does inside one SGLang worker, told in terms of requests and chunks; `plugin` hooks it in."""

from __future__ import annotations

import logging
import os
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from remory import ops
from remory.engines.sglang.exchange import Exchange
from remory.engines.sglang.jobs import Block, Chunk, EncodeJob, StatesJob, encode_blocks
from remory.engines.sglang.live import LiveStore, PrefixKeys
from remory.engines.sglang.protocol import Encode, Greeting, Order, Report, places_of
from remory.engines.sglang.rows import RecentRows, RowIds
from remory.errors import CheckpointError, EngineFailed, InvalidInput, RemoryError
from remory.network import Checkpoint, load_checkpoint

log = logging.getLogger(__name__)

_ROW_BYTES = 256 << 20
_NETWORKS = 4
# Features of tokens that are decoded one by one are stored so many at a time.
_TOKENS_AT_ONCE = 32
# Blocks encoded in one call: a bound on the features that are copied together.
_BLOCKS_AT_ONCE = 16


@dataclass(frozen=True)
class Actor:
    """The model of this worker. `embed` gives input embeddings [n, D] of ids [n]; `capture` chooses the layers behind
    which the residual stream is captured. `fixed`: they cannot change once the worker has started.
    """

    revision: str
    device: torch.device
    dtype: torch.dtype
    width: int
    layers: int
    vocabulary: int
    embed: Callable[[Tensor], Tensor]
    capture: Callable[[list[int]], None]
    fixed: bool


@dataclass
class Work:
    """One request's own: what was ordered, the ids as they were sent, the rows to inject, and what is collected.

    `ids` is what the prefix cache sees: ids that stand for rows in the rows' places. No token from `limit` on may come
    from the cache. `stop`: how much of the prompt has to be read.
    """

    order: Order
    sent: array[int]
    ids: array[int]
    stop: int
    limit: int | None = None
    rows: Tensor | None = None
    places: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    job: StatesJob | EncodeJob | None = None
    encoding_ms: float = 0.0
    error: str | None = None
    reported: bool = False


@dataclass
class _Recording:
    """A running request whose features are kept: those of tokens [start, start + len(pending)) wait to be stored."""

    keys: PrefixKeys = field(default_factory=PrefixKeys)
    start: int = 0
    pending: list[Tensor] = field(default_factory=list)

    def drop(self, start: int) -> None:
        """Forget what waits, and go on at another token."""
        self.start, self.pending = start, []


class Worker:
    """Admits requests, injects their rows, and takes what the actor reads. Single-threaded, as a scheduler is.

    `first`: whether this is the rank that writes answers. `agree`: whether all ranks that share the actor say yes;
    each of them must ask. `seeds`: whether seeds decide draws here.
    """

    def __init__(self, actor: Actor, *, first: bool, agree: Callable[[bool], bool], seeds: bool) -> None:
        self.actor = actor
        self._first, self._agree, self._seeds = first, agree, seeds
        folder = os.environ.get("REMORY_EXCHANGE")
        self._exchange = Exchange(Path(folder) if folder else None)
        self._rows = RecentRows(self._exchange, actor.device, actor.dtype, _ROW_BYTES)
        self._row_ids = RowIds()
        self._networks: OrderedDict[str, Checkpoint] = OrderedDict()
        self._captured: tuple[int, ...] = ()
        live_bytes = int(os.environ.get("REMORY_LIVE_BYTES") or 0)
        self._live = LiveStore(live_bytes) if live_bytes else None
        # Weakly: a request that ends in whatever way takes along what waits of it.
        self._recordings: WeakKeyDictionary[Any, _Recording] = WeakKeyDictionary()
        self._context_length = 0
        self._started = False
        if chosen := os.environ.get("REMORY_CHECKPOINT"):
            self._network(chosen, None)
        self._started = True

    def admit(self, text: Any, sent: array[int], context_length: int) -> Work:
        """Take up an order for a prompt, in a worker that takes prompts and answers of so many tokens.

        Raises RemoryError for one that cannot be done; nothing is left then.
        """
        self._context_length = context_length
        problem: RemoryError | None = None
        work: Work | None = None
        try:
            work = self._taken_up(Order.load(text), sent)
        except RemoryError as error:
            problem = error
        except Exception as error:
            log.error("an order could not be taken up", exc_info=error)
            problem = EngineFailed(f"the worker failed: {type(error).__name__}")
        # Ranks that read different prompts of one request would wait for each other for ever.
        if not self._agree(work is not None) and problem is None:
            problem = EngineFailed("another rank could not take up the order")
        if problem is not None:
            raise problem
        assert work is not None
        return work

    def _taken_up(self, order: Order, sent: array[int]) -> Work:
        order.check_length(len(sent))
        if order.revision not in (None, self.actor.revision):
            raise EngineFailed(f"the order is for actor {order.revision[:12]}…, this is {self.actor.revision[:12]}…")
        work = Work(order, sent, sent, len(sent))
        if order.injection is not None:
            work.rows = self._checked_rows(order)
            work.places = np.asarray(places_of(order.injection.runs), dtype=np.int64)
            ids = np.array(sent, dtype=np.int64)
            ids[work.places] = np.asarray(self._row_ids.of(order.injection.rows))
            work.ids = array("q", ids.tobytes())
        if order.states is not None:
            work.job, work.limit = StatesJob(order.states.first), order.states.first
        if order.encode is not None:
            work.job = self._encode_job(order.encode, work)
            self._use_live(work, work.job, order.encode)
        return work

    def injected(self, work: Work, start: int, stop: int) -> tuple[np.ndarray, Tensor] | None:
        """The places in [start, stop) of a prompt that rows replace, and these rows [n, D]; None if there are none."""
        if work.rows is None:
            return None
        first, last = np.searchsorted(work.places, (start, stop))
        return None if first == last else (work.places[first:last], work.rows[first:last])

    def take(
        self, requests: Sequence[tuple[Any, Work | None, int, int]], final: Tensor, layers: Sequence[Tensor]
    ) -> None:
        """Take what the actor has read of a batch: for each request (the request, its work if it has any, and the
        tokens [start, stop) of it that were read), one behind another in `final` [T, D] and in `layers`, the residual
        stream [T, D] behind each captured layer.
        """
        by_layer = dict(zip(self._captured, layers, strict=False))
        offset, working = 0, []
        for request, work, start, stop in requests:
            chunk = Chunk(start, stop, offset, final, by_layer)
            offset += stop - start
            if work is not None and work.job is not None and work.error is None:
                with _failing(work):
                    work.job.take(chunk)
                working.append(work)
            if self._live is not None and by_layer:
                with _failing():
                    self._record(request, chunk, list(layers))
        self._encode(working)

    def finish(self, request: Any, work: Work | None, tokens: int, answered: bool) -> str | None:
        """A request has ended with so many tokens that count: its report's JSON, if it was asked for something."""
        if self._live is not None:
            with _failing():
                self._store(request)
        if work is None or work.reported:
            return None
        work.reported = True
        if work.order.greeting:
            return Report(greeting=self._greeting()).dump()
        if work.job is None or not answered:
            return None
        with _failing(work):
            return self._report(work, tokens).dump()
        return Report(error=work.error).dump()

    def _checked_rows(self, order: Order) -> Tensor:
        assert order.injection is not None
        if order.injection.rows.width != self.actor.width:
            raise InvalidInput(f"rows are {order.injection.rows.width} wide, the actor is {self.actor.width}")
        return self._rows.get(order.injection.rows)

    def _encode_job(self, order: Encode, work: Work) -> EncodeJob:
        checkpoint = self._network(order.checkpoint, order.digest)
        network = checkpoint.network
        if network.geometry.summary_conditioned != (order.summary is not None):
            raise InvalidInput("a summary's states are needed exactly when the network is conditioned on one")
        if order.summary is not None and order.summary.width != self.actor.width:
            raise InvalidInput(f"the summary's states are {order.summary.width} wide, the actor is {self.actor.width}")
        longest = max(stop - start for start, stop, _ in order.leaves)
        if longest > network.geometry.block_tokens:
            raise InvalidInput(f"a block holds {network.geometry.block_tokens} tokens, a leaf has {longest}")
        summary = None if order.summary is None else self._rows.get(order.summary)
        ids = np.array(work.sent, dtype=np.int64)
        ids[work.places] = -1
        work.limit = order.first
        # Of the prompt's own parts: a job that held its work would keep it from being freed.
        embed = partial(self._embed, np.array(work.sent, dtype=np.int64), work.rows, work.places)
        return EncodeJob(order, network, checkpoint.layer_ids, summary, ids, embed)

    def _embed(self, sent: np.ndarray, rows: Tensor | None, row_places: np.ndarray, places: np.ndarray) -> Tensor:
        """Input embeddings [n, D] at places of a prompt, its rows among them."""
        ids = torch.from_numpy(sent[places]).to(self.actor.device)
        embeddings = self.actor.embed(ids).to(self.actor.dtype)
        if rows is not None:
            # Where each row stands among these places, if it does.
            found = np.searchsorted(places, row_places)
            inside = (found < len(places)) & (places[np.minimum(found, len(places) - 1)] == row_places)
            if inside.any():
                chosen = rows[torch.from_numpy(inside).to(self.actor.device)]
                ops.inject(embeddings, chosen, torch.from_numpy(found[inside]).to(self.actor.device))
        return embeddings

    def _network(self, folder: str, digest: str | None) -> Checkpoint:
        """A checkpoint's network, ready to run here. Raises CheckpointError."""
        key = digest or ""
        if key not in self._networks:
            checkpoint = load_checkpoint(folder, self.actor.device, self.actor.dtype)
            stated = checkpoint.manifest["safetensors_sha256"]
            if digest is not None and stated != digest:
                raise CheckpointError(f"the checkpoint's weights are {stated[:12]}… here and {digest[:12]}… there")
            checkpoint.check_actor(width=self.actor.width, layers=self.actor.layers, vocabulary=self.actor.vocabulary)
            self._capture(checkpoint)
            checkpoint.network.eval().requires_grad_(False)
            self._networks[stated] = checkpoint
            key = stated
            while len(self._networks) > _NETWORKS:
                self._networks.popitem(last=False)
        self._networks.move_to_end(key)
        return self._networks[key]

    def _capture(self, checkpoint: Checkpoint) -> None:
        """Capture the layers of this checkpoint too."""
        wanted = tuple(sorted({*self._captured, *checkpoint.layer_ids}))
        if wanted == self._captured:
            return
        if self.actor.fixed and self._started:
            raise CheckpointError(
                f"checkpoint {checkpoint.name} reads the layers {list(checkpoint.layer_ids)}; this worker captures "
                f"{list(self._captured)}, which cannot change once its graphs are made: start it with this checkpoint"
            )
        self.actor.capture(list(wanted))
        self._captured = wanted
        if self._live is not None:
            self._live.clear()
            self._recordings.clear()

    def _use_live(self, work: Work, job: EncodeJob, order: Encode) -> None:
        """Take the features that were kept when the session ran, and read only between the first and last that are
        missing. One token is read where nothing is.
        """
        work.stop = int(job.places[-1]) + 1
        if self._live is not None:
            for request in list(self._recordings):
                with _failing():
                    self._store(request)
            keys = PrefixKeys()
            keys.extend(work.ids[: work.stop])
            wanted = [keys[int(place)] for place in job.places]
            known = np.asarray(self._live.known(wanted), dtype=bool)
            if known.any():
                features = self._live.read([key for key, there in zip(wanted, known, strict=True) if there])
                job.fill(known, features, self._captured)
            if known.all():
                work.stop = 1
            else:
                unknown = job.places[~known]
                work.limit, work.stop = max(order.first, int(unknown[0])), int(unknown[-1]) + 1
        work.ids = work.ids[: work.stop]

    def _record(self, request: Any, chunk: Chunk, layers: list[Tensor]) -> None:
        """Keep the features of a chunk."""
        rows = slice(chunk.offset, chunk.offset + chunk.stop - chunk.start)
        features = torch.cat([layer[rows] for layer in layers], dim=-1)
        recording = self._recordings.setdefault(request, _Recording(start=chunk.start))
        if recording.start + len(recording.pending) != chunk.start:
            # It was put back and is read again from an earlier token, or something went by that was not captured.
            self._store(request)
            recording.drop(chunk.start)
        recording.pending += features.unbind()
        if len(recording.pending) >= _TOKENS_AT_ONCE:
            self._store(request)

    def _store(self, request: Any) -> None:
        """Store what waits of a request, as far as its ids are known."""
        assert self._live is not None
        recording = self._recordings.get(request)
        if recording is None:
            return
        stop = min(recording.start + len(recording.pending), len(request.origin_input_ids) + len(request.output_ids))
        if stop <= recording.start:
            return
        start, waiting = recording.start, recording.pending
        # Dropped first: what cannot be stored must not be tried again with every token.
        recording.start, recording.pending = stop, waiting[stop - start :]
        recording.keys.extend(_ids(request, len(recording.keys), stop))
        self._live.record(recording.keys[start:stop], torch.stack(waiting[: stop - start]))

    def _encode(self, working: Iterable[Work]) -> None:
        """Encode every block that is complete, those of one network together, whichever requests they are of."""
        ready: dict[int, list[tuple[Work, EncodeJob, Block]]] = {}
        for work in working:
            if isinstance(work.job, EncodeJob) and work.error is None:
                group = ready.setdefault(id(work.job.network), [])
                group += [(work, work.job, block) for block in work.job.ready()]
        for group in ready.values():
            for first in range(0, len(group), _BLOCKS_AT_ONCE):
                self._encode_together(group[first : first + _BLOCKS_AT_ONCE])

    def _encode_together(self, group: Sequence[tuple[Work, EncodeJob, Block]]) -> None:
        began = time.perf_counter()
        # All ranks must do this together; the network is run by the one that answers.
        embedded = [job.embeddings(block) for _, job, block in group]
        if not self._first:
            for _, _, block in group:
                block.close(torch.empty(0, 0))
            return
        try:
            encode_blocks([(job, block) for _, job, block in group], embedded)
        except Exception as error:
            if len(group) > 1:
                log.warning("%d blocks could not be encoded together: %s", len(group), type(error).__name__)
            for (work, job, block), own in zip(group, embedded, strict=True):
                with _failing(work):
                    encode_blocks([(job, block)], [own])
        share = (time.perf_counter() - began) * 1000 / len(group)
        for work, _, _ in group:
            work.encoding_ms += share

    def _report(self, work: Work, tokens: int) -> Report:
        if work.error is not None:
            return Report(error=work.error)
        try:
            if isinstance(work.job, StatesJob):
                states = work.job.result(tokens)
                return Report(blob=self._exchange.put(states, inline=work.order.inline) if self._first else None)
            assert isinstance(work.job, EncodeJob)
            rows = work.job.result()
            if not self._first:
                return Report()
            return Report(
                blob=self._exchange.put(rows, inline=work.order.inline),
                features={"live": work.job.live_tokens, "prefill": len(work.job.places) - work.job.live_tokens},
                timings_ms={"encode": work.encoding_ms},
            )
        except RemoryError as error:
            return Report(error=str(error))

    def _greeting(self) -> Greeting:
        actor, folder = self.actor, self._exchange.folder
        return Greeting(
            revision=actor.revision,
            dtype=str(actor.dtype).removeprefix("torch."),
            device=str(actor.device),
            width=actor.width,
            layers=actor.layers,
            vocabulary=actor.vocabulary,
            context_length=self._context_length,
            seeds=self._seeds,
            exchange=None if folder is None else str(folder),
            captured=self._captured if actor.fixed else None,
        )


def _ids(request: Any, start: int, stop: int) -> list[int]:
    """The ids [start, stop) of a request, as the prefix cache knows them."""
    prompt = len(request.origin_input_ids)
    asked = request.origin_input_ids[start : min(stop, prompt)]
    said = request.output_ids[max(start - prompt, 0) : max(stop - prompt, 0)]
    return [*asked, *said]


@contextmanager
def _failing(*works: Work) -> Iterator[None]:
    """Let what goes wrong inside end these requests alone: their neighbours in the batch must go on."""
    try:
        yield
    except RemoryError as error:
        for work in works:
            work.error = str(error)
    except Exception as error:
        log.error("a request of Remory failed", exc_info=error)
        for work in works:
            work.error = f"the worker failed: {type(error).__name__}"

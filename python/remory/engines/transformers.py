"""The embedded engine: one actor in this process, run by Transformers on a CPU or a GPU."""

from __future__ import annotations

import copy
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remory import actors
from remory.engines.actor_model import ActorModel
from remory.engines.base import (
    EncodeRequest,
    EncodeResult,
    Engine,
    GenerationOutput,
    GenerationRequest,
    Source,
)
from remory.engines.checks import Grammars, check_checkpoint, check_encode, check_source
from remory.engines.detokenizer import Detokenizer
from remory.engines.encoding import Encoding, Prepared
from remory.engines.kv import KVState
from remory.engines.prefix_cache import PrefixCache, chunk_keys, chunk_spans
from remory.engines.sampling import Constraint, Sampler
from remory.engines.scheduler import Scheduler
from remory.errors import EngineFailed, InvalidInput
from remory.network import Checkpoint

_CHUNK = 256
_RESERVED_TOKENS = 256
_LOGPROB_ROWS = 64
_NEWS_SECONDS = 0.2


class TransformersEngine(Engine):
    """Runs an actor folder, and memory networks on its hidden states: that of `checkpoint`, or others when prepared.

    Requests take turns on one thread (see `scheduler`), each at batch size 1. `cache_bytes` bounds the attention
    state kept for prompts that begin alike; 0 keeps none. `max_context` lowers the actor's own limit (tokens).
    Raises InvalidInput for an actor that cannot run here, CheckpointError for a checkpoint of another width.
    """

    def __init__(
        self,
        folder: Path,
        checkpoint: Checkpoint | None = None,
        device: str = "cpu",
        dtype: torch.dtype | None = None,
        cache_bytes: int = 1 << 30,
        max_context: int | None = None,
    ) -> None:
        self._model = ActorModel(folder, device, dtype, max_context)
        self.actor = self._model.info
        self.tokenizer = actors.load_tokenizer(folder)
        self._first: tuple[Checkpoint, Prepared] | None = None
        if checkpoint is not None:
            self._first = checkpoint, self.prepare(checkpoint)
        self._cache = PrefixCache(cache_bytes)
        self._cache_seed = f"{self.actor.revision}:{self.actor.dtype}"
        self._scheduler = Scheduler()
        self._grammars = Grammars(self.tokenizer, self.actor.vocabulary)
        self._totals = {"prompt_tokens": 0, "cached_tokens": 0, "generated_tokens": 0, "encoded_tokens": 0}

    def generate(self, request: GenerationRequest) -> Iterator[GenerationOutput | None]:
        check_source(self.actor, request.source, request.sampling.max_new_tokens)
        return self._started(request, self._grammars.constraint(request.sampling))

    def check(self, checkpoint: Checkpoint) -> None:
        check_checkpoint(self.actor, checkpoint)

    def prepare(self, checkpoint: Checkpoint) -> Prepared:
        if self._first is not None and self._first[0] is checkpoint:
            return self._first[1]
        self.check(checkpoint)
        # A copy: the caller may train the checkpoint's network, or give it to an engine of another dtype.
        network = copy.deepcopy(checkpoint.network).to(self._model.device, self._model.dtype)
        return Prepared(network.eval().requires_grad_(False), checkpoint.layer_ids)

    def encode(self, request: EncodeRequest, prepared: Prepared | None = None) -> EncodeResult:
        if prepared is None:
            if self._first is None:
                raise InvalidInput("no memory checkpoint is loaded, so nothing can be encoded")
            prepared = self._first[1]
        check_encode(self.actor, request, prepared.network.geometry.slots)
        if request.reads_nothing:
            return EncodeResult(list(request.kept), {}, {})
        result: EncodeResult | None = self._scheduler.submit(self._encoding(request, prepared)).result()
        if result is None:
            raise EngineFailed("the compaction was ended before it was done")
        return result

    def stats(self) -> dict[str, float]:
        running, waiting = self._scheduler.counts()
        return {
            "requests_running": running,
            "requests_waiting": waiting,
            "cache_bytes": self._cache.bytes,
            **{f"{name}_total": value for name, value in self._totals.items()},
        }

    def close(self) -> None:
        self._scheduler.close()
        self._cache.clear()

    def _started(self, request: GenerationRequest, constraint: Constraint | None) -> Iterator[GenerationOutput | None]:
        """Queued when first asked for news, so that an iterator nobody reads starts nothing."""
        yield from self._scheduler.submit(self._generation(request, constraint)).follow(_NEWS_SECONDS)

    def _generation(
        self, request: GenerationRequest, constraint: Constraint | None
    ) -> Generator[GenerationOutput | None, None, None]:
        """One step a chunk of the prompt, then one a token."""
        began = time.perf_counter()
        source, sampling = request.source, request.sampling
        state = self._model.new_state(len(source) + min(sampling.max_new_tokens, _RESERVED_TOKENS))
        needed_from = _needed_from(request)
        cached, states = yield from self._prefill(source, state, needed_from)
        answer = _Answer(request, self.tokenizer, began, cached)
        if request.return_logprob and request.logprob_start_len >= 0:
            first = min(request.logprob_start_len, len(source) - 1)
            yield from self._score_prompt(answer, states[first - needed_from :], first)
        if request.return_hidden_states:
            answer.hidden_states = [states.float().tolist()]
        if sampling.max_new_tokens == 0:
            yield answer.output({"type": "length", "length": 0})
            return
        sampler = Sampler(sampling, self.actor.vocabulary, self._model.device, constraint)
        ends = self._end_ids(request)
        state_now = states[-1:]
        del states
        while True:
            logits = self._model.logits(state_now)[0]
            logprobs = logits.log_softmax(-1) if request.return_logprob else None
            token = sampler.choose(logits)
            self._totals["generated_tokens"] += 1
            answer.add(token, None if logprobs is None else float(logprobs[token]))
            reason = answer.end_reason(ends, sampler.complete)
            yield answer.output(reason)
            if reason:
                return
            state_now = self._model.read(state, self._model.embed_ids(torch.tensor([token])))[0]
            if request.return_hidden_states:
                answer.hidden_states.append(state_now[0].float().tolist())

    def _prefill(self, source: Source, state: KVState, needed_from: int) -> Generator[None, None, tuple[int, Tensor]]:
        """Read the source from the cache as far as it reaches and the rest in chunks.

        Returns the number of tokens that the cache gave and the final states [T - needed_from, D].
        """
        spans = list(chunk_spans(len(source), source.cuts, _CHUNK))
        keys = chunk_keys(source, spans, self._cache_seed)
        usable = sum(stop <= needed_from for _, stop in spans)
        for piece in self._cache.match(keys[:usable]):
            state.append(piece)
        cached = state.length
        self._totals["prompt_tokens"] += len(source)
        self._totals["cached_tokens"] += cached
        needed: list[Tensor] = []
        for (start, stop), key in zip(spans, keys, strict=True):
            if stop <= cached:
                continue
            states = self._model.read(state, self._model.embed(source, start, stop))[0]
            if stop > needed_from:
                needed.append(states[max(needed_from - start, 0) :])
            # The last chunk of a prompt is shorter than the same place in a longer prompt, so it is not kept.
            if self._cache.limit_bytes and (stop - start == _CHUNK or stop in source.cuts):
                self._cache.insert(key, state.copy_out(start, stop), keys[: keys.index(key)])
            yield
        self._cache.match(keys)
        return cached, torch.cat(needed) if needed else torch.empty(0, self.actor.width)

    def _score_prompt(self, answer: _Answer, states: Tensor, first: int) -> Generator[None, None, None]:
        """Log-probabilities of the prompt's tokens behind `first`, as SGLang gives them: the first one is null."""
        ids = answer.request.source.ids[first:]
        answer.input_logprobs = [[None, int(ids[0]), None]]
        for start in range(0, len(ids) - 1, _LOGPROB_ROWS):
            stop = min(start + _LOGPROB_ROWS, len(ids) - 1)
            logprobs = self._model.logits(states[start:stop]).log_softmax(-1)
            targets = ids[start + 1 : stop + 1].to(logprobs.device)
            chosen = logprobs.gather(1, targets[:, None])[:, 0].tolist()
            answer.input_logprobs += [
                [value, token, None] for value, token in zip(chosen, targets.tolist(), strict=True)
            ]
            yield

    def _encoding(self, request: EncodeRequest, prepared: Prepared) -> Generator[None, None, EncodeResult]:
        prefix = Source(request.prefix_ids, cuts=(len(request.prefix_ids),))
        passes = max(len(request.context), 0 if request.summary_ids is None else len(request.summary_ids))
        state = self._model.new_state(len(prefix) + passes)
        yield from self._prefill(prefix, state, len(prefix))
        encoding = Encoding(self._model, prepared, state, request)
        nodes = yield from encoding.steps()
        self._totals["encoded_tokens"] += len(request.positions)
        features = {"prefill": len(request.positions)} if request.leaves else {}
        return EncodeResult(nodes, encoding.timings_ms, features)

    def _end_ids(self, request: GenerationRequest) -> frozenset[int]:
        stops = frozenset(request.sampling.stop_token_ids)
        return stops if request.sampling.ignore_eos else stops | self._model.end_ids


class _Answer:
    """What one generation has said so far."""

    def __init__(self, request: GenerationRequest, tokenizer: Any, began: float, cached: int) -> None:
        self.request = request
        self.ids: list[int] = []
        self.input_logprobs: list[list[Any]] = []
        self.output_logprobs: list[list[Any]] = []
        self.hidden_states: list[Any] = []
        self._detokenizer = Detokenizer(tokenizer, request.sampling.stop)
        self._began = began
        self._cached = cached

    def add(self, token: int, logprob: float | None) -> None:
        self.ids.append(token)
        self.output_logprobs.append([logprob, token, None])

    def end_reason(self, ends: frozenset[int], complete: bool) -> dict[str, Any] | None:
        """Why the answer ends with its newest token, or None. The token that ends it is not part of the text."""
        token = self.ids[-1]
        if token in ends:
            return {"type": "stop", "matched": token}
        self._detokenizer.push(token)
        if self._detokenizer.matched is not None:
            return {"type": "stop", "matched": self._detokenizer.matched}
        if complete:
            return {"type": "stop", "matched": None}
        if len(self.ids) >= self.request.sampling.max_new_tokens:
            return {"type": "length", "length": len(self.ids)}
        return None

    def output(self, reason: dict[str, Any] | None) -> GenerationOutput:
        request = self.request
        return GenerationOutput(
            text=self._detokenizer.finish() if reason else self._detokenizer.text,
            output_ids=list(self.ids),
            prompt_tokens=len(request.source),
            completion_tokens=len(self.ids),
            cached_tokens=self._cached,
            finish_reason=reason,
            input_token_logprobs=self.input_logprobs if request.return_logprob else None,
            output_token_logprobs=list(self.output_logprobs) if request.return_logprob else None,
            hidden_states=self.hidden_states if request.return_hidden_states and reason else None,
            e2e_latency=time.perf_counter() - self._began,
        )


def _needed_from(request: GenerationRequest) -> int:
    """The first position whose final state is asked for."""
    last = len(request.source) - 1
    if request.return_hidden_states:
        return 0
    if request.return_logprob and request.logprob_start_len >= 0:
        return min(request.logprob_start_len, last)
    return last

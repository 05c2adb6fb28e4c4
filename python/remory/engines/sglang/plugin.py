"""The plug-in that SGLang 0.5.23 loads in each of its processes by the entry point `sglang.srt.plugins`.

Its hooks leave SGLang's code as it is; what is done in them is told in `worker`. A request without
`custom_params["remory"]` is served as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from remory import actors
from remory.engines.sglang.protocol import KEY, Report
from remory.engines.sglang.worker import Actor, Work, Worker
from remory.errors import EngineFailed, RemoryError

log = logging.getLogger(__name__)

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler"
_BATCH = "sglang.srt.managers.schedule_batch"
_STREAMER = "sglang.srt.managers.scheduler_components.output_streamer.SchedulerOutputStreamer"
_RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"
_FORWARD = "sglang.srt.model_executor.forward_batch_info.ForwardBatch"
_LOGITS = "sglang.srt.layers.logits_processor.LogitsProcessor"
_SAMPLING = "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo"
_GRAMMAR = "sglang.srt.constrained.base_grammar_backend.BaseGrammarBackend"
_FILTERS = "sglang.srt.layers.sampler.top_k_top_p_min_p_sampling_from_probs_torch"
# Sampling backends in which a seed decides a request's draws.
_SEEDED = ("pytorch",)
# The most grammars that a worker keeps.
_GRAMMARS = 256

_worker: Worker | None = None
_reading: dict[str, Any] = {}
_requests = 0


def register() -> None:
    """Hook Remory into SGLang. Called by SGLang in each process; hooks whose part never runs there do nothing."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target, (hook, kind) in _HOOKS.items():
        HookRegistry.register(target, hook, HookType[kind])


def _check_hooks() -> None:
    """SGLang only logs what it could not hook: without one of them rows would go astray."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    missing = [target for target in _HOOKS if target not in HookRegistry._patched]
    if missing:
        raise EngineFailed(f"this SGLang is not the version that Remory's plug-in is for: it has no {missing[0]}")


def _model_loaded(_result: Any, runner: Any, *_: Any, **__: Any) -> None:
    """The weights are there, and no graph has been made: choose what is captured."""
    global _worker
    if runner.is_draft_worker:
        return
    from sglang.srt.runtime_context import get_parallel

    _check_hooks()
    parallel = get_parallel()
    agree = _agreement(parallel.tp_group.cpu_group) if parallel.tp_size > 1 else bool
    _worker = Worker(_actor(runner), first=parallel.tp_rank == 0, agree=agree, seeds=_honours_seeds())


def _agreement(ranks: Any) -> Callable[[bool], bool]:
    """Whether all of the ranks that share the actor say yes."""

    def agree(yes: bool) -> bool:
        votes = torch.tensor([int(yes)])
        torch.distributed.all_reduce(votes, op=torch.distributed.ReduceOp.MIN, group=ranks)
        return bool(votes)

    return agree


def _actor(runner: Any) -> Actor:
    config = runner.model_config
    folder = Path(config.model_path)
    embedding = runner.model.get_input_embeddings()
    return Actor(
        revision=actors.actor_revision(folder),
        device=torch.device(runner.device if runner.device == "cpu" else f"{runner.device}:{runner.gpu_id}"),
        dtype=config.dtype,
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        vocabulary=config.vocab_size,
        embed=embedding,
        capture=_capturing(runner.model),
        fixed=runner.device != "cpu",
    )


def _capturing(model: Any) -> Callable[[list[int]], None]:
    """What chooses the layers whose output a model gives beside its own; SGLang has it for its draft models."""
    if not hasattr(model, "set_eagle3_layers_to_capture"):
        raise EngineFailed(f"SGLang's {type(model).__name__} does not give the states of its layers")
    return model.set_eagle3_layers_to_capture


def _honours_seeds() -> bool:
    from sglang.srt.runtime_context import get_exec

    return get_exec().kernel.sampling_backend in _SEEDED


def _request_made(request: Any, scheduler: Any, received: Any, *_: Any, **__: Any) -> None:
    """A request has come: take up what it orders, or let it end with the reason why that cannot be done."""
    global _requests
    _requests += 1
    request.remory = None
    sampling = request.sampling_params
    if sampling.sampling_seed is None:
        # Where one request of a batch has a seed all have one: an own one, or unseeded answers would all be alike; and
        # one that is the same on all ranks, which get the same requests in the same order.
        sampling.sampling_seed = _seed(f"{request.rid}:{_requests}")
    text = (sampling.custom_params or {}).get(KEY)
    if text is None or _worker is None:
        return
    try:
        # SGLang refuses a prompt of that length, too.
        work = _worker.admit(text, request.origin_input_ids, scheduler.max_req_input_len - 1)
    except RemoryError as error:
        received.return_logprob, received.logprob_start_len = False, -1
        request.set_finish_with_abort(str(error))
        return
    request.remory = work
    if work.job is None:
        # Told with the first token: who sent rows must know that somebody has put them in their places.
        request.customized_info = {KEY: [Report().dump()]}
    request.origin_input_ids = work.ids
    request.origin_input_ids_unpadded = work.sent[: len(work.ids)]


def _seed(text: str) -> int:
    """A negative seed: those that clients give are not."""
    return -1 - (int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 2)


def _prefix_limited(longest: int, request: Any, *_: Any, **__: Any) -> int:
    """How much of a prompt may come from the prefix cache."""
    work: Work | None = getattr(request, "remory", None)
    return longest if work is None or work.limit is None else min(longest, work.limit)


def _extend_prepared(original: Any, batch: Any, *arguments: Any, **named: Any) -> None:
    """Put rows in their places in what is about to be read, and ordinary ids where others stood for them."""
    # Log-probabilities are of the ids that were sent.
    with _sent_ids(batch) as with_rows:
        original(batch, *arguments, **named)
    if with_rows and _worker is not None:
        _inject(batch, _worker)


def _penalties_counted(original: Any, batch: Any, *arguments: Any, **named: Any) -> Any:
    """Before a request has said anything the last id of its prompt is counted, which must be one that there is."""
    with _sent_ids(batch):
        return original(batch, *arguments, **named)


@contextmanager
def _sent_ids(batch: Any) -> Iterator[list[Any]]:
    """The requests of a batch that have rows; inside, their prompts are as they were sent."""
    with_rows = [request for request in batch.reqs if (work := _work_of(request)) and work.rows is not None]
    virtual = [request.origin_input_ids for request in with_rows]
    for request in with_rows:
        request.origin_input_ids = request.origin_input_ids_unpadded
    try:
        yield with_rows
    finally:
        for request, ids in zip(with_rows, virtual, strict=True):
            request.origin_input_ids = ids


def _inject(batch: Any, worker: Worker) -> None:
    positions: list[torch.Tensor] = []
    rows: list[torch.Tensor] = []
    offset = 0
    for request in batch.reqs:
        work, start, stop = _work_of(request), request.prefix_len, request.extend_end
        found = None if work is None else worker.injected(work, start, stop)
        if found is not None and work is not None:
            places, chosen = found
            flat = torch.from_numpy(places) - start + offset
            batch.prefill_input_ids_cpu[flat] = torch.tensor([work.sent[int(place)] for place in places])
            positions.append(flat)
            rows.append(chosen)
        offset += stop - start
    if rows:
        if batch.replace_embeds is not None:
            positions.append(batch.replace_positions.cpu())
            rows.append(batch.replace_embeds)
        batch.replace_embeds = torch.cat(rows)
        batch.replace_positions = torch.cat(positions).to(batch.device)


def _forward_begun(_forward: Any, _class: Any, batch: Any, *_: Any, **__: Any) -> None:
    """Remember the requests of what is read next: the runners copy that object, which keeps only their names."""
    global _reading
    _reading = {request.rid: request for request in batch.reqs}


def _states_read(
    original: Any,
    processor: Any,
    input_ids: Any,
    hidden_states: Any,
    lm_head: Any,
    metadata: Any,
    aux_hidden_states: Any = None,
    *arguments: Any,
    **named: Any,
) -> Any:
    """The actor has read a batch: take what is asked for before the logits are made."""
    global _reading
    if _worker is not None and _reading:
        # The boundary: whatever goes wrong with memory must not end the batch.
        try:
            _take(_worker, metadata, hidden_states, aux_hidden_states)
        except Exception:
            log.exception("what was read could not be taken")
        _reading = {}
    return original(processor, input_ids, hidden_states, lm_head, metadata, None, *arguments, **named)


def _take(worker: Worker, metadata: Any, final: torch.Tensor, aux: Any) -> None:
    if metadata.forward_mode.is_decode():
        ends = metadata.seq_lens_cpu.tolist()
        spans = [(end - 1, end) for end in ends]
    elif metadata.forward_mode.is_extend_without_speculative():
        lengths = zip(metadata.extend_prefix_lens_cpu, metadata.extend_seq_lens_cpu, strict=True)
        spans = [(start, start + count) for start, count in lengths]
    else:
        return
    if isinstance(aux, torch.Tensor):
        aux = aux.split(final.shape[-1], dim=-1)
    requests = [_reading[rid] for rid in metadata.rids]
    read = [(request, _work_of(request), start, stop) for request, (start, stop) in zip(requests, spans, strict=True)]
    worker.take(read, final, list(aux or ()))


def _output_due(_streamer: Any, requests: Any, *_: Any, **__: Any) -> None:
    """Some requests have something to say: those that have ended say what was made for them."""
    if _worker is None:
        return
    for request in requests:
        if request.finished():
            # The boundary: a report that cannot be made must not end the scheduler.
            try:
                _tell(_worker, request)
            except Exception:
                log.exception("a request's report could not be made")


def _tell(worker: Worker, request: Any) -> None:
    ended = request.finished_reason.to_json()
    tokens = len(request.origin_input_ids) + max(len(request.output_ids_through_stop) - 1, 0)
    report = worker.finish(request, _work_of(request), tokens, answered=ended["type"] != "abort")
    if report is not None:
        request.customized_info = {**(request.customized_info or {}), KEY: [report]}


def _is_ours(_result: bool, _streamer: Any, key: str) -> bool | None:
    return True if key == KEY else None


def _sampling_made(info: Any, _class: Any, batch: Any, *_: Any, **__: Any) -> None:
    """Let seeds decide draws, without the slower kernels that SGLang's own deterministic mode takes too.

    And by one way of drawing: without filters SGLang draws in the order of the ids, and with those of any request in a
    batch in the order of their probabilities, so that neighbours would decide what a seed means.
    """
    _order_penalties(info.penalizer_orchestrator)
    if info.sampling_seed is None and _honours_seeds():
        info.need_top_k_sampling = True
        seeds = [request.sampling_params.sampling_seed for request in batch.reqs]
        info.sampling_seed = torch.tensor(seeds, dtype=torch.int64).to(batch.device)


def _order_penalties(orchestrator: Any) -> None:
    """What is subtracted comes before what is divided by, as in SGLang's overlapping scheduler.

    Without that it applies penalties in the order of a set of classes, which is another one in every process.
    """
    ordered = sorted(orchestrator.penalizers.items(), key=lambda item: item[1].is_multiplicative)
    orchestrator.penalizers = dict(ordered)


def _draw_due(
    probs: Any, top_ks: Any, top_ps: Any, min_ps: Any, filters: bool, seeds: Any, *arguments: Any, **named: Any
) -> Any:
    """Apply `min_p` here where there are seeds: SGLang's sampler ends its process at both together.

    What is dropped lies below what is kept, so that the other filters choose as if it had been dropped behind them.
    """
    if not filters or seeds is None:
        return None
    least = probs.amax(-1, keepdim=True) * min_ps.view(-1, 1)
    kept = probs.masked_fill(probs < least, 0)
    return (kept, top_ks, top_ps, min_ps, False, seeds, *arguments), named


def _grammar_kept(_result: Any, backend: Any, *_: Any, **__: Any) -> None:
    """Forget the oldest grammars: SGLang keeps each one that any client ever sent."""
    while len(backend.cache) > _GRAMMARS:
        backend.cache.pop(next(iter(backend.cache)))


def _work_of(request: Any) -> Work | None:
    """What Remory does for a request of SGLang's, if anything."""
    return getattr(request, "remory", None)


# By what they hook: the hook and SGLang's name for when it is called.
_HOOKS: dict[str, tuple[Callable[..., Any], str]] = {
    f"{_RUNNER}.load_model": (_model_loaded, "AFTER"),
    f"{_SCHEDULER}._create_generation_req": (_request_made, "AFTER"),
    f"{_BATCH}.Req._compute_max_prefix_len": (_prefix_limited, "AFTER"),
    f"{_BATCH}.ScheduleBatch.prepare_for_extend": (_extend_prepared, "AROUND"),
    f"{_BATCH}.ScheduleBatch.cumulate_penalty_output_tokens": (_penalties_counted, "AROUND"),
    f"{_FORWARD}.init_new": (_forward_begun, "AFTER"),
    f"{_LOGITS}.forward": (_states_read, "AROUND"),
    f"{_STREAMER}.stream_output": (_output_due, "BEFORE"),
    f"{_STREAMER}.is_request_level_customized_info_key": (_is_ours, "AFTER"),
    f"{_SAMPLING}.from_schedule_batch": (_sampling_made, "AFTER"),
    f"{_GRAMMAR}.set_cache": (_grammar_kept, "AFTER"),
    _FILTERS: (_draw_due, "BEFORE"),
}

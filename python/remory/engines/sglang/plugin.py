"""The plug-in that SGLang 0.5.23 loads in each of its processes by the entry point `sglang.srt.plugins`.

Its hooks leave SGLang's code as it is; what is done in them is told in `worker`. A request
without `custom_params["remory"]` is served as ever.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from remory import actors
from remory.engines.sglang.protocol import KEY
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
_FILTERS = "sglang.srt.layers.sampler.top_k_top_p_min_p_sampling_from_probs_torch"
# Sampling backends in which a seed decides a request's draws.
_SEEDED = ("pytorch",)

_worker: Worker | None = None
_reading: dict[str, Any] = {}


def register() -> None:
    """Hook Remory into SGLang. Called by SGLang in each process; hooks whose part never runs there do nothing."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for target, hook, kind in (
        (f"{_RUNNER}.load_model", _model_loaded, HookType.AFTER),
        (f"{_SCHEDULER}._create_generation_req", _request_made, HookType.AFTER),
        (f"{_BATCH}.Req._compute_max_prefix_len", _prefix_limited, HookType.AFTER),
        (f"{_BATCH}.ScheduleBatch.prepare_for_extend", _extend_prepared, HookType.AROUND),
        (f"{_FORWARD}.init_new", _forward_begun, HookType.AFTER),
        (f"{_LOGITS}.forward", _states_read, HookType.AROUND),
        (f"{_STREAMER}.stream_output", _output_due, HookType.BEFORE),
        (f"{_STREAMER}.is_request_level_customized_info_key", _is_ours, HookType.AFTER),
        (f"{_SAMPLING}.from_schedule_batch", _sampling_made, HookType.AFTER),
        (_FILTERS, _draw_due, HookType.BEFORE),
    ):
        HookRegistry.register(target, hook, kind)


def _model_loaded(_result: Any, runner: Any, *_: Any, **__: Any) -> None:
    """The weights are there, and no graph has been made: choose what is captured."""
    global _worker
    if runner.is_draft_worker:
        return
    from sglang.srt.runtime_context import get_parallel

    _worker = Worker(_actor(runner), first=get_parallel().tp_rank == 0, seeds=_honours_seeds())


def _actor(runner: Any) -> Actor:
    config = runner.model_config
    folder = Path(config.model_path)
    embedding = runner.model.get_input_embeddings()
    return Actor(
        folder=folder,
        revision=actors.actor_revision(folder),
        device=torch.device(runner.device if runner.device == "cpu" else f"{runner.device}:{runner.gpu_id}"),
        dtype=config.dtype,
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        vocabulary=config.vocab_size,
        context_length=config.context_len,
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


def _request_made(request: Any, _scheduler: Any, received: Any, *_: Any, **__: Any) -> None:
    """A request has come: take up what it orders, or let it end with the reason why that cannot be done."""
    request.remory = None
    sampling = request.sampling_params
    if sampling.sampling_seed is None:
        # Where one request of a batch has a seed all have one: an own one, or unseeded answers would all be alike.
        sampling.sampling_seed = -1 - secrets.randbits(62)
    text = (sampling.custom_params or {}).get(KEY)
    if text is None or _worker is None:
        return
    try:
        work = _worker.admit(text, request.origin_input_ids)
    except Exception as error:
        # The boundary: an order of any shape must not end the scheduler.
        if not isinstance(error, RemoryError):
            log.error("an order could not be taken up", exc_info=error)
        received.return_logprob, received.logprob_start_len = False, -1
        request.set_finish_with_abort(str(error) if isinstance(error, RemoryError) else "the worker failed")
        return
    request.remory = work
    request.origin_input_ids = work.ids
    request.origin_input_ids_unpadded = work.sent[: len(work.ids)]


def _prefix_limited(longest: int, request: Any, *_: Any, **__: Any) -> int:
    """How much of a prompt may come from the prefix cache."""
    work: Work | None = getattr(request, "remory", None)
    return longest if work is None or work.limit is None else min(longest, work.limit)


def _extend_prepared(original: Any, batch: Any, *arguments: Any, **named: Any) -> None:
    """Put rows in their places in what is about to be read, and ordinary ids where others stood for them."""
    with_rows = [request for request in batch.reqs if (work := _work_of(request)) and work.rows is not None]
    virtual = [request.origin_input_ids for request in with_rows]
    for request in with_rows:
        # Log-probabilities are of the ids that were sent.
        request.origin_input_ids = request.origin_input_ids_unpadded
    try:
        original(batch, *arguments, **named)
    finally:
        for request, ids in zip(with_rows, virtual, strict=True):
            request.origin_input_ids = ids
    if with_rows and _worker is not None:
        _inject(batch, _worker)


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
    if _worker is not None and _reading:
        # The boundary: whatever goes wrong with memory must not end the batch.
        try:
            _take(_worker, metadata, hidden_states, aux_hidden_states)
        except Exception:
            log.exception("what was read could not be taken")
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
            _tell(_worker, request)


def _tell(worker: Worker, request: Any) -> None:
    ended = request.finished_reason.to_json()
    tokens = len(request.origin_input_ids) + max(len(request.output_ids_through_stop) - 1, 0)
    report = worker.finish(request, _work_of(request), tokens, answered=ended["type"] != "abort")
    if report is not None:
        request.customized_info = {**(request.customized_info or {}), KEY: [report]}


def _is_ours(_result: bool, _streamer: Any, key: str) -> bool | None:
    return True if key == KEY else None


def _sampling_made(info: Any, _class: Any, batch: Any, *_: Any, **__: Any) -> None:
    """Let seeds decide draws, without the slower kernels that SGLang's own deterministic mode takes too."""
    if info.sampling_seed is None and _honours_seeds():
        seeds = [request.sampling_params.sampling_seed for request in batch.reqs]
        info.sampling_seed = torch.tensor(seeds, dtype=torch.int64).to(batch.device)


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


def _work_of(request: Any) -> Work | None:
    """What Remory does for a request of SGLang's, if anything."""
    return getattr(request, "remory", None)

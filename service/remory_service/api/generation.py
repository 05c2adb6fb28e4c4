"""Generation between HTTP and the engine: bodies become requests, outputs become SGLang's answers."""

from __future__ import annotations

import socket
import threading
import time
import uuid
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import torch

from remory.engines.base import Engine, GenerationOutput, GenerationRequest, SamplingParams, Source
from remory_service.api.bodies import GenerateBody, Sampling
from remory_service.errors import BadRequest, ClientGone, Unavailable
from remory_service.runtime import Runtime

_LOOK_SECONDS = 0.2
# The engine runs a limited number of sequences at once: one request must not take all the places.
_AT_ONCE = 4
_SAMPLING_FIELDS = {item.name for item in fields(SamplingParams)}

Indexed = tuple[int, GenerationOutput]
Outputs = Generator[GenerationOutput | None]


@dataclass(frozen=True)
class Job:
    """One sequence to generate, under the name that its answer carries. `told`: what else its meta_info tells."""

    rid: str
    request: GenerationRequest
    told: dict[str, Any] = field(default_factory=dict)


class Watch:
    """Looks now and then whether work is still wanted: the client is there and the server goes on."""

    def __init__(self, runtime: Runtime, environ: dict[str, Any]):
        self._runtime = runtime
        self._socket: socket.socket | None = environ.get("gunicorn.socket")
        self._next_look = 0.0

    def check(self) -> None:
        """Raises ClientGone or Unavailable. Cheap enough for every token: it looks every 0.2 s at most."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_SECONDS
        if self._runtime.stopping:
            raise Unavailable("the server is stopping")
        if self._socket is not None and _is_closed(self._socket):
            raise ClientGone("the client hung up")


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed: there is an end to read, and nothing is taken from what it may have sent."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def check_ids(name: str, ids: Sequence[int], vocabulary: int) -> torch.Tensor:
    """Token ids as int64 [N]. Raises BadRequest when there are none, or some are no tokens of the actor."""
    if not ids:
        raise BadRequest(f"{name} must not be empty")
    if min(ids) < 0 or max(ids) >= vocabulary:
        at = next(index for index, token in enumerate(ids) if not 0 <= token < vocabulary)
        raise BadRequest(f"{name}[{at}] is {_shown(ids[at])}, outside the vocabulary [0, {vocabulary})")
    return torch.tensor(ids, dtype=torch.int64)


def sampling_params(body: Sampling) -> SamplingParams:
    """What the engine takes, with its defaults for what is absent."""
    given = {name: value for name, value in body.model_dump().items() if value is not None and name in _SAMPLING_FIELDS}
    if "stop" in given:
        given["stop"] = (given["stop"],) if isinstance(given["stop"], str) else tuple(given["stop"])
    if "stop_token_ids" in given:
        given["stop_token_ids"] = tuple(given["stop_token_ids"])
    return SamplingParams(**given)


def prompts(body: GenerateBody, engine: Engine) -> list[Source]:
    """The prompts of a request without a handle. Raises BadRequest."""
    if (body.text is None) == (body.input_ids is None):
        raise BadRequest("give either text or input_ids")
    if body.text is None:
        name, many = "input_ids", listed_ids(body)
    else:
        texts = [body.text] if isinstance(body.text, str) else body.text
        name, many = "tokens of text", [engine.tokenizer.encode(text) for text in texts]
    batch = is_batch(body)
    return [
        Source(check_ids(f"{name}[{index}]" if batch else name, ids, engine.actor.vocabulary))
        for index, ids in enumerate(many)
    ]


def is_batch(body: GenerateBody) -> bool:
    """Whether the body is a list of prompts, whose answer is a list."""
    return isinstance(body.text, list) or isinstance(next(iter(body.input_ids or ()), None), list)


def listed_ids(body: GenerateBody) -> list[list[int]]:
    """`input_ids` as a list of prompts, whichever form it was sent in."""
    return cast("list[list[int]]", body.input_ids if is_batch(body) else [body.input_ids])


def jobs_of(body: GenerateBody, sources: Sequence[Source], limit: int, told: dict[str, Any]) -> list[Job]:
    """One job for every sequence: `n` for each prompt, prompt after prompt; `told` goes into the meta_info of all.
    Raises BadRequest.
    """
    count = len(sources)
    if not count:
        raise BadRequest("the list of prompts must not be empty")
    sampling = _for_each("sampling_params", body.sampling_params or Sampling(), count)
    starts = _for_each("logprob_start_len", -1 if body.logprob_start_len is None else body.logprob_start_len, count)
    if (size := sum(item.n or 1 for item in sampling)) > limit:
        raise BadRequest(f"a request may have {limit} sequences, this one has {size}")
    jobs: list[Job] = []
    for source, item, start, rid in zip(sources, sampling, starts, _rids(body.rid, count), strict=True):
        request = GenerationRequest(
            source=source,
            sampling=sampling_params(item),
            return_logprob=body.return_logprob,
            logprob_start_len=start,
            return_hidden_states=body.return_hidden_states,
        )
        jobs += _copies(Job(rid, request, told), item.n or 1)
    return jobs


def follow(engine: Engine, requests: Sequence[GenerationRequest], watch: Watch) -> Generator[Indexed]:
    """Outputs of all sequences as they come, each with its sequence's index.

    Closing it, or an error in any of them, stops all. All are checked before the first output.
    """
    running: list[Outputs] = []
    try:
        for request in requests:
            running.append(cast(Outputs, engine.generate(request)))
        if len(running) == 1:
            yield from _watched(running[0], watch)
        else:
            yield from _merged(running, watch)
    finally:
        for outputs in running:
            outputs.close()


def last_outputs(outputs: Generator[Indexed], count: int) -> list[GenerationOutput]:
    """Every sequence's finished output."""
    last: dict[int, GenerationOutput] = {}
    with closing(outputs):
        last.update(outputs)
    return [last[index] for index in range(count)]


def answer(output: GenerationOutput, job: Job, told: bool = True) -> dict[str, Any]:
    """One output as SGLang's /generate answers it; with what the job tells, if it is to be `told`."""
    meta: dict[str, Any] = {
        "id": job.rid,
        "finish_reason": output.finish_reason,
        "prompt_tokens": output.prompt_tokens,
        "completion_tokens": output.completion_tokens,
        "cached_tokens": output.cached_tokens,
        "e2e_latency": output.e2e_latency,
    }
    if output.output_token_logprobs is not None:
        meta["input_token_logprobs"] = output.input_token_logprobs
        meta["output_token_logprobs"] = output.output_token_logprobs
    if output.hidden_states is not None:
        meta["hidden_states"] = output.hidden_states
    return {"text": output.text, "output_ids": output.output_ids, "meta_info": meta | (job.told if told else {})}


def _for_each(name: str, value: Any, count: int) -> list[Any]:
    if not isinstance(value, list):
        return [value] * count
    if len(value) != count:
        raise BadRequest(f"{name} has {len(value)} entries for {count} prompts")
    return value


def _rids(given: str | list[str] | None, count: int) -> list[str]:
    if given is None:
        return [uuid.uuid4().hex for _ in range(count)]
    if isinstance(given, str):
        return [given] if count == 1 else [f"{given}-{index}" for index in range(count)]
    if len(given) != count or len(set(given)) != count:
        raise BadRequest(f"rid must hold {count} different names, got {len(set(given))} in {len(given)}")
    return given


def _copies(job: Job, count: int) -> list[Job]:
    """`count` sequences of one prompt. With a seed each has its own, or all would say the same."""
    if count == 1:
        return [job]
    copies = []
    for index in range(count):
        sampling = job.request.sampling
        seed = None if sampling.seed is None else (sampling.seed + index) % 2**63
        request = replace(job.request, sampling=replace(sampling, seed=seed))
        copies.append(Job(f"{job.rid}-{index}", request, job.told))
    return copies


def _shown(token: int) -> str:
    return str(token) if -(2**63) <= token < 2**63 else "beyond 64 bits"


def _watched(outputs: Outputs, watch: Watch) -> Iterator[Indexed]:
    for output in outputs:
        watch.check()
        if output is not None:
            yield 0, output


def _merged(running: Sequence[Outputs], watch: Watch) -> Iterator[Indexed]:
    news = _Newest(len(running))
    threads = [
        threading.Thread(target=news.read, args=(index, outputs), daemon=True) for index, outputs in enumerate(running)
    ]
    for thread in threads:
        thread.start()
    try:
        while not news.ended:
            watch.check()
            yield from news.take(_LOOK_SECONDS)
    finally:
        news.stop()
        for thread in threads:
            thread.join()


class _Newest:
    """The newest output of several sequences. A thread reads each, because waiting for one would hold up the others;
    outputs are cumulative, so what a slow client missed need not be kept.
    """

    def __init__(self, count: int):
        self._reading = count
        self._outputs: dict[int, GenerationOutput] = {}
        self._error: Exception | None = None
        self._stopped = False
        self._changed = threading.Condition()
        self._places = threading.Semaphore(_AT_ONCE)

    @property
    def ended(self) -> bool:
        """Whether all has been read and taken."""
        return not (self._reading or self._outputs or self._error)

    def read(self, index: int, outputs: Outputs) -> None:
        """Read a sequence to its end, in a thread of its own."""
        # The boundary of this thread: whatever ends a sequence is raised again by `take`.
        try:
            # A sequence reaches the engine with its first step, so one that waits here takes no place there.
            with self._places:
                self._read(index, outputs)
        except Exception as error:
            self._error = error
        finally:
            with self._changed:
                self._reading -= 1
                self._changed.notify()

    def _read(self, index: int, outputs: Outputs) -> None:
        if self._stopped:
            return
        for output in outputs:
            if self._stopped:
                return
            if output is not None:
                self._put(index, output)

    def take(self, timeout: float) -> list[Indexed]:
        """What is new, or nothing after `timeout` seconds. Raises what ended a sequence early."""
        with self._changed:
            self._changed.wait_for(lambda: self._outputs or self._error or not self._reading, timeout)
            if self._error:
                raise self._error
            taken, self._outputs = self._outputs, {}
        return sorted(taken.items())

    def stop(self) -> None:
        """Let every thread end at its sequence's next step."""
        self._stopped = True

    def _put(self, index: int, output: GenerationOutput) -> None:
        with self._changed:
            self._outputs[index] = output
            self._changed.notify()

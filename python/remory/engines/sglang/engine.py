"""The engine whose actor runs in SGLang: our side, which speaks HTTP with SGLang and with Remory's plug-in in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from remory import actors
from remory.engines.base import (
    ActorInfo,
    EncodeRequest,
    EncodeResult,
    Engine,
    GenerationOutput,
    GenerationRequest,
    SamplingParams,
)
from remory.engines.checks import Grammars, check_checkpoint, check_encode, check_source
from remory.engines.detokenizer import Detokenizer
from remory.engines.sglang.client import Call, Refused
from remory.engines.sglang.encoding import Encoding, Prepared
from remory.engines.sglang.exchange import Exchange
from remory.engines.sglang.launch import Server
from remory.engines.sglang.protocol import States
from remory.engines.sglang.remote import Remote, report_of
from remory.errors import CheckpointError, EngineBusy, EngineFailed, InvalidInput
from remory.network import Checkpoint

_NEWS_SECONDS = 0.2
_MOST_STOPS = 32
_NOT_FINITE = "NaN happened"


class SGLangEngine(Engine):
    """Runs an actor folder in the SGLang behind `server`, which must run the same folder.

    `exchange`: the folder through which rows pass; when the plug-in uses another or none they pass inline.
    `max_context` lowers the actor's own limit (tokens). Closing the engine closes the server; one whose engine could
    not be made stays the caller's. Raises InvalidInput for an unusable folder, EngineBusy for an SGLang that does not
    answer, EngineFailed for one that has no plug-in or runs another actor.
    """

    def __init__(self, folder: Path, server: Server, exchange: Exchange, max_context: int | None = None) -> None:
        self._remote = Remote(server, exchange, _read_actor(folder, max_context))
        self.actor = self._remote.actor
        self.tokenizer = actors.load_tokenizer(folder)
        self._grammars = Grammars(self.tokenizer, self.actor.vocabulary)
        self._counting = threading.Lock()
        self._totals = dict.fromkeys(
            ("prompt_tokens", "cached_tokens", "generated_tokens", "encoded_tokens", "features_live_tokens"), 0
        )

    def generate(self, request: GenerationRequest) -> Iterator[GenerationOutput | None]:
        sampling = request.sampling
        check_source(self.actor, request.source, sampling.max_new_tokens)
        # Made only to refuse what cannot be used; SGLang makes its own.
        self._grammars.constraint(sampling)
        if len(sampling.stop) > _MOST_STOPS:
            raise InvalidInput(f"{len(sampling.stop)} stop texts are given, SGLang takes at most {_MOST_STOPS}")
        if sampling.seed is not None and sampling.temperature > 0 and not self._remote.seeds:
            raise InvalidInput(
                "this SGLang draws tokens without regard to a seed: start it with --sampling-backend pytorch, or leave "
                "out the seed"
            )
        return self._generation(request)

    def check(self, checkpoint: Checkpoint) -> None:
        check_checkpoint(self.actor, checkpoint)
        captured = self._remote.captured
        if captured is not None and not set(checkpoint.layer_ids) <= set(captured):
            raise CheckpointError(
                f"checkpoint {checkpoint.name} reads the layers {list(checkpoint.layer_ids)}, this SGLang captures "
                f"{list(captured)} as long as it runs: start it with this checkpoint"
            )

    def prepare(self, checkpoint: Checkpoint) -> Prepared:
        self.check(checkpoint)
        digest = checkpoint.manifest["safetensors_sha256"]
        return Prepared(checkpoint.path.resolve(), digest, checkpoint.geometry, checkpoint.layer_ids)

    def encode(self, request: EncodeRequest, prepared: Prepared | None = None) -> EncodeResult:
        if prepared is None:
            raise InvalidInput("no memory checkpoint is loaded, so nothing can be encoded")
        check_encode(self.actor, request, prepared.geometry.slots)
        if request.reads_nothing:
            return EncodeResult(list(request.kept), {}, {})
        self._remote.check()
        encoding = Encoding(self._remote, prepared, request)
        nodes = encoding.run()
        features = dict(encoding.features)
        self._count(encoded_tokens=len(request.positions), features_live_tokens=features.get("live", 0))
        return EncodeResult(nodes, dict(encoding.timings_ms), features)

    def problem(self) -> str | None:
        """Raises EngineFailed when it will not answer again before somebody does something about it."""
        try:
            self._remote.check()
        except EngineBusy as error:
            return str(error)
        return None

    def stats(self) -> dict[str, float]:
        """As `Engine.stats`, without what only SGLang knows: the size of its cache, and which requests wait there."""
        with self._counting:
            totals = {f"{name}_total": value for name, value in self._totals.items()}
        return {"requests_running": self._remote.running, **totals}

    def close(self) -> None:
        self._remote.close()

    def _generation(self, request: GenerationRequest) -> Iterator[GenerationOutput | None]:
        """Sent when first asked for news, so that an iterator nobody reads starts nothing."""
        self._remote.check()
        call = self._remote.send(
            request.source.ids,
            self._remote.order(
                injection=self._remote.injection(request.source),
                states=States(0) if request.return_hidden_states else None,
            ),
            _sampling(request.sampling, self.actor.vocabulary),
            # States come at the end, in the one answer that is not streamed.
            stream=not request.return_hidden_states,
            return_logprob=request.return_logprob,
            # As the embedded engine reads it; a place that is none ends SGLang.
            logprob_start_len=max(-1, min(request.logprob_start_len, len(request.source) - 1)),
        )
        try:
            yield from self._outputs(request, call)
        except Refused as error:
            named = "regex" if request.sampling.json_schema is None else "json_schema"
            if "grammar" in str(error).lower() and (request.sampling.json_schema or request.sampling.regex):
                raise InvalidInput(f"{named} is not usable: SGLang cannot follow it") from error
            raise
        finally:
            call.cancel()

    def _outputs(self, request: GenerationRequest, call: Call) -> Iterator[GenerationOutput | None]:
        answer = _Answer(request, self.tokenizer)
        counted = 0
        confirmed = request.source.rows is None
        for told in call.follow(_NEWS_SECONDS):
            if told is None:
                yield None
                continue
            if not confirmed:
                # A server that came back without the plug-in would answer as if there were no memory.
                report_of(told)
                confirmed = True
            output = answer.output(told, self._states(request, told))
            self._count(generated_tokens=output.completion_tokens - counted)
            counted = output.completion_tokens
            if output.finish_reason is not None:
                self._count(prompt_tokens=output.prompt_tokens, cached_tokens=output.cached_tokens)
                if told["meta_info"]["finish_reason"] is not None:
                    call.wait()  # for the end of the events, or it would be aborted
                yield output
                return
            yield output

    def _states(self, request: GenerationRequest, told: dict[str, Any]) -> Tensor | None:
        """The states [T + n - 1, D] of a prompt and of the n tokens of an answer that has ended but the last."""
        if not request.return_hidden_states:
            return None
        decoded = max(len(told["output_ids"]) - 1, 0)
        return self._remote.tensor(report_of(told), len(request.source) + decoded)

    def _count(self, **tokens: int) -> None:
        with self._counting:
            for name, number in tokens.items():
                self._totals[name] += number


class _Answer:
    """What SGLang tells of one generation, as outputs.

    The text is made here: SGLang's own goes on with the bytes of a character that the prompt broke off. So the ends are
    looked for here too, among them the stop tokens that SGLang passes over when it is to ignore the actor's own.
    """

    def __init__(self, request: GenerationRequest, tokenizer: Any) -> None:
        self._request = request
        self._detokenizer = Detokenizer(tokenizer, request.sampling.stop)
        self._read = 0
        self._began = time.perf_counter()

    def output(self, told: dict[str, Any], states: Tensor | None) -> GenerationOutput:
        request, meta = self._request, told["meta_info"]
        if _gave_no_numbers(meta["finish_reason"], request.sampling):
            raise EngineFailed("the actor gave logits that are not finite")
        ids, reason = self._take(told["output_ids"], meta["finish_reason"])
        prompt = len(request.source)
        return GenerationOutput(
            text=self._detokenizer.finish() if reason else self._detokenizer.text,
            output_ids=ids,
            prompt_tokens=prompt,
            completion_tokens=len(ids),
            cached_tokens=meta["cached_tokens"],
            finish_reason=reason,
            input_token_logprobs=self._input_logprobs(meta["input_token_logprobs"]) if request.return_logprob else None,
            output_token_logprobs=meta["output_token_logprobs"][: len(ids)] if request.return_logprob else None,
            hidden_states=None if states is None else _lists(states, prompt, len(ids)),
            e2e_latency=time.perf_counter() - self._began,
        )

    def _input_logprobs(self, triples: list[list[Any]]) -> list[list[Any]]:
        """The triples under the ids that were sent: SGLang shows another one where rows were injected."""
        sent = self._request.source.ids[len(self._request.source) - len(triples) :].tolist()
        return [[value, token, None] for (value, *_), token in zip(triples, sent, strict=True)]

    def _take(self, ids: list[int], reason: dict[str, Any] | None) -> tuple[list[int], dict[str, Any] | None]:
        """Read on; the ids as far as they are the answer, and why it ends there. The token that ends it is no text."""
        ends_with_token = reason is not None and isinstance(reason.get("matched"), int)
        for place in range(self._read, len(ids) - ends_with_token):
            matched = self._end(ids[place])
            if matched is not None:
                return ids[: place + 1], {"type": "stop", "matched": matched}
        self._read = len(ids)
        return ids, reason

    def _end(self, token: int) -> int | str | None:
        """The token, or the text that ends with it, if that ends the answer."""
        if token in self._request.sampling.stop_token_ids:
            return token
        self._detokenizer.push(token)
        return self._detokenizer.matched


def _gave_no_numbers(reason: dict[str, Any] | None, sampling: SamplingParams) -> bool:
    """Whether the answer ended because the actor's logits were none; SGLang says so as if a stop text had matched."""
    return reason is not None and reason.get("matched") == _NOT_FINITE and _NOT_FINITE not in sampling.stop


def _lists(states: Tensor, prompt: int, tokens: int) -> list[Any]:
    """States [T + n - 1, D] as lists: the prompt's, then one for every token but the last."""
    values = states.float().tolist()
    return [values[:prompt], *values[prompt : prompt + max(tokens - 1, 0)]]


def _sampling(params: SamplingParams, vocabulary: int) -> dict[str, Any]:
    """The parameters under SGLang's names, and within the numbers that it holds them in."""
    return {
        "max_new_tokens": params.max_new_tokens,
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": min(params.top_k, vocabulary) if params.top_k > 0 else -1,
        "min_p": params.min_p,
        # SGLang finds an empty text everywhere.
        "stop": [stop for stop in params.stop if stop],
        "stop_token_ids": [token for token in params.stop_token_ids if 0 <= token < vocabulary],
        "ignore_eos": params.ignore_eos,
        "frequency_penalty": params.frequency_penalty,
        "presence_penalty": params.presence_penalty,
        "repetition_penalty": params.repetition_penalty,
        "sampling_seed": params.seed,
        "json_schema": params.json_schema,
        "regex": params.regex,
    }


def _read_actor(folder: Path, max_context: int | None) -> ActorInfo:
    """Who the actor is, as its folder says; dtype and device are SGLang's to say."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the actor {folder.name} has no configuration that can be read") from error
    context = config.max_position_embeddings
    return ActorInfo(
        name=actors.actor_name(folder),
        revision=actors.actor_revision(folder),
        width=config.hidden_size,
        vocabulary=config.vocab_size,
        context_length=min(context, max_context) if max_context else context,
        dtype="",
        device="",
        layers=config.num_hidden_layers,
    )

"""The text route's work: a conversation becomes tokens, the actor writes the summary, both become memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jinja2
import torch

from remory.client.rendering import Message, Rendered, Split, Tools, render_split, split, summary_request_ids
from remory.compaction.memory import Memory
from remory.engines.base import GenerationRequest, SamplingParams, Source
from remory.errors import InvalidInput
from remory_service.api.bodies import CompactTextBody
from remory_service.api.generation import Watch, follow, last_outputs
from remory_service.errors import ActorFailed, BadRequest
from remory_service.runtime import Loaded
from remory_service.speech import Speech


@dataclass(frozen=True)
class Summary:
    """What the actor wrote, without the token that ended it."""

    text: str
    ids: list[int]


def render_chat(tokenizer: Any, messages: Sequence[Message], tools: Tools | None, generation_prompt: bool) -> list[int]:
    """Token ids of messages in the actor's own chat template. Raises InvalidInput when the template refuses them."""
    if tokenizer.chat_template is None:
        raise InvalidInput("the actor's tokenizer has no chat template: render elsewhere and send token ids")
    # A template is a program over whatever JSON it is given: a missing field can end in any of these.
    try:
        text = tokenizer.apply_chat_template(
            list(messages), tools=tools, add_generation_prompt=generation_prompt, tokenize=False
        )
    except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidInput(f"the actor's chat template refuses these messages: {error}") from error
    return tokenizer.encode(text, add_special_tokens=False)


def render_body(loaded: Loaded, body: CompactTextBody) -> tuple[Split, Rendered]:
    """Prefix, history and retained messages, and their ids. Raises InvalidInput, or BadRequest without a history."""
    parts = split(body.messages, body.keep_last)
    if not parts.history:
        raise BadRequest(
            f"nothing to compact: the {len(parts.prefix)} messages of the prefix and the last {len(parts.retained)} "
            "are all there are"
        )
    return parts, render_split(_renderer(loaded), parts, body.tools, tuple(body.bridge))


def speech_of(loaded: Loaded) -> Speech:
    """How this actor's prompts are written."""
    tokenizer = loaded.engine.tokenizer
    ends = {tokenizer.eos_token_id}
    if loaded.checkpoint is not None:
        ends.add(loaded.checkpoint.contract.end_token_id)
    return Speech(tokenizer, ends - {None})


def insert_ids(source: Source, place: int, ids: Sequence[int]) -> Source:
    """A prompt with more ids at `place`, behind all of its rows."""
    if not ids:
        return source
    added = torch.tensor(ids, dtype=torch.int64)
    return replace(source, ids=torch.cat([source.ids[:place], added, source.ids[place:]]))


def summary_prompt(
    loaded: Loaded, body: CompactTextBody, parts: Split, rendered: Rendered, previous: Memory | None
) -> tuple[Source, int]:
    """What asks for the summary, and where in it something may be put in front of the history: behind the prefix, or
    behind the memory that the session goes on from.
    """
    prompt = loaded.checkpoint.contract.prompt
    bridge, restored = tuple(body.bridge), previous is not None
    ids = summary_request_ids(_renderer(loaded), parts, prompt, body.tools, bridge, restored=restored)
    if previous is None:
        return Source(torch.tensor(ids, dtype=torch.int64)), len(rendered.prefix_ids)
    source = loaded.compactor.restore(previous, ids)
    return source, source.cuts[-1]


def write_summary(loaded: Loaded, source: Source, most_tokens: int, watch: Watch) -> Summary:
    """Let the actor summarise under the checkpoint's contract, greedily. Raises ActorFailed without a usable one."""
    contract = loaded.checkpoint.contract
    sampling = SamplingParams(
        max_new_tokens=most_tokens,
        temperature=0.0,
        stop_token_ids=(contract.end_token_id,),
        json_schema=None if contract.output_schema is None else json.dumps(contract.output_schema),
    )
    (last,) = last_outputs(follow(loaded.engine, [GenerationRequest(source, sampling)], watch), 1)
    if contract.output_schema is not None and last.finish_reason and last.finish_reason["type"] == "length":
        raise ActorFailed(f"the summary was cut after {len(last.output_ids)} tokens and is no complete JSON")
    ended = last.output_ids and last.output_ids[-1] in (contract.end_token_id, loaded.engine.tokenizer.eos_token_id)
    kept = last.output_ids[:-1] if ended else last.output_ids
    if not kept:
        raise ActorFailed("the actor wrote an empty summary")
    return Summary(last.text, kept)


def _renderer(loaded: Loaded) -> Any:
    return lambda messages, tools, prompt: render_chat(loaded.engine.tokenizer, messages, tools, prompt)

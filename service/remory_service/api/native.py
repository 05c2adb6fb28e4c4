"""The native routes: generation, compaction, memories, tokens."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from flask import Response, current_app, g, jsonify, request
from flask_openapi3 import APIBlueprint, Tag

from remory import __version__
from remory.compaction.history import Chunk, cut_history
from remory.compaction.memory import Memory
from remory.engines.base import GenerationOutput, Source
from remory_service.api.answers import (
    CompactAnswer,
    CompactTextAnswer,
    DeletedAnswer,
    DetokenizeAnswer,
    GenerateAnswer,
    HistoryAnswer,
    InfoAnswer,
    MemoriesAnswer,
    MemoryAnswer,
    ServerInfoAnswer,
    TokenizeAnswer,
)
from remory_service.api.bodies import (
    CollectHeader,
    CompactBody,
    CompactionHeader,
    CompactTextBody,
    DetokenizeBody,
    ErrorAnswer,
    GenerateBody,
    HandlePath,
    HistoryQuery,
    OptionalSessionHeader,
    RecallBody,
    Sampling,
    SessionHeader,
    TokenizeBody,
)
from remory_service.api.checkpoints import used_facts
from remory_service.api.conversation import (
    insert_ids,
    render_body,
    render_chat,
    speech_of,
    summary_prompt,
    write_summary,
)
from remory_service.api.generation import (
    Indexed,
    Job,
    Watch,
    answer,
    check_ids,
    follow,
    is_batch,
    jobs_of,
    last_outputs,
    listed_ids,
    prompts,
    sampling_params,
)
from remory_service.api.recall import Asker, Prompt, Recalled, Recaller
from remory_service.config import Config, Endpoint
from remory_service.errors import BadRequest, NotFound, known
from remory_service.identity import checked_session
from remory_service.runtime import Loaded, Runtime
from remory_service.store import memories
from remory_service.store.memories import MemoryInfo, Owner
from remory_service.store.transcripts import Collected

log = logging.getLogger(__name__)

Keeper = Callable[[GenerationOutput], None]

_SHOWN_HANDLE = 64

native = APIBlueprint(
    "native",
    __name__,
    abp_tags=[Tag(name="native", description="Generation and soft memory.")],
    abp_security=[{"bearer": []}, {"header": []}],
    abp_responses=dict.fromkeys((400, 401, 403, 413, 422, 500, 503), ErrorAnswer),
)
_NOT_FOUND: dict[str | int, Any] = {404: ErrorAnswer}
_MADE_BY_ACTOR: dict[str | int, Any] = {404: ErrorAnswer, 502: ErrorAnswer}


@native.post("/generate", responses={200: GenerateAnswer, **_MADE_BY_ACTOR})
def generate(header: OptionalSessionHeader, body: GenerateBody) -> Response:
    """Continue prompts as SGLang's `/generate` does, or one prompt behind a memory.

    A list of prompts, or `n` above 1, is answered by a list. With `stream` the answer is server-sent events with
    cumulative `text`, `output_ids` and `meta_info`, then `[DONE]`; a list's events carry `index`, and a failure after
    the first event arrives as a last event `{"error": …}`. A client that hangs up stops the work.
    """
    runtime = _runtime()
    loaded = runtime.loaded() if body.remory is None else runtime.with_memory()
    watch = Watch(runtime, request.environ)
    sources = prompts(body, loaded.engine) if body.remory is None else [_restored(loaded, header, body)]
    recalled = None
    if body.recall is not None:
        sources, recalled = _with_recall(loaded, header, body, body.recall, sources, watch)
    jobs = jobs_of(body, sources, runtime.config.max_sequences, {} if recalled is None else recalled.shown())
    many = is_batch(body) or len(jobs) > 1
    outputs = follow(loaded.engine, [job.request for job in jobs], watch)
    keep = _continuation_keeper(header, body)
    if body.stream:
        return _stream(outputs, jobs, many, keep)
    ended = last_outputs(outputs, len(jobs))
    keep(ended[0])
    answers = [answer(output, job) for output, job in zip(ended, jobs, strict=True)]
    return jsonify(answers if many else answers[0])


@native.post("/v1/compact", responses={200: CompactAnswer, **_MADE_BY_ACTOR})
def compact(header: CompactionHeader, body: CompactBody) -> Response:
    """Make memory of a history: a new handle for prefix, summary and rows.

    Existing handles stay as they are, whatever happens. A compaction runs to its end once it has begun; if its client
    has gone by then, nothing is stored.
    """
    owner, runtime = _owner(header), _runtime()
    loaded, watch = runtime.with_memory(), Watch(runtime, request.environ)
    previous = _memory(owner, body.previous) if body.previous is not None else None
    branches = [_memory(owner, handle) for handle in body.branches]
    vocabulary = loaded.engine.actor.vocabulary
    prefix_ids = check_ids("prefix_ids", body.prefix_ids, vocabulary)
    summary_ids = check_ids("summary_ids", body.summary_ids, vocabulary)
    history_ids = body.history_ids
    if history_ids or not (previous or branches):
        check_ids("history_ids", history_ids, vocabulary)
    memory = loaded.compactor.compact(prefix_ids, history_ids, summary_ids, previous, branches)
    parents = [handle for handle in (body.previous, *body.branches) if handle is not None]
    collected = _collected(loaded, header, history_ids)
    return jsonify(_saved(owner, memory, watch, _chunks(loaded, body, history_ids), parents, collected))


@native.post("/v1/compact/text", responses={200: CompactTextAnswer, **_MADE_BY_ACTOR})
def compact_text(header: CompactionHeader, body: CompactTextBody) -> Response:
    """Compact a conversation: render it, let the actor write the summary, and make memory of all between.

    The prefix (leading system messages and the first user message) and the last `keep_last` messages stay; a tool call
    and its results stay together. Go on with `/generate`: the handle, and `continuation_ids` or the returned
    `messages` rendered behind the prefix. A later call passes prefix, returned and new messages, `previous` and
    `bridge`.
    """
    owner, runtime = _owner(header), _runtime()
    loaded, watch = runtime.with_memory(), Watch(runtime, request.environ)
    previous = _memory(owner, body.previous) if body.previous is not None else None
    if previous is not None:
        # It could be restored for the summary, and would be refused after it.
        loaded.compactor.check(previous)
    parts, rendered = render_body(loaded, body)
    source, place = summary_prompt(loaded, body, parts, rendered, previous)
    recalled = Recalled()
    if body.recall is not None:
        room = loaded.engine.actor.context_length - len(source) - body.max_summary_tokens
        prompt = Prompt(rendered.history_ids, speech_of(loaded), room, watch.check)
        recalled = _recaller().recall(Asker(g.caller, owner, body.previous), body.recall, prompt)
        source = insert_ids(source, place, recalled.ids)
    summary = write_summary(loaded, source, body.max_summary_tokens, watch)
    memory = loaded.compactor.compact(rendered.prefix_ids, rendered.history_ids, summary.ids, previous)
    parents = [] if body.previous is None else [body.previous]
    return jsonify(
        _saved(
            owner,
            memory,
            watch,
            _chunks(loaded, body, rendered.history_ids),
            parents,
            _collected(loaded, header, rendered.history_ids),
        )
        | ({} if body.recall is None else recalled.shown())
        | {
            "summary": summary.text,
            "messages": parts.retained,
            "continuation_ids": rendered.continuation_ids,
            "bridge": rendered.bridge,
        }
    )


@native.get("/v1/memories", responses={200: MemoriesAnswer})
def list_memories(header: SessionHeader) -> Response:
    """The session's memories, newest first."""
    return jsonify({"memories": [_shown(info) for info in memories.list_session(_owner(header))]})


@native.get("/v1/memories/<handle>", responses={200: MemoryAnswer, **_NOT_FOUND})
def get_memory(header: SessionHeader, path: HandlePath) -> Response:
    """One memory of the session."""
    info = memories.find(_owner(header), path.handle)
    if info is None:
        raise _unknown(path.handle)
    return jsonify(_shown(info) | {"summary_ids": info.summary_ids})


@native.get("/v1/memories/<handle>/history", responses={200: HistoryAnswer, **_NOT_FOUND})
def get_history(header: SessionHeader, path: HandlePath, query: HistoryQuery) -> Response:
    """What was kept of the history that a memory stands for, ancestors and branches included, oldest first.

    The `ids` of a history's chunks, one behind another, are the ids that its compaction removed.
    """
    found = memories.history_page(_owner(header), path.handle, query.limit + 1, query.offset)
    if found is None:
        raise _unknown(path.handle)
    chunks = [vars(chunk) for chunk in found[: query.limit]]
    next_offset = query.offset + query.limit if len(found) > query.limit else None
    return jsonify({"chunks": chunks, "next_offset": next_offset})


@native.delete("/v1/memories/<handle>", responses={200: DeletedAnswer, **_NOT_FOUND})
def delete_memory(header: SessionHeader, path: HandlePath) -> Response:
    """Delete a memory of the session, and its transcripts; its rows too, unless another handle has the same."""
    if not memories.delete(_owner(header), path.handle):
        raise _unknown(path.handle)
    return jsonify({"handle": path.handle, "deleted": True})


@native.get("/v1/remory/info", responses={200: InfoAnswer})
def info() -> Response:
    """Who the actor is, which checkpoint makes its memory, and how summaries are written."""
    return jsonify(_info(_runtime().loaded()))


@native.post("/tokenize", responses={200: TokenizeAnswer})
def tokenize(body: TokenizeBody) -> Response:
    """Token ids of a text, of a list of texts, or of messages in the actor's chat template."""
    engine = _runtime().loaded().engine
    tokenizer = engine.tokenizer
    if (body.prompt is None) == (body.messages is None):
        raise BadRequest("give either prompt or messages")
    if body.messages is not None:
        prompted = body.add_generation_prompt
        if prompted is None:
            prompted = not body.messages or body.messages[-1].get("role") != "assistant"
        tokens: Any = render_chat(tokenizer, body.messages, body.tools, prompted)
    elif isinstance(body.prompt, str):
        tokens = tokenizer.encode(body.prompt, add_special_tokens=body.add_special_tokens)
    else:
        tokens = [tokenizer.encode(text, add_special_tokens=body.add_special_tokens) for text in body.prompt or ()]
    count = [len(ids) for ids in tokens] if isinstance(body.prompt, list) else len(tokens)
    return jsonify({"tokens": tokens, "count": count, "max_model_len": engine.actor.context_length})


@native.post("/detokenize", responses={200: DetokenizeAnswer})
def detokenize(body: DetokenizeBody) -> Response:
    """The text of token ids, or a list of texts for a list of lists."""
    engine = _runtime().loaded().engine
    many = bool(body.tokens) and isinstance(body.tokens[0], list)
    lists: Any = body.tokens if many else [body.tokens]
    for ids in filter(None, lists):
        check_ids("tokens", ids, engine.actor.vocabulary)
    texts = [engine.tokenizer.decode(ids, skip_special_tokens=body.skip_special_tokens) for ids in lists]
    return jsonify({"text": texts if many else texts[0]})


@native.get("/get_server_info", responses={200: ServerInfoAnswer})
def server_info() -> Response:
    """How the server was started and what its engine is doing. Holds no secret and no place in the file system but the
    model's and the checkpoint's."""
    runtime = _runtime()
    config = runtime.config
    return jsonify(
        {
            "version": __version__,
            "status": runtime.status()[0],
            "host": config.host,
            "store": "sqlite" if config.store is None else "postgresql",
            "backend": config.backend,
            "model_path": config.model,
            "checkpoint": config.checkpoint,
            "device": config.device,
            "dtype": config.dtype,
            "max_context": config.max_context,
            "cache_bytes": config.cache_bytes,
            "vector_bytes": config.vector_bytes,
            "max_body_bytes": config.max_body_bytes,
            "max_sequences": config.max_sequences,
            "embedder": _model_named(config.embedder),
            "summarizer": _model_named(config.summarizer),
            "autosave_tokens": config.autosave_tokens,
            "keep_history": config.keep_history,
            "collect": config.collect,
            "collect_bytes": config.collect_bytes,
            "threads": config.threads,
            "sglang": _sglang_settings(config) if config.backend == "sglang" else None,
            "engine": runtime.stats(),
        }
    )


def _sglang_settings(config: Config) -> dict[str, Any]:
    """How SGLang runs; its interpreter, exchange folder, URL and arguments stay with whoever runs the server."""
    names = ("tp", "dp", "mem_fraction_static", "capture_live")
    return {"launched": config.sglang.url is None} | {name: getattr(config.sglang, name) for name in names}


def _model_named(chosen: str | Endpoint | None) -> str | None:
    """A model's folder, or its name at an endpoint, whose URL may hold a password; None for the default."""
    return chosen.model if isinstance(chosen, Endpoint) else chosen


def _runtime() -> Runtime:
    return current_app.extensions["remory"]


def _owner(header: SessionHeader | OptionalSessionHeader) -> Owner:
    return Owner(g.caller.user, checked_session(header.session))


def _unknown(handle: str) -> NotFound:
    return NotFound(f"this session has no memory {handle[:_SHOWN_HANDLE]}")


def _memory(owner: Owner, handle: str) -> Memory:
    memory = memories.load(owner, handle)
    if memory is None:
        raise _unknown(handle)
    return memory


def _restored(loaded: Loaded, header: OptionalSessionHeader, body: GenerateBody) -> Source:
    """The one prompt behind a memory: everything else that could be sent with a handle is refused."""
    assert body.remory is not None
    owner = _owner(header)
    if body.text is not None or body.input_ids is None or is_batch(body):
        raise BadRequest("with a handle send input_ids alone: one flat list of the ids that follow the memory")
    if isinstance(body.sampling_params, list) or (body.sampling_params and (body.sampling_params.n or 1) > 1):
        raise BadRequest("with a handle there is one sequence: n must be 1 and sampling_params no list")
    memory = _memory(owner, body.remory.handle)
    (ids,) = listed_ids(body)
    check_ids("input_ids", ids, loaded.engine.actor.vocabulary)
    return loaded.compactor.restore(memory, ids)


def _with_recall(
    loaded: Loaded,
    header: OptionalSessionHeader,
    body: GenerateBody,
    asked: RecallBody,
    sources: list[Source],
    watch: Watch,
) -> tuple[list[Source], Recalled]:
    """The one prompt with what was recalled: behind its memory, or without one before its last message."""
    if is_batch(body) or isinstance(body.sampling_params, list):
        raise BadRequest("recall is for one prompt: send no list")
    (source,) = sources
    speech, sampling = speech_of(loaded), body.sampling_params
    assert not isinstance(sampling, list)
    asker = Asker(g.caller)
    if body.remory is not None:
        asker = Asker(g.caller, _owner(header), body.remory.handle)
        # A memory's end is the last of the places where its prompt may be cut.
        place = source.cuts[-1]
        ids = source.ids[place:].tolist()
    else:
        # Before the last message, so that what stands before it is read but once in a conversation.
        ids = source.ids.tolist()
        place = speech.behind_first(ids, speech.last_message(ids)[0])
    wanted = sampling_params(sampling or Sampling()).max_new_tokens
    prompt = Prompt(ids, speech, loaded.engine.actor.context_length - len(source) - wanted, watch.check)
    recalled = _recaller().recall(asker, asked, prompt)
    return [insert_ids(source, place, recalled.ids)], recalled


def _recaller() -> Recaller:
    return current_app.extensions["remory_recaller"]


def _chunks(loaded: Loaded, body: CompactBody | CompactTextBody, history_ids: list[int]) -> list[Chunk]:
    """What is kept of a removed history: nothing if neither request nor server wants it."""
    wanted = _runtime().config.keep_history if body.keep_history is None else body.keep_history
    return cut_history(history_ids, loaded.engine.tokenizer, speech_of(loaded).ends) if wanted else []


def _collected(loaded: Loaded, header: CollectHeader, history_ids: list[int]) -> Collected | None:
    """What is kept of a compaction for training: nothing unless server and session both want it."""
    config = _runtime().config
    if not (config.collect and header.agrees):
        return None
    return Collected(history_ids, loaded.engine.actor.revision, config.collect_bytes)


def _continuation_keeper(header: OptionalSessionHeader, body: GenerateBody) -> Keeper:
    """What keeps the tokens that followed a memory, the answer last, once they are all there; or does nothing."""
    config = _runtime().config
    if body.remory is None or not (config.collect and header.agrees):
        return lambda output: None
    owner, handle, (ids,), request_id = _owner(header), body.remory.handle, listed_ids(body), g.request_id

    def keep(output: GenerationOutput) -> None:
        # The boundary: the answer is there, and must not be lost with what nobody waits for.
        try:
            memories.keep_continuation(owner, handle, [*ids, *output.output_ids], config.collect_bytes)
        except Exception:
            log.warning("request %s: its transcript was not kept", request_id, exc_info=True)

    return keep


def _saved(
    owner: Owner,
    memory: Memory,
    watch: Watch,
    history: Sequence[Chunk],
    parents: Sequence[str],
    collected: Collected | None,
) -> dict[str, Any]:
    watch.check()
    saved = memories.save(owner, memory, history, parents, collected)
    assert saved.handle is not None
    if history:
        current_app.extensions["remory_histories"].embed_soon(memories.histories_of(owner, saved.handle)[-1:])
    return {"handle": saved.handle, "summary_ids": saved.summary_ids.tolist(), "receipt": saved.receipt}


def _shown(info: MemoryInfo) -> dict[str, Any]:
    created = datetime.fromtimestamp(info.created_at / 1000, UTC).isoformat(timespec="milliseconds")
    return {"handle": info.handle, "created_at": created.replace("+00:00", "Z"), "receipt": info.receipt}


def _stream(outputs: Generator[Indexed], jobs: list[Job], many: bool, keep: Keeper) -> Response:
    """Server-sent events. The first output is waited for here, so that what fails before it answers with a status."""
    first = next(outputs)
    events = _events(first, outputs, jobs, many, keep, g.request_id)
    response = Response(events, content_type="text/event-stream; charset=utf-8")
    response.headers["Cache-Control"] = "no-store"
    # Otherwise a proxy such as nginx would hold events back until it has a buffer full.
    response.headers["X-Accel-Buffering"] = "no"
    response.call_on_close(outputs.close)
    return response


def _events(
    first: Indexed, outputs: Generator[Indexed], jobs: list[Job], many: bool, keep: Keeper, request_id: str
) -> Iterator[str]:
    begun: set[int] = set()
    # The status has been sent, so whatever fails from here on can only be told as an event.
    try:
        for index, output in itertools.chain([first], outputs):
            # What was recalled is told by the first event and the last, not with every token.
            told = output.finish_reason is not None or index not in begun
            begun.add(index)
            event = answer(output, jobs[index], told)
            yield _event(event | {"index": index} if many else event)
        keep(output)
    except Exception as error:
        failure = known(error, request_id)
        yield _event({"error": {"code": failure.status, "message": failure.detail}})
    else:
        yield "data: [DONE]\n\n"


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}\n\n"


def _info(loaded: Loaded) -> dict[str, Any]:
    config, actor, tokenizer = _runtime().config, loaded.engine.actor, loaded.engine.tokenizer
    return {
        "version": __version__,
        "engine": config.backend,
        "collect": config.collect,
        "context_length": actor.context_length,
        "actor": {
            "name": actor.name,
            "revision": actor.revision,
            "hidden_size": actor.width,
            "vocabulary": actor.vocabulary,
            "context_length": actor.context_length,
            "dtype": actor.dtype,
            "device": actor.device,
        },
        "tokenizer": {
            "name": type(tokenizer).__name__,
            "sha256": hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest(),
            "vocabulary": len(tokenizer),
            "eos_token_id": tokenizer.eos_token_id,
        },
        **used_facts(loaded),
    }

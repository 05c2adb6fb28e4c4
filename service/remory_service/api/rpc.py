"""The JSON-RPC memories: notes of a user or of everybody, saved, recalled by meaning, deleted and listed."""

from __future__ import annotations

import json
from typing import Any

from flask import Response, current_app, g, jsonify
from flask_openapi3 import APIBlueprint, Tag

from remory_service import notes
from remory_service.api.rpc_bodies import (
    DEFAULT_LIMIT,
    DEFAULT_TOP_K,
    DeleteMemoryParams,
    ListMemoriesParams,
    MemoryParams,
    RecallMemoriesParams,
    RpcAnswer,
    RpcCall,
    RpcErrorAnswer,
    SaveMemoryParams,
)
from remory_service.canonical import NotFinite, canonical_size, dump
from remory_service.errors import BadRequest, BodyPlace, Forbidden, Group, NotFound, ServiceError
from remory_service.notes import UnknownNote, notes_of
from remory_service.store.passages import Collection, Passage
from remory_service.texts import COSINE

LARGEST_METADATA = LARGEST_FILTER = 16384
# The cosine of two float32 vectors is good for about seven digits.
SCORE_DECIMALS = 6
_WRITERS = frozenset({"invoke", "agent", "admin"})
_TRUSTED = frozenset({"agent", "admin"})
_SHOWN_LOC = 5


class UnknownMethod(NotFound):
    """There is no method of that name."""

    code = "method_not_found"


class InvalidParams(BadRequest):
    """The parameters do not fit the method."""

    code = "invalid_params"


def _shape(error: ServiceError) -> dict[str, Any]:
    return {"success": False, "error": {"code": error.code, "message": error.detail}}


def _mismatch(places: list[BodyPlace]) -> ServiceError:
    """The first place in words."""
    loc, message, kind = places[0]["loc"], places[0]["msg"], places[0]["type"]
    if kind == "union_tag_invalid":
        return UnknownMethod(f"no such method; there are {', '.join(_METHODS)}")
    if kind == "union_tag_not_found":
        return BadRequest("method: the name of a method is needed")
    # The first step is the method.
    where = ".".join(str(step) for step in loc[1:_SHOWN_LOC])
    told = "must be an object" if kind in ("model_type", "dict_type") else message.removeprefix("Value error, ")
    return InvalidParams(f"{where}: {told}")


# A text and metadata of nothing but commas, with room for a filter.
RPC_GROUP = Group("/api/rpc", _shape, _mismatch, most_elements=1 << 18)

rpc = APIBlueprint(
    "rpc",
    __name__,
    url_prefix="/api",
    abp_tags=[Tag(name="JSON-RPC memories", description="Notes of a user or of everybody, found by meaning.")],
    abp_security=[{"bearer": []}, {"header": []}],
    abp_responses=dict.fromkeys((400, 401, 403, 404, 405, 413, 500, 502, 503), RpcErrorAnswer),
)


@rpc.post("/rpc", responses={200: RpcAnswer})
def call_memory(body: RpcCall) -> Response:
    """Call a method of `MemoryRpc`: saveMemory, recallMemories, deleteMemory or listMemories.

    For keys with the role invoke, agent or admin. All of them may write and delete in scope `global`.
    """
    if not g.caller.roles & _WRITERS:
        raise Forbidden("memories are for keys with the role invoke, agent or admin")
    answer = _METHODS[body.root.method](body.root.params)
    return jsonify({"success": True, "data": {"success": True, **answer}})


def _save(params: SaveMemoryParams) -> dict[str, Any]:
    scope = _scope(params)
    memory = params.memory
    metadata = _measured(memory.metadata or {}, "params.memory.metadata", LARGEST_METADATA)
    now = current_app.extensions["remory_clock"]()
    saved = notes.save(_texts(), scope, memory.id, memory.content, metadata, now)
    return {"memoryId": saved, "message": "Memory saved."}


def _recall(params: RecallMemoriesParams) -> dict[str, Any]:
    scope = _scope(params)
    conditions = notes.conditions_of(params.filter or {})
    _measured(params.filter or {}, "params.filter", LARGEST_FILTER)
    k = params.top_k or DEFAULT_TOP_K
    found = notes.recall(_texts(), scope, params.query_text, k, conditions, params.mode or COSINE)
    return {
        "memories": [_shown(recalled.passage) | {"score": round(recalled.score, SCORE_DECIMALS)} for recalled in found]
    }


def _delete(params: DeleteMemoryParams) -> dict[str, Any]:
    notes.delete(_scope(params), params.memory_id)
    return {"message": "Memory deleted."}


def _list(params: ListMemoriesParams) -> dict[str, Any]:
    try:
        page = notes.page(_scope(params), params.limit or DEFAULT_LIMIT, params.offset or 0)
    except UnknownNote as error:
        raise InvalidParams(f"params.offset: {error.detail}") from error
    return {"memories": [_shown(note) for note in page.notes], "next_page_offset": page.next_id}


_METHODS: dict[str, Any] = {
    "MemoryRpc.saveMemory": _save,
    "MemoryRpc.recallMemories": _recall,
    "MemoryRpc.deleteMemory": _delete,
    "MemoryRpc.listMemories": _list,
}


def _scope(params: MemoryParams) -> Collection:
    """Whose memories are meant, and that the caller may have them. Raises Forbidden or InvalidParams."""
    if params.scope == "global":
        return notes_of(None)
    caller = g.caller
    if params.target_user is None:
        if not caller.roles & {"invoke", "admin"}:
            raise InvalidParams("params.targetUserId: a key with the role agent alone says for whom it acts")
        return notes_of(caller.user)
    if params.target_user != caller.user and not caller.roles & _TRUSTED:
        raise Forbidden("another user's memories are for keys with the role agent or admin")
    return notes_of(params.target_user)


def _measured(value: dict[str, Any], field: str, largest: int) -> bytes:
    """An object as it is kept. Raises InvalidParams for one with more canonical bytes than `largest`."""
    try:
        data = dump(value)
        size = canonical_size(value) if len(data) <= 4 * largest else len(data)
    except NotFinite as error:
        raise InvalidParams(f"{field}: {error}") from error
    if size > largest:
        raise InvalidParams(f"{field}: may have {largest} canonical bytes, this has {size}")
    return data


def _shown(note: Passage) -> dict[str, Any]:
    return {"id": note.name, "content": note.text, "metadata": json.loads(note.metadata)}


def _texts() -> Any:
    return current_app.extensions["remory_texts"]

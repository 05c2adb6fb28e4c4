"""What the chats' routes answer, and its description for the OpenAPI document.

A collection is HAL (`_links`, `_embedded`, `count`) unless the client prefers application/json: then it is
the bare array.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlencode

import numpy as np
from flask import Response, jsonify, request
from pydantic import BaseModel, ConfigDict, Field, RootModel
from werkzeug.datastructures import MIMEAccept

from remory_service.api.chats_bodies import Reason, Role
from remory_service.store.chat_memories import ChatMemory
from remory_service.store.chats import Chat, Message

# Informer's documents name the tenant of a memory. One server is one tenant.
TENANT = "local"
HAL, PLAIN = "application/hal+json", "application/json"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_LISTS = ("topics", "decisions", "actions", "entities")


class ChatErrorAnswer(BaseModel):
    """Every error of this group."""

    statusCode: int  # noqa: N815
    error: str
    message: str


class Link(BaseModel):
    href: str


class Links(BaseModel):
    """`next` while there is more."""

    self: Link
    next: Link | None = None


class Linked(BaseModel):
    """An answer that says where it is."""

    model_config = ConfigDict(populate_by_name=True)
    links: Links | None = Field(default=None, alias="_links")


class ChatAnswer(Linked):
    permissions: dict[str, Any]
    id: str
    title: str | None
    createdAt: str  # noqa: N815
    updatedAt: str  # noqa: N815
    tenant: str
    messageCount: int  # noqa: N815
    memoryCount: int  # noqa: N815


class MessageMetadata(BaseModel):
    """With what the client sent. `memoryId`: the memory that was made of the message."""

    model_config = ConfigDict(extra="allow")
    createdAt: str  # noqa: N815
    updatedAt: str  # noqa: N815
    liked: Any
    memoryId: str | None  # noqa: N815
    explanation: Any
    files: list[dict[str, Any]]


class MessageAnswer(Linked):
    id: str
    role: Role
    parts: list[dict[str, Any]]
    metadata: MessageMetadata


class MemoryFields(Linked):
    """`vector` as text, null when the present model made none or is not there; `method`: model or extractive."""

    permissions: dict[str, Any]
    id: str
    chatId: str  # noqa: N815
    title: str
    l1: str
    l2: str
    vector: str | None
    topics: list[str]
    decisions: list[str]
    actions: list[str]
    entities: list[str]
    reason: Reason
    method: str
    createdAt: str  # noqa: N815
    updatedAt: str  # noqa: N815
    messageCount: int  # noqa: N815


class CreatedMemoryAnswer(MemoryFields):
    tenant: str


class MemoryAnswer(CreatedMemoryAnswer):
    """`messages` end early before they have more than 64 MiB; `next` and `Link` go on."""

    messages: list[MessageAnswer]


def _collection_of(name: str, item: type[BaseModel], *counts: str) -> ConfigDict:
    """For the document: a collection of such items as HAL, beside the array as which application/json has it."""
    items = {"type": "array", "items": {"$ref": f"#/components/schemas/{item.__name__}"}}
    properties = {
        "_links": {"$ref": f"#/components/schemas/{Links.__name__}"},
        "_embedded": {"type": "object", "required": [name], "properties": {name: items}},
        **{count: {"type": "integer"} for count in counts},
    }
    schema = {"type": "object", "required": list(properties), "properties": properties}
    return cast(ConfigDict, {"openapi_extra": {"content": {HAL: {"schema": schema}}}})


class ChatsAnswer(RootModel[list[ChatAnswer]]):
    """The chats alone, in the order that was asked for."""

    model_config = _collection_of("inf:chat", ChatAnswer, "count", "total")


class MessagesAnswer(RootModel[list[MessageAnswer]]):
    """The messages alone, oldest first."""

    model_config = _collection_of("inf:message", MessageAnswer, "count", "total")


class AddedMessagesAnswer(RootModel[MessageAnswer | list[MessageAnswer]]):
    """The message that was added, or the messages alone where a list was."""

    model_config = _collection_of("inf:message", MessageAnswer, "count")


class ListedMemoriesAnswer(RootModel[list[MemoryFields]]):
    """The memories alone, oldest first."""

    model_config = _collection_of("inf:memory", MemoryFields, "count", "total")


class RegeneratedMemory(BaseModel):
    id: str
    l1: str
    l2: str
    topics: list[str]
    decisions: list[str]
    actions: list[str]
    entities: list[str]
    createdAt: str  # noqa: N815


class RegeneratedAnswer(BaseModel):
    success: bool
    message: str
    memory: RegeneratedMemory


class FoundMemory(BaseModel):
    """`summary` is the memory's l2, `details` its l1, `messageId` its last message, `relevance` 1 - cosine distance."""

    id: str
    rank: int
    summary: str
    details: str
    topics: list[str]
    decisions: list[str]
    actions: list[str]
    entities: list[str]
    messageId: str | None  # noqa: N815
    createdAt: str  # noqa: N815
    relevance: float | None


class MemorySearchAnswer(BaseModel):
    success: bool
    query: str
    totalResults: int  # noqa: N815
    results: list[FoundMemory]


class SuccessAnswer(Linked):
    success: bool


def shown_time(milliseconds: int) -> str:
    """Epoch milliseconds as ISO-8601 in UTC."""
    time = _EPOCH + timedelta(milliseconds=milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def shown_vector(vector: np.ndarray) -> str:
    """A vector [D] as text, from which each element is read back to the last bit of its type."""
    return f"[{','.join(map(str, vector))}]"


def shown_chat(chat: Chat) -> dict[str, Any]:
    """A chat as it is answered."""
    return {
        "permissions": {},
        "id": chat.id,
        "title": chat.title,
        "createdAt": shown_time(chat.created_at),
        "updatedAt": shown_time(chat.updated_at),
        "tenant": TENANT,
        "messageCount": chat.messages,
        "memoryCount": chat.memories,
    }


def shown_message(message: Message) -> dict[str, Any]:
    """A message in the shape of the AI SDK's UI messages."""
    sent = json.loads(message.draft.metadata)
    metadata = {
        "createdAt": shown_time(message.created_at),
        "updatedAt": shown_time(message.updated_at),
        "liked": None,
        "memoryId": message.memory,
        "explanation": None,
        "files": json.loads(message.draft.files),
    }
    return {
        "id": message.id,
        "role": message.draft.role,
        "parts": json.loads(message.draft.parts),
        "metadata": metadata | sent,
    }


def shown_memory(memory: ChatMemory, vector: str | None) -> dict[str, Any]:
    """A memory as it is listed."""
    summary = memory.summary
    return {
        "permissions": {},
        "id": memory.id,
        "chatId": memory.chat,
        "title": summary["title"],
        "l1": summary["l1"],
        "l2": summary["l2"],
        "vector": vector,
        **_lists(memory),
        "reason": memory.reason,
        "method": summary["method"],
        "createdAt": shown_time(memory.created_at),
        "updatedAt": shown_time(memory.updated_at),
        "messageCount": memory.messages,
    }


def shown_regenerated(memory: ChatMemory) -> dict[str, Any]:
    """What the regeneration of a memory answers of it."""
    summary = {name: memory.summary[name] for name in ("l1", "l2")}
    return {"id": memory.id, **summary, **_lists(memory), "createdAt": shown_time(memory.created_at)}


def shown_result(memory: ChatMemory, rank: int, last_message: str | None, relevance: float) -> dict[str, Any]:
    """A memory as a search answers it."""
    return {
        "id": memory.id,
        "rank": rank,
        "summary": memory.summary["l2"],
        "details": memory.summary["l1"],
        **_lists(memory),
        "messageId": last_message,
        "createdAt": shown_time(memory.created_at),
        "relevance": relevance,
    }


def linked(path: str, body: dict[str, Any]) -> Response:
    """One thing, with where it is: `path` below the host that was asked."""
    return jsonify({"_links": {"self": _link(path)}, **body})


@dataclass(frozen=True)
class Part:
    """Which part of a collection this is, and how many things all of it has. `own` and `further` (None at the end) are
    the queries that ask for it and for what follows.
    """

    own: dict[str, Any]
    further: dict[str, Any] | None
    total: int


def collection(path: str, name: str, items: Sequence[dict[str, Any]], part: Part | None = None) -> Response:
    """A collection, or a part of it, in the form that the client prefers. What comes next also stands in `Link`."""
    links = linked_parts(path, part.own, part.further) if part else {"self": _link(path)}
    if prefers_plain():
        response = jsonify(items)
    else:
        counts = {"count": len(items)} | ({"total": part.total} if part else {})
        response = jsonify({"_links": links, "_embedded": {name: items}, **counts})
        response.mimetype = HAL
    name_next(response, links)
    response.headers["Vary"] = "Accept"
    return response


def name_next(response: Response, links: dict[str, dict[str, str]]) -> None:
    """Let the answer's header `Link` say what comes next, if anything does."""
    if "next" in links:
        response.headers["Link"] = f'<{links["next"]["href"]}>; rel="next"'


def linked_parts(path: str, own: dict[str, Any], further: dict[str, Any] | None) -> dict[str, dict[str, str]]:
    """The links of a part: to itself, and to what follows."""
    links = {"self": _link(path, own)}
    return links if further is None else links | {"next": _link(path, further)}


def prefers_plain() -> bool:
    """Whether the client wants a collection as an array: HAL is for all who do not say so."""
    # Without the parameters of a media type, such as charset, which say nothing about its form.
    asked = [(value.partition(";")[0].strip(), quality) for value, quality in request.accept_mimetypes]
    return MIMEAccept(asked).best_match([HAL, PLAIN], default=HAL) == PLAIN


def _link(path: str, query: dict[str, Any] | None = None) -> dict[str, str]:
    asked = "?" + urlencode(query, safe=",") if query else ""
    return {"href": request.host_url.rstrip("/") + path + asked}


def _lists(memory: ChatMemory) -> dict[str, list[str]]:
    return {name: list(memory.summary[name]) for name in _IN_LISTS}

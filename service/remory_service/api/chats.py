"""Chats, their messages, and the memories that are made of them."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Response, current_app, g, jsonify, request
from flask_openapi3 import APIBlueprint, Tag
from werkzeug.http import HTTP_STATUS_CODES

from remory.search.packing import unpack_vector
from remory_service.api.chats_answers import (
    TENANT,
    AddedMessagesAnswer,
    ChatAnswer,
    ChatErrorAnswer,
    ChatsAnswer,
    CreatedMemoryAnswer,
    ListedMemoriesAnswer,
    MemoryAnswer,
    MemorySearchAnswer,
    MessageAnswer,
    MessagesAnswer,
    Part,
    RegeneratedAnswer,
    SuccessAnswer,
    collection,
    linked,
    linked_parts,
    name_next,
    shown_chat,
    shown_memory,
    shown_message,
    shown_regenerated,
    shown_result,
    shown_vector,
)
from remory_service.api.chats_bodies import (
    DEFAULT_FOUND,
    LIST,
    LISTED,
    MOST_MESSAGES,
    ONE,
    ChatBody,
    ChatPath,
    ChatsQuery,
    CreateBody,
    MemoriesQuery,
    MemoryPath,
    MemoryQuery,
    MemorySearchBody,
    MessageBody,
    MessagePath,
    MessagesBody,
    MessagesQuery,
    RegenerateBody,
    too_large,
)
from remory_service.api.generation import Watch
from remory_service.errors import BadRequest, BodyPlace, Forbidden, Group, NotFound, ServiceError, Unavailable
from remory_service.remembering import NoChat, NoMemory, Until
from remory_service.store import chat_memories, chats, passages
from remory_service.store.chat_memories import ChatMemory
from remory_service.store.chats import Chat, Message
from remory_service.store.database import connection, snapshot, transaction
from remory_service.texts import COSINE

LARGEST_PAGE = 64 << 20
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ROLES = {"invoke", "agent", "admin"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN_LOC = 4
_FORMS = ([ONE], [LIST], [LISTED])
_BY_VALIDATOR = "Value error, "
_CLIENT_GONE = "Client Closed Request"


class Conflict(ServiceError):
    """Something else has the name already."""

    status, code = 409, "conflict"


def _shape(error: ServiceError) -> dict[str, Any]:
    name = HTTP_STATUS_CODES.get(error.status, _CLIENT_GONE)
    return {"statusCode": error.status, "error": name, "message": error.detail}


def _mismatch(places: list[BodyPlace]) -> ServiceError:
    """The first place in words, without the form of a body that it was read as."""
    loc, message = places[0]["loc"], places[0]["msg"].removeprefix(_BY_VALIDATOR)
    where = ".".join(str(step) for step in loc[loc[:1] in _FORMS :][:_SHOWN_LOC])
    return BadRequest(f"{where}: {message}" if where else message)


# Ten thousand messages with their parts, and what stands in their texts.
_CHATS = Group("/api/chats", _shape, _mismatch, most_elements=1 << 22)
GROUPS = (_CHATS, replace(_CHATS, prefix="/api/messages"), replace(_CHATS, prefix="/api/memories"))

chat_routes = APIBlueprint(
    "chats",
    __name__,
    url_prefix="/api",
    abp_tags=[Tag(name="chats", description="Chats, their messages, and memories of them, each of one user.")],
    abp_security=[{"bearer": []}, {"header": []}],
    abp_responses=dict.fromkeys((400, 401, 403, 413, 500, 503), ChatErrorAnswer),
)
_NOT_FOUND: dict[str | int, Any] = {404: ChatErrorAnswer}
_BY_MODELS: dict[str | int, Any] = {404: ChatErrorAnswer, 502: ChatErrorAnswer}


@chat_routes.before_request
def _admit() -> None:
    if not g.caller.roles & _ROLES:
        raise Forbidden("this needs a key with the role invoke, agent or admin")


@chat_routes.post("/chats", responses={200: ChatAnswer, 409: ChatErrorAnswer})
def make_chat(body: ChatBody) -> Response:
    """Make a chat, maybe under an id of the client's own. A chat that the user already has is answered as it is."""
    try:
        with connection(), transaction():
            chat = chats.make(g.caller.user, body.id.lower() if body.id else None, body.title, _now())
    except chats.Taken as error:
        raise Conflict("the id cannot be used: choose another one") from error
    return linked(f"/api/chats/{chat.id}", shown_chat(chat))


@chat_routes.get("/chats", responses={200: ChatsAnswer})
def list_chats(query: ChatsQuery) -> Response:
    """The caller's chats, those that changed last first."""
    with connection(), snapshot():
        found, is_more, total = chats.page_of(g.caller.user, query.limit, query.offset, query.place())
    further = {"limit": query.limit, "before": f"{found[-1].updated_at},{found[-1].id}"} if is_more else None
    part = Part(query.model_dump(exclude_none=True), further, total)
    return collection("/api/chats", "inf:chat", [shown_chat(chat) for chat in found], part)


@chat_routes.get("/chats/<chat_id>", responses={200: ChatAnswer, **_NOT_FOUND})
def get_chat(path: ChatPath) -> Response:
    """A chat."""
    with connection():
        chat = _chat(path)
    return linked(f"/api/chats/{chat.id}", shown_chat(chat))


@chat_routes.delete("/chats/<chat_id>", responses={200: SuccessAnswer, **_NOT_FOUND})
def delete_chat(path: ChatPath) -> Response:
    """Delete a chat with its messages, memories and vectors."""
    with connection(), transaction():
        chat = _chat(path)
        chats.remove(chat)
    return linked(f"/api/chats/{chat.id}", {"success": True})


@chat_routes.post("/chats/<chat_id>/messages", responses={200: AddedMessagesAnswer, **_NOT_FOUND})
def add_messages(path: ChatPath, body: MessagesBody) -> Response:
    """Add a message, or a list of them in its order: the list itself, or an object with it in `messages`.

    Answers the message, or the collection of the new messages. All are added, or none.
    """
    drafts = body.drafts()
    with connection(), transaction():
        chat = _chat(path)
        added = chats.add(chat, drafts, _now())
    _autosave().tell(chat.number)
    if body.is_one:
        return linked(f"/api/messages/{added[0].id}", shown_message(added[0]))
    return collection(f"/api/chats/{chat.id}/messages", "inf:message", [shown_message(one) for one in added])


@chat_routes.get("/chats/<chat_id>/messages", responses={200: MessagesAnswer, **_NOT_FOUND})
def list_messages(path: ChatPath, query: MessagesQuery) -> Response:
    """A chat's messages, oldest first. A page ends early before it has more than 64 MiB; `next` and `Link` go on."""
    with connection(), snapshot():
        chat = _chat(path)
        page = chats.page(chat, query.limit, query.offset, LARGEST_PAGE, query.after)
    further = {"limit": query.limit, "after": page.further} if page.further else None
    part = Part(query.model_dump(), further, chat.messages)
    shown = [shown_message(one) for one in page.messages]
    return collection(f"/api/chats/{chat.id}/messages", "inf:message", shown, part)


@chat_routes.put("/messages/<message_id>", responses={200: MessageAnswer, **_NOT_FOUND})
def change_message(path: MessagePath, body: MessageBody) -> Response:
    """Change a message: what is sent takes the place of what there is. Its memory stays until it is regenerated."""
    with connection(), transaction():
        message = _message(path)
        draft = body.draft(body.role or message.draft.role, message.draft)
        if (complaint := too_large(draft)) is not None:
            raise BadRequest(complaint)
        changed = chats.change(message, draft, _now())
        chat = chats.chat_of(changed)
    _autosave().tell(chat, changed=True)
    return linked(f"/api/messages/{changed.id}", shown_message(changed))


@chat_routes.delete("/messages/<message_id>", responses={200: SuccessAnswer, **_NOT_FOUND})
def delete_message(path: MessagePath) -> Response:
    """Delete a message. Its memory stays until it is regenerated."""
    with connection(), transaction():
        message = _message(path)
        chats.remove_message(message, _now())
    return linked(f"/api/messages/{message.id}", {"success": True})


@chat_routes.get("/chats/<chat_id>/memories", responses={200: ListedMemoriesAnswer, **_NOT_FOUND})
def list_chat_memories(path: ChatPath, query: MemoriesQuery) -> Response:
    """A chat's memories, oldest first, each with the number of its messages."""
    with connection(), snapshot():
        chat = _chat(path)
        memories = chat_memories.list_chat(chat, query.limit, query.offset)
        vectors = _vectors(memories)
    items = [shown_memory(memory, vectors.get(memory.passage)) for memory in memories]
    end = query.offset + len(items)
    further = {"limit": query.limit, "offset": end} if items and end < chat.memories else None
    part = Part(query.model_dump(), further, chat.memories)
    return collection(f"/api/chats/{chat.id}/memories", "inf:memory", items, part)


@chat_routes.post("/chats/<chat_id>/memories", responses={200: CreatedMemoryAnswer, **_BY_MODELS})
def create_memory(path: ChatPath, body: CreateBody) -> Response:
    """Make a memory of the oldest messages that have none, of a user and an assistant at least.

    The summary is always the model's. The messages go to the memory in the step that stores it; of two creates at once
    the second finds nothing new. A client that hangs up stops it. One memory takes 10,000 messages at most and 8 MiB of
    what they say, and may end before `messageId` or `asOf` then: the next one goes on.
    """
    as_of = None if body.asOf is None else _milliseconds(body.asOf)
    with connection():
        chat = _chat(path)
        until = Until(_place(chat, body.messageId), as_of)
    watch = Watch(_runtime(), request.environ)
    created = _remembering().create(chat.number, until, body.reason or "user_created", watch.check)
    with connection():
        made = _memory(MemoryPath(memory_id=created.id))
    vector = unpack_vector(created.vector.content, created.vector.dimension)
    shown = shown_memory(made, shown_vector(vector))
    return linked(f"/api/memories/{made.id}", {**shown, "tenant": TENANT})


@chat_routes.post("/chats/<chat_id>/memories/search", responses={200: MemorySearchAnswer, **_BY_MODELS})
def search_chat_memories(path: ChatPath, body: MemorySearchBody) -> Response:
    """The chat's memories that are closest in meaning, by descending cosine; mode hybrid ranks by words as well."""
    with connection():
        place = passages.find_collection(_chat(path).collection)
    question = None if place is None else _texts().ask(body.query)
    results: list[dict[str, Any]] = []
    if place is not None:
        with connection():
            found = _texts().recall([place], question, body.limit or DEFAULT_FOUND, mode=body.mode or COSINE)
            memories = chat_memories.of_passages([one.passage.id for one in found])
            # What was deleted between the two is left out.
            for one in found:
                if (memory := memories.get(one.passage.id)) is not None:
                    last = chat_memories.last_message(memory)
                    results.append(shown_result(memory, len(results) + 1, last, one.score))
    return jsonify({"success": True, "query": body.query, "totalResults": len(results), "results": results})


@chat_routes.get("/memories/<memory_id>", responses={200: MemoryAnswer, **_NOT_FOUND})
def get_memory(path: MemoryPath, query: MemoryQuery) -> Response:
    """A memory, with its messages as they are now. They end early before they have more than 64 MiB; `next` and `Link`
    go on.
    """
    with connection(), snapshot():
        memory = _memory(path)
        page = chats.page_of_memory(memory.number, MOST_MESSAGES, LARGEST_PAGE, query.after)
        vectors = _vectors([memory])
    shown = shown_memory(memory, vectors.get(memory.passage))
    said = [shown_message(message) for message in page.messages]
    further = {"after": page.further} if page.further else None
    links = linked_parts(f"/api/memories/{memory.id}", {"after": query.after} if query.after else {}, further)
    response = jsonify({"_links": links, **shown, "tenant": TENANT, "messages": said})
    name_next(response, links)
    return response


@chat_routes.put("/memories/<memory_id>", responses={200: RegeneratedAnswer, **_BY_MODELS})
def regenerate_memory(path: MemoryPath, body: RegenerateBody) -> Response:
    """Make a memory anew of its messages as they are now, with the present models."""
    with connection():
        memory = _memory(path)
    _remembering().regenerate(memory, Watch(_runtime(), request.environ).check)
    with connection():
        memory = _memory(path)
    message = "Memory regenerated successfully"
    return jsonify({"success": True, "message": message, "memory": shown_regenerated(memory)})


@chat_routes.delete("/memories/<memory_id>", responses={200: SuccessAnswer, **_NOT_FOUND})
def delete_memory(path: MemoryPath) -> Response:
    """Delete a memory and its vector. Its messages stay, and are of no memory again."""
    with connection(), transaction():
        memory = _memory(path)
        chat_memories.remove(memory)
    return linked(f"/api/memories/{memory.id}", {"success": True})


def _now() -> int:
    return current_app.extensions["remory_clock"]()


def _runtime() -> Any:
    return current_app.extensions["remory"]


def _texts() -> Any:
    return current_app.extensions["remory_texts"]


def _remembering() -> Any:
    return current_app.extensions["remory_remembering"]


def _autosave() -> Any:
    return current_app.extensions["remory_autosave"]


def _chat(path: ChatPath) -> Chat:
    """The caller's chat that a path names. Needs a connection. Raises NoChat."""
    found = chats.find(g.caller.user, path.chat_id.lower()) if _UUID.fullmatch(path.chat_id) else None
    if found is None:
        raise NoChat
    return found


def _message(path: MessagePath) -> Message:
    """The message of the caller's that a path names. Needs a connection. Raises NotFound."""
    found = chats.find_message(g.caller.user, path.message_id.lower()) if _UUID.fullmatch(path.message_id) else None
    if found is None:
        raise NotFound("Message not found")
    return found


def _memory(path: MemoryPath) -> ChatMemory:
    """The memory of the caller's that a path names. Needs a connection. Raises NoMemory."""
    found = chat_memories.find(g.caller.user, path.memory_id.lower()) if _UUID.fullmatch(path.memory_id) else None
    if found is None:
        raise NoMemory
    return found


def _place(chat: Chat, message: str | None) -> int | None:
    """A message's place in its chat. Raises BadRequest when the chat has none such."""
    if message is None:
        return None
    place = chats.place_of(chat, message.lower())
    if place is None:
        raise BadRequest("messageId: the chat has no such message")
    return place


def _milliseconds(text: str) -> int:
    """An ISO-8601 date or time as epoch milliseconds. Raises BadRequest."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadRequest("asOf must be a date or a time in ISO-8601, such as 2026-01-15T16:20:00.000Z") from error
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def _vectors(memories: list[ChatMemory]) -> dict[int, str | None]:
    """Vectors of the present model as text, by the memories' passages, of those of which it made one. None while there
    is no model: what is stored is read without one.
    """
    try:
        model = _runtime().embedder().model
    except Unavailable:
        return {}
    return {passage: shown_vector(row) for passage, row in chat_memories.vectors_of(memories, model).items()}

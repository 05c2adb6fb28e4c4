"""Chats: messages that are kept, and the memories that the service makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from remory.client.client import Client

Role = Literal["user", "assistant", "system", "tool"]
Reason = Literal[
    "user_created",
    "user_requested",
    "completed_discussion",
    "made_decision",
    "solved_problem",
    "natural_break",
    "topic_change",
    "autosave",
]
SearchMode = Literal["cosine", "hybrid"]
_CHATS_PAGE = 1000
_MESSAGES_PAGE = 10_000
_MEMORIES_PAGE = 1000


@dataclass(frozen=True)
class Chat:
    """A chat. Times are ISO-8601 in UTC, with milliseconds."""

    id: str
    title: str | None
    created_at: str
    updated_at: str
    message_count: int
    memory_count: int


@dataclass(frozen=True)
class ChatMessage:
    """A message. `parts`: objects with a `type`. `metadata`: what was sent, with the service's own fields added."""

    id: str
    role: Role
    parts: tuple[dict[str, Any], ...]
    metadata: dict[str, Any]

    @property
    def text(self) -> str:
        """What the parts of type text say, one after the other."""
        return "".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def memory_id(self) -> str | None:
        """The memory that was made of this message."""
        return self.metadata["memoryId"]


@dataclass(frozen=True)
class ChatMemory:
    """A memory of some messages of a chat.

    `l1`: a detailed summary, Markdown. `l2`: one or two sentences. `vector`: [D], None until the present embedding
    model has made one. `method`: `model`, or `extractive` when the model's text did not keep to the messages and their
    own sentences stand in its place. `messages`: None where the route does not give them. Times are ISO-8601 in UTC.
    """

    id: str
    chat_id: str
    title: str
    l1: str
    l2: str
    topics: tuple[str, ...]
    decisions: tuple[str, ...]
    actions: tuple[str, ...]
    entities: tuple[str, ...]
    vector: tuple[float, ...] | None
    reason: Reason
    method: str
    created_at: str
    updated_at: str
    message_count: int
    messages: tuple[ChatMessage, ...] | None = None


@dataclass(frozen=True)
class MemoryMatch:
    """A memory that a search found. `summary`: its l2, `details`: its l1, `message_id`: its last message.

    `relevance`: the cosine to the query, in [-1, 1], higher is closer; None when it is not known.
    """

    id: str
    rank: int
    summary: str
    details: str
    topics: tuple[str, ...]
    decisions: tuple[str, ...]
    actions: tuple[str, ...]
    entities: tuple[str, ...]
    message_id: str | None
    created_at: str
    relevance: float | None


# Inside the class `list` is its method.
_Found = list[MemoryMatch]
_Memories = list[ChatMemory]
_Messages = list[ChatMessage]


class Chats:
    """The chats of the caller on a Remory service.

        chats = Chats(Client(key="rk_…"))
        chat = chats.create(title="Build failures")
        chats.add(chat.id, [{"role": "user", "text": "What fails?"}, {"role": "assistant", "text": "The parser."}])
        memory = chats.remember(chat.id)
        chats.search(chat.id, "What failed?")[0].summary

    Chats, messages and memories of another user are answered like those that do not exist, with `NotFound`. Methods
    raise a `RemoryHTTPError`.
    """

    def __init__(self, client: Client):
        self.client = client

    def create(self, id: str | None = None, title: str | None = None) -> Chat:
        """`POST /api/chats`. `id`: a UUID; a chat of the caller's that has it is returned as it is."""
        return _chat(self.client.call("POST", "/api/chats", _given(id=id, title=title)))

    def list(self) -> Iterator[Chat]:
        """`GET /api/chats`: all chats, those that changed last first."""
        seen: set[str] = set()
        for item in self._pages("/api/chats", "inf:chat", _CHATS_PAGE):
            # A chat that changes meanwhile pushes others to the next page.
            if item["id"] not in seen:
                seen.add(item["id"])
                yield _chat(item)

    def get(self, chat_id: str) -> Chat:
        """`GET /api/chats/{id}`."""
        return _chat(self.client.call("GET", _path("chats", chat_id)))

    def delete(self, chat_id: str) -> None:
        """`DELETE /api/chats/{id}`: the chat with its messages and memories."""
        self.client.call("DELETE", _path("chats", chat_id))

    def add(self, chat_id: str, messages: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> _Messages:
        """`POST /api/chats/{id}/messages`: all of them or none, in their order.

        A message is {"role", "text" or "parts", "metadata"?, "files"?}. The service may make a memory of the chat by
        itself when enough has come together.
        """
        listed = [messages] if isinstance(messages, Mapping) else messages
        body = {"messages": [dict(message) for message in listed]}
        answer = self.client.call("POST", f"{_path('chats', chat_id)}/messages", body)
        return [_message(item) for item in answer["_embedded"]["inf:message"]]

    def messages(self, chat_id: str) -> Iterator[ChatMessage]:
        """`GET /api/chats/{id}/messages`: all messages, oldest first."""
        for item in self._pages(f"{_path('chats', chat_id)}/messages", "inf:message", _MESSAGES_PAGE):
            yield _message(item)

    def update_message(
        self,
        message_id: str,
        *,
        text: str | None = None,
        parts: Sequence[Mapping[str, Any]] | None = None,
        role: Role | None = None,
        metadata: Mapping[str, Any] | None = None,
        files: Sequence[Mapping[str, Any]] | None = None,
    ) -> ChatMessage:
        """`PUT /api/messages/{id}`: what is given takes the place of what there is.

        The memory of the message stays as it was until it is regenerated.
        """
        body = _given(text=text, parts=parts, role=role, metadata=metadata, files=files)
        return _message(self.client.call("PUT", _path("messages", message_id), body))

    def delete_message(self, message_id: str) -> None:
        """`DELETE /api/messages/{id}`. The memory of the message stays as it was until it is regenerated."""
        self.client.call("DELETE", _path("messages", message_id))

    def remember(
        self,
        chat_id: str,
        message_id: str | None = None,
        as_of: datetime | str | None = None,
        reason: Reason | None = None,
    ) -> ChatMemory:
        """`POST /api/chats/{id}/memories`: a memory of the oldest messages that are of none yet.

        `message_id`: up to and with this message. `as_of`: up to this time; a datetime, or ISO-8601, where no offset
        means UTC. `reason`: by default `user_created`. Raises InvalidRequest when there are no new messages of both a
        user and an assistant, ServerFailed when the summary could not be written; nothing is stored then.
        """
        time = as_of.isoformat() if isinstance(as_of, datetime) else as_of
        body = _given(messageId=message_id, asOf=time, reason=reason)
        return _memory(self.client.call("POST", f"{_path('chats', chat_id)}/memories", body))

    def memories(self, chat_id: str) -> _Memories:
        """`GET /api/chats/{id}/memories`: all memories of the chat, oldest first."""
        path = f"{_path('chats', chat_id)}/memories"
        return [_memory(item) for item in self._pages(path, "inf:memory", _MEMORIES_PAGE)]

    def memory(self, memory_id: str) -> ChatMemory:
        """`GET /api/memories/{id}`: a memory with its messages as they are now."""
        path = _path("memories", memory_id)
        item = page = self.client.call("GET", path)
        while (query := _further(page)) is not None:
            page = self.client.call("GET", path + query)
            item["messages"] += page["messages"]
        return _memory(item)

    def regenerate(self, memory_id: str) -> ChatMemory:
        """`PUT /api/memories/{id}`: write summary and vector anew from the messages as they are now."""
        self.client.call("PUT", _path("memories", memory_id), {"action": "regenerate"})
        return self.memory(memory_id)

    def forget(self, memory_id: str) -> None:
        """`DELETE /api/memories/{id}`. Its messages stay, and can be remembered again."""
        self.client.call("DELETE", _path("memories", memory_id))

    def search(self, chat_id: str, query: str, limit: int = 5, mode: SearchMode | None = None) -> _Found:
        """`POST /api/chats/{id}/memories/search`: the memories closest to `query` by meaning, the closest first.

        `query`: 1 to 500 characters. `limit`: 1 to 20. `mode`: `hybrid` also ranks by the words themselves, so that
        exact names and numbers are found.
        """
        body = {"query": query, "limit": limit} | _given(mode=mode)
        answer = self.client.call("POST", f"{_path('chats', chat_id)}/memories/search", body)
        return [_match(item) for item in answer["results"]]

    def _pages(self, path: str, name: str, limit: int) -> Iterator[dict[str, Any]]:
        """The items of a collection, a page at a time. A page may be shorter than `limit` and yet not the last."""
        query: str | None = f"?limit={limit}"
        while query is not None:
            page = self.client.call("GET", path + query)
            yield from page["_embedded"][name]
            query = _further(page)


def _further(page: Mapping[str, Any]) -> str | None:
    """The query that asks for what follows; None at the end. The service's own name for its host may be another."""
    following = page["_links"].get("next")
    return None if following is None else f"?{urlsplit(following['href']).query}"


def _path(group: str, id: str) -> str:
    return f"/api/{group}/{quote(id, safe='')}"


def _chat(item: Mapping[str, Any]) -> Chat:
    return Chat(
        id=item["id"],
        title=item["title"],
        created_at=item["createdAt"],
        updated_at=item["updatedAt"],
        message_count=item["messageCount"],
        memory_count=item["memoryCount"],
    )


def _message(item: Mapping[str, Any]) -> ChatMessage:
    return ChatMessage(item["id"], item["role"], tuple(item["parts"]), item["metadata"])


def _memory(item: Mapping[str, Any]) -> ChatMemory:
    vector, messages = item["vector"], item.get("messages")
    return ChatMemory(
        id=item["id"],
        chat_id=item["chatId"],
        title=item["title"],
        l1=item["l1"],
        l2=item["l2"],
        **_extracted(item),
        vector=None if vector is None else tuple(json.loads(vector)),
        reason=item["reason"],
        method=item["method"],
        created_at=item["createdAt"],
        updated_at=item["updatedAt"],
        message_count=item["messageCount"],
        messages=None if messages is None else tuple(map(_message, messages)),
    )


def _match(item: Mapping[str, Any]) -> MemoryMatch:
    return MemoryMatch(
        id=item["id"],
        rank=item["rank"],
        summary=item["summary"],
        details=item["details"],
        **_extracted(item),
        message_id=item["messageId"],
        created_at=item["createdAt"],
        relevance=item["relevance"],
    )


def _extracted(item: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(item[name]) for name in ("topics", "decisions", "actions", "entities")}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

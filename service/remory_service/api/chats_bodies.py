"""The bodies of the chats' routes. Unknown fields are ignored; null stands for a field that is not sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag, model_validator

from remory_service.canonical import dump
from remory_service.store.chats import Draft

MOST_MESSAGES = 10_000
MOST_CHATS = 1000
MOST_MEMORIES = 1000
DEFAULT_CHATS = 100
DEFAULT_FOUND = 5
LARGEST_MESSAGE = 16 << 20
_LONGEST_TITLE = 1000
# The forms of a body that adds messages, as validation names them.
ONE, LIST, LISTED = "one", "list", "listed"
_LARGEST_OFFSET = 2**31 - 1
_LARGEST_PLACE = 2**63 - 1
_FURTHER = "Where to go on, as `next` has it"
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_CHAT_PLACE = r"^[0-9]{1,18},[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
# What the server says of a message in its metadata: sent back by a client that read it, it says nothing new.
_SERVERS_OWN = ("createdAt", "updatedAt", "memoryId", "files")

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


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(part.get("type"), str):
        raise ValueError("a part needs a type, as text")
    if part["type"] == "text" and not isinstance(part.get("text"), str):
        raise ValueError("a part of type text needs a text")
    return part


def _query(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


Id = Annotated[str, Field(pattern=_UUID, max_length=36)]
Part = Annotated[dict[str, Any], AfterValidator(_part)]
Parts = Annotated[list[Part], Field(fail_fast=True)]
Files = Annotated[list[dict[str, Any]], Field(fail_fast=True)]


class Body(BaseModel):
    """A JSON object with at least these fields."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class ChatPath(BaseModel):
    chat_id: str = Field(description="The chat's id, a UUID.")


class MessagePath(BaseModel):
    message_id: str = Field(description="The message's id, a UUID.")


class MemoryPath(BaseModel):
    memory_id: str = Field(description="The memory's id, a UUID.")


class ChatsQuery(BaseModel):
    """Which of the caller's chats, those that changed last first."""

    limit: int = Field(default=DEFAULT_CHATS, ge=1, le=MOST_CHATS)
    offset: int = Field(default=0, ge=0, le=_LARGEST_OFFSET)
    before: str | None = Field(default=None, pattern=_CHAT_PLACE, description=f"{_FURTHER}, whatever was deleted.")

    def place(self) -> tuple[int, str] | None:
        """Time of the last change (epoch ms) and id of the chat that these follow."""
        if self.before is None:
            return None
        time, _, chat = self.before.partition(",")
        return int(time), chat.lower()


class MessagesQuery(BaseModel):
    """Which of the chat's messages, oldest first."""

    limit: int = Field(default=MOST_MESSAGES, ge=1, le=MOST_MESSAGES)
    offset: int = Field(default=0, ge=0, le=_LARGEST_OFFSET)
    after: int = Field(default=0, ge=0, le=_LARGEST_PLACE, description=f"{_FURTHER}, whatever was deleted.")


class MemoriesQuery(BaseModel):
    """Which of the chat's memories, oldest first."""

    limit: int = Field(default=MOST_MEMORIES, ge=1, le=MOST_MEMORIES)
    offset: int = Field(default=0, ge=0, le=_LARGEST_OFFSET)


class MemoryQuery(BaseModel):
    """Which of the memory's messages, oldest first."""

    after: int = Field(default=0, ge=0, le=_LARGEST_PLACE, description=f"{_FURTHER}.")


class ChatBody(Body):
    """Make a chat."""

    id: Id | None = Field(default=None, description="A UUID of the client's; one that the user's chat has answers it.")
    title: Annotated[str, Field(max_length=_LONGEST_TITLE)] | None = None


class Content(Body):
    """What a message says: `text`, which stands for one part of type text, or `parts`, each an object with a `type`."""

    text: str | None = None
    parts: Parts | None = None
    metadata: dict[str, Any] | None = Field(
        default=None,
        description="Any JSON object; createdAt, updatedAt and memoryId in it are the server's and ignored.",
    )
    files: Files | None = Field(default=None, description="Objects that describe attached files; also in the metadata.")

    def draft(self, role: str, old: Draft | None = None) -> Draft:
        """As the store takes it, with what is not sent from `old`."""
        sent = self.metadata or {}
        parts = [{"type": "text", "text": self.text}] if self.text is not None else self.parts
        files = sent.get("files") if self.files is None else self.files
        own = None if self.metadata is None else {key: sent[key] for key in sent if key not in _SERVERS_OWN}
        return Draft(
            role,
            _kept(parts, old.parts if old else b"[]"),
            _kept(own, old.metadata if old else b"{}"),
            _kept(files, old.files if old else b"[]"),
        )

    @model_validator(mode="after")
    def _check(self) -> Content:
        if self.text is not None and self.parts is not None:
            raise ValueError("send text or parts, not both")
        embedded = (self.metadata or {}).get("files")
        if embedded is not None and not _is_objects(embedded):
            raise ValueError("files in the metadata must be a list of objects")
        if (complaint := too_large(self.draft(""))) is not None:
            raise ValueError(complaint)
        return self


class NewMessage(Content):
    """A message to add."""

    role: Role

    @model_validator(mode="after")
    def _check_content(self) -> NewMessage:
        if self.text is None and self.parts is None:
            raise ValueError("a message needs text or parts")
        return self


class MessageBody(Content):
    """Change a message: what is sent takes the place of what there is."""

    role: Role | None = None


NewMessages = Annotated[list[NewMessage], Field(min_length=1, max_length=MOST_MESSAGES, fail_fast=True)]


class ListedMessages(Body):
    """Messages to add, in their order."""

    messages: NewMessages


def _form(value: Any) -> str:
    if isinstance(value, list):
        return LIST
    return LISTED if isinstance(value, dict) and value.get("messages") is not None else ONE


class MessagesBody(RootModel[Any]):
    """A message, a list of messages, or an object with a list of them in `messages`."""

    root: Annotated[
        Annotated[NewMessage, Tag(ONE)] | Annotated[NewMessages, Tag(LIST)] | Annotated[ListedMessages, Tag(LISTED)],
        Discriminator(_form),
    ]

    @property
    def is_one(self) -> bool:
        """Whether it is a message by itself, whose answer is one too."""
        return isinstance(self.root, NewMessage)

    def drafts(self) -> list[Draft]:
        """As the store takes them."""
        return [message.draft(message.role) for message in self._messages()]

    def _messages(self) -> Sequence[NewMessage]:
        if isinstance(self.root, ListedMessages):
            return self.root.messages
        return self.root if isinstance(self.root, list) else [self.root]


class CreateBody(Body):
    """Make a memory of the oldest messages that have none."""

    messageId: Id | None = Field(default=None, description="Up to and with this message of the chat.")  # noqa: N815
    asOf: str | None = Field(default=None, description="Up to this time, ISO-8601; UTC without an offset.")  # noqa: N815
    reason: Reason | None = Field(default=None, description="Default user_created.")


class RegenerateBody(Body):
    """Make a memory anew."""

    action: Literal["regenerate"]


class MemorySearchBody(Body):
    """Search a chat's memories."""

    query: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_query)]
    limit: Annotated[int, Field(ge=1, le=20)] | None = Field(default=None, description="Default 5.")
    mode: Literal["cosine", "hybrid"] | None = Field(
        default=None, description="hybrid also ranks by words, for exact names and numbers; default cosine."
    )


def too_large(draft: Draft) -> str | None:
    """What is wrong with a message that has more bytes than it may; None for one that has not."""
    if draft.size <= LARGEST_MESSAGE:
        return None
    return f"a message may have {LARGEST_MESSAGE} bytes of JSON, this one has {draft.size}"


def _kept(sent: Any, otherwise: bytes) -> bytes:
    return otherwise if sent is None else dump(sent)


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)

"""The calls of the JSON-RPC memories. Unknown fields are ignored; null stands for a field that is not sent."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    RootModel,
    WithJsonSchema,
)

LONGEST_TEXT = 65536
LONGEST_QUERY = 8192
LONGEST_USER = 256
MOST_FILTERS = 32
LONGEST_FILTER_KEY = 512
DEFAULT_TOP_K = 3
DEFAULT_LIMIT = 10
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LARGEST = 2**63 - 1


def _text(text: str) -> str:
    return _within(LONGEST_TEXT, text)


def _query(text: str) -> str:
    return _within(LONGEST_QUERY, text)


def _within(longest: int, text: str) -> str:
    # Spaces, control characters and what has no shape of its own: such a text would be near to every question.
    if all(unicodedata.category(character)[0] in "CZ" for character in text):
        raise ValueError("must not be empty or blank")
    # A text takes the embedding model seconds for each 10,000 words, and the caller waits for it.
    size = len(text.encode())
    if size > longest:
        raise ValueError(f"may have {longest} bytes of UTF-8, this has {size}")
    return text


def _uuid(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise ValueError("must be a UUID, such as 0b8f3c7e-5d1a-4f6e-9c2b-7a4d8e1f6035")
    return text.lower()


def _user(name: str) -> str:
    if not (1 <= len(name) <= LONGEST_USER and name.isascii() and name.isprintable()):
        raise ValueError(f"must be 1 to {LONGEST_USER} printable ASCII characters, got {len(name)} characters")
    return name


def _whole(value: Any) -> Any:
    """JSON has one kind of number, so 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _offset(value: Any) -> str | int:
    whole = _whole(value)
    if isinstance(whole, str):
        return _uuid(whole)
    if isinstance(whole, bool) or not isinstance(whole, int) or not 0 <= whole <= _LARGEST:
        raise ValueError(f"must be the id of a memory, or a number from 0 to {_LARGEST}")
    return whole


def _filter(conditions: dict[str, Any]) -> dict[str, Any]:
    longest = max((len(key.encode()) for key in conditions), default=0)
    if longest > LONGEST_FILTER_KEY:
        raise ValueError(f"a key may have {LONGEST_FILTER_KEY} bytes of UTF-8, one has {longest}")
    return conditions


NoteText = Annotated[str, AfterValidator(_text)]
QueryText = Annotated[str, AfterValidator(_query)]
NoteId = Annotated[str, AfterValidator(_uuid), Field(json_schema_extra={"format": "uuid"})]
UserName = Annotated[str, AfterValidator(_user)]
NoteScope = Literal["user", "global"]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=1, le=100)]
Offset = Annotated[
    str | int,
    PlainValidator(_offset),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "uuid"}, {"type": "integer", "minimum": 0}]}),
]


class RpcPart(BaseModel):
    """A JSON object with at least these fields."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class MemoryParams(RpcPart):
    """Whose memories: in scope `user` the caller's, or those of `targetUserId` for a key with the role agent or admin;
    in scope `global` those of everybody.
    """

    scope: NoteScope
    target_user: UserName | None = Field(default=None, alias="targetUserId")


class NewMemory(RpcPart):
    """A memory to be saved. An id that the scope has is replaced."""

    id: NoteId | None = Field(default=None, description="Without it: a new one.")
    content: NoteText = Field(description="Not blank, at most 65,536 bytes of UTF-8.")
    metadata: dict[str, Any] | None = Field(default=None, description="At most 16,384 canonical bytes.")


class SaveMemoryParams(MemoryParams):
    memory: NewMemory


class RecallMemoriesParams(MemoryParams):
    query_text: QueryText = Field(alias="queryText", description="Not blank, at most 8,192 bytes of UTF-8.")
    top_k: Count | None = Field(default=None, alias="topK", description="Default 3.")
    filter: Annotated[dict[str, Any], Field(max_length=MOST_FILTERS), AfterValidator(_filter)] | None = Field(
        default=None,
        description="Values that metadata must hold, all of them; a dotted key reaches into nested objects, a list "
        "means any of its values. It is met before the best are chosen.",
    )
    mode: Literal["cosine", "hybrid"] | None = Field(
        default=None,
        description="Default cosine. hybrid also ranks by the words themselves, so that exact names and numbers are "
        "found; scores stay cosines.",
    )


class DeleteMemoryParams(MemoryParams):
    memory_id: NoteId = Field(alias="memoryId")


class ListMemoriesParams(MemoryParams):
    limit: Count | None = Field(default=None, description="Default 10.")
    offset: Offset | None = Field(
        default=None, description="The id of the memory that begins the page, or how many are left out before it."
    )


class SaveMemoryCall(RpcPart):
    method: Literal["MemoryRpc.saveMemory"]
    params: SaveMemoryParams


class RecallMemoriesCall(RpcPart):
    method: Literal["MemoryRpc.recallMemories"]
    params: RecallMemoriesParams


class DeleteMemoryCall(RpcPart):
    method: Literal["MemoryRpc.deleteMemory"]
    params: DeleteMemoryParams


class ListMemoriesCall(RpcPart):
    method: Literal["MemoryRpc.listMemories"]
    params: ListMemoriesParams


Call = SaveMemoryCall | RecallMemoriesCall | DeleteMemoryCall | ListMemoriesCall


class RpcCall(RootModel[Annotated[Call, Field(discriminator="method")]]):
    """A call of one method."""


class RpcFault(BaseModel):
    code: str
    message: str


class RpcErrorAnswer(BaseModel):
    """Every error of this group."""

    success: Literal[False]
    error: RpcFault


class SavedMemory(BaseModel):
    success: Literal[True]
    memoryId: str
    message: str


class ListedMemory(BaseModel):
    id: str
    content: str
    metadata: dict[str, Any]


class RecalledMemory(ListedMemory):
    score: float = Field(description="The cosine, -1 to 1; higher is closer.")


class RecalledMemories(BaseModel):
    """The closest first."""

    success: Literal[True]
    memories: list[RecalledMemory]


class DeletedMemory(BaseModel):
    success: Literal[True]
    message: str


class ListedMemories(BaseModel):
    """The oldest first."""

    success: Literal[True]
    memories: list[ListedMemory]
    next_page_offset: str | None = Field(description="The id of the next memory; null at the end.")


class RpcAnswer(BaseModel):
    """What the method of that call answers."""

    success: Literal[True]
    data: SavedMemory | RecalledMemories | ListedMemories | DeletedMemory

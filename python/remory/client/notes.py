"""Notes: short texts that are found again by their meaning, kept for one user or for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from remory.client.client import Client
from remory.client.errors import InvalidRequest

NoteScope = Literal["user", "global"]
Recall = Literal["cosine", "hybrid"]
_ROUTE = "/api/rpc"
_GROUP = "MemoryRpc"
_PAGE = 100


@dataclass(frozen=True)
class Note:
    """One note. `score`: the cosine to what was asked, in [-1, 1], higher is closer; None outside a recall."""

    id: str
    content: str
    metadata: dict[str, Any]
    score: float | None = None


@dataclass(frozen=True)
class NotesPage:
    """Some notes, oldest first. Iterating goes over them.

    `next_offset`: the id of the note that follows, for `list(offset=…)`; None at the end.
    """

    items: tuple[Note, ...]
    next_offset: str | None

    def __iter__(self) -> Iterator[Note]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


# Inside the class `list` is its method.
_Found = list[Note]


class Notes:
    """The notes of one scope on a Remory service.

        notes = Notes(Client(key="rk_…"))
        notes.save("The nightly build runs at two.", {"team": "builds"})
        notes.recall("When does the build run?", filter={"team": "builds"})[0].content

    `scope`: `user` are the caller's own notes, `global` those that all users of the service share. A key with the role
    agent or admin may work for another user, `target_user`; a key with only the role agent must name one. Methods raise
    a `RemoryHTTPError`.
    """

    def __init__(self, client: Client, scope: NoteScope = "user", target_user: str | None = None):
        self.client = client
        self._context = _given(scope=scope, targetUserId=target_user)

    def save(self, content: str, metadata: Mapping[str, Any] | None = None, id: str | None = None) -> str:
        """`MemoryRpc.saveMemory`: the id of the stored note, which is found as soon as this returns.

        `content`: not blank, at most 65,536 bytes of UTF-8. `metadata`: a JSON object to filter by, at most 16,384
        bytes. `id`: a UUID; a note of this scope that has it is replaced.
        """
        memory = _given(id=id, content=content, metadata=None if metadata is None else dict(metadata))
        return self._call("saveMemory", memory=memory)["memoryId"]

    def recall(
        self, query: str, top_k: int = 3, filter: Mapping[str, Any] | None = None, mode: Recall | None = None
    ) -> _Found:
        """`MemoryRpc.recallMemories`: the notes closest to `query` by meaning, the closest first.

        `filter`: what metadata must equal, all of it; a dotted name reaches into nested objects, a list means any of
        its values. It is applied before the `top_k` (1 to 100) are chosen. `mode`: `hybrid` also ranks by the words
        themselves, so that exact names and numbers are found; the scores stay cosines.
        """
        optional = _given(filter=None if filter is None else dict(filter), mode=mode)
        answer = self._call("recallMemories", queryText=query, topK=top_k, **optional)
        return [_note(found) for found in answer["memories"]]

    def list(self, limit: int = 10, offset: str | int | None = None) -> NotesPage:
        """`MemoryRpc.listMemories`: at most `limit` (1 to 100) notes, oldest first.

        `offset`: the id of the note that begins the page, or how many to leave out.
        """
        answer = self._call("listMemories", limit=limit, **_given(offset=offset))
        return NotesPage(tuple(map(_note, answer["memories"])), answer["next_page_offset"])

    def __iter__(self) -> Iterator[Note]:
        """All notes, oldest first, a page of 100 at a time; those that others add meanwhile too."""
        seen: set[str] = set()
        offset: str | None = None
        while True:
            try:
                page = self.list(limit=_PAGE, offset=offset)
            except InvalidRequest:
                if offset is None:
                    raise
                # The note that began this page was deleted meanwhile, and its place with it: begin again.
                offset = None
                continue
            for note in page:
                if note.id not in seen:
                    seen.add(note.id)
                    yield note
            offset = page.next_offset
            if offset is None:
                return

    def delete(self, id: str) -> None:
        """`MemoryRpc.deleteMemory`. Raises NotFound for an id that this scope does not have."""
        self._call("deleteMemory", memoryId=id)

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        body = {"method": f"{_GROUP}.{method}", "params": self._context | params}
        return self.client.call("POST", _ROUTE, body)["data"]

    def __repr__(self) -> str:
        return f"Notes({', '.join(map(repr, self._context.values()))})"


def _note(found: Mapping[str, Any]) -> Note:
    return Note(found["id"], found["content"], found["metadata"], found.get("score"))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}

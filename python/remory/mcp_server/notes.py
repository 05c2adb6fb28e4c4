"""The tools for notes. Their docstrings are what a model reads when it chooses one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from remory.client import Client, Notes
from remory.client.notes import Note, NoteScope, Recall

_LARGEST_PAGE = 100

Content = Annotated[str, Field(min_length=1, description="The note, in sentences that can be understood alone.")]
Metadata = Annotated[
    dict[str, Any] | None,
    Field(description='Labels to filter by later, such as {"topic": "deploys", "service": "search"}.'),
]
Scope = Annotated[
    NoteScope, Field(description="`user`: this user's own notes. `global`: notes that all users of the service share.")
]
NoteId = Annotated[str, Field(description="The id of a note, as save_note, recall_notes and list_notes give it.")]
NewNoteId = Annotated[
    str | None, Field(description="Only to replace a note: its id. Leave it out for a new note; it gets one.")
]
Query = Annotated[str, Field(min_length=1, description="What you want to know, as a question or a short phrase.")]
Filter = Annotated[
    dict[str, Any] | None,
    Field(
        description='Only notes whose metadata equal all of this, such as {"topic": "deploys"}. A dotted name reaches '
        "into nested objects, a list means any of its values."
    ),
]
Mode = Annotated[
    Recall | None,
    Field(description="`hybrid` also looks for the words themselves: for exact names, numbers and codes."),
]
Limit = Annotated[int, Field(ge=1, le=_LARGEST_PAGE, description="At most so many notes.")]
Offset = Annotated[str | int | None, Field(description="`next_offset` of the page before; leave it out to begin.")]


class SavedNote(BaseModel):
    """A note that is stored."""

    id: str = Field(description="For delete_note, or to replace the note.")


class FoundNote(BaseModel):
    """A note with its closeness to the query."""

    id: str
    content: str
    metadata: dict[str, Any]
    score: float = Field(description="The cosine to the query, in [-1, 1]; higher is closer.")


class FoundNotes(BaseModel):
    """The notes closest to a query."""

    notes: list[FoundNote] = Field(description="The closest first.")


class ListedNote(BaseModel):
    """A note in a list."""

    id: str
    content: str
    metadata: dict[str, Any]


class ListedNotes(BaseModel):
    """A page of notes."""

    notes: list[ListedNote] = Field(description="The oldest first.")
    next_offset: str | None = Field(description="`offset` of the next page; null when there is none.")


class DeletedNote(BaseModel):
    """A note that is gone."""

    id: str
    deleted: bool


class NoteTools:
    """Tools that keep, find and drop notes. `target_user`: whose notes, if not the key's own user's."""

    def __init__(self, client: Client, target_user: str | None = None):
        self._client = client
        self._target_user = target_user

    def save_note(
        self, content: Content, metadata: Metadata = None, id: NewNoteId = None, scope: Scope = "user"
    ) -> SavedNote:
        """Remember something beyond this conversation: a fact, a decision, a preference, how a problem was solved.

        Use it as soon as you learn something that will matter later, and when the user asks you to remember. One
        thing in each note, in full sentences with names and numbers: whoever reads it later does not know this
        conversation. Do not save passwords or keys. To correct a note, save it again with its `id`.
        """
        return SavedNote(id=self._notes(scope).save(content, metadata, id))

    def recall_notes(
        self,
        query: Query,
        top_k: Limit = 3,
        filter: Filter = None,
        mode: Mode = None,
        scope: Scope = "user",
    ) -> FoundNotes:
        """Find saved notes by their meaning.

        Use it at the start of a task, and whenever the answer may depend on what was said, decided or found out in
        earlier conversations. The closest notes come back even if none of them fits: read them, and use only what
        answers the question.
        """
        found = self._notes(scope).recall(query, top_k, filter, mode)
        return FoundNotes(notes=[FoundNote(**vars(note)) for note in found])

    def list_notes(self, limit: Limit = 10, offset: Offset = None, scope: Scope = "user") -> ListedNotes:
        """List all saved notes page by page, the oldest first.

        Use it to review, correct or clear up what is saved. To answer a question use recall_notes instead.
        """
        page = self._notes(scope).list(limit, offset)
        return ListedNotes(notes=list(map(_listed, page)), next_offset=page.next_offset)

    def delete_note(self, id: NoteId, scope: Scope = "user") -> DeletedNote:
        """Delete a note for good. Use it when a note is wrong or outdated, or when the user asks to forget it."""
        self._notes(scope).delete(id)
        return DeletedNote(id=id, deleted=True)

    def _notes(self, scope: NoteScope) -> Notes:
        return Notes(self._client, scope, self._target_user if scope == "user" else None)


def _listed(note: Note) -> ListedNote:
    return ListedNote(id=note.id, content=note.content, metadata=note.metadata)

"""Own data: text files and transcripts, as runs of token ids that a memory may have to stand for."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remory.errors import InvalidInput
from remory.training.phrasing import Phrasing
from remory.training.sessions import Turn

TEXTS, TRANSCRIPTS = (".txt", ".md"), (".jsonl",)
_ROLES = frozenset({"system", "user", "assistant", "tool"})
_SYSTEM = "You are a helpful assistant."
_TASK = "Read what follows with me. I will ask about it later."


@dataclass(frozen=True)
class Document:
    """One text or one session. `prefix`: ids that stay verbatim in front. `ids`: the rest, in order.

    `bare`: the ids are plain text without the markup of messages.
    """

    prefix: tuple[int, ...]
    ids: array[int]
    bare: bool


@dataclass(frozen=True)
class Documents:
    """All documents that were named, and the SHA-256 (hex) of their files' contents in the order they were read."""

    documents: tuple[Document, ...]
    digest: str

    @property
    def tokens(self) -> int:
        return sum(len(document.ids) for document in self.documents)


def read_documents(paths: Sequence[Path], phrasing: Phrasing, vocabulary: int, actor_revision: str) -> Documents:
    """Read files, and all files of the known kinds in folders, in the order of their names.

    Raises InvalidInput that names file and line for what cannot be used, ids of another actor among it.
    """
    reader = _Reader(phrasing, vocabulary, actor_revision)
    documents: list[Document] = []
    digest = hashlib.sha256()
    for file in _list_files(paths):
        content = file.read_bytes()
        digest.update(len(content).to_bytes(8, "little") + content)
        documents += reader.read(file, content)
    return Documents(tuple(document for document in documents if len(document.ids)), digest.hexdigest())


def _list_files(paths: Sequence[Path]) -> list[Path]:
    known = (*TEXTS, *TRANSCRIPTS)
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.suffix.lower() in known and file.is_file())
            if not found:
                raise InvalidInput(f"the folder {path} holds no file that ends in {', '.join(known)}")
            files += found
        elif not path.is_file():
            raise InvalidInput(f"there is no file or folder {path}")
        elif path.suffix.lower() not in known:
            raise InvalidInput(f"{path} ends in none of {', '.join(known)}")
        else:
            files.append(path)
    return files


class _Reader:
    def __init__(self, phrasing: Phrasing, vocabulary: int, actor_revision: str) -> None:
        self._phrasing, self._vocabulary, self._revision = phrasing, vocabulary, actor_revision
        self._prefix = tuple(phrasing.prefix(_SYSTEM, _TASK))

    def read(self, file: Path, content: bytes) -> Iterator[Document]:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{file} is not UTF-8: {error}") from error
        if file.suffix.lower() in TEXTS:
            yield Document(self._prefix, array("q", self._phrasing.encode(text.strip())), bare=True)
            return
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    yield self._session(json.loads(line))
                except (InvalidInput, ValueError) as error:
                    raise InvalidInput(f"{file}, line {number}: {error}") from error

    def _session(self, record: Any) -> Document:
        if not isinstance(record, dict):
            raise InvalidInput(f"a line must hold an object, got a {type(record).__name__}")
        if "messages" in record:
            return self._from_messages(record["messages"])
        if "history_ids" in record:
            return self._from_ids(record)
        raise InvalidInput(f"a line needs messages or history_ids, got {', '.join(sorted(record)) or 'nothing'}")

    def _from_messages(self, messages: Any) -> Document:
        """System message and task are the prefix, as a harness keeps them; where one is absent, one of ours stands."""
        if not isinstance(messages, list) or not messages:
            raise InvalidInput("messages must be a list with at least one message")
        turns = [self._turn(message) for message in messages]
        system, task = _SYSTEM, _TASK
        if turns[0].role == "system":
            system = turns.pop(0).text
        if turns and turns[0].role == "user":
            task = turns.pop(0).text
        ids = array("q", (token for turn in turns for token in self._phrasing.turn(turn)[0]))
        return Document(tuple(self._phrasing.prefix(system, task)), ids, bare=False)

    def _turn(self, message: Any) -> Turn:
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise InvalidInput(f"a message needs a role of {', '.join(sorted(_ROLES))}, got {_shorten(message)}")
        content = message.get("content") or ""
        if isinstance(content, list):
            texts = [part.get("text") for part in content if isinstance(part, dict)]
            content = "\n".join(text for text in texts if isinstance(text, str))
        if not isinstance(content, str):
            raise InvalidInput(f"content must be text, got {_shorten(content)}")
        calls = [json.dumps(call.get("function", call)) for call in message.get("tool_calls") or []]
        return Turn(message["role"], "\n".join(filter(None, [content, *calls])))

    def _from_ids(self, record: dict[str, Any]) -> Document:
        stated = record.get("actor_revision")
        if stated is not None and stated != self._revision:
            raise InvalidInput(f"these ids are of the actor revision {stated}, the actor here is {self._revision}")
        prefix = self._ids(record, "prefix_ids")
        ids = [*self._ids(record, "history_ids"), *self._ids(record, "continuation_ids")]
        return Document(tuple(prefix) or self._prefix, array("q", ids), bare=False)

    def _ids(self, record: dict[str, Any], name: str) -> list[int]:
        ids = record.get(name) or []
        if not isinstance(ids, list) or not all(type(token) is int for token in ids):
            raise InvalidInput(f"{name} must be a list of integers, got {_shorten(ids)}")
        if ids and not (min(ids) >= 0 and max(ids) < self._vocabulary):
            raise InvalidInput(
                f"{name} must be within 0 to {self._vocabulary - 1}, the actor's tokens; got {min(ids)} to {max(ids)}"
            )
        return ids


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."

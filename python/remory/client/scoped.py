"""Scoped memory: values and vectors that belong to a session, an actor, a workflow, or everybody."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol

from remory.client.client import Client
from remory.client.errors import InvalidScope, InvalidVector, RevisionConflict
from remory.client.feed import ChangeFeed
from remory.client.lease import Lease

Kind = Literal["value", "vector"]
Strategy = Literal["linear", "hnsw"]
_ROUTE = "/api/v2/memory"
_UPDATE_ATTEMPTS = 30
_FIRST_WAIT_SECONDS = 0.005
_LONGEST_WAIT_SECONDS = 0.5


class Array(Protocol):
    """A numpy array, a torch tensor, or whatever else makes a list of itself."""

    def tolist(self) -> Any: ...


Embedding = Sequence[float] | Array


@dataclass(frozen=True)
class Value:
    """What `read` found. A key that is missing, deleted or expired has `found` False, value None and revision 0."""

    found: bool
    value: Any
    revision: int


@dataclass(frozen=True)
class Written:
    """A stored value. `expires_at`: epoch milliseconds, None for a value that stays."""

    revision: int
    expires_at: int | None


@dataclass(frozen=True)
class Entry:
    """A live key in a list. Times in epoch milliseconds. Values have `expires_at` (or stay), vectors a `dimension`."""

    key: str
    revision: int
    updated_at: int
    expires_at: int | None = None
    dimension: int | None = None


@dataclass(frozen=True)
class WrittenVector:
    """A stored vector."""

    revision: int
    dimension: int


@dataclass(frozen=True)
class Vector:
    """What `get_vector` found. A missing key: `found` False, no embedding, no metadata, dimension and revision 0."""

    found: bool
    key: str
    revision: int
    dimension: int
    embedding: list[float] | None
    metadata: dict[str, Any] | None


@dataclass(frozen=True)
class Match:
    """One vector that a search returned. `score`: the cosine, in [-1, 1], higher is closer."""

    key: str
    revision: int
    metadata: dict[str, Any]
    score: float


@dataclass(frozen=True)
class Matches:
    """A search's answer: `items` by score descending, then by key. Iterating goes over the items.

    `scanned`: vectors that were compared. `strategy`: the one that was really used. `dimension`: the query's.
    """

    items: tuple[Match, ...]
    scanned: int
    strategy: Strategy
    dimension: int

    def __iter__(self) -> Iterator[Match]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class ScopedMemory:
    """Values and vectors on a Remory service, in four kinds of scopes.

        memory = ScopedMemory(Client(key="rk_…"))
        notes = memory.session("build-7")
        notes.write("goal", {"text": "green build"})
        memory.shared.update("builds", lambda count: count + 1, default=0)

    A worker's key needs a `lease`, which brings the ids of its session, workflow and actor. Methods raise
    `RemoryHTTPError`; its subclasses tell the service's codes apart. Only `update` and the feed try anything again.
    """

    def __init__(self, client: Client, *, lease: Lease | None = None):
        self.client = client
        self._lease = lease

    @property
    def shared(self) -> Scope:
        """The global scope: every user of the service reads and writes it."""
        return Scope(self, "global")

    def session(self, session_id: str | None = None) -> Scope:
        """A session's memory; without an id the lease's session, else the client's own."""
        own = self.client.session if self._lease is None else None
        return self._scope("session", "session_id", own if session_id is None else session_id)

    def actor(self, actor_id: str | None = None) -> Scope:
        """An actor's memory, over all its sessions; without an id the lease's actor."""
        return self._scope("actor", "actor_id", actor_id)

    def workflow(self, root_id: str | None = None) -> Scope:
        """The memory of a workflow, named by its root; without an id the lease's workflow."""
        return self._scope("workflow", "root_id", root_id)

    def changes(
        self,
        *,
        after: int = 0,
        prefix: str | None = None,
        page_size: int = 1000,
        follow: bool = False,
        poll_seconds: float = 1.0,
        patience_seconds: float = 60.0,
        resnapshot: Callable[[], object] | None = None,
    ) -> ChangeFeed:
        """All changes that the caller may see, after the sequence `after`, in every scope. See `ChangeFeed`.

        With `follow` iterating waits for further changes, and looks every `poll_seconds`. A server that is away is
        waited for, up to `patience_seconds`. Changes are kept for 30 days: when those after the cursor are gone,
        `CursorExpired` is raised, unless `resnapshot` is given. It is called to read the state anew, and the feed goes
        on with the oldest change there is.
        """
        return ChangeFeed(
            self.client,
            self.context(),
            after=after,
            prefix=prefix,
            page_size=page_size,
            follow=follow,
            poll_seconds=poll_seconds,
            patience_seconds=patience_seconds,
            resnapshot=resnapshot,
        )

    def lease(
        self,
        *,
        task_id: str,
        step_id: str,
        root_id: str,
        session_id: str,
        actor_id: str | None = None,
        ttl_seconds: int = 300,
    ) -> Lease:
        """A lease on these scopes for a worker, for which the caller needs the role `invoke`. See `Lease`."""
        return Lease.take(
            self.client,
            task_id=task_id,
            step_id=step_id,
            root_id=root_id,
            session_id=session_id,
            actor_id=actor_id,
            ttl_seconds=ttl_seconds,
        )

    def context(self) -> dict[str, str]:
        """What every request carries: nothing, or the lease."""
        return {} if self._lease is None else self._lease.context()

    def _scope(self, kind: str, field: str, name: str | None) -> Scope:
        if name is None and self._lease is None:
            raise InvalidScope(f"the scope {kind!r} needs its {field}, or a lease that brings it")
        return Scope(self, kind, {} if name is None else {field: name})


class Scope:
    """One scope of a `ScopedMemory`. Keys are 1 to 512 bytes of UTF-8 without control characters.

    A value and a vector under the same key are two entries with a revision each. Revisions start at 1 and never go
    back, not even over a delete. `expected_revision` makes a write conditional: it raises `RevisionConflict` unless the
    entry's live revision is this one, where 0 stands for an entry that does not live.
    """

    def __init__(self, memory: ScopedMemory, kind: str, ids: Mapping[str, str] | None = None):
        self._memory = memory
        self._context = {"scope": kind, **(ids or {})}

    def read(self, key: str) -> Value:
        """`POST /api/v2/memory/read`."""
        answer = self._post("read", key=key)
        return Value(answer["found"], answer["value"], answer["revision"])

    def write(
        self, key: str, value: Any, *, ttl_seconds: int | None = None, expected_revision: int | None = None
    ) -> Written:
        """`POST /api/v2/memory/write`: any JSON value of at most 1 MiB.

        Without `ttl_seconds` the value stays, also when it had an end before.
        """
        optional = _given(ttl_seconds=ttl_seconds, expected_revision=expected_revision)
        answer = self._post("write", key=key, value=value, **optional)
        return Written(answer["revision"], answer["expires_at"])

    def delete(self, key: str, *, expected_revision: int | None = None) -> bool:
        """`POST /api/v2/memory/delete`: False when there was nothing to delete."""
        return self._post("delete", key=key, **_given(expected_revision=expected_revision))["deleted"]

    def update(
        self,
        key: str,
        function: Callable[[Any], Any],
        *,
        default: Any = None,
        ttl_seconds: int | None = None,
        attempts: int = _UPDATE_ATTEMPTS,
    ) -> Value:
        """Replace a value by `function(value)` without losing what others write meanwhile; the value it has now.

        A missing key gives `default` to the function. When somebody was faster the function is called again with the
        value they wrote, so it should do nothing but compute. After `attempts` the last RevisionConflict is raised.
        A ConnectionFailed leaves open whether the update was stored; it is not tried again.
        """
        for attempt in range(attempts):
            before = self.read(key)
            value = function(before.value if before.found else default)
            try:
                written = self.write(key, value, ttl_seconds=ttl_seconds, expected_revision=before.revision)
            except RevisionConflict:
                if attempt + 1 == attempts:
                    raise
                # Those who met once should not come back at the same moment.
                time.sleep(random.uniform(0, min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2**attempt)))
            else:
                return Value(True, value, written.revision)
        raise ValueError(f"attempts must be at least 1, got {attempts}")

    def list(self, kind: Kind = "value", *, prefix: str | None = None, page_size: int = 1000) -> Iterator[Entry]:
        """`POST /api/v2/memory/list`: all live keys of a kind, in ascending order of their UTF-8 bytes.

        Asks for a page when the one before is used up. What others write meanwhile is seen if its key is still ahead.
        """
        cursor: str | None = None
        while True:
            optional = _given(prefix=prefix, cursor=cursor)
            answer = self._post("list", kind=kind, limit=page_size, **optional)
            for item in answer["items"]:
                yield Entry(**{name: item.get(name) for name in Entry.__dataclass_fields__})
            cursor = answer["next_cursor"]
            if cursor is None:
                return

    def set_vector(
        self,
        key: str,
        embedding: Embedding,
        metadata: Mapping[str, Any] | None = None,
        *,
        expected_revision: int | None = None,
    ) -> WrittenVector:
        """`POST /api/v2/memory/vector/set`: a vector with metadata to filter by, searchable as soon as this returns.

        `embedding`: [D] numbers as a list, a numpy array or a torch tensor of any device and dtype.
        """
        optional = _given(metadata=metadata, expected_revision=expected_revision)
        answer = self._post("vector/set", key=key, embedding=_numbers(embedding), **optional)
        return WrittenVector(answer["revision"], answer["dimension"])

    def get_vector(self, key: str) -> Vector:
        """`POST /api/v2/memory/vector/get`."""
        answer = self._post("vector/get", key=key)
        return Vector(**{name: answer[name] for name in Vector.__dataclass_fields__})

    def delete_vector(self, key: str, *, expected_revision: int | None = None) -> bool:
        """`POST /api/v2/memory/vector/delete`: False when there was nothing to delete."""
        return self._post("vector/delete", key=key, **_given(expected_revision=expected_revision))["deleted"]

    def search(
        self,
        query: Embedding,
        top_k: int = 10,
        *,
        filters: Mapping[str, Any] | None = None,
        strategy: Strategy | None = None,
    ) -> Matches:
        """`POST /api/v2/memory/vector/search`: the closest vectors by cosine among those of the query's dimension.

        `filters`: what top-level metadata must equal, all of it; applied before the `top_k` are chosen. `strategy`:
        `linear` is exact, `hnsw` approximate; by default the server chooses.
        """
        optional = _given(filters=filters, strategy=strategy)
        answer = self._post("vector/search", query_embedding=_numbers(query), top_k=top_k, **optional)
        items = tuple(Match(**{name: item[name] for name in Match.__dataclass_fields__}) for item in answer["items"])
        return Matches(items, answer["scanned"], answer["strategy"], answer["dimension"])

    def changes(
        self,
        *,
        after: int = 0,
        prefix: str | None = None,
        page_size: int = 1000,
        follow: bool = False,
        poll_seconds: float = 1.0,
        patience_seconds: float = 60.0,
        resnapshot: Callable[[], object] | None = None,
    ) -> ChangeFeed:
        """The changes of this scope only; otherwise as `ScopedMemory.changes`."""
        return ChangeFeed(
            self._memory.client,
            self._context | self._memory.context(),
            after=after,
            prefix=prefix,
            page_size=page_size,
            follow=follow,
            poll_seconds=poll_seconds,
            patience_seconds=patience_seconds,
            resnapshot=resnapshot,
        )

    def _post(self, operation: str, **fields: Any) -> dict[str, Any]:
        body = self._context | self._memory.context() | fields
        return self._memory.client.call("POST", f"{_ROUTE}/{operation}", body)

    def __repr__(self) -> str:
        return f"Scope({', '.join(map(repr, self._context.values()))})"


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _numbers(embedding: Embedding) -> list[float]:
    """[D] finite floats. Raises InvalidVector for what JSON cannot carry; the service judges the rest."""
    listed: Any = embedding.tolist() if hasattr(embedding, "tolist") else embedding
    if not isinstance(listed, Iterable) or isinstance(listed, str | bytes | Mapping):
        raise InvalidVector(f"an embedding must be a list of numbers, got {type(embedding).__name__}")
    return [_number(position, element) for position, element in enumerate(listed)]


def _number(position: int, element: Any) -> float:
    if not isinstance(element, float):
        if not isinstance(element, Real) or isinstance(element, bool):
            raise InvalidVector(f"element {position} of the embedding must be a number, got {type(element).__name__}")
        try:
            element = float(element)
        except OverflowError:
            element = math.inf
    if not math.isfinite(element):
        raise InvalidVector(f"element {position} of the embedding must be finite, got {element}")
    return float(element)

"""The scoped memory: values and vectors in sessions, actors, workflows and globally, their changes, and leases."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import peewee
from flask import Response, current_app, g, jsonify, request
from flask_openapi3 import APIBlueprint, Tag

from remory.search.packing import pack_vector, unpack_vector, vector_norm
from remory_service.api.scoped_answers import (
    ChangesAnswer,
    ErasedAnswer,
    LeaseAnswer,
    ListAnswer,
    ReadAnswer,
    ReleasedAnswer,
    ScopedErrorAnswer,
    SearchAnswer,
    VectorAnswer,
    VectorSetAnswer,
    WrittenAnswer,
)
from remory_service.api.scoped_bodies import (
    ChangesBody,
    Context,
    DeleteBody,
    HeldLeaseBody,
    KeyBody,
    LeaseBody,
    ListBody,
    RenewBody,
    ScopedBody,
    SearchBody,
    VectorBody,
    WriteBody,
)
from remory_service.authority import (
    ID_FIELDS,
    Authority,
    Credentials,
    InvalidScope,
    LeaseExpired,
    authorize,
    live_lease,
    name_scope,
    readable,
    visible,
    writable,
)
from remory_service.canonical import NotFinite, canonical_size, dump
from remory_service.errors import (
    BadRequest,
    BodyPlace,
    Forbidden,
    Group,
    NestedTooDeep,
    NotFiniteNumber,
    ServiceError,
)
from remory_service.store import changes, entries, leases
from remory_service.store.database import is_postgresql, snapshot, transaction
from remory_service.store.entries import VALUE, VECTOR, Content, Place, Write
from remory_service.store.schema import StoredChange, StoredScope, database
from remory_service.store.scopes import Scope

LARGEST_VALUE = 1 << 20
LARGEST_METADATA = 16384
LARGEST_NORM = 1e150
LARGEST_SHOWN = 65536
DEFAULT_LIMIT = 100
DEFAULT_TOP_K = 10
DEFAULT_LEASE = 300
_NOWHERE = 0
_SHRINKS = 4
# Reading a value is a few calls of SQLite, each of which lets another thread run Python, and threads that take turns so
# often spend more time on that than on reading: with 16 clients 1,340 reads a second became 1,580. A database on
# another machine is waited for, so there this would not pay.
_QUICK = ("scoped.read_memory", "scoped.get_memory_vector")
_turn = threading.Lock()
_SHOWN_LOC = 4


class InvalidKey(BadRequest):
    """The key cannot be one."""

    code = "invalid_key"


class InvalidVector(BadRequest):
    """The vector has no direction, or elements that are no numbers."""

    code = "invalid_vector"


class InvalidMetadata(BadRequest):
    """The metadata is no JSON object, or too large."""

    code = "invalid_metadata"


class ValueTooLarge(BadRequest):
    """The value has more canonical bytes than are kept."""

    code = "value_too_large"


_BLAMED: dict[str, type[BadRequest]] = {
    "scope": InvalidScope,
    **dict.fromkeys(ID_FIELDS.values(), InvalidScope),
    "key": InvalidKey,
    "embedding": InvalidVector,
    "query_embedding": InvalidVector,
    "metadata": InvalidMetadata,
}


def _shape(error: ServiceError) -> dict[str, Any]:
    return {"error": {"code": _code(error), "message": error.detail, **error.fields}}


def _code(error: ServiceError) -> str:
    """An error's code. What was refused before the body could be read is blamed on what such a body is about."""
    if isinstance(error, NotFiniteNumber) and "/vector/" in request.path:
        return InvalidVector.code
    if isinstance(error, NestedTooDeep) and request.path.endswith("/vector/set"):
        return InvalidMetadata.code
    return error.code


def _mismatch(places: list[BodyPlace]) -> ServiceError:
    """The first place in words, under the code of the field that it lies in."""
    loc, message = places[0]["loc"], places[0]["msg"]
    kind = _BLAMED.get(loc[0], BadRequest) if loc else BadRequest
    where = ".".join(str(step) for step in loc[:_SHOWN_LOC])
    return kind(f"{where}: {message}" if where else message)


# The largest value has a million elements, or a million of commas in a text.
GROUP = Group("/api/v2/", _shape, _mismatch, most_elements=1 << 21)

scoped = APIBlueprint(
    "scoped",
    __name__,
    url_prefix="/api/v2",
    abp_tags=[Tag(name="scoped memory", description="Values and vectors by scope and key, and what changed.")],
    abp_security=[{"bearer": []}, {"header": []}],
    abp_responses=dict.fromkeys((400, 401, 403, 413, 500, 503), ScopedErrorAnswer),
)
_CONFLICT: dict[str | int, Any] = {409: ScopedErrorAnswer}


@scoped.before_request
def _begin() -> None:
    # Before a connection is taken: a client that is slow to send must not hold one.
    request.get_json()
    g.has_turn = request.endpoint in _QUICK and not is_postgresql() and _turn.acquire()
    database.connect()


@scoped.teardown_request
def _end(error: BaseException | None) -> None:
    if not database.is_closed():
        database.close()
    if g.pop("has_turn", False):
        _turn.release()


@scoped.post("/memory/write", responses={200: WrittenAnswer, **_CONFLICT})
def write_memory(body: WriteBody) -> Response:
    """Set a value; with `expected_revision` only if that is the live one."""
    data, size = _measured(body.value, "value", LARGEST_VALUE, BadRequest, ValueTooLarge)
    lives_ms = None if body.ttl_seconds is None else body.ttl_seconds * 1000
    written = _put(body, VALUE, Content(data, lives_ms, shown=data if size <= LARGEST_SHOWN else None))
    return jsonify({"revision": written.revision, "expires_at": written.expires_at})


@scoped.post("/memory/read", responses={200: ReadAnswer})
def read_memory(body: KeyBody) -> Response:
    """Read a value. A missing, deleted or expired one is `found` false, with revision 0."""
    entry = _entry(body, VALUE)
    if entry is None:
        return jsonify({"found": False, "revision": 0, "value": None})
    return jsonify({"found": True, "revision": entry.revision, "value": json.loads(entry.content)})


@scoped.post("/memory/delete", responses={200: ErasedAnswer, **_CONFLICT})
def delete_memory(body: DeleteBody) -> Response:
    """Delete a value. Its revision is kept: a later write goes on from it."""
    return jsonify({"deleted": _delete(body, VALUE)})


@scoped.post("/memory/list", responses={200: ListAnswer})
def list_memory(body: ListBody) -> Response:
    """Live keys of a scope in ascending UTF-8 byte order, a page at a time."""
    kind = body.kind or VALUE
    now = _now()
    scope = readable(*_asked(body, now))
    found: list[entries.Entry] = []
    more = False
    if scope is not None:
        limit = body.limit or DEFAULT_LIMIT
        found, more = entries.page(scope.id, kind, body.prefix or "", body.cursor, limit, now)
    own = "expires_at" if kind == VALUE else "dimension"
    items = [
        {"key": entry.key, "revision": entry.revision, "updated_at": entry.updated_at, own: getattr(entry, own)}
        for entry in found
    ]
    return jsonify({"items": items, "kind": kind, "next_cursor": found[-1].key if more else None})


@scoped.post("/memory/changes", responses={200: ChangesAnswer, **_CONFLICT})
def memory_changes(body: ChangesBody) -> Response:
    """The changes after a cursor that the caller may see, in ascending sequence.

    `next_cursor` goes on across those it may not see. Changes are kept for 30 days; a cursor older than what is left
    is `cursor_expired`: read the state anew and restart with `after` 0. Expiry of a value is no change.
    """
    _housekeeper().run(_now())
    # One state for both: a scope that comes to be in between would be passed over for good.
    with snapshot():
        conditions = _conditions(_authority(body, _now()), body)
        page = changes.page(body.after or 0, body.limit or DEFAULT_LIMIT, conditions)
    items = [_shown(change) for change in page.changes]
    return jsonify({"items": items, "next_cursor": page.next_cursor, "oldest_sequence": page.oldest})


@scoped.post("/memory/vector/set", responses={200: VectorSetAnswer, **_CONFLICT})
def set_memory_vector(body: VectorBody) -> Response:
    """Store or replace a vector and its metadata; with `expected_revision` only if that is the live one."""
    elements = _vector(body.embedding, "embedding")
    metadata, _ = _measured(body.metadata or {}, "metadata", LARGEST_METADATA, InvalidMetadata, InvalidMetadata)
    content = Content(pack_vector(elements), dimension=len(elements), metadata=metadata)
    return jsonify({"revision": _put(body, VECTOR, content).revision, "dimension": len(elements)})


@scoped.post("/memory/vector/get", responses={200: VectorAnswer})
def get_memory_vector(body: KeyBody) -> Response:
    """Read a vector. A missing or deleted one is `found` false, with dimension and revision 0."""
    entry = _entry(body, VECTOR)
    answer: dict[str, Any] = {"found": entry is not None, "key": body.key}
    if entry is None:
        return jsonify(answer | {"revision": 0, "dimension": 0, "embedding": None, "metadata": None})
    assert entry.dimension is not None and entry.metadata is not None
    embedding = unpack_vector(entry.content, entry.dimension).tolist()
    metadata = json.loads(entry.metadata)
    return jsonify(
        answer
        | {"revision": entry.revision, "dimension": entry.dimension, "embedding": embedding, "metadata": metadata}
    )


@scoped.post("/memory/vector/delete", responses={200: ErasedAnswer, **_CONFLICT})
def delete_memory_vector(body: DeleteBody) -> Response:
    """Delete a vector. Its revision is kept: a later write goes on from it."""
    return jsonify({"deleted": _delete(body, VECTOR)})


@scoped.post("/memory/vector/search", responses={200: SearchAnswer})
def search_memory_vectors(body: SearchBody) -> Response:
    """The vectors of a scope closest to a query, by descending cosine, then ascending key.

    `filters` are met before anything is chosen. `hnsw` is approximate: how much it misses depends on the data. Where
    there is no graph (yet), or few vectors pass the filters, the search is `linear`, and the answer says so.
    """
    query = _vector(body.query_embedding, "query_embedding")
    try:
        dump(body.filters)
    except NotFinite as error:
        raise BadRequest(f"filters: {error}") from error
    scope = readable(*_asked(body, _now()))
    found = _searcher().search(
        entries.ScopeVectors(scope.id) if scope else None,
        query,
        body.top_k or DEFAULT_TOP_K,
        body.filters,
        body.strategy,
    )
    items = [
        {"key": hit.key, "revision": hit.revision, "metadata": json.loads(hit.metadata), "score": hit.score}
        for hit in found.hits
    ]
    return jsonify({"items": items, "dimension": len(query), "scanned": found.scanned, "strategy": found.strategy})


@scoped.post("/leases", responses={200: LeaseAnswer})
def grant_lease(body: LeaseBody) -> Response:
    """Lend a worker's key the caller's rights to one session, one workflow and maybe one actor, for one step."""
    authority = _own_authority()
    ids = {field: getattr(body, field) for field in ID_FIELDS.values()}
    with transaction():
        for kind, field in ID_FIELDS.items():
            if ids[field] is not None:
                readable(authority, name_scope(authority, kind, ids))
        now = _now()
        expires_at = now + (body.ttl_seconds or DEFAULT_LEASE) * 1000
        token = leases.grant(
            task_id=body.task_id,
            step_id=body.step_id,
            **ids,
            grantor=authority.user,
            by_admin=authority.everywhere,
            now=now,
            expires_at=expires_at,
        )
    return jsonify({"lease_token": token, "expires_at": expires_at})


@scoped.post("/leases/renew", responses={200: LeaseAnswer})
def renew_lease(body: RenewBody) -> Response:
    """Let a living lease end `ttl_seconds` from now. For its grantor, and for the worker that holds it."""
    with transaction():
        now = _now()
        expires_at = now + (body.ttl_seconds or DEFAULT_LEASE) * 1000
        leases.move_end(_held(body, now), expires_at)
    return jsonify({"lease_token": body.lease_token, "expires_at": expires_at})


@scoped.post("/leases/release", responses={200: ReleasedAnswer})
def release_lease(body: HeldLeaseBody) -> Response:
    """End a lease now. For its grantor, and for the worker that holds it."""
    with transaction():
        now = _now()
        try:
            leases.move_end(_held(body, now), now)
        except LeaseExpired:
            return jsonify({"released": False})
    return jsonify({"released": True})


def _now() -> int:
    return current_app.extensions["remory_clock"]()


def _searcher() -> Any:
    return current_app.extensions["remory_searcher"]


def _housekeeper() -> Any:
    return current_app.extensions["remory_housekeeper"]


def _authority(body: Context, now: int) -> Authority:
    return authorize(g.caller, Credentials(body.lease_token, body.task_id, body.step_id), now)


def _own_authority() -> Authority:
    """The caller's authority as itself: a lease cannot be lent on."""
    if not g.caller.roles & {"invoke", "admin"}:
        raise Forbidden("leases are granted by keys with the role invoke or admin")
    return authorize(g.caller, Credentials(None, None, None), _now())


def _held(body: HeldLeaseBody, now: int) -> leases.Lease:
    """A living lease that the caller granted or holds."""
    lease = live_lease(Credentials(body.lease_token, body.task_id, body.step_id), now)
    granted = "invoke" in g.caller.roles and lease.grantor == g.caller.user
    if not granted and not g.caller.roles & {"worker", "admin"}:
        raise Forbidden("the lease was granted by another user")
    return lease


def _named(authority: Authority, body: Context, kind: str) -> Scope:
    return name_scope(authority, kind, {field: getattr(body, field) for field in ID_FIELDS.values()})


def _asked(body: ScopedBody, now: int) -> tuple[Authority, Scope]:
    """Who asks about which scope."""
    authority = _authority(body, now)
    return authority, _named(authority, body, body.scope)


def _entry(body: KeyBody, kind: str) -> entries.Held | None:
    now = _now()
    scope = readable(*_asked(body, now))
    return None if scope is None else entries.read(Place(scope.id, kind, body.key), now)


def _put(body: WriteBody | VectorBody, kind: str, content: Content) -> entries.Written:
    # The time is that of the write, not of the wait for it: what expired meanwhile counts as expired.
    with transaction():
        now = _now()
        authority, scope = _asked(body, now)
        place = Place(writable(authority, scope).id, kind, body.key)
        written = entries.put(place, content, Write(authority.principal, now, body.expected_revision))
    _housekeeper().run(now)
    return written


def _delete(body: DeleteBody, kind: str) -> bool:
    with transaction():
        now = _now()
        authority, scope = _asked(body, now)
        known = readable(authority, scope)
        # A scope that nobody wrote to is not made for this; its keys have no live revision either.
        place = Place(known.id if known else _NOWHERE, kind, body.key)
        return entries.delete(place, Write(authority.principal, now, body.expected_revision))


def _conditions(authority: Authority, body: ChangesBody) -> list[peewee.Expression]:
    """Which changes are asked for and may be seen."""
    conditions: list[peewee.Expression] = []
    if body.scope is None:
        seen = visible(authority)
        conditions += [] if seen is None else [seen]
    else:
        known = readable(authority, _named(authority, body, body.scope))
        conditions.append(StoredScope.id == (known.id if known else _NOWHERE))
    if body.prefix:
        conditions += entries.starts_with(StoredChange.key, body.prefix)
    return conditions


def _shown(change: changes.SeenChange) -> dict[str, Any]:
    omitted = change.kind == VALUE and change.action == "set" and change.value is None
    value = None if change.value is None else json.loads(change.value)
    return {**vars(change), "value": value, "value_omitted": omitted}


def _measured(
    value: Any, field: str, largest: int, unfit: type[BadRequest], too_large: type[BadRequest]
) -> tuple[bytes, int]:
    """A JSON value as it is kept, and its canonical size. Raises `unfit` or `too_large`."""
    try:
        data = dump(value)
        # Seconds of work for what is far too large, and only integers of some hundred digits shrink as much as that.
        size = canonical_size(value) if len(data) <= _SHRINKS * largest else len(data)
    except NotFinite as error:
        raise unfit(f"{field}: {error}") from error
    if size > largest:
        raise too_large(f"{field} may have {largest} canonical bytes, this has {size}")
    return data, size


def _vector(elements: list[float], field: str) -> np.ndarray:
    try:
        vector = np.array(elements, dtype=np.float64)
    except OverflowError as error:
        raise InvalidVector(f"{field}: an integer is beyond a 64-bit float") from error
    norm = vector_norm(vector)
    if not 0 < norm <= LARGEST_NORM:
        raise InvalidVector(f"{field}: the norm must be above 0 and at most {LARGEST_NORM:g}, this one is {norm:g}")
    return vector

"""What a caller may do with a scope, or with the server: the one place that every route asks.

Somebody acts either as itself (`invoke`, `admin`) or, with a worker's key, under a lease: then session, actor and
workflow are the lease's, and so is the user in whose name it acts. Every function needs a connection.
"""

from __future__ import annotations

from dataclasses import dataclass

import peewee

from remory_service.errors import BadRequest, Forbidden
from remory_service.identity import Caller, roles_of
from remory_service.store.leases import Lease, find_lease
from remory_service.store.schema import StoredScope
from remory_service.store.scopes import GLOBAL, KnownScope, Scope, find_scope, make_scope

ID_FIELDS = {"session": "session_id", "actor": "actor_id", "workflow": "root_id"}


class InvalidScope(BadRequest):
    """The scope's id is missing or malformed."""

    code = "invalid_scope"


class LeaseRequired(Forbidden):
    """A worker's key does nothing without a lease."""

    code = "lease_required"


class LeaseExpired(Forbidden):
    """The lease has ended, by its time or by release."""

    code = "lease_expired"


@dataclass(frozen=True)
class Credentials:
    """What a request sends to act under a lease."""

    lease_token: str | None
    task_id: str | None
    step_id: str | None


@dataclass(frozen=True)
class Authority:
    """What somebody may do now. `principal` is who does it, `user` in whose name: new scopes become that user's.

    `everywhere`: the owner of a scope does not matter. `lease` None: as itself.
    """

    principal: str
    user: str
    everywhere: bool
    lease: Lease | None = None

    def owns(self, owner: str | None) -> bool:
        """Whether a scope of this owner may be used."""
        return owner is None or self.everywhere or owner == self.user


def require_admin(caller: Caller) -> None:
    """Raises Forbidden for who may not change how the server works for all."""
    if "admin" not in caller.roles:
        raise Forbidden("this changes the server for all its users: it needs a key with the role admin")


def authorize(caller: Caller, sent: Credentials, now: int) -> Authority:
    """The authority of a request. Raises LeaseRequired, LeaseExpired or Forbidden."""
    if "worker" in caller.roles and sent.lease_token is not None:
        lease = live_lease(sent, now)
        return Authority(caller.user, lease.grantor, lease.by_admin and "admin" in roles_of(lease.grantor), lease)
    if caller.roles & {"invoke", "admin"}:
        return Authority(caller.user, caller.user, "admin" in caller.roles)
    if "worker" in caller.roles:
        raise LeaseRequired("a worker's key needs lease_token, task_id and step_id of a lease")
    raise Forbidden("this needs a key with the role invoke, worker or admin")


def live_lease(sent: Credentials, now: int) -> Lease:
    """The lease that a request names. Raises LeaseRequired, LeaseExpired, or Forbidden for another task or step."""
    lease = find_lease(sent.lease_token) if sent.lease_token is not None else None
    if lease is None:
        raise LeaseRequired("there is no such lease: send the lease_token that POST /api/v2/leases answered")
    if (sent.task_id, sent.step_id) != (lease.task_id, lease.step_id):
        raise Forbidden("the lease is for another task_id or step_id")
    if lease.expires_at <= now:
        raise LeaseExpired("the lease has ended: ask for another one")
    if not roles_of(lease.grantor) & {"invoke", "admin"}:
        raise LeaseExpired("the lease has ended: who granted it has no key any more that could")
    return lease


def name_scope(authority: Authority, kind: str, ids: dict[str, str | None]) -> Scope:
    """The scope that a request means; `ids` by the names of its fields.

    Raises InvalidScope when the id is missing, Forbidden when an id differs from the lease's.
    """
    lease = authority.lease
    if lease is not None:
        bound = {field: getattr(lease, field) for field in ID_FIELDS.values()}
        for field, sent in ids.items():
            if sent is not None and sent != bound[field]:
                raise Forbidden(f"{field} is not the lease's")
        ids = bound
    if kind == GLOBAL.kind:
        return GLOBAL
    field = ID_FIELDS[kind]
    name = ids[field]
    if name is None:
        lacking = "the lease has none" if lease is not None else "it is missing"
        raise InvalidScope(f"scope {kind} needs {field}, and {lacking}")
    return Scope(kind, name)


def readable(authority: Authority, scope: Scope) -> KnownScope | None:
    """A scope to read, None when it holds nothing. Raises Forbidden when it is another user's."""
    known = find_scope(scope)
    if known is not None and not authority.owns(known.owner):
        raise Forbidden(f"this {scope.kind} belongs to another user")
    return known


def writable(authority: Authority, scope: Scope) -> KnownScope:
    """A scope to write to, made and owned on the first write. Needs a transaction. Raises Forbidden."""
    known = readable(authority, scope)
    if known is None:
        return make_scope(scope, None if scope == GLOBAL else authority.user)
    return known


def visible(authority: Authority) -> peewee.Expression | None:
    """A condition on the scopes whose changes may be seen; None when all may."""
    if authority.lease is None and authority.everywhere:
        return None
    owned = StoredScope.owner.is_null() | (StoredScope.owner == authority.user)
    if authority.lease is None:
        return owned
    bound = [(StoredScope.kind == scope.kind) & (StoredScope.name == scope.name) for scope in authority.lease.scopes()]
    condition = bound[0]
    for other in bound[1:]:
        condition |= other
    return condition if authority.everywhere else condition & owned

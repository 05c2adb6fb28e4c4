"""Leases: what a worker's key acts under. Tokens are stored as hashes. Every function needs a connection."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from remory_service.store.schema import StoredLease
from remory_service.store.scopes import GLOBAL, Scope

TOKEN_PREFIX = "rl_"
# A dead lease is remembered so long, to be told from one that never was.
_REMEMBERED_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Lease:
    """Who lends what to one step of a task. `expires_at`: epoch ms."""

    id: int
    task_id: str
    step_id: str
    root_id: str
    session_id: str
    actor_id: str | None
    grantor: str
    by_admin: bool
    expires_at: int

    def scopes(self) -> list[Scope]:
        """Everything that may be read and written under it."""
        bound = [GLOBAL, Scope("session", self.session_id), Scope("workflow", self.root_id)]
        return bound + ([Scope("actor", self.actor_id)] if self.actor_id is not None else [])


def grant(
    *,
    task_id: str,
    step_id: str,
    root_id: str,
    session_id: str,
    actor_id: str | None,
    grantor: str,
    by_admin: bool,
    now: int,
    expires_at: int,
) -> str:
    """Make a lease; its token is returned once and stored only as a hash. Times: epoch ms. Needs a transaction."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    StoredLease.delete().where(StoredLease.expires_at < now - _REMEMBERED_MS).execute()
    StoredLease.insert(
        sha256=_digest(token),
        task_id=task_id,
        step_id=step_id,
        root_id=root_id,
        session_id=session_id,
        actor_id=actor_id,
        grantor=grantor,
        by_admin=by_admin,
        created_at=now,
        expires_at=expires_at,
    ).execute()
    return token


def find_lease(token: str) -> Lease | None:
    """The lease of a token, dead or alive, or None."""
    found = StoredLease.get_or_none(StoredLease.sha256 == _digest(token))
    return None if found is None else Lease(**{name: getattr(found, name) for name in Lease.__dataclass_fields__})


def move_end(lease: Lease, expires_at: int) -> None:
    """Let a lease end at another time (epoch ms). Needs a transaction, in which the lease was found alive."""
    StoredLease.update(expires_at=expires_at).where(StoredLease.id == lease.id).execute()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

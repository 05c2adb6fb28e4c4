"""Who is asking: the one place that decides it, and the keys it decides by."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flask import Request

from remory.errors import InvalidInput
from remory_service.errors import BadRequest, Forbidden, Unauthenticated
from remory_service.store.database import connection, now_ms, open_store, transaction
from remory_service.store.schema import StoredKey
from remory_service.store.statements import first, run

ROLES = ("invoke", "worker", "agent", "admin")
LOCAL_USER = "local"
KEY_PREFIX = "rk_"
SESSION_HEADER: Final = "X-Remory-Session"
COLLECT_HEADER: Final = "X-Remory-Collect"
USER_HEADER = "X-Remory-User"
_NAME_LENGTH = 256
_HINT_LENGTH = 8
_FIND_KEY = "SELECT user_name, roles FROM stored_key WHERE sha256 = ? AND revoked_at IS NULL"


@dataclass(frozen=True)
class Caller:
    """A user and what the key allows."""

    user: str
    roles: frozenset[str]


@dataclass(frozen=True)
class KeyInfo:
    """What may be shown of a key: `hint` is how its text begins. Times in epoch milliseconds."""

    id: int
    hint: str
    user: str
    roles: tuple[str, ...]
    created_at: int
    revoked_at: int | None


def identify(request: Request) -> Caller:
    """The caller of a request; needs a store connection.

    While no key was ever made, everybody who reaches the loopback address is the named local user with every role.
    Raises Unauthenticated, Forbidden (another Host name without keys) or BadRequest (a user name that is none).
    """
    if not keys_exist():
        _check_host(request)
        return Caller(_name(request.headers.get(USER_HEADER, LOCAL_USER), USER_HEADER), frozenset(ROLES))
    sent = _sent_key(request)
    if sent is None:
        raise Unauthenticated("this server needs a key: Authorization: Bearer rk_… or X-API-Key: rk_…")
    # Keys are 256 random bits, so neither a slow hash nor a constant-time comparison would add anything.
    found = first(_FIND_KEY, _digest(sent))
    if found is None:
        raise Unauthenticated("the key is unknown or revoked")
    user, roles = found
    return Caller(user, frozenset(roles.split(",")))


def checked_session(sent: str | None) -> str:
    """The session that a request's header names. Raises BadRequest without a usable one."""
    if sent is None:
        raise BadRequest(f"the header {SESSION_HEADER} is needed: it groups this client's memories")
    return _name(sent, SESSION_HEADER)


def keys_exist() -> bool:
    """Whether a key was ever made in this store, revoked ones included."""
    return first("SELECT 1 FROM stored_key LIMIT 1") is not None


def roles_of(user: str) -> frozenset[str]:
    """What a user's live keys allow together; everything while no key was ever made. Needs a store connection."""
    if not keys_exist():
        return frozenset(ROLES)
    live = run("SELECT roles FROM stored_key WHERE user_name = ? AND revoked_at IS NULL", user)
    return frozenset(role for (roles,) in live.fetchall() for role in roles.split(","))


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_key(data: Path, user: str, roles: Sequence[str], store: str | None = None) -> str:
    """Make a key for `user` in a store; its text is returned once and stored only as a hash.

    Raises InvalidInput for an unknown role, no role, or a user name that is none.
    """
    if not roles or not set(roles) <= set(ROLES):
        raise InvalidInput(f"roles must be some of {', '.join(ROLES)}, got {', '.join(roles) or 'none'}")
    if not _is_name(user):
        raise InvalidInput(f"a user is 1 to {_NAME_LENGTH} printable ASCII characters, got {len(user)} characters")
    key = KEY_PREFIX + secrets.token_urlsafe(32)
    open_store(data, store)
    with connection(), transaction():
        StoredKey.create(
            sha256=_digest(key),
            hint=key[:_HINT_LENGTH],
            user=user,
            roles=",".join(role for role in ROLES if role in roles),
            created_at=now_ms(),
        )
    return key


def list_keys(data: Path, store: str | None = None) -> list[KeyInfo]:
    """All keys ever made in a store, oldest first."""
    open_store(data, store)
    with connection():
        return [
            KeyInfo(key.id, key.hint, key.user, tuple(key.roles.split(",")), key.created_at, key.revoked_at)
            for key in StoredKey.select().order_by(StoredKey.id)
        ]


def revoke_key(data: Path, key_id: int, store: str | None = None) -> bool:
    """Revoke a key by its id; False when there is no such live key. A running server refuses it from its next request.

    The row stays: a store that once had keys is never open to everybody again.
    """
    open_store(data, store)
    with connection(), transaction():
        live = StoredKey.update(revoked_at=now_ms()).where(StoredKey.id == key_id, StoredKey.revoked_at.is_null())
        return live.execute() == 1


def _check_host(request: Request) -> None:
    """Without keys a page from elsewhere could reach us under its own name (DNS rebinding), so only ours will do."""
    host = request.host
    name = (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).lower()
    if not is_loopback(name):
        raise Forbidden(
            f"without keys this server answers only to loopback names such as 127.0.0.1 or localhost, not to {name!r}; "
            "make a key with `remory keys add` to serve other names"
        )


def _sent_key(request: Request) -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return request.headers.get("X-API-Key")


def _name(text: str, header: str) -> str:
    if not _is_name(text):
        raise BadRequest(f"{header} must be 1 to {_NAME_LENGTH} printable ASCII characters, got {len(text)} characters")
    return text


def _is_name(text: str) -> bool:
    return 1 <= len(text) <= _NAME_LENGTH and text.isascii() and text.isprintable()


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()

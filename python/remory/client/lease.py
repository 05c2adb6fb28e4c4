"""Leases: what a worker's key needs to reach scoped memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from remory.client.client import Client
from remory.client.errors import ConnectionFailed, LeaseExpired, RemoryHTTPError, ServerBusy

_ROUTE = "/api/v2/leases"
# A lease survives two lost renewals in a row.
_RENEWALS_PER_TTL = 3
_FIELDS = ("token", "task_id", "step_id", "ttl_seconds", "expires_at")


class Lease:
    """Lends one step of a task the memory of a session, a workflow and, if given, an actor, for a limited time.

    As a context manager it is renewed in the background and released at the end:

        with memory.lease(task_id="t-1", step_id="s-1", root_id="release", session_id="build-7") as lease:
            run_worker(lease.dump())

    A worker in another process takes it over with `Lease.load(client, state)`. `expires_at` is in epoch milliseconds by
    the server's clock. `lost` is the error that ended the renewing, None as long as all is well.
    """

    def __init__(self, client: Client, *, token: str, task_id: str, step_id: str, ttl_seconds: int, expires_at: int):
        self.client = client
        self.token = token
        self.task_id = task_id
        self.step_id = step_id
        self.ttl_seconds = ttl_seconds
        self.expires_at = expires_at
        self.lost: RemoryHTTPError | None = None
        self._stop = threading.Event()
        self._renewing: threading.Thread | None = None

    @classmethod
    def take(
        cls,
        client: Client,
        *,
        task_id: str,
        step_id: str,
        root_id: str,
        session_id: str,
        actor_id: str | None = None,
        ttl_seconds: int = 300,
    ) -> Self:
        """`POST /api/v2/leases`, with an `invoke` key: a new lease of `ttl_seconds`. Raises RemoryHTTPError."""
        step = {"task_id": task_id, "step_id": step_id}
        lent = {"root_id": root_id, "session_id": session_id} | ({} if actor_id is None else {"actor_id": actor_id})
        answer = client.call("POST", _ROUTE, {**step, **lent, "ttl_seconds": ttl_seconds})
        return cls(
            client,
            token=answer["lease_token"],
            task_id=task_id,
            step_id=step_id,
            ttl_seconds=ttl_seconds,
            expires_at=answer["expires_at"],
        )

    def dump(self) -> dict[str, Any]:
        """The lease as JSON-able values, for `load` in another process. Holds the token: keep it as secret as a key."""
        return {name: getattr(self, name) for name in _FIELDS}

    @classmethod
    def load(cls, client: Client, state: Mapping[str, Any]) -> Self:
        """Go on with a dumped lease, with the key that `client` has."""
        return cls(client, **{name: state[name] for name in _FIELDS})

    def context(self) -> dict[str, str]:
        """What a request under this lease carries."""
        return {"lease_token": self.token, "task_id": self.task_id, "step_id": self.step_id}

    def renew(self, ttl_seconds: int | None = None) -> None:
        """Let it last `ttl_seconds` from now, by default as long as at first. Raises LeaseExpired when it is over."""
        wanted = self.ttl_seconds if ttl_seconds is None else ttl_seconds
        answer = self.client.call("POST", f"{_ROUTE}/renew", self.context() | {"ttl_seconds": wanted})
        self.token, self.expires_at, self.ttl_seconds = answer["lease_token"], answer["expires_at"], wanted

    def release(self) -> bool:
        """End it now; False when it was over already."""
        return self.client.call("POST", f"{_ROUTE}/release", self.context())["released"]

    def __enter__(self) -> Self:
        self.renew()
        self.lost = None
        self._stop.clear()
        self._renewing = threading.Thread(target=self._keep, name="remory-lease", daemon=True)
        self._renewing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._renewing is not None:
            self._renewing.join()
        # What cannot be released ends by itself, and must not hide an error of the body.
        with suppress(LeaseExpired, ConnectionFailed, ServerBusy):
            self.release()

    def _keep(self) -> None:
        while not self._stop.wait(self.ttl_seconds / _RENEWALS_PER_TTL):
            try:
                self.renew()
            except (ConnectionFailed, ServerBusy):
                continue
            except RemoryHTTPError as error:
                self.lost = error
                return

    def __repr__(self) -> str:
        return f"Lease(task_id={self.task_id!r}, step_id={self.step_id!r}, expires_at={self.expires_at})"

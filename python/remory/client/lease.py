"""Leases: what a worker's key needs to reach scoped memory."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from remory.client.client import Client
from remory.client.errors import ConnectionFailed, RemoryHTTPError, ServerBusy, ServerFailed

log = logging.getLogger(__name__)

_ROUTE = "/api/v2/leases"
# A renewal that fails has two thirds of the lease left to be tried again.
_RENEWALS_PER_TTL = 3
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0
_SHORTEST_TIMEOUT_SECONDS = 1.0
_MAY_PASS = (ConnectionFailed, ServerBusy, ServerFailed)
_FIELDS = ("token", "task_id", "step_id", "ttl_seconds", "expires_at")


class Lease:
    """Lends one step of a task the memory of a session, a workflow and, if given, an actor, for a limited time.

    As a context manager it is renewed in the background and released at the end:

        with memory.lease(task_id="t-1", step_id="s-1", root_id="release", session_id="build-7") as lease:
            run_worker(lease.dump())

    A worker in another process takes it over with `Lease.load(client, state)`. `expires_at` is in epoch milliseconds by
    the server's clock. `lost` is the error that ended the renewing, None as long as all is well: a RemoryHTTPError, or
    another exception when asking was not possible at all, as with a client that was closed. A server that is away or
    fails is asked again until the lease must be over; what else it answers, such as LeaseExpired, ends the renewing at
    once. The end of the block raises no RemoryHTTPError, and nothing that would hide an error of the block.
    """

    def __init__(self, client: Client, *, token: str, task_id: str, step_id: str, ttl_seconds: int, expires_at: int):
        self.client = client
        self.token = token
        self.task_id = task_id
        self.step_id = step_id
        self.ttl_seconds = ttl_seconds
        self.expires_at = expires_at
        self.lost: RemoryHTTPError | Exception | None = None
        # When it must be over, by time.monotonic(): the server's clock may be another. `renew` sets it.
        self._deadline = 0.0
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
        asked_at = time.monotonic()
        # A server that hangs must leave time to try again.
        timeout = max(wanted / _RENEWALS_PER_TTL, _SHORTEST_TIMEOUT_SECONDS)
        body = self.context() | {"ttl_seconds": wanted}
        answer = self.client.call("POST", f"{_ROUTE}/renew", body, timeout=timeout)
        self._deadline = asked_at + wanted
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
        with suppress(RemoryHTTPError if error is None else Exception):
            self.release()

    def _keep(self) -> None:
        try:
            while not self._stop.wait(self.ttl_seconds / _RENEWALS_PER_TTL):
                self._renew_patiently()
        except Exception as error:
            self.lost = error
            log.warning("%r is not renewed any more", self, exc_info=error)

    def _renew_patiently(self) -> None:
        """Renew it, at a passing failure again until it must be over, or until the block ends."""
        wait = _FIRST_WAIT_SECONDS
        while not self._stop.is_set():
            try:
                self.renew()
                return
            except _MAY_PASS as error:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    raise
                log.info("%r could not be renewed and will be tried again: %s", self, error)
            self._stop.wait(min(wait, left))
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def __repr__(self) -> str:
        return f"Lease(task_id={self.task_id!r}, step_id={self.step_id!r}, expires_at={self.expires_at})"

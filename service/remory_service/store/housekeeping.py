"""What nobody waits for: emptying what has expired, pruning the change feed. No answer depends on it having run."""

from __future__ import annotations

import threading

from remory_service.store import changes, entries
from remory_service.store.database import transaction

INTERVAL_MS = 60_000


class Housekeeper:
    """Runs at most once in an interval, in the request that finds it due."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def run(self, now: int) -> None:
        """Do what is due at `now` (epoch ms). Needs a connection."""
        with self._lock:
            if 0 <= now - self._last < INTERVAL_MS:
                return
            self._last = now
        with transaction():
            entries.purge_expired(now)
            changes.prune(now)

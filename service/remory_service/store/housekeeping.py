"""What nobody waits for: emptying what has expired, pruning the change feed. No answer depends on it having run."""

from __future__ import annotations

import logging
import threading

from remory_service.store import changes, entries
from remory_service.store.database import transaction

log = logging.getLogger(__name__)

INTERVAL_MS = 60_000


class Housekeeper:
    """Runs in the request that finds it due: once in an interval, or again at once while there is a backlog."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due = 0

    def run(self, now: int) -> None:
        """Do what is due at `now` (epoch ms), a bounded amount of it. Needs a connection; never raises."""
        with self._lock:
            if now < self._due and self._due - now <= INTERVAL_MS:
                return
            self._due = now + INTERVAL_MS
        # The request has been answered or can be without this: its failure must not become the request's.
        try:
            if self._tidy(now):
                self._due = now
        except Exception:
            log.warning("housekeeping failed and is tried again in a minute", exc_info=True)

    def _tidy(self, now: int) -> bool:
        """Whether there is more of it. Takes the writer's place only if there is something to do."""
        if not entries.has_expired(now) and not changes.has_outlived(now):
            return False
        with transaction():
            emptied, pruned = entries.purge_expired(now), changes.prune(now)
        return emptied == entries.PURGED_AT_ONCE or pruned == changes.PRUNED_AT_ONCE

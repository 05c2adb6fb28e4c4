"""Histories that compactions removed, made findable in the background: what is kept at once is embedded soon."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Sequence

from remory_service.store import passages
from remory_service.store.database import connection, transaction
from remory_service.texts import Texts

log = logging.getLogger(__name__)

_EMBEDDED_AT_ONCE = 16
_MOST_WAITING = 1000
_STOP_SECONDS = 2


class Histories:
    """Embeds chunks of histories, on demand and in a thread of its own. Thread-safe."""

    def __init__(self, texts: Texts):
        self._texts = texts
        self._waiting: queue.Queue[Sequence[int] | None] = queue.Queue(_MOST_WAITING)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def embed_soon(self, collections: Sequence[int]) -> None:
        """Let the chunks of these collections be embedded in the background. Never waits: what finds no place in the
        queue is embedded when it is first asked for.
        """
        with self._lock:
            if self._stop.is_set() or self._waiting.full():
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="remory-histories", daemon=True)
                self._thread.start()
            self._waiting.put_nowait(collections)

    def embed(self, collections: Sequence[int]) -> None:
        """Give every chunk of these collections a vector of the current model, if it has none.

        Takes connections of its own, and holds none while the model works. Raises Unavailable or EmbedderFailed.
        """
        after = 0
        while True:
            model = self._texts.model
            with connection():
                known = passages.find_model(model)
                some = passages.lacking(known or 0, collections, after, _EMBEDDED_AT_ONCE)
            if not some or self._stop.is_set():
                return
            vectors = self._texts.embed([text for _, _, text in some])
            with connection(), transaction():
                there = passages.get_many([passage for _, passage, _ in some])
                for (collection, passage, _), vector in zip(some, vectors, strict=True):
                    if passage in there:
                        for number, content in vector.by_model().items():
                            passages.set_vector(collection, passage, number, content)
            after = some[-1][1]

    def close(self) -> None:
        """Stop what goes on in the background; waits for it two seconds at most."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            with contextlib.suppress(queue.Full):
                self._waiting.put_nowait(None)
            thread.join(_STOP_SECONDS)

    def _work(self) -> None:
        while (collections := self._waiting.get()) is not None and not self._stop.is_set():
            # The boundary of this thread: what is not embedded here is when it is asked for.
            try:
                self.embed(collections)
            except Exception as error:
                log.warning("a removed history was not embedded yet: %s: %s", type(error).__name__, error)

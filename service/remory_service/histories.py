"""Histories that compactions removed, made findable in the background: what is kept at once is embedded soon."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from remory.errors import EmbedderFailed
from remory_service.errors import Unavailable
from remory_service.store import passages
from remory_service.store.database import connection, transaction
from remory_service.texts import Texts, Vector

log = logging.getLogger(__name__)

_EMBEDDED_AT_ONCE = 16
_MOST_WAITING = 1000
_PLAIN = "a plain text"
_MOST_REFUSED = 10_000
_STOP_SECONDS = 2


class Histories:
    """Embeds chunks of histories, on demand and in a thread of its own. Thread-safe."""

    def __init__(self, texts: Texts):
        self._texts = texts
        self._waiting: queue.Queue[Sequence[int] | None] = queue.Queue(_MOST_WAITING)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        # Passages that a model refused: they are not tried again in this process.
        self._refused: OrderedDict[tuple[int, str], None] = OrderedDict()

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

    def embed(self, collections: Sequence[int], check: Callable[[], None], most: int | None = None) -> bool:
        """Give the chunks of these collections vectors of the current model where they have none, the last collections
        first; at most `most` of them. Returns whether all have theirs now, but for those that the model refuses.

        Takes connections of its own, and holds none while the model works. `check` is called before each batch and may
        raise. Raises Unavailable, or EmbedderFailed when the model is away.
        """
        left = most
        for collection in reversed(collections):
            after = 0
            while True:
                check()
                if left is not None and left <= 0:
                    return False
                # Of those who want the same at once only one does it.
                with self._turn:
                    if self._stop.is_set():
                        raise Unavailable("the server is stopping")
                    lacking = self._lacking(collection, after)
                    if not lacking:
                        break
                    some = [(passage, text) for passage, text in lacking if not self._is_refused(passage)]
                    if some:
                        self._embed(some)
                after = lacking[-1][0]
                left = None if left is None else left - len(some)
        return True

    def _lacking(self, collection: int, after: int) -> list[tuple[int, str]]:
        model = self._texts.model
        with connection():
            some = passages.lacking(passages.find_model(model) or 0, collection, after, _EMBEDDED_AT_ONCE)
        return [(passage, text) for _, passage, text in some]

    def _is_refused(self, passage: int) -> bool:
        return (passage, self._texts.model) in self._refused

    def _embed(self, some: Sequence[tuple[int, str]]) -> None:
        """Embed some passages of one collection, one by one where they do not go together, without those that the model
        refuses. Raises EmbedderFailed when it embeds nothing at all."""
        try:
            self._set([passage for passage, _ in some], self._texts.embed([text for _, text in some]))
        except EmbedderFailed as error:
            if len(some) > 1:
                for one in some:
                    self._embed([one])
                return
            # A model that fails on this as well is away, and this text is no worse than others.
            self._texts.embed([_PLAIN])
            self._refused[some[0][0], self._texts.model] = None
            while len(self._refused) > _MOST_REFUSED:
                self._refused.popitem(last=False)
            log.warning("a part of a removed history cannot be embedded and is found by no search: %s", error)

    def _set(self, ids: Sequence[int], vectors: Sequence[Vector]) -> None:
        with connection(), transaction():
            there = passages.get_many(ids)
            for passage, vector in zip(ids, vectors, strict=True):
                if passage in there:
                    for model, content in vector.by_model().items():
                        passages.set_vector(there[passage].collection, passage, model, content)

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
                self.embed(collections, lambda: None)
            except Exception as error:
                log.warning("a removed history was not embedded yet: %s: %s", type(error).__name__, error)

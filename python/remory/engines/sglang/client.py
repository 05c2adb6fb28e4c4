"""HTTP to SGLang: any number of requests on one event-loop thread, each followed or cancelled from any other."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import httpx

from remory.engines.sglang.launch import Server
from remory.errors import EngineBusy, EngineFailed

log = logging.getLogger(__name__)

# SGLang closes an idle connection after 5 s; one that we use no longer then is never closed under a request.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=2.0)
_TIMEOUT = httpx.Timeout(None, connect=5.0)
_ABORT_SECONDS = 2.0
_LONGEST_WORDS = 500
_CLOSING = "the actor is shutting down"
_LOST = "SGLang did not answer, or not to the end"
_PATH = re.compile(r"""(?<![\w.])(?:/[^\s/'"():;,]+){2,}/?""")


class Refused(EngineFailed):
    """SGLang, or the plug-in in it, did not take a request; the text ends with its words."""


def told(words: object) -> str:
    """What SGLang or the plug-in says, for a client: cut, and without the paths of its machine. The log has all."""
    log.warning("SGLang says: %s", words)
    return _PATH.sub("…", str(words))[:_LONGEST_WORDS]


class Call:
    """One request under way. Of what SGLang answers only the newest is kept, since each answer holds those before."""

    def __init__(self, lose: Callable[[], None]) -> None:
        self.rid = uuid.uuid4().hex
        self._lose = lose
        self._changed = threading.Condition()
        self._news: bytes | None = None
        self._future: Future[None] | None = None

    def follow(self, seconds: float | None) -> Iterator[dict[str, Any] | None]:
        """SGLang's answers, the newest only; None when so many seconds passed without one.

        Closing this iterator cancels the request. Raises EngineBusy when SGLang is lost or takes no more, or Refused.
        """
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._news is not None or self._done, seconds)
                    news, self._news = self._news, None
                    done = self._done
                if news is not None:
                    yield _answer(news)
                elif done:
                    break
                else:
                    yield None
            self._raise()
        finally:
            self.cancel()

    def result(self, seconds: float | None = None) -> dict[str, Any]:
        """Wait for the last answer, at most so long. Raises as `follow` does, and EngineBusy when there is none yet."""
        deadline = None if seconds is None else time.monotonic() + seconds
        last = None
        for answer in self.follow(seconds):
            last = answer or last
            if deadline is not None and time.monotonic() >= deadline:
                raise EngineBusy(f"SGLang did not answer within {seconds:g} s")
        if last is None:
            raise EngineFailed(_LOST)
        return last

    def wait(self) -> None:
        """Wait for the end of a request whose last answer is there."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)

    def cancel(self) -> None:
        """End the request here and in SGLang, unless it is done."""
        if self._future is not None:
            self._future.cancel()

    @property
    def _done(self) -> bool:
        return self._future is not None and self._future.done()

    def _raise(self) -> None:
        assert self._future is not None, "a call is followed when it has begun"
        if self._future.cancelled():
            raise EngineBusy(_CLOSING)
        error = self._future.exception()
        if isinstance(error, httpx.TransportError):
            self._lose()
            raise EngineBusy(_LOST) from error
        if error is not None:
            raise error

    def _begin(self, future: Future[None]) -> None:
        self._future = future
        future.add_done_callback(self._wake)

    def _tell(self, news: bytes) -> None:
        with self._changed:
            self._news = news
            self._changed.notify_all()

    def _wake(self, _future: Future[None]) -> None:
        with self._changed:
            self._changed.notify_all()


class Client:
    """Sends requests to the SGLang behind a `Server`, which may come back under another URL.

    `losses`: how many requests got no answer, after each of which it may be another SGLang that comes back.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = httpx.AsyncClient(limits=_LIMITS, timeout=_TIMEOUT, trust_env=False)
        self._loop = asyncio.new_event_loop()
        self._running: set[str] = set()
        self.losses = 0
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="remory-sglang", daemon=True)
        self._thread.start()

    @property
    def running(self) -> int:
        """How many requests are under way."""
        return len(self._running)

    def generate(self, body: dict[str, Any]) -> Call:
        """Send a request to /generate. Raises EngineBusy when the client is closed."""
        call = Call(self._lose)
        content = json.dumps({"rid": call.rid, **body}, separators=(",", ":")).encode()
        with self._closing:
            if self._closed:
                raise EngineBusy(_CLOSING)
            call._begin(asyncio.run_coroutine_threadsafe(self._run(call, content), self._loop))
        return call

    def close(self) -> None:
        """End every request with EngineBusy, and the thread."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _run(self, call: Call, content: bytes) -> None:
        self._running.add(call.rid)
        try:
            await self._ask(call, content)
        except asyncio.CancelledError:
            await self._abort(call.rid)
            raise
        finally:
            self._running.discard(call.rid)

    async def _ask(self, call: Call, content: bytes) -> None:
        """Tell the call every answer: the only one, or one an event. Raises TransportError when they end too early."""
        async with self._http.stream(
            "POST", f"{self._server.url}/generate", content=content, headers=self._headers()
        ) as response:
            if response.status_code != 200:
                await response.aread()
                _raise_for_status(response)
            if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                call._tell(await response.aread())
                return
            async for event in _events(response):
                if event == b"[DONE]":
                    return
                call._tell(event)
        raise httpx.RemoteProtocolError("the events ended without the last one")

    async def _abort(self, rid: str) -> None:
        # SGLang sees a client that has gone only when it next writes to it, and while it reads a prompt it does not.
        content = json.dumps({"rid": rid}).encode()
        # What does not answer does not work on the request either.
        with suppress(httpx.HTTPError):
            await self._http.post(
                f"{self._server.url}/abort_request", content=content, headers=self._headers(), timeout=_ABORT_SECONDS
            )

    async def _end(self) -> None:
        calls = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await self._http.aclose()

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", **self._server.headers}

    def _lose(self) -> None:
        self.losses += 1


async def _events(response: httpx.Response) -> AsyncIterator[bytes]:
    """The data of server-sent events. httpx's own lines end at U+2028 and its like too, which JSON may hold."""
    rest = b""
    async for piece in response.aiter_bytes():
        *events, rest = (rest + piece).split(b"\n\n")
        for event in events:
            yield event.removeprefix(b"data: ")


def _answer(text: bytes) -> dict[str, Any]:
    answer = json.loads(text)
    if "error" in answer:
        _refuse(answer["error"].get("message"), answer["error"].get("code"))
    reason = answer["meta_info"]["finish_reason"] or {}
    if reason.get("type") == "abort":
        _refuse(reason.get("message"), reason.get("status_code"))
    return answer


def _raise_for_status(response: httpx.Response) -> None:
    """Raises Refused with the words in either of SGLang's shapes of errors: whoever says 500 is not lost."""
    try:
        answer = response.json()
        words = answer["error"]["message"] if "error" in answer else answer["message"]
    except (ValueError, KeyError, TypeError):
        words = f"HTTP {response.status_code}"
    _refuse(words, response.status_code)


def _refuse(words: Any, status: Any) -> None:
    if status == 503:
        raise EngineBusy("SGLang takes no more requests now")
    raise Refused(f"SGLang refused the request: {told(words)}")

"""One POST to an OpenAI-compatible endpoint: bounded in time and size, and silent about its key."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from remory.errors import InvalidInput

MAX_ANSWER_BYTES = 32 << 20
_CONNECT_SECONDS = 10.0
_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 5.0
# Shorter than what common servers keep, so that a request seldom meets a connection that is just being closed.
_KEPT_ALIVE_SECONDS = 2.0
_LOOK_SECONDS = 0.2
_REASONS = {
    400: "it did not accept the request",
    401: "it did not accept the key",
    403: "it did not accept the key",
    404: "it has no such path or model",
    413: "the request was too large for it",
    422: "it did not accept the request",
    429: "it takes no more requests now",
    503: "it takes no more requests now",
}


class EndpointFailed(Exception):
    """The endpoint gave no usable answer; the text is meant for the caller and holds nothing the endpoint wrote.

    `status` is the HTTP status, None when there was none.
    """

    def __init__(self, text: str, status: int | None = None):
        super().__init__(text)
        self.status = status


class _Unavailable(EndpointFailed):
    """The request was not taken; it may be sent once more after `pause` seconds."""

    def __init__(self, text: str, status: int | None = None, pause: float = _PAUSE_SECONDS):
        super().__init__(text, status)
        self.pause = pause


class Endpoint:
    """One model behind an OpenAI-compatible URL (up to and with `/v1`); may be used by many threads at once.

    `key` goes into the Authorization header and is never shown. `timeout` is in seconds and holds for a whole call,
    the one retry included; a peer that sends its answer in drips can stretch it to twice that. Redirects are not
    followed. Raises InvalidInput for a URL, model, key or timeout that cannot work.
    """

    def __init__(self, url: str, model: str, key: str | None = None, timeout: float = 30.0):
        self.url = _endpoint_url(url)
        if not model or not isinstance(model, str):
            raise InvalidInput("an endpoint needs the name of a model")
        if not 0 < timeout < math.inf:
            raise InvalidInput(f"an endpoint's timeout is a positive number of seconds, got {timeout}")
        self.model = model
        self.timeout = timeout
        self._trusted = httpx.create_ssl_context()
        # Uncompressed, so that the bound on the bytes that arrive is the bound on memory.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **_authorization(key)}
        self._http = self._client(httpx.Headers(headers))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, model={self.model!r})"

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST `body`, with the model's name added, to the URL plus `path`; returns the JSON object of the answer.

        Tries once more when no connection could be made, or at 429 or 503 unless the endpoint asks for more than 5 s.
        Raises EndpointFailed, and InvalidInput for text that has no UTF-8 form.
        """
        content = _encoded({"model": self.model, **body})
        return self._post_twice(self._http, path, content)

    def post_attended(self, path: str, body: dict[str, Any], check: Callable[[], None]) -> dict[str, Any]:
        """The same, with `check` called every 0.2 s meanwhile: what that raises ends the call, and the connection is
        closed, by which the endpoint learns that nobody waits.
        """
        content = _encoded({"model": self.model, **body})
        line = _Line()

        def call() -> dict[str, Any]:
            # Only a connection that nobody else uses can be cut.
            with self._client(self._http.headers) as http:
                return self._post_twice(http, path, content, line)

        return _attended(call, check, line)

    def _client(self, headers: httpx.Headers) -> httpx.Client:
        limits = httpx.Limits(keepalive_expiry=_KEPT_ALIVE_SECONDS)
        return httpx.Client(headers=headers, follow_redirects=False, limits=limits, verify=self._trusted)

    def _post_twice(self, http: httpx.Client, path: str, content: bytes, line: _Line | None = None) -> dict[str, Any]:
        deadline = time.monotonic() + self.timeout
        try:
            return self._post(http, path, content, deadline, line)
        except _Unavailable as failed:
            if failed.pause > min(_LONGEST_PAUSE_SECONDS, deadline - time.monotonic()):
                raise
            time.sleep(failed.pause)
            return self._post(http, path, content, deadline, line)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def _post(
        self, http: httpx.Client, path: str, content: bytes, deadline: float, line: _Line | None
    ) -> dict[str, Any]:
        left = max(deadline - time.monotonic(), 0.001)
        limits = httpx.Timeout(left, connect=min(left, _CONNECT_SECONDS))
        told = None if line is None else {"trace": line.hear}
        try:
            with http.stream("POST", self.url + path, content=content, timeout=limits, extensions=told) as response:
                _check_head(response)
                return _json_object(self._read(response, deadline))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _Unavailable("no connection to the endpoint could be made") from error
        except httpx.TimeoutException as error:
            raise self._too_slow() from error
        except httpx.HTTPError as error:
            raise EndpointFailed("the connection to the endpoint broke before its answer was complete") from error

    def _read(self, response: httpx.Response, deadline: float) -> bytes:
        body = bytearray()
        for part in response.iter_raw():
            body += part
            if len(body) > MAX_ANSWER_BYTES:
                raise EndpointFailed(f"the endpoint's answer is longer than {MAX_ANSWER_BYTES} bytes")
            if time.monotonic() > deadline:
                raise self._too_slow()
        return bytes(body)

    def _too_slow(self) -> EndpointFailed:
        return EndpointFailed(f"the endpoint gave no complete answer within {self.timeout:g} s")


class _Line:
    """The connection that a call makes, which another thread can cut."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._is_cut = False

    def hear(self, event: str, info: dict[str, Any]) -> None:
        """Take what the HTTP library tells of a request."""
        if event == "connection.connect_tcp.complete":
            # A name of its own, for TLS takes the first one over.
            made = info["return_value"].get_extra_info("socket").dup()
            with self._lock:
                self._sockets.append(made)
                if self._is_cut:
                    _shut(made)

    def cut(self) -> None:
        """End what the connection sends or waits for; one that is made from now on ends at once."""
        with self._lock:
            self._is_cut = True
            for one in self._sockets:
                _shut(one)

    def close(self) -> None:
        """Free what was heard of. The connection itself is closed by who made it."""
        with self._lock:
            for one in self._sockets:
                one.close()
            self._sockets.clear()


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _attended(call: Callable[[], dict[str, Any]], check: Callable[[], None], line: _Line) -> dict[str, Any]:
    """What `call` returns or raises, while `check` is called meanwhile; what that raises cuts the line."""
    outcome: list[Any] = []
    ended = threading.Event()

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)
        finally:
            line.close()
            ended.set()

    threading.Thread(target=run, name="remory-endpoint", daemon=True).start()
    try:
        while not ended.wait(_LOOK_SECONDS):
            check()
        check()
    except BaseException:
        line.cut()
        raise
    if isinstance(outcome[0], Exception):
        raise outcome[0]
    return outcome[0]


def _endpoint_url(url: str) -> str:
    """The URL without a slash at its end. No refusal repeats it: it may hold a password."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise InvalidInput("the endpoint's URL is not a URL") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidInput("the endpoint's URL must start with http:// or https:// and name a host")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise InvalidInput(f"the endpoint's port must be from 1 to 65535, got {parsed.port}")
    if parsed.userinfo:
        raise InvalidInput("the endpoint's URL must not hold a user or a password: give the key by itself")
    if parsed.query or parsed.fragment or "?" in url or "#" in url:
        raise InvalidInput("the endpoint's URL must not hold a query or a fragment")
    return str(parsed).rstrip("/")


def _authorization(key: str | None) -> dict[str, str]:
    key = (key or "").strip()
    if not key:
        return {}
    # The HTTP library would repeat a header that it refuses in its error.
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidInput("the endpoint's key must be printable ASCII characters without spaces")
    return {"Authorization": f"Bearer {key}"}


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise InvalidInput("the text holds half of a surrogate pair, which has no UTF-8 form") from None


def _check_head(response: httpx.Response) -> None:
    status = response.status_code
    if 300 <= status < 400:
        raise EndpointFailed(f"the endpoint answered with status {status}, a redirect, which is not followed", status)
    if not response.is_success:
        reason = _REASONS.get(status)
        text = f"the endpoint answered with status {status}" + (f": {reason}" if reason else "")
        if status in (429, 503):
            raise _Unavailable(text, status, _pause(response))
        raise EndpointFailed(text, status)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise EndpointFailed("the endpoint's answer is compressed, which was not asked for", status)


def _pause(response: httpx.Response) -> float:
    """The seconds of Retry-After, or a short pause where it is missing or a date."""
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return _PAUSE_SECONDS
    return seconds if seconds >= 0 else _PAUSE_SECONDS


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EndpointFailed("the endpoint's answer is not JSON") from error
    if not isinstance(answer, dict):
        raise EndpointFailed("the endpoint's answer is not a JSON object")
    return answer

"""A small synchronous client of the service's native routes. See docs/api.md for the routes themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from remory.client.errors import (
    ConnectionFailed,
    InvalidRequest,
    ServerBusy,
    ServerFailed,
    connection_failed,
    detail_of,
    http_error,
)

DEFAULT_URL = "http://127.0.0.1:8421"
_CONNECT_SECONDS = 10.0
_POLL_SECONDS = 0.25

Ids = Sequence[int]


class Stream(Iterator[dict[str, Any]]):
    """The events of one streamed generation: dicts as `/generate` answers them, text and ids cumulative.

    Iterate, and close (or use as a context manager) to hang up early, which stops the generation on the server.
    """

    def __init__(self, response: httpx.Response, where: str):
        self._response = response
        self._where = where
        self._events = self._read()
        self._closed = False

    def __next__(self) -> dict[str, Any]:
        return next(self._events)

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            for line in self._response.iter_lines():
                # Events that had arrived before the closing may still lie in a buffer.
                if self._closed:
                    return
                data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
                if data == "[DONE]":
                    return
                if data:
                    yield _event(json.loads(data), self._response)
            if not self._closed:
                raise ConnectionFailed(f"{self._where} ended the stream before it was complete")
        except httpx.HTTPError as error:
            if self._closed:
                return
            raise connection_failed(error, self._where) from error
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection; iterating ends. May be called from another thread."""
        self._closed = True
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Client:
    """Talks to one Remory service.

    `session` groups handles and is needed for everything that makes or uses one. `key` is an API key; without keys on
    the server, `user` says who asks. `timeout` is in seconds and counts between bytes of an answer: a long generation
    needs a long one unless it is streamed. `collect` agrees that a server which was started to do so keeps the tokens,
    to train memory networks on. Every method raises a `RemoryHTTPError`; no request is ever repeated.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        session: str | None = None,
        key: str | None = None,
        user: str | None = None,
        timeout: float = 600.0,
        collect: bool = False,
    ):
        headers = {
            "X-Remory-Session": session,
            "Authorization": f"Bearer {key}" if key else None,
            "X-Remory-User": user,
            "X-Remory-Collect": "yes" if collect else None,
        }
        self.base_url = base_url.rstrip("/")
        self.session = session
        self._timeout = timeout
        self._http = httpx.Client(
            base_url=self.base_url,
            headers={name: value for name, value in headers.items() if value},
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def generate(
        self,
        text: str | Sequence[str] | None = None,
        *,
        input_ids: Ids | Sequence[Ids] | None = None,
        sampling_params: Mapping[str, Any] | None = None,
        handle: str | None = None,
        **fields: Any,
    ) -> Any:
        """`POST /generate`: SGLang's answer, {"text", "output_ids", "meta_info"}; a list of them for a list.

        With `handle`, `input_ids` are only the tokens after the memory. `fields` go into the body as they are
        (`return_logprob`, `logprob_start_len`, `return_hidden_states`, `rid`, `recall`).
        """
        return self.call("POST", "/generate", _generation(text, input_ids, sampling_params, handle, fields))

    def stream(
        self,
        text: str | None = None,
        *,
        input_ids: Ids | None = None,
        sampling_params: Mapping[str, Any] | None = None,
        handle: str | None = None,
        **fields: Any,
    ) -> Stream:
        """`POST /generate` with `stream: true`. Errors of the request are raised here, not while iterating."""
        body = _generation(text, input_ids, sampling_params, handle, fields) | {"stream": True}
        response = self._send("POST", "/generate", body, stream=True)
        if response.is_error:
            raise http_error(response)
        return Stream(response, self.base_url)

    def compact(
        self,
        prefix_ids: Ids,
        history_ids: Ids,
        summary_ids: Ids,
        previous: str | None = None,
        branches: Sequence[str] = (),
    ) -> dict[str, Any]:
        """`POST /v1/compact`: {"handle", "summary_ids", "receipt"}. Keep the history until this has returned."""
        body: dict[str, Any] = {
            "prefix_ids": list(prefix_ids),
            "history_ids": list(history_ids),
            "summary_ids": list(summary_ids),
            "previous": previous,
        }
        if branches:
            body["branches"] = list(branches)
        return self.call("POST", "/v1/compact", body)

    def compact_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        keep_last: int | None = None,
        previous: str | None = None,
        bridge: Sequence[Mapping[str, Any]] | None = None,
        max_summary_tokens: int | None = None,
    ) -> dict[str, Any]:
        """`POST /v1/compact/text`: the service renders, summarises and compacts by itself.

        For a second compaction `messages` are the prefix and what came after the removed history, `previous` and
        `bridge` what the first answered. See docs/api.md for the answer.
        """
        optional = {
            "tools": tools,
            "keep_last": keep_last,
            "previous": previous,
            "bridge": bridge,
            "max_summary_tokens": max_summary_tokens,
        }
        return self.call("POST", "/v1/compact/text", {"messages": list(messages)} | _given(optional))

    def info(self) -> dict[str, Any]:
        """`GET /v1/remory/info`: actor, checkpoint, tokenizer, summary contract, context length."""
        return self.call("GET", "/v1/remory/info")

    def memories(self) -> list[dict[str, Any]]:
        """`GET /v1/memories`: this session's handles with their receipts, newest first."""
        return self.call("GET", "/v1/memories")["memories"]

    def memory(self, handle: str) -> dict[str, Any]:
        """`GET /v1/memories/{handle}`."""
        return self.call("GET", f"/v1/memories/{handle}")

    def delete(self, handle: str) -> None:
        """`DELETE /v1/memories/{handle}`."""
        self.call("DELETE", f"/v1/memories/{handle}")

    def tokenize(
        self,
        prompt: str | Sequence[str] | None = None,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool | None = None,
        add_special_tokens: bool | None = None,
    ) -> Any:
        """`POST /tokenize`: the ids of a prompt (a list of them for a list), or of messages in the chat template."""
        optional = {
            "prompt": prompt,
            "messages": None if messages is None else list(messages),
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
            "add_special_tokens": add_special_tokens,
        }
        return self.call("POST", "/tokenize", _given(optional))["tokens"]

    def detokenize(self, tokens: Ids | Sequence[Ids], *, skip_special_tokens: bool = True) -> Any:
        """`POST /detokenize`: the text of ids, or a list of texts for a list of lists."""
        return self.call("POST", "/detokenize", {"tokens": tokens, "skip_special_tokens": skip_special_tokens})["text"]

    def health(self) -> dict[str, Any]:
        """`GET /health`: answers as soon as the service is alive."""
        return self.call("GET", "/health")

    def wait_ready(self, timeout: float = 120.0, progress: Callable[[float], None] | None = None) -> None:
        """Wait until `GET /ready` says that the actor answers.

        `progress(seconds waited)` is called at every look, and may raise to give up. After `timeout` seconds the last
        error is raised.
        """
        start = time.monotonic()
        while True:
            try:
                self.call("GET", "/ready")
                return
            except (ConnectionFailed, ServerBusy):
                waited = time.monotonic() - start
                if waited >= timeout:
                    raise
            if progress is not None:
                progress(waited)
            time.sleep(_POLL_SECONDS)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> Any:
        """Any route: its JSON answer, None for an empty one. For routes that have no method here.

        `timeout`: seconds as of the client, for one request that must not wait so long; a longer one changes nothing.
        """
        response = self._send(method, path, body, timeout=timeout)
        if response.is_error:
            raise http_error(response)
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise ServerFailed(
                f"{self.base_url} answered no JSON: is it a Remory service?", response.status_code
            ) from error

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        stream: bool = False,
        timeout: float | None = None,
    ) -> httpx.Response:
        seconds = self._timeout if timeout is None else min(timeout, self._timeout)
        limits = httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS))
        try:
            request = self._http.build_request(method, path, json=body, timeout=limits)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"this cannot be sent as JSON: {error}") from error
        try:
            response = self._http.send(request, stream=stream)
            if stream and response.is_error:
                response.read()
            return response
        except httpx.HTTPError as error:
            raise connection_failed(error, self.base_url) from error


def _generation(
    text: Any, input_ids: Any, sampling_params: Mapping[str, Any] | None, handle: str | None, fields: Mapping[str, Any]
) -> dict[str, Any]:
    optional = {
        "text": text,
        "input_ids": input_ids,
        "sampling_params": sampling_params,
        "remory": None if handle is None else {"handle": handle},
    }
    return _given(optional) | dict(fields)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _event(data: dict[str, Any], response: httpx.Response) -> dict[str, Any]:
    """An event of a stream; a failure after the headers were sent can only arrive as one."""
    if "error" not in data and "detail" not in data:
        return data
    detail = detail_of(data)
    raise ServerFailed(f"generation failed: {detail}", 502, detail, response.headers.get("x-request-id"))

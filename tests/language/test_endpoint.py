"""The shared HTTP code, against a real server that plays an OpenAI-compatible endpoint well and badly."""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from remory.errors import InvalidInput
from remory.language.endpoint import MAX_ANSWER_BYTES, Endpoint, EndpointFailed

KEY = "sk-a-key-that-nobody-may-see"


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    time: float


@dataclass
class Reply:
    """What the peer answers; bytes go as they are, an iterator piece by piece and without a length."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Peer:
    """A server on a free port that writes down every request and answers what `answer` says."""

    def __init__(self, answer: Callable[[Request], Reply] = lambda request: Reply({"fine": True})):
        self.answer = answer
        self.requests: list[Request] = []
        self.closing = threading.Event()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                # A client that gave up is no failure of the peer's.
                with suppress(ConnectionError):
                    super().handle()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                request = Request(self.path, dict(self.headers), json.loads(body), time.monotonic())
                peer.requests.append(request)
                self._write(peer.answer(request))

            def _write(self, reply: Reply) -> None:
                body = reply.body if isinstance(reply.body, bytes | Iterator) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                if isinstance(body, bytes):
                    reply.headers.setdefault("Content-Length", str(len(body)))
                else:
                    self.close_connection = True
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for part in [body] if isinstance(body, bytes) else body:
                    self.wfile.write(part)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        # Many may come at once.
        self._server.request_queue_size = 128
        self._server.server_bind()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def start(self) -> None:
        """Listen; until then connections are refused."""
        self._server.server_activate()
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


@pytest.fixture
def silent() -> Iterator[Peer]:
    """A peer that does not listen yet."""
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def peer(silent: Peer) -> Peer:
    silent.start()
    return silent


@pytest.fixture
def endpoint(peer: Peer) -> Iterator[Endpoint]:
    endpoint = Endpoint(peer.url, "small", KEY, 20.0)
    yield endpoint
    endpoint.close()


def failure(endpoint: Endpoint) -> EndpointFailed:
    with pytest.raises(EndpointFailed) as caught:
        endpoint.post("/embeddings", {"input": ["a"]})
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    return caught.value


def test_posts_the_model_the_body_and_the_key(peer: Peer, endpoint: Endpoint) -> None:
    assert endpoint.post("/embeddings", {"input": ["Größe", "🙂"]}) == {"fine": True}
    [request] = peer.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {"model": "small", "input": ["Größe", "🙂"]}
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("key", [None, "", " \n"])
def test_sends_no_authorization_without_a_key(peer: Peer, key: str | None) -> None:
    Endpoint(peer.url + "/", "small", key).post("/embeddings", {})
    assert "Authorization" not in peer.requests[0].headers
    assert peer.requests[0].path == "/v1/embeddings"


def test_a_key_from_a_file_may_end_in_a_newline(peer: Peer) -> None:
    Endpoint(peer.url, "small", KEY + "\n").post("/embeddings", {})
    assert peer.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_the_key_is_not_shown(endpoint: Endpoint, peer: Peer) -> None:
    assert repr(endpoint) == f"Endpoint({peer.url!r}, model='small')"
    assert KEY not in str(endpoint) + repr(vars(endpoint)) + repr(endpoint._http.headers)


@pytest.mark.parametrize("key", ["sk-one\nX-Other: 1", "sk-one two", "sk-größe", "sk-one\x00"])
def test_refuses_a_key_that_is_no_header_and_does_not_repeat_it(key: str) -> None:
    with pytest.raises(InvalidInput, match="printable ASCII") as caught:
        Endpoint("http://127.0.0.1:1/v1", "small", key)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000/v1",
        "ftp://host/v1",
        "http://",
        "http:///v1",
        "http://host:99999/v1",
        "http://host:0/v1",
        "http://user:secret@host/v1",
        "https://host/v1?key=secret",
        "https://host/v1?",
        "https://host/v1#part",
        "http://host:secret/v1",
    ],
)
def test_refuses_a_url_that_cannot_work_and_does_not_repeat_it(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Endpoint(url, "small")
    assert "secret" not in str(caught.value)


def test_refuses_a_missing_model_and_a_wrong_timeout() -> None:
    with pytest.raises(InvalidInput, match="name of a model"):
        Endpoint("http://host/v1", "")
    for timeout in (0, -1, float("inf"), float("nan")):
        with pytest.raises(InvalidInput, match="positive number of seconds"):
            Endpoint("http://host/v1", "small", None, timeout)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 500, 502])
def test_a_status_fails_at_once_without_the_words_of_the_peer(peer: Peer, endpoint: Endpoint, status: int) -> None:
    peer.answer = lambda request: Reply({"error": f"foreign words {request.headers['Authorization']}"}, status)
    failed = failure(endpoint)
    assert failed.status == status
    assert f"status {status}" in str(failed) and "foreign" not in str(failed)
    assert len(peer.requests) == 1
    peer.answer = lambda request: Reply({"fine": True})
    assert endpoint.post("/embeddings", {}) == {"fine": True}


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_peer_is_asked_once_more(peer: Peer, endpoint: Endpoint, status: int) -> None:
    replies = iter([Reply(status=status, headers={"Retry-After": "0.3"}), Reply({"fine": True})])
    peer.answer = lambda request: next(replies)
    assert endpoint.post("/embeddings", {"input": ["a"]}) == {"fine": True}
    first, second = peer.requests
    assert first.body == second.body
    assert second.time - first.time >= 0.3


@pytest.mark.parametrize("asked", ["", "nan", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_peer_that_stays_busy_is_asked_twice(peer: Peer, endpoint: Endpoint, asked: str) -> None:
    peer.answer = lambda request: Reply(status=503, headers={"Retry-After": asked} if asked else {})
    assert failure(endpoint).status == 503
    assert len(peer.requests) == 2


@pytest.mark.parametrize("asked", ["5.1", "3600", "inf"])
def test_a_long_wait_is_not_waited(peer: Peer, endpoint: Endpoint, asked: str) -> None:
    peer.answer = lambda request: Reply(status=429, headers={"Retry-After": asked})
    assert failure(endpoint).status == 429
    assert len(peer.requests) == 1


def test_a_wait_that_ends_after_the_timeout_is_not_waited(peer: Peer) -> None:
    peer.answer = lambda request: Reply(status=429, headers={"Retry-After": "4"})
    assert failure(Endpoint(peer.url, "small", KEY, 2.0)).status == 429
    assert len(peer.requests) == 1


def test_a_connection_that_cannot_be_made_is_tried_twice(silent: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint(silent.url, "small", KEY)
    assert str(failure(endpoint)) == "no connection to the endpoint could be made"
    # The peer comes up while the client waits.
    monkeypatch.setattr("remory.language.endpoint.time.sleep", lambda seconds: silent.start())
    assert endpoint.post("/embeddings", {}) == {"fine": True}
    assert len(silent.requests) == 1


def test_a_redirect_is_not_followed(peer: Peer, endpoint: Endpoint) -> None:
    peer.answer = lambda request: Reply(status=307, headers={"Location": peer.url + "/elsewhere"})
    failed = failure(endpoint)
    assert failed.status == 307 and "redirect" in str(failed) and "elsewhere" not in str(failed)
    assert len(peer.requests) == 1


def test_no_answer_in_time(peer: Peer) -> None:
    def wait(request: Request) -> Reply:
        peer.closing.wait(60)
        return Reply()

    peer.answer = wait
    assert "within 0.2 s" in str(failure(Endpoint(peer.url, "small", KEY, 0.2)))
    assert len(peer.requests) == 1


def test_an_answer_in_drips_does_not_hold_a_caller_for_ever(peer: Peer) -> None:
    def drips() -> Iterator[bytes]:
        while not peer.closing.wait(0.05):
            yield b" "

    peer.answer = lambda request: Reply(drips())
    assert "within 0.3 s" in str(failure(Endpoint(peer.url, "small", KEY, 0.3)))


def test_an_endless_answer_is_cut_off(peer: Peer, endpoint: Endpoint) -> None:
    sent = 0

    def flood() -> Iterator[bytes]:
        nonlocal sent
        while not peer.closing.is_set():
            sent += 1 << 20
            yield b" " * (1 << 20)

    peer.answer = lambda request: Reply(flood())
    assert str(MAX_ANSWER_BYTES) in str(failure(endpoint))
    # What lies in the buffers of the two sockets comes on top.
    assert sent <= 2 * MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>foreign</html>", b'{"a": ', b'"\xff"', b"[" * 100_000, b"[1]", b'"foreign"', b"null", b"9" * 5000],
    ids=["empty", "html", "cut", "latin", "deep", "array", "string", "null", "number"],
)
def test_an_answer_that_is_no_json_object(peer: Peer, endpoint: Endpoint, body: bytes) -> None:
    peer.answer = lambda request: Reply(body)
    failed = failure(endpoint)
    assert "not" in str(failed) and "JSON" in str(failed) and "foreign" not in str(failed)
    peer.answer = lambda request: Reply({"fine": True})
    assert endpoint.post("/embeddings", {}) == {"fine": True}


def test_a_connection_that_breaks_is_not_tried_again(peer: Peer, endpoint: Endpoint) -> None:
    peer.answer = lambda request: Reply(b'{"fine"', headers={"Content-Length": "50", "Connection": "close"})
    assert "broke" in str(failure(endpoint))
    assert len(peer.requests) == 1


def test_a_compressed_answer_is_refused(peer: Peer, endpoint: Endpoint) -> None:
    peer.answer = lambda request: Reply(b"{}", headers={"Content-Encoding": "gzip"})
    assert "compressed" in str(failure(endpoint))
    assert peer.requests[0].headers["Accept-Encoding"] == "identity"


def test_text_without_a_utf8_form_is_not_sent(peer: Peer, endpoint: Endpoint) -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        endpoint.post("/embeddings", {"input": ["a\ud800"]})
    assert not peer.requests


class GaveUp(Exception):
    pass


def test_an_attended_call_answers_as_any_other(peer: Peer, endpoint: Endpoint) -> None:
    looks: list[int] = []
    peer.answer = lambda request: (peer.closing.wait(0.5), Reply({"fine": True}))[1]
    assert endpoint.post_attended("/embeddings", {"input": ["a"]}, lambda: looks.append(1)) == {"fine": True}
    assert looks
    assert peer.requests[0].body == {"model": "small", "input": ["a"]}
    assert peer.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    peer.answer = lambda request: Reply(status=500)
    with pytest.raises(EndpointFailed, match="status 500"):
        endpoint.post_attended("/embeddings", {}, lambda: None)


def test_giving_up_closes_the_connection(peer: Peer, endpoint: Endpoint) -> None:
    asked, left = threading.Event(), threading.Event()

    def drips() -> Iterator[bytes]:
        asked.set()
        # What is sent to a connection that is gone fails sooner or later, and ends this.
        try:
            while not peer.closing.wait(0.02):
                yield b" " * 1000
        finally:
            left.set()

    def check() -> None:
        if asked.is_set():
            raise GaveUp

    peer.answer = lambda request: Reply(drips())
    with pytest.raises(GaveUp):
        endpoint.post_attended("/embeddings", {}, check)
    assert left.wait(10)


def test_giving_up_before_the_answer_begins_ends_the_call(peer: Peer, endpoint: Endpoint) -> None:
    asked = threading.Event()

    def hang(request: Request) -> Reply:
        asked.set()
        peer.closing.wait(60)
        return Reply()

    def check() -> None:
        if asked.is_set():
            raise GaveUp

    def calling() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "remory-endpoint"]

    peer.answer = hang
    with pytest.raises(GaveUp):
        endpoint.post_attended("/embeddings", {}, check)
    for thread in calling():
        thread.join(10)
    assert not calling() and len(peer.requests) == 1

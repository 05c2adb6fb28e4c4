"""Client processes that work on a few entries of one session and record what they saw.

It imports nothing heavy: every client is a fresh process.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier, Event
from random import Random
from typing import Any
from urllib.parse import urlsplit

from tests.service.scoped.history import Action, Change, Operation, Outcome

ENTRIES = ("value/a", "value/b", "value/c", "vector/a", "vector/b")
DIMENSION = 4
_PAGE = 1000
_PATIENCE_SECONDS = 120
_TIMEOUT_SECONDS = 60
_TOLD_EVERY = 20
_SHARES = {"cas": 30, "set": 15, "delete": 8, "delete if": 7, "read": 32, "search": 4, "list": 4}
_ROUTES = {
    ("set", "value"): "write",
    ("set", "vector"): "vector/set",
    ("delete", "value"): "delete",
    ("delete", "vector"): "vector/delete",
    ("read", "value"): "read",
    ("read", "vector"): "vector/get",
}


@dataclass(frozen=True)
class Load:
    """What the clients of a run do together, over servers that share a store: `operations` in all, or as many as they
    can until they are stopped.
    """

    urls: tuple[str, ...]
    session: str
    operations: int | None = None
    processes: int = 8
    seed: int = 0


@dataclass
class Record:
    """What clients saw. `unexpected`: answers that no such request should get. `seconds`: how long they worked."""

    operations: list[Operation] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Record) -> None:
        self.operations += other.operations
        self.unexpected += other.unexpected
        self.seconds = max(self.seconds, other.seconds)


@dataclass(frozen=True)
class Answer:
    """An answer, with the monotonic nanoseconds of sending and getting it; `end` None, `status` 0: none came."""

    start: int
    end: int | None = None
    status: int = 0
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        if self.status == 200:
            return "done"
        return "conflict" if self.status == 409 else "unknown"


class Connections:
    """Kept-alive connections to every server, used in turn at random; a server that is down is passed over."""

    def __init__(self, urls: Sequence[str], random: Random):
        self._urls = urls
        self._random = random
        self._open: dict[str, HTTPConnection] = {}

    def post(self, user: str, path: str, fields: dict[str, Any]) -> Answer:
        """One request, sent once. Raises TimeoutError when no server can be reached."""
        headers = {"Content-Type": "application/json", "X-Remory-User": user}
        url, connection = self._connected()
        start = time.monotonic_ns()
        try:
            connection.request("POST", f"/api/v2/memory/{path}", json.dumps(fields).encode(), headers)
            answer = connection.getresponse()
            found = json.loads(answer.read())
        except (OSError, HTTPException):
            self._open.pop(url).close()
            return Answer(start)
        return Answer(start, time.monotonic_ns(), answer.status, found)

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    def _connected(self) -> tuple[str, HTTPConnection]:
        """A connection, after a wait while no server listens."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            url = self._random.choice(self._urls)
            if url in self._open:
                return url, self._open[url]
            connection = HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_SECONDS)
            try:
                connection.connect()
            except OSError:
                time.sleep(0.05)
                continue
            self._open[url] = connection
            return url, connection
        raise TimeoutError(f"no server listened for {_PATIENCE_SECONDS} s: {', '.join(self._urls)}")


class Client:
    """One client: it does one operation after the other and records them."""

    def __init__(self, load: Load, index: int):
        self.record = Record()
        self.connections = Connections(load.urls, Random(f"{load.seed} servers {index}"))
        self._scope = {"scope": "session", "session_id": load.session}
        self._random = Random(f"{load.seed} {index}")
        self._index = index
        self._lives = 0
        self._attempts = 0
        self._revisions = dict.fromkeys(ENTRIES, 0)

    @property
    def name(self) -> str:
        """The user it acts as, until an answer is lost: what was asked may still happen, beside what comes next."""
        return f"client-{self._index}.{self._lives}"

    def act(self) -> None:
        """One operation of any kind on any entry."""
        entry = self._random.choice(ENTRIES)
        believed = self._revisions[entry]
        match self._random.choices(list(_SHARES), list(_SHARES.values()))[0]:
            case "cas":
                self.set(entry, expected=self._random.choice([believed] * 4 + [0]))
            case "set":
                self.set(entry)
            case "delete if":
                self._delete(entry, expected=believed or None)
            case "delete":
                self._delete(entry)
            case "search":
                self._search()
            case "list":
                self._list(entry.partition("/")[0])
            case "read":
                self.read(entry)

    def read(self, entry: str) -> None:
        answer = self._ask(entry, "read")
        if answer.outcome == "done":
            value = _value_seen(answer.body) if answer.body["found"] else None
            self._note(entry, "read", answer, answer.body["revision"], value)

    def set(self, entry: str, expected: int | None = None) -> None:
        self._attempts += 1
        attempt = f"{self._index}:{self._attempts}"
        content: dict[str, Any] = {"value": {"attempt": attempt}}
        if entry.startswith("vector"):
            content = {"embedding": embedding_of(attempt), "metadata": {"attempt": attempt}}
        answer = self._ask(entry, "set", expected, **content)
        self._note(entry, "set", answer, _revision_told(answer), attempt, expected)

    def _delete(self, entry: str, expected: int | None = None) -> None:
        answer = self._ask(entry, "delete", expected)
        if answer.outcome == "done":
            # A delete does not tell its revision: it is known when it was asked for, or when there was none.
            self._note(entry, "delete", answer, expected if answer.body["deleted"] else 0, None, expected)
        else:
            self._note(entry, "delete", answer, _revision_told(answer), None, expected)

    def _search(self) -> None:
        """A search with room for the whole collection reads every vector at once."""
        query = [self._random.uniform(0.1, 1) for _ in range(DIMENSION)]
        answer = self._post("vector/search", query_embedding=query, top_k=len(ENTRIES))
        if answer.outcome == "done":
            items = answer.body["items"]
            self._note_all("vector", answer, {item["key"]: (item["revision"], _value_seen(item)) for item in items})

    def _list(self, kind: str) -> None:
        """A listing reads every entry of a kind at once, without values."""
        answer = self._post("list", kind=kind)
        if answer.outcome == "done":
            self._note_all(kind, answer, {item["key"]: (item["revision"], None) for item in answer.body["items"]})

    def _ask(self, entry: str, action: Action, expected: int | None = None, **fields: Any) -> Answer:
        kind, _, key = entry.partition("/")
        if expected is not None:
            fields["expected_revision"] = expected
        return self._post(_ROUTES[action, kind], key=key, **fields)

    def _post(self, path: str, **fields: Any) -> Answer:
        answer = self.connections.post(self.name, path, self._scope | fields)
        conflict = answer.status == 409 and answer.body["error"]["code"] == "revision_conflict"
        if answer.status not in (0, 200) and not conflict:
            self.record.unexpected.append(f"{self.name}: {path} {fields} answered {answer.status} {answer.body}")
        return answer

    def _note_all(self, kind: str, answer: Answer, found: dict[str, tuple[int, str | None]]) -> None:
        for entry in ENTRIES:
            entry_kind, _, key = entry.partition("/")
            if entry_kind == kind:
                self._note(entry, "read", answer, *found.get(key, (0, None)))

    def _note(
        self,
        entry: str,
        action: Action,
        answer: Answer,
        revision: int | None,
        value: str | None = None,
        expected: int | None = None,
    ) -> None:
        outcome: Outcome = "absent" if action == "delete" and revision == 0 else answer.outcome
        end = None if outcome == "unknown" else answer.end
        self.record.operations.append(
            Operation(self.name, entry, action, answer.start, end, outcome, revision, value, expected)
        )
        if outcome == "unknown":
            self._lives += 1
        else:
            deleted = action == "delete" and outcome == "done"
            self._revisions[entry] = 0 if deleted else revision or 0


def embedding_of(attempt: str) -> list[float]:
    """A vector that tells which attempt wrote it; its elements are exact in any float format of 32 bits and more."""
    client, _, count = attempt.partition(":")
    return [float(client), float(count), 1.0, 2.0]


def _value_seen(body: dict[str, Any]) -> str:
    """The attempt whose value or vector was found; a text that nobody wrote when its parts are of different ones."""
    attempt = body["metadata" if "metadata" in body else "value"]["attempt"]
    torn = "embedding" in body and body["embedding"] != embedding_of(attempt)
    return f"{attempt} with the vector {body['embedding']}" if torn else attempt


def _revision_told(answer: Answer) -> int | None:
    return answer.body["error"]["revision"] if answer.outcome == "conflict" else answer.body.get("revision")


class Run:
    """Clients at work in processes of their own; leaving the block ends them."""

    def __init__(self, load: Load):
        context = multiprocessing.get_context("spawn")
        self._load = load
        self._shared = _Shared(context.Value("q", 0), context.Barrier(load.processes), context.Event())
        self._pool = ProcessPoolExecutor(load.processes, context, _share, (self._shared,))
        self._clients: list[Future[Record]] = []

    def __enter__(self) -> Run:
        self._clients = [self._pool.submit(_work, self._load, index) for index in range(self._load.processes)]
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._shared.begin.abort()
        self._pool.shutdown()

    @property
    def done(self) -> int:
        """How many operations are done, about."""
        return self._shared.done.value

    def wait_for(self, count: int) -> None:
        """Wait until so many more operations are done. Raises what a client raised."""
        end = self.done + count
        while self.done < end and self._under_way(0.02):
            pass

    def stop(self) -> None:
        """Let the clients end with the operation that each is at."""
        self._shared.stop.set()

    def result(self, progress: Callable[[int], None] | None = None) -> Record:
        """What all clients saw, and one after them that reads every entry, sets it and reads it again.

        Raises what a client raised.
        """
        while self._under_way(1):
            if progress:
                progress(self.done)
        record = Record()
        for client in self._clients:
            record.add(client.result())
        last = Client(self._load, self._load.processes)
        for entry in ENTRIES:
            last.read(entry)
            last.set(entry)
            last.read(entry)
        record.add(last.record)
        return record

    def _under_way(self, seconds: float) -> bool:
        """Whether clients are at work after a wait, which ends with the last one."""
        ended, at_work = wait(self._clients, seconds)
        for client in ended:
            client.result()
        return bool(at_work)


@dataclass(frozen=True)
class _Shared:
    """What all processes of a run have in common."""

    done: Synchronized[int]
    begin: Barrier
    stop: Event


_shared: _Shared


def _share(shared: _Shared) -> None:
    """In a new client process: take what only its maker can give it."""
    global _shared
    _shared = shared


def _work(load: Load, index: int) -> Record:
    """What one client process does."""
    client = Client(load, index)
    _shared.begin.wait()
    start = time.monotonic()
    rounds = itertools.count(1) if load.operations is None else range(1, load.operations // load.processes + 1)
    for count in rounds:
        if _shared.stop.is_set():
            break
        client.act()
        if count % _TOLD_EVERY == 0:
            with _shared.done.get_lock():
                _shared.done.value += _TOLD_EVERY
    client.connections.close()
    client.record.seconds = time.monotonic() - start
    return client.record


class FeedReader:
    """Follows the change feed of the whole store through its servers, page by page."""

    def __init__(self, urls: Sequence[str], limit: int = _PAGE):
        self.changes: list[Change] = []
        self._connections = Connections(urls, Random(0))
        self._limit = limit
        self._cursor = 0

    def read_page(self) -> int:
        """Take in the next page; how many changes it had. Raises RuntimeError for another answer than a page."""
        query = {"after": self._cursor, "limit": self._limit}
        while not (answer := self._connections.post("reader", "changes", query)).status:
            pass
        if answer.status != 200:
            raise RuntimeError(f"changes answered {answer.status}: {answer.body}")
        items = answer.body["items"]
        self._cursor = answer.body["next_cursor"]
        self.changes += [_change(item) for item in items]
        return len(items)

    def read_on(self) -> list[Change]:
        """All changes, up to the last that there is now."""
        while self.read_page():
            pass
        return self.changes


def _change(item: dict[str, Any]) -> Change:
    value = None if item["value"] is None else item["value"]["attempt"]
    entry = f"{item['kind']}/{item['key']}"
    return Change(item["sequence"], item["principal"], entry, item["action"], item["revision"], value)

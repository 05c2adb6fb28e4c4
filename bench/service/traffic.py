"""The requests of the clients: bytes made beforehand, and the few that depend on the answer before."""

from __future__ import annotations

import itertools
import json
import random
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from bench.service.generator import Answer, Source, endless

DIMENSION = 384
GROUPS = 10
GROUP = 3
TOP_K = 10
READ_KEYS = 1000
WRITE_KEYS = 200
VALUE = {
    "text": "what a worker notes between two steps " * 4,
    "count": 17,
    "tags": ["draft", "checked"],
    "final": False,
}
_REVISION = re.compile(rb'"revision":(\d+)')
_MOST_DIGITS = 19
_POOL = 64


@dataclass(frozen=True)
class Traffic:
    """Makes requests for scopes of one name that nobody else uses. `headers`: what every request carries."""

    name: str
    headers: Mapping[str, str] = field(default_factory=dict)
    seed: int = 1

    def request(self, path: str, body: bytes) -> bytes:
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        head = f"POST /api/v2/{path} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Type: application/json\r\n"
        return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body

    def call(self, path: str, part: str, **fields: Any) -> bytes:
        """A request about the session `part` of this traffic."""
        body = {"scope": "session", "session_id": f"{self.name}-{part}", **fields}
        return self.request(path, json.dumps(body, separators=(",", ":")).encode())

    def fill(self) -> Iterator[bytes]:
        """Write all keys that are read later."""
        return (self.call("memory/write", "values", key=_key(index), value=VALUE) for index in range(READ_KEYS))

    def reads(self, client: int) -> Source:
        draw = random.Random(self.seed * 1000 + client)
        keys = draw.sample(range(READ_KEYS), READ_KEYS // 4)
        return endless([self.call("memory/read", "values", key=_key(index)) for index in keys])

    def writes(self, client: int) -> Source:
        """Values to keys of the client's own: made once, then overwritten."""
        return endless(
            [
                self.call("memory/write", "writes", key=f"client-{client:02}-{index:04}", value=VALUE)
                for index in range(WRITE_KEYS)
            ]
        )

    def compare_and_set(self, key: str) -> Source:
        """Set a key to a new value as long as it has the revision that was last heard of."""
        # JSON allows spaces behind a number: with them every body is as long, and its head is the same.
        mark = 10**_MOST_DIGITS - 1
        whole = self.call("memory/write", "compared", key=key, value=VALUE, expected_revision=mark)
        before, _, after = whole.partition(b"%d" % mark)
        revision = 0
        while True:
            answer: Answer = yield before + b"%-*d" % (_MOST_DIGITS, revision) + after
            found = _REVISION.search(answer.body)
            revision = int(found[1]) if found else 0

    def changes(self, client: int, first: int, last: int) -> Source:
        """Pages of 100 changes after cursors all over the feed."""
        draw = random.Random(self.seed * 1000 + client)
        cursors = [draw.randint(first, max(first, last - 100)) for _ in range(256)]
        return endless([self.call("memory/changes", "writes", after=cursor, limit=100) for cursor in cursors])

    def vector_sets(self, client: int) -> Source:
        """New vectors for ever, under keys never used before. The elements come from a small pool."""
        texts = [vector_text(row) for row in self.vectors(client * _POOL, _POOL)]
        fresh = secrets.token_hex(8)
        for number, text in enumerate(itertools.cycle(texts)):
            yield self._vector_set("sets", f"{fresh}-{number:08}", text, number)

    def collection(self, client: int, clients: int, count: int) -> Iterator[bytes]:
        """This client's part of the `count` vectors that are searched later."""
        for number in range(client, count, clients):
            yield self._vector_set("search", _key(number), vector_text(self.vectors(number, 1)[0]), number)

    def searches(self, count: int, filtered: bool, first: int = 0) -> Iterator[bytes]:
        fields: dict[str, Any] = {"filters": {"group": GROUP}} if filtered else {}
        for row in self.queries(count, first):
            yield self.call(
                "memory/vector/search", "search", query_embedding=row.tolist(), top_k=TOP_K, strategy="linear", **fields
            )

    def vectors(self, first: int, count: int) -> np.ndarray:
        """The vectors [count, D] float32 from number `first` on: the same for everybody who asks."""
        return self._random_rows(0, range(first, first + count))

    def queries(self, count: int, first: int = 0) -> np.ndarray:
        """The same for queries [count, D]."""
        return self._random_rows(1, range(first, first + count))

    def _random_rows(self, kind: int, numbers: range) -> np.ndarray:
        rows = [np.random.default_rng((self.seed, kind, number)).standard_normal(DIMENSION) for number in numbers]
        return np.array(rows, dtype=np.float32)

    def _vector_set(self, part: str, key: str, embedding: bytes, number: int) -> bytes:
        body = (
            b'{"scope":"session","session_id":"%s-%s","key":"%s","metadata":{"group":%d,"from":"bench"},"embedding":%s}'
        )
        filled = body % (self.name.encode(), part.encode(), key.encode(), number % GROUPS, embedding)
        return self.request("memory/vector/set", filled)


def vector_text(row: np.ndarray) -> bytes:
    """A vector as JSON, float32 elements written in full, as clients do who have their vectors in that type."""
    return json.dumps(row.tolist(), separators=(",", ":")).encode()


def _key(number: int) -> str:
    return f"key-{number:08}"

"""What schemathesis is told beside the document, loaded by it before a run.

Random keys hardly ever meet, so some requests that fit the schema are led to a few entries, where they find, replace
and delete what others left there. With keys, some requests get one of them, some none, and a worker's also a lease.
What a request becomes depends only on its body, so that schemathesis can send it again and make it smaller.
"""

from __future__ import annotations

import json
import os
import random
from dataclasses import dataclass
from typing import Any

import httpx
import schemathesis

SETTING = "REMORY_FUZZ"
STEP = {"task_id": "task", "step_id": "step"}
_KEYS = ("a", "b", "ä", "a/b")
_DIMENSION = 3
_NOTES = ("6f2d3c1a-0000-4000-8000-000000000001", "6f2d3c1a-0000-4000-8000-000000000002")
_SAID = (
    {"role": "user", "text": "Which port does the service listen on?"},
    {"role": "assistant", "text": "It listens on port 9317."},
)


@dataclass(frozen=True)
class Setting:
    """`url` of the server; `keys` by role, empty for a server that asks for none. `name`: of scopes of this run's own,
    since those that are there already have owners.
    """

    url: str
    keys: dict[str, str]
    name: str

    @property
    def ids(self) -> dict[str, str]:
        """The ids of the scopes that requests are led to."""
        return dict.fromkeys(("session_id", "actor_id", "root_id"), self.name)

    def headers(self, role: str) -> dict[str, str]:
        """Who asks; a role without a key sends one that was never made."""
        return {"Authorization": f"Bearer {self.keys.get(role, 'rk_none')}"} if self.keys else {}

    def as_text(self) -> str:
        return json.dumps(vars(self))


def lend(setting: Setting) -> dict[str, str]:
    """A fresh lease in a request's terms."""
    body = {**setting.ids, **STEP, "ttl_seconds": 24 * 3600}
    answer = httpx.post(f"{setting.url}/api/v2/leases", json=body, headers=setting.headers("invoke"))
    answer.raise_for_status()
    return {**STEP, "lease_token": answer.json()["lease_token"]}


def talk(setting: Setting) -> dict[str, str]:
    """A chat with messages and a memory, as the parameters of paths name them."""
    with httpx.Client(base_url=setting.url, headers=setting.headers("invoke"), timeout=60) as client:

        def post(path: str, body: Any) -> Any:
            return client.post(path, json=body).raise_for_status().json()

        chat = post("/api/chats", {})["id"]
        post(f"/api/chats/{chat}/messages", {"messages": [*_SAID]})
        memory = post(f"/api/chats/{chat}/memories", {})["id"]
        message = post(f"/api/chats/{chat}/messages", _SAID[0])["id"]
    return {"chat_id": chat, "memory_id": memory, "message_id": message}


class Leading:
    """Leads requests to where something is."""

    def __init__(self, setting: Setting):
        self._setting = setting
        self._lease = lend(setting)
        self._talk = talk(setting)

    def lead(self, case: Any) -> None:
        draw = random.Random(f"{case.path} {case.body!r}")
        role = draw.choice([*self._setting.keys, "nobody"])
        case.headers = {**(case.headers or {}), **self._setting.headers(role)}
        if _fits(case) and case.path_parameters and draw.random() < 0.7 and case.method != "DELETE":
            known = {name: self._talk[name] for name in case.path_parameters if name in self._talk}
            case.path_parameters = {**case.path_parameters, **known}
        if isinstance(case.body, dict) and _fits(case):
            if case.path.startswith("/api/v2/"):
                case.body = {**case.body, **self._changes(draw, case.path, case.body, role)}
            elif case.path == "/api/rpc" and isinstance(case.body.get("params"), dict):
                case.body = {**case.body, "params": self._named(draw, case.body["params"])}

    def _named(self, draw: random.Random, params: dict[str, Any]) -> dict[str, Any]:
        """Parameters of a method, led to a few notes."""
        if draw.random() < 0.4:
            return params
        note = draw.choice(_NOTES)
        changes: dict[str, Any] = {name: note for name in ("memoryId", "offset") if params.get(name) is not None}
        if isinstance(params.get("memory"), dict):
            changes["memory"] = {**params["memory"], "id": note}
        return {**params, **changes}

    def _changes(self, draw: random.Random, path: str, body: dict[str, Any], role: str) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        if draw.random() < 0.6:
            changes |= self._setting.ids
        if "key" in body and draw.random() < 0.6:
            changes["key"] = draw.choice(_KEYS)
        for field in ("embedding", "query_embedding"):
            if field in body and draw.random() < 0.6:
                changes[field] = [draw.choice((-1, 0.5, 2, 1e-3)) for _ in range(_DIMENSION)]
        if body.get("expected_revision") is not None and draw.random() < 0.6:
            changes["expected_revision"] = draw.randrange(4)
        if body.get("cursor") is not None and draw.random() < 0.6:
            changes["cursor"] = draw.choice(_KEYS)
        if body.get("after") is not None and draw.random() < 0.6:
            changes["after"] = draw.randrange(1000)
        if draw.random() < (0.9 if role == "worker" else 0.2):
            changes |= lend(self._setting) if path.endswith("/release") else self._lease
        return changes


def _fits(case: Any) -> bool:
    return case.meta is None or not case.meta.generation.mode.is_negative


if SETTING in os.environ:
    leading = Leading(Setting(**json.loads(os.environ[SETTING])))

    @schemathesis.hook
    def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
        leading.lead(case)

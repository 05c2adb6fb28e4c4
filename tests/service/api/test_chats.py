"""The routes of chats and messages, on both databases, with a clock of the test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from remory_service.app import create_app
from remory_service.config import Config
from remory_service.identity import make_key
from remory_service.store.database import close_store

PLAIN = {"Accept": "application/json"}
MEGABYTE = 1 << 20
NAMES = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 409: "Conflict", 502: "Bad Gateway"}


class Clock:
    """Epoch milliseconds that pass only when told to."""

    now = 1_768_494_000_000

    def __call__(self) -> int:
        return self.now


class Routes:
    """The routes of one application, as one user."""

    def __init__(self, client: FlaskClient, **headers: str):
        self.client, self.headers = client, headers

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        content = {} if body is None else {"json": body}
        answer = self.client.open(f"/api/{path}", method=method, headers={**self.headers, **headers}, **content)
        return answer.status_code, answer.json

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, answer = self.call(method, path, body, **headers)
        assert status == 200, answer
        return answer

    def fails(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """Status and message of an answer that must have the group's one shape."""
        status, answer = self.call(method, path, body)
        assert answer == {"statusCode": status, "error": NAMES[status], "message": answer["message"]}
        return status, answer["message"]

    def as_user(self, user: str) -> Routes:
        return Routes(self.client, **{"X-Remory-User": user})

    def chat(self, **fields: Any) -> str:
        return self("POST", "chats", fields)["id"]

    def say(self, chat: str, text: str, role: str = "user") -> dict[str, Any]:
        return self("POST", f"chats/{chat}/messages", {"role": role, "text": text})

    def messages(self, chat: str) -> list[dict[str, Any]]:
        return self("GET", f"chats/{chat}/messages", Accept="application/json")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def config(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Config]:
    """A store on each database for all tests of a file, which are users of their own in it."""
    data = tmp_path_factory.mktemp("chats")
    if request.param == "sqlite":
        yield Config(data=data)
    else:
        with request.getfixturevalue("postgresql").fresh() as url:
            yield Config(data=data, store=url)
            close_store()


@pytest.fixture
def routes(config: Config, clock: Clock) -> Iterator[Routes]:
    yield Routes(create_app(config, clock=clock).test_client()).as_user(str(uuid4()))
    close_store()


NO_CHAT = (404, "Chat not found")
NO_MESSAGE = (404, "Message not found")
NO_MEMORY = (404, "Memory not found")


def test_a_chat_is_made_listed_and_deleted(routes: Routes, clock: Clock) -> None:
    chat = routes("POST", "chats", {"title": "Port \u0000 \u202eשלום 🦀"})
    assert chat.pop("_links") == {"self": {"href": f"http://localhost/api/chats/{chat['id']}"}}
    assert chat == {
        "permissions": {},
        "id": chat["id"],
        "title": "Port \u0000 \u202eשלום 🦀",
        "createdAt": "2026-01-15T16:20:00.000Z",
        "updatedAt": "2026-01-15T16:20:00.000Z",
        "tenant": "local",
        "messageCount": 0,
        "memoryCount": 0,
    }
    clock.now += 1001
    other = routes.chat()
    listed = routes("GET", "chats")
    assert [item["id"] for item in listed["_embedded"]["inf:chat"]] == [other, chat["id"]]
    assert (listed["count"], listed["total"]) == (2, 2)
    clock.now += 1
    routes.say(chat["id"], "hello")
    assert [item["id"] for item in routes("GET", "chats", **PLAIN)] == [chat["id"], other]
    known = routes("GET", f"chats/{chat['id']}")
    assert (known["messageCount"], known["updatedAt"]) == (1, "2026-01-15T16:20:01.002Z")
    gone = routes("DELETE", f"chats/{chat['id']}")
    assert gone == {"_links": {"self": {"href": f"http://localhost/api/chats/{chat['id']}"}}, "success": True}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/messages"), ("GET", "/memories")):
        assert routes.fails(method, f"chats/{chat['id']}{path}") == NO_CHAT
    assert [item["id"] for item in routes("GET", "chats", **PLAIN)] == [other]


def test_a_chat_keeps_the_clients_own_id(routes: Routes) -> None:
    name = str(uuid4())
    assert routes("POST", "chats", {"id": name.upper(), "title": "first"})["id"] == name
    # Sent again, it is the same chat, as it is.
    assert routes("POST", "chats", {"id": name, "title": "second"})["title"] == "first"
    assert routes("GET", f"chats/{name.upper()}")["id"] == name
    status, message = routes.as_user("two").fails("POST", "chats", {"id": name})
    assert status == 409 and "user" not in message and "first" not in message
    for bad in ("", "7", name[:-1], f"{{{name}}}", name.replace("-", ""), f"{name}\n", 7):
        assert routes.fails("POST", "chats", {"id": bad})[0] == 400
    assert routes.fails("POST", "chats", {"title": "x" * 1001})[0] == 400


def test_a_deleted_chats_id_is_free_and_has_nothing_of_it(routes: Routes) -> None:
    name = routes.chat()
    routes.say(name, "what was said")
    routes("DELETE", f"chats/{name}")
    assert routes.as_user("two")("POST", "chats", {"id": name})["messageCount"] == 0
    assert routes.as_user("two").messages(name) == []


def test_a_message_has_the_shape_of_a_ui_message(routes: Routes) -> None:
    chat = routes.chat()
    message = routes("POST", f"chats/{chat}/messages", {"role": "user", "text": "What were our Q4 targets?"})
    assert message.pop("_links") == {"self": {"href": f"http://localhost/api/messages/{message['id']}"}}
    assert message == {
        "id": message["id"],
        "role": "user",
        "parts": [{"type": "text", "text": "What were our Q4 targets?"}],
        "metadata": {
            "createdAt": "2026-01-15T16:20:00.000Z",
            "updatedAt": "2026-01-15T16:20:00.000Z",
            "liked": None,
            "memoryId": None,
            "explanation": None,
            "files": [],
        },
    }
    assert routes.messages(chat) == [message]
    # A client that sends back what it read says nothing new of what is the server's.
    files = [{"name": "Q4_report.pdf", "size": 12}]
    sent = {**message, "metadata": {**message["metadata"], "liked": True, "files": files, "own": [1.5, None]}}
    again = routes("POST", f"chats/{chat}/messages", sent)
    assert again["id"] != message["id"] and again["parts"] == message["parts"]
    assert again["metadata"] == {
        **message["metadata"],
        "liked": True,
        "files": files,
        "own": [1.5, None],
    }


def test_content_is_kept_to_the_last_character(routes: Routes) -> None:
    chat = routes.chat()
    texts = [
        "",
        " \n",
        "NUL \u0000 in it",
        "👩‍👩‍👧 🦀",
        "\u202eעברית العربية\u202c",
        "e\u0301 é \ufeff \uffff",
        "x" * MEGABYTE,
    ]
    parts: list[Any] = [
        {"type": "text", "text": "see"},
        {"type": "file", "filename": "a\u0000b.png", "url": "data:image/png;base64,AAAA"},
        {"type": "tool-search", "input": {"q": [1, 2.5, 10**30]}, "output": {"b": 1, "a": None}, "state": "done"},
        {"type": "step-start"},
    ]
    for text in texts:
        assert routes.say(chat, text)["parts"] == [{"type": "text", "text": text}]
    body = {"role": "assistant", "parts": parts, "files": [{"id": 1, "z": {"y": [0.1]}}], "metadata": {"k\u0000": "🦀"}}
    routes("POST", f"chats/{chat}/messages", body)
    *said, last = routes.messages(chat)
    assert [message["parts"][0]["text"] for message in said] == texts
    assert json.dumps(last["parts"]) == json.dumps(parts)
    assert last["metadata"]["files"] == body["files"] and last["metadata"]["k\u0000"] == "🦀"


def test_what_cannot_be_kept_is_refused(routes: Routes) -> None:
    chat = routes.chat()
    path = f"chats/{chat}/messages"
    for body in (
        {"role": "user"},
        {"text": "who?"},
        {"role": "robot", "text": "x"},
        {"role": "user", "text": 7},
        {"role": "user", "text": "x", "parts": []},
        {"role": "user", "parts": "x"},
        {"role": "user", "parts": ["x"]},
        {"role": "user", "parts": [{"text": "x"}]},
        {"role": "user", "parts": [{"type": "text"}]},
        {"role": "user", "parts": [{"type": 1}]},
        {"role": "user", "text": "x", "files": {}},
        {"role": "user", "text": "x", "files": ["a.pdf"]},
        {"role": "user", "text": "x", "metadata": []},
        {"role": "user", "text": "x", "metadata": {"files": "a.pdf"}},
        {"role": "user", "text": "x" * (17 * MEGABYTE)},
        {"messages": []},
        {"messages": [{"role": "user"}]},
        [],
        ["x"],
        [{"role": "user", "text": "kept?"}, {"role": "user"}],
        [{"role": "user", "text": "x"}] * 10_001,
    ):
        assert routes.fails("POST", path, body)[0] == 400, str(body)[:100]
    surrogate, no_number = '{"role":"user","text":"\\ud800"}', '{"role":"user","text":"x","metadata":{"a":NaN}}'
    for raw in (surrogate, no_number, "7", '"x"', "null", "{"):
        answer = routes.client.post(f"/api/{path}", data=raw, content_type="application/json")
        assert (answer.status_code, answer.json["error"]) == (400, "Bad Request"), raw
    assert routes.messages(chat) == []
    # Only this route takes a list.
    assert routes.fails("POST", "chats", []) == (400, "the body must be a JSON object, got an array")
    assert routes.fails("POST", path, 7) == (400, "the body must be a JSON object or an array, got a number")


def test_null_stands_for_what_is_not_sent(routes: Routes) -> None:
    path = f"chats/{routes.chat()}/messages"
    body = {"messages": None, "role": "user", "text": "x", "parts": None, "metadata": None, "files": None}
    assert routes("POST", path, body)["parts"] == [{"type": "text", "text": "x"}]


def test_a_list_is_added_in_its_order_in_either_form(routes: Routes) -> None:
    chat = routes.chat()
    listed = routes("POST", f"chats/{chat}/messages", [{"role": "user", "text": "1"}, {"role": "tool", "text": "2"}])
    assert listed["count"] == 2 and len(listed["_embedded"]["inf:message"]) == 2
    body = {"messages": [{"role": "system", "text": "3"}, {"role": "assistant", "text": "4"}]}
    assert len(routes("POST", f"chats/{chat}/messages", body, **PLAIN)) == 2
    found = routes.messages(chat)
    assert [message["parts"][0]["text"] for message in found] == ["1", "2", "3", "4"]
    assert [message["role"] for message in found] == ["user", "tool", "system", "assistant"]
    assert {message["metadata"]["createdAt"] for message in found} == {"2026-01-15T16:20:00.000Z"}


def test_ten_thousand_messages_are_one_page_or_many(routes: Routes) -> None:
    chat = routes.chat()
    for begin in range(0, 10_000, 5_000):
        body = [{"role": "user", "text": str(begin + index)} for index in range(5_000)]
        routes("POST", f"chats/{chat}/messages", body)
    every = routes.messages(chat)
    assert [message["parts"][0]["text"] for message in every] == [str(index) for index in range(10_000)]
    page = routes("GET", f"chats/{chat}/messages?limit=4000")
    met = list(page["_embedded"]["inf:message"])
    while "next" in page["_links"]:
        page = routes("GET", page["_links"]["next"]["href"].partition("/api/")[2])
        met += page["_embedded"]["inf:message"]
    assert met == every and page["total"] == 10_000


def test_large_messages_come_in_pages_that_say_so(routes: Routes) -> None:
    chat = routes.chat()
    for _ in range(9):
        routes.say(chat, "x" * (8 * MEGABYTE))
    headers = {**routes.headers, **PLAIN}
    first = routes.client.get(f"/api/chats/{chat}/messages", headers=headers)
    further = first.headers["Link"].partition(">")[0].removeprefix("<http://localhost")
    second = routes.client.get(further, headers=headers)
    assert [len(first.json), len(second.json)] == [7, 2]
    assert "Link" not in second.headers


def test_pages_lose_nothing_when_others_delete(routes: Routes, clock: Clock) -> None:
    chat = routes.chat()
    routes("POST", f"chats/{chat}/messages", [{"role": "user", "text": str(number)} for number in range(6)])
    every = routes.messages(chat)
    page = routes("GET", f"chats/{chat}/messages?limit=2&offset=1")
    assert [message["id"] for message in page["_embedded"]["inf:message"]] == [one["id"] for one in every[1:3]]
    # The one that the page ended with among them.
    for message in every[:3]:
        routes("DELETE", f"messages/{message['id']}")
    rest = routes("GET", page["_links"]["next"]["href"].partition("/api/")[2])
    assert [message["id"] for message in rest["_embedded"]["inf:message"]] == [one["id"] for one in every[3:5]]
    own = routes.as_user(str(uuid4()))
    made = [own.chat() for _ in range(5)]
    page = own("GET", "chats?limit=2")
    met = [item["id"] for item in page["_embedded"]["inf:chat"]]
    for name in met:
        own("DELETE", f"chats/{name}")
    while "next" in page["_links"]:
        page = own("GET", page["_links"]["next"]["href"].partition("/api/")[2])
        met += [item["id"] for item in page["_embedded"]["inf:chat"]]
    assert sorted(met) == sorted(made)


def test_pages_are_bounded(routes: Routes) -> None:
    chat = routes.chat()
    for query in ("limit=0", "limit=10001", "offset=-1", "limit=x", "offset=99999999999"):
        assert routes.fails("GET", f"chats/{chat}/messages?{query}")[0] == 400
        assert routes.fails("GET", f"chats?{query}")[0] == 400
        assert routes.fails("GET", f"chats/{chat}/memories?{query}")[0] == 400
    for query in ("after=x", "after=-1", f"after={2**63}"):
        assert routes.fails("GET", f"chats/{chat}/messages?{query}")[0] == 400
    for query in ("before=x", "before=1", f"before=,{chat}", f"before=-1,{chat}", f"before={'9' * 19},{chat}"):
        assert routes.fails("GET", f"chats?{query}")[0] == 400
    assert routes("GET", f"chats/{chat}/messages?offset=5")["count"] == 0


def test_a_message_is_changed_in_what_is_sent(routes: Routes, clock: Clock) -> None:
    chat = routes.chat()
    body = {"role": "user", "text": "old", "metadata": {"a": 1}, "files": [{"name": "f"}]}
    message = routes("POST", f"chats/{chat}/messages", body)
    path = f"messages/{message['id']}"
    clock.now += 5000
    changed = routes("PUT", path, {"text": "new"})
    assert changed["parts"] == [{"type": "text", "text": "new"}]
    assert changed["metadata"] == message["metadata"] | {"updatedAt": "2026-01-15T16:20:05.000Z"}
    liked = routes("PUT", path, {"metadata": {"liked": False, "explanation": "too long"}})
    assert (liked["metadata"]["liked"], liked["metadata"]["explanation"]) == (False, "too long")
    assert "a" not in liked["metadata"] and liked["metadata"]["files"] == [{"name": "f"}]
    assert liked["parts"] == changed["parts"]
    assert routes("PUT", path, {"role": "system", "files": []})["role"] == "system"
    (found,) = routes.messages(chat)
    assert found["metadata"]["files"] == [] and found["role"] == "system"
    for bad in ({"text": "x", "parts": []}, {"role": "robot"}, {"parts": [{}]}):
        assert routes.fails("PUT", path, bad)[0] == 400


def test_a_message_does_not_grow_too_large_by_changes(routes: Routes) -> None:
    chat = routes.chat()
    path = f"messages/{routes.say(chat, 'x' * (9 * MEGABYTE))['id']}"
    status, message = routes.fails("PUT", path, {"metadata": {"more": "x" * (9 * MEGABYTE)}})
    assert status == 400 and str(16 * MEGABYTE) in message
    assert routes("PUT", path, {"text": "", "metadata": {"more": "x"}})["metadata"]["more"] == "x"


def test_no_body_is_one_without_fields(routes: Routes) -> None:
    assert routes("POST", "chats")["title"] is None
    # Where nothing has to be sent, and there alone.
    chat = routes.chat()
    assert routes.fails("POST", f"chats/{chat}/memories") == (400, "No new messages to create memory from")
    assert routes.fails("POST", f"chats/{chat}/messages")[0] == 400
    answer = routes.client.post("/api/chats", data="x", headers=routes.headers)
    assert answer.status_code == 400


def test_a_message_is_deleted_alone(routes: Routes) -> None:
    chat = routes.chat()
    first, second = routes.say(chat, "1"), routes.say(chat, "2")
    gone = routes("DELETE", f"messages/{first['id']}")
    assert gone == {"_links": {"self": {"href": f"http://localhost/api/messages/{first['id']}"}}, "success": True}
    assert [message["id"] for message in routes.messages(chat)] == [second["id"]]
    for method in ("PUT", "DELETE"):
        assert routes.fails(method, f"messages/{first['id']}", {}) == NO_MESSAGE


def test_what_is_no_id_is_not_found(routes: Routes) -> None:
    for name in ("x", "0", str(uuid4()), str(uuid4()).replace("-", ""), "%00", "%ED%A0%80"):
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/messages"), ("GET", "/memories")):
            assert routes.fails(method, f"chats/{name}{path}") == NO_CHAT
        for method, path, body in (
            ("POST", "messages", {"role": "user", "text": "x"}),
            ("POST", "memories", {}),
            ("POST", "memories/search", {"query": "x"}),
        ):
            assert routes.fails(method, f"chats/{name}/{path}", body) == NO_CHAT
        assert routes.fails("PUT", f"messages/{name}", {"text": "x"}) == NO_MESSAGE
        assert routes.fails("DELETE", f"messages/{name}") == NO_MESSAGE
        assert routes.fails("GET", f"memories/{name}") == NO_MEMORY
        assert routes.fails("PUT", f"memories/{name}", {"action": "regenerate"}) == NO_MEMORY
        assert routes.fails("DELETE", f"memories/{name}") == NO_MEMORY


@pytest.mark.parametrize(
    ("accept", "is_hal"),
    [
        (None, True),
        ("", True),
        ("*/*", True),
        ("application/hal+json", True),
        ("application/hal+json, application/json", True),
        ("application/json;q=0.8, application/hal+json", True),
        ("text/html", True),
        ("application/json", False),
        ("application/json; charset=utf-8", False),
        ("application/json;charset=utf-8;q=0.9, application/hal+json; charset=utf-8; q=0.5", False),
        ("application/hal+json; charset=utf-8", True),
        ("application/json, text/plain, */*", False),
        ("application/json, application/hal+json;q=0.9", False),
    ],
)
def test_a_collection_is_hal_unless_json_is_preferred(routes: Routes, accept: str | None, is_hal: bool) -> None:
    headers = routes.headers if accept is None else {**routes.headers, "Accept": accept}
    answer = routes.client.get("/api/chats", headers=headers, base_url="http://127.0.0.1:99")
    assert answer.status_code == 200 and answer.headers["Vary"] == "Accept"
    if is_hal:
        assert answer.mimetype == "application/hal+json"
        assert answer.json == {
            "_links": {"self": {"href": "http://127.0.0.1:99/api/chats?limit=100&offset=0"}},
            "_embedded": {"inf:chat": []},
            "count": 0,
            "total": 0,
        }
    else:
        assert (answer.mimetype, answer.json) == ("application/json", [])


def test_roles_and_keys(tmp_path: Path, database_url: str | None) -> None:
    config = Config(data=tmp_path / "data", store=database_url)
    routes = Routes(create_app(config).test_client())
    roles = ("invoke", "agent", "admin", "worker")
    keys = {role: make_key(config.data, f"of-{role}", [role], config.store) for role in roles}
    one = {role: Routes(routes.client, **{"X-API-Key": key}) for role, key in keys.items()}
    for role in ("invoke", "agent", "admin"):
        chat = one[role].chat()
        message = one[role].say(chat, "mine")["id"]
        for other in {"invoke", "agent", "admin"} - {role}:
            assert one[other].fails("GET", f"chats/{chat}") == NO_CHAT
            assert one[other].fails("DELETE", f"messages/{message}") == NO_MESSAGE
    assert one["worker"].fails("GET", "chats")[0] == 403
    assert one["worker"].fails("GET", f"memories/{uuid4()}")[0] == 403
    status, answer = routes.call("GET", "chats")
    assert (status, answer["statusCode"], answer["error"]) == (401, 401, "Unauthorized")


def test_the_document_has_both_forms_of_a_collection(routes: Routes) -> None:
    document = routes.client.get("/openapi.json").json
    name = "inf:message"
    for path, method, collected, counts in (
        ("/api/chats", "get", "inf:chat", ["count", "total"]),
        ("/api/chats/{chat_id}/messages", "get", name, ["count", "total"]),
        ("/api/chats/{chat_id}/messages", "post", name, ["count"]),
        ("/api/chats/{chat_id}/memories", "get", "inf:memory", ["count", "total"]),
    ):
        content = document["paths"][path][method]["responses"]["200"]["content"]
        assert set(content) == {"application/json", "application/hal+json"}
        hal = content["application/hal+json"]["schema"]
        assert hal["required"] == ["_links", "_embedded", *counts]
        items = hal["properties"]["_embedded"]["properties"][collected]["items"]["$ref"].rpartition("/")[2]
        plain = document["components"]["schemas"][content["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        forms = plain.get("anyOf", [plain])
        assert forms[-1]["type"] == "array" and forms[-1]["items"]["$ref"].endswith(f"/{items}")
        assert len(forms) == (2 if method == "post" else 1)
        assert items in document["components"]["schemas"] and "Links" in document["components"]["schemas"]


def test_what_went_wrong_has_one_shape_for_all_paths_of_the_group(routes: Routes) -> None:
    for method, path, status in (
        ("GET", "chats/x/y/z", 404),
        ("GET", "memories", 404),
        ("PATCH", "chats", 405),
        ("PUT", "memories/x", 400),
        ("POST", "messages/x", 405),
    ):
        found, answer = routes.call(method, path, {})
        assert found == answer["statusCode"] == status and set(answer) == {"statusCode", "error", "message"}


def test_nothing_is_a_body_too_but_not_from_another_page(routes: Routes) -> None:
    assert routes.call("POST", "chats")[0] == 200
    status, answer = routes.call("POST", "chats", Origin="https://elsewhere.example")
    assert (status, answer["statusCode"]) == (400, 400)
    assert routes.call("POST", "chats", {}, Origin="https://elsewhere.example")[0] == 200
    assert len(routes("GET", "chats", Accept="application/json")) == 2
    document = routes.client.get("/openapi.json").json["paths"]
    for path, required in (("chats", False), ("chats/{chat_id}/memories", False), ("chats/{chat_id}/messages", True)):
        assert document[f"/api/{path}"]["post"]["requestBody"]["required"] is required

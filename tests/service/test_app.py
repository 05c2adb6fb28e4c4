from __future__ import annotations

import logging
from typing import Any

import pytest
from openapi_spec_validator import validate

from remory_service.app import RemoryApp
from remory_service.errors import BodyPlace, Group, NotFound, SchemaMismatch, ServiceError, register_group
from remory_service.store.database import connection
from remory_service.store.schema import database

SESSION = {"X-Remory-Session": "session"}
JSON = {"Content-Type": "application/json"}


def test_every_route_is_in_the_openapi_document(app: RemoryApp) -> None:
    document = app.test_client().get("/openapi.json").json
    validate(document)
    routes = {
        (rule.rule.replace("<", "{").replace(">", "}"), method.lower())
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    described = {(path, method) for path, item in document["paths"].items() for method in item}
    assert described == routes


def test_the_document_says_which_header_and_which_errors_a_route_has(app: RemoryApp) -> None:
    compact = app.test_client().get("/openapi.json").json["paths"]["/v1/compact"]["post"]
    assert {item["name"]: item["required"] for item in compact["parameters"]} == {
        "X-Remory-Session": True,
        "X-Remory-Collect": False,
    }
    assert {"200", "400", "401", "403", "404", "413", "422", "500", "502", "503"} <= compact["responses"].keys()


def test_an_unknown_route_is_404_in_the_native_shape(app: RemoryApp) -> None:
    answer = app.test_client().get("/v1/nothing")
    assert (answer.status_code, answer.json) == (404, {"detail": "no route /v1/nothing"})


def test_an_unknown_method_is_405_and_says_which_are_known(app: RemoryApp) -> None:
    answer = app.test_client().put("/generate", json={})
    assert answer.status_code == 405
    assert answer.json == {"detail": "/generate does not answer PUT"}
    assert "POST" in answer.headers["Allow"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[1]", "an array"),
        (b'"text"', "a string"),
        (b"null", "null"),
        (b"1", "a number"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": [Infinity]}', "Infinity"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "64-bit"),
        (b'{"a": ' + b"1" * 5000 + b"}", "more digits"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a": "\xff"}', "UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "UTF-8"),
        (b'{"text": "\\ud800"}', "UTF-8"),
    ],
)
@pytest.mark.parametrize("path", ["/generate", "/v1/compact", "/tokenize"])
def test_a_body_that_is_no_json_object_is_400(app: RemoryApp, path: str, data: bytes, words: str) -> None:
    answer = app.test_client().post(path, data=data, headers=SESSION | JSON)
    assert answer.status_code == 400
    assert words in answer.json["detail"]


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_does_not_say_it_is_json_is_400(app: RemoryApp, kind: str | None) -> None:
    answer = app.test_client().post("/generate", data=b'{"text": "a"}', content_type=kind)
    assert answer.status_code == 400
    assert "application/json" in answer.json["detail"]


def test_what_nobody_foresaw_is_500_without_its_text(app: RemoryApp, caplog: pytest.LogCaptureFixture) -> None:
    with connection():
        database.execute_sql("DROP TABLE stored_memory")
    with caplog.at_level(logging.ERROR):
        answer = app.test_client().get("/v1/memories", headers=SESSION)
    assert answer.status_code == 500
    request_id = answer.headers["X-Request-Id"]
    assert answer.json == {"detail": f"internal error; the log has it as request {request_id}"}
    assert request_id in caplog.text
    assert "no such table" in caplog.text


def test_errors_below_a_prefix_have_their_groups_shape(app: RemoryApp) -> None:
    def shape(error: ServiceError) -> dict[str, Any]:
        return {"statusCode": error.status, "message": error.detail}

    def mismatch(places: list[BodyPlace]) -> ServiceError:
        return SchemaMismatch(places)

    register_group(app, Group("/api/other", shape, mismatch, most_elements=10))
    answer = app.test_client().get("/api/other/1")
    assert (answer.status_code, answer.json) == (404, {"statusCode": 404, "message": "no route /api/other/1"})
    assert app.test_client().get("/other").json == {"detail": "no route /other"}
    assert NotFound("x").code == "not_found"


def test_every_answer_is_named_and_never_sniffed(app: RemoryApp) -> None:
    answers = [app.test_client().get("/health") for _ in range(2)]
    assert len({answer.headers["X-Request-Id"] for answer in answers}) == 2
    assert answers[0].headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/generate"), ("POST", "/v1/compact"), ("GET", "/v1/remory/info"), ("POST", "/tokenize")],
)
def test_what_needs_the_actor_is_503_while_it_starts(app: RemoryApp, method: str, path: str) -> None:
    body = {"prefix_ids": [1], "history_ids": [1], "summary_ids": [1]} if path == "/v1/compact" else {"text": "a"}
    body = {"prompt": "a"} if path == "/tokenize" else body
    answer = app.test_client().open(path, method=method, json=body, headers=SESSION)
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert "not ready" in answer.json["detail"]


def test_what_needs_no_actor_is_served_while_it_starts(app: RemoryApp) -> None:
    client = app.test_client()
    assert client.get("/health").json == {"status": "ok"}
    assert client.get("/v1/memories", headers=SESSION).json == {"memories": []}
    assert client.get("/get_server_info").json["status"] == "starting"
    ready = client.get("/ready")
    assert (ready.status_code, ready.json) == (503, {"status": "starting", "progress": "starting"})


def test_a_body_of_too_many_elements_is_refused_before_it_is_read(app: RemoryApp) -> None:
    client = app.test_client()
    body = b'{"x": [' + b"[]," * (1 << 20) + b"[]]}"
    answer = client.post("/api/v2/memory/read", data=body, headers=JSON)
    assert (answer.status_code, answer.json["error"]["code"]) == (400, "invalid_request")
    assert "2097152 elements" in answer.json["error"]["message"]
    answer = client.post("/tokenize", data=b'{"x": [' + b"[]," * (1 << 22) + b"[]]}", headers=JSON)
    assert answer.status_code == 400
    assert "8388608 elements" in answer.json["detail"]
    commas = {"scope": "global", "key": "k", "value": "," * ((1 << 20) - 2)}
    assert client.post("/api/v2/memory/write", json=commas).status_code == 200

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remory.errors import InvalidInput
from remory_service.app import RemoryApp
from remory_service.identity import KEY_PREFIX, is_loopback, list_keys, make_key, revoke_key
from remory_service.store import memories
from remory_service.store.database import FILE_NAME, connection
from remory_service.store.memories import Owner
from tests.service.conftest import make_memory

SESSION = {"X-Remory-Session": "session"}


def data_of(app: RemoryApp) -> Path:
    return app.extensions["remory"].config.data


def save_for(user: str) -> str:
    with connection():
        return memories.save(Owner(user, "session"), make_memory()).handle


def listed(app: RemoryApp, **headers: str) -> list[str]:
    answer = app.test_client().get("/v1/memories", headers=SESSION | headers)
    assert answer.status_code == 200, answer.text
    return [memory["handle"] for memory in answer.json["memories"]]


def status(app: RemoryApp, path: str = "/v1/memories", **headers: str) -> int:
    return app.test_client().get(path, headers=SESSION | headers).status_code


def test_without_keys_the_caller_is_local_or_who_the_header_names(app: RemoryApp) -> None:
    local, other = save_for("local"), save_for("other")
    assert listed(app) == [local]
    assert listed(app, **{"X-Remory-User": "other"}) == [other]
    assert listed(app, **{"X-Remory-User": "third"}) == []


@pytest.mark.parametrize("user", ["", "x" * 257, "tab\there", "ä"])
def test_a_user_name_that_is_none_is_400(app: RemoryApp, user: str) -> None:
    assert status(app, **{"X-Remory-User": user}) == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8421", "[::1]:8421", "app.localhost:1", "127.8.9.10"])
def test_loopback_names_are_served_without_keys(app: RemoryApp, host: str) -> None:
    assert status(app, Host=host) == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:8421", "192.168.1.2", "localhost.evil.example"]
)
def test_other_names_are_refused_without_keys_and_served_with_one(app: RemoryApp, host: str) -> None:
    answer = app.test_client().get("/v1/memories", headers=SESSION | {"Host": host})
    assert answer.status_code == 403
    assert "remory keys add" in answer.json["detail"]
    key = make_key(data_of(app), "user", ["invoke"])
    assert status(app, Host=host, Authorization=f"Bearer {key}") == 200


def test_a_key_names_its_user_and_the_header_does_not(app: RemoryApp) -> None:
    own, foreign = save_for("user"), save_for("other")
    key = make_key(data_of(app), "user", ["invoke"])
    assert listed(app, Authorization=f"Bearer {key}") == [own]
    assert listed(app, **{"X-API-Key": key}) == [own]
    assert listed(app, **{"X-API-Key": key, "X-Remory-User": "other"}) == [own]
    get = app.test_client().get(f"/v1/memories/{foreign}", headers=SESSION | {"X-API-Key": key})
    assert get.status_code == 404


def test_with_keys_a_missing_or_wrong_one_is_401(app: RemoryApp) -> None:
    key = make_key(data_of(app), "user", ["invoke"])
    wrong = [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": key[:-1]},
        {"Authorization": f"Basic {key}"},
        {"Authorization": "Bearer"},
    ]
    for headers in [*wrong, {"X-API-Key": "é"}]:
        answer = app.test_client().get("/v1/memories", headers=SESSION | headers)
        assert answer.status_code == 401, headers
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert key not in answer.text


@pytest.mark.parametrize("path", ["/health", "/openapi.json", "/"])
def test_what_tells_nothing_needs_no_key(app: RemoryApp, path: str) -> None:
    make_key(data_of(app), "user", ["invoke"])
    assert status(app, path) == 200


def test_figures_need_a_key(app: RemoryApp) -> None:
    key = make_key(data_of(app), "user", ["invoke"])
    assert status(app, "/metrics") == 401
    assert status(app, "/metrics", **{"X-API-Key": key}) == 200


def test_a_revoked_key_is_refused_and_the_store_stays_closed(app: RemoryApp) -> None:
    key = make_key(data_of(app), "user", ["invoke"])
    (info,) = list_keys(data_of(app))
    assert revoke_key(data_of(app), info.id)
    assert not revoke_key(data_of(app), info.id)
    assert not revoke_key(data_of(app), 999)
    assert status(app, **{"X-API-Key": key}) == 401
    assert status(app) == 401
    assert list_keys(data_of(app))[0].revoked_at is not None


def test_keys_are_listed_without_their_text_and_stored_without_it(tmp_path: Path) -> None:
    key = make_key(tmp_path, "user", ["admin", "invoke", "admin"])
    assert key.startswith(KEY_PREFIX)
    assert len(key) >= len(KEY_PREFIX) + 43  # 256 bits in base64
    (info,) = list_keys(tmp_path)
    assert (info.user, info.roles, info.revoked_at) == ("user", ("invoke", "admin"), None)
    assert key.startswith(info.hint)
    assert len(info.hint) == 8
    stored = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE_NAME}*"))
    assert key.encode() not in stored


@pytest.mark.parametrize(("user", "roles"), [("user", []), ("user", ["root"]), ("", ["invoke"]), ("a\nb", ["invoke"])])
def test_a_key_for_nobody_or_nothing_is_not_made(tmp_path: Path, user: str, roles: list[str]) -> None:
    with pytest.raises(InvalidInput):
        make_key(tmp_path, user, roles)
    assert list_keys(tmp_path) == []


@pytest.mark.parametrize("session", [None, "", "x" * 257, "a\tb", "ä"])
def test_a_session_header_that_is_none_is_400(app: RemoryApp, session: str | None) -> None:
    headers = {} if session is None else {"X-Remory-Session": session}
    for method, path in [("GET", "/v1/memories"), ("GET", "/v1/memories/rm_0"), ("DELETE", "/v1/memories/rm_0")]:
        answer = app.test_client().open(path, method=method, headers=headers)
        assert answer.status_code == 400, (method, path)
        assert "X-Remory-Session" in json.dumps(answer.json)


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.255.0.1", "::1", "a.localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "example", "", "localhost.example"]))

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.service.conftest import Server, compact, generate


def figures(client: httpx.Client) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_health_and_ready(client: httpx.Client) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready", "progress": "ready"}


def test_figures_count_requests_by_route_and_status(client: httpx.Client) -> None:
    handle = compact(client)["handle"]
    before = figures(client)
    generate(client, text="hello")
    client.get(f"/v1/memories/{handle}")
    client.get("/v1/memories/unknown")
    client.get("/no/such/route")
    after = figures(client)

    def grown(*key: str) -> float:
        return after.get(key, 0) - before.get(key, 0)

    assert grown("remory_http_requests_total", "POST", "/generate", "200") == 1
    assert grown("remory_http_requests_total", "GET", "/v1/memories/<handle>", "200") == 1
    assert grown("remory_http_requests_total", "GET", "/v1/memories/<handle>", "404") == 1
    assert grown("remory_http_requests_total", "any", "unknown", "404") == 1
    assert grown("remory_http_request_seconds_count", "/generate") == 1
    assert grown("remory_engine_generated_tokens_total") >= 8
    assert not any(handle in part for key in after for part in key)


def test_figures_tell_what_is_stored(client: httpx.Client) -> None:
    before = figures(client)
    made = compact(client, history_ids=[7, 8, 9] * 60)
    after = figures(client)
    handles, size = "remory_store_handles", "remory_store_rows_bytes"
    assert after[(handles,)] - before[(handles,)] == 1
    assert after[(size,)] - before[(size,)] == made["receipt"]["memory_bytes"]
    assert after[("remory_ready",)] == 1


def test_server_info_tells_the_settings_and_no_secret(client: httpx.Client, server: Server) -> None:
    info = client.get("/get_server_info").json()
    assert info["status"] == "ready"
    assert info["max_body_bytes"] == 64 << 20
    assert info["backend"] == "transformers"
    assert "requests_running" in info["engine"]
    assert str(server.data) not in str(info)

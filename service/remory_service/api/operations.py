"""Routes for those who run the server."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app, jsonify
from flask_openapi3 import APIBlueprint, Tag
from pydantic import BaseModel

from remory_service.api.bodies import ErrorAnswer
from remory_service.errors import RETRY_SECONDS

operations = APIBlueprint("operations", __name__, abp_tags=[Tag(name="operations", description="Running the server.")])


class Status(BaseModel):
    """How the server is. `progress` says in words what it is doing."""

    status: str
    progress: str | None = None


@operations.get("/health", responses={200: Status})
def health() -> Response:
    """The process is alive."""
    return jsonify({"status": "ok"})


@operations.get("/ready", responses={200: Status, 503: Status})
def ready() -> Response:
    """The actor answers; 503 with `Retry-After` while it does not."""
    state, progress = current_app.extensions["remory"].status()
    response = jsonify({"status": state, "progress": progress})
    if state != "ready":
        response.status_code = 503
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    return response


@operations.get(
    "/metrics",
    responses={
        200: {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}},
        401: ErrorAnswer,
        403: ErrorAnswer,
    },
    security=[{"bearer": []}, {"header": []}],
)
def metrics() -> Response:
    """Figures for Prometheus."""
    return Response(current_app.extensions["remory_metrics"].text(), content_type="text/plain; version=0.0.4")


@operations.get("/openapi.json", responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}})
def openapi() -> dict[str, Any]:
    """This document."""
    return current_app.api_doc  # type: ignore[attr-defined]

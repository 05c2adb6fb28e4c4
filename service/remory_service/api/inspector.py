"""GET /: a page that shows a session's memories. It loads nothing from elsewhere and asks the native routes."""

from __future__ import annotations

import secrets

from flask import Response, make_response, render_template
from flask_openapi3 import APIBlueprint, Tag

inspector = APIBlueprint(
    "inspector",
    __name__,
    abp_tags=[Tag(name="operations", description="Running the server.")],
    template_folder="templates",
)


@inspector.get("/", responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}})
def page() -> Response:
    """The inspector: a page for people."""
    nonce = secrets.token_urlsafe(16)
    response = make_response(render_template("inspector.html", nonce=nonce))
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return response

"""Everything that can go wrong, with its status, and how each API group says it.

An error's text is meant for the caller. Whatever else is raised is a fault of ours: it answers 500 without its text,
under a request id that the log has too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, current_app, g, jsonify, request
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from remory import errors as library
from remory_service.store.failures import passing_failure

log = logging.getLogger(__name__)

RETRY_SECONDS = 2
_SHOWN_PLACES = 20
_GROUPS = "remory_error_groups"


class ServiceError(Exception):
    """Base of the errors that carry a status. `detail` is text, or a list of places in the body; `fields` is what a
    client needs beside it.
    """

    status = 500
    code = "internal"
    fields: Mapping[str, Any] = {}

    def __init__(self, detail: Any):
        super().__init__(detail)
        self.detail = detail


class BadRequest(ServiceError):
    """The request cannot be used; nothing was changed."""

    status, code = 400, "invalid_request"


class NotFiniteNumber(BadRequest):
    """The body holds a number that is none: NaN, Infinity, or one beyond a 64-bit float."""


class NestedTooDeep(BadRequest):
    """The body's arrays and objects lie deeper within each other than can be read and answered."""


class Unauthenticated(ServiceError):
    """A key is needed and is missing, unknown or revoked."""

    status, code = 401, "unauthenticated"


class Forbidden(ServiceError):
    """Who asks is known but may not do this."""

    status, code = 403, "forbidden"


class NotFound(ServiceError):
    """No such thing for this caller."""

    status, code = 404, "not_found"


class MethodNotAllowed(ServiceError):
    """The route is there and does something else."""

    status, code = 405, "method_not_allowed"


class TooLarge(ServiceError):
    """The body has more bytes than the server takes."""

    status, code = 413, "too_large"


class SchemaMismatch(ServiceError):
    """The body is a JSON object, of another shape than the route's schema."""

    status, code = 422, "invalid_schema"


class ClientGone(ServiceError):
    """The client hung up; nobody reads this answer (the status is the one that web servers log for it)."""

    status, code = 499, "client_gone"


class StoreDamaged(ServiceError):
    """What the store holds is not what was written."""

    status, code = 500, "store_damaged"


class ActorFailed(ServiceError):
    """The actor failed on a valid request."""

    status, code = 502, "actor_failed"


class HelperFailed(ServiceError):
    """The embedder or the summariser failed on valid texts."""

    status, code = 502, "model_failed"


class Unavailable(ServiceError):
    """Starting, stopping or too busy; `Retry-After` says when to ask again."""

    status, code = 503, "unavailable"


BodyPlace = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """How the routes below a path say what went wrong.

    `shape` makes the answer's body. `mismatch` makes the error of a body that does not fit its route's schema from the
    places in it, each with `loc`, `msg` and `type`. `most_elements`: of a body's arrays and objects together.
    """

    prefix: str
    shape: Callable[[ServiceError], dict[str, Any]]
    mismatch: Callable[[list[BodyPlace]], ServiceError]
    most_elements: int


# Far more tokens than any actor reads.
NATIVE = Group("/", lambda error: {"detail": error.detail}, SchemaMismatch, most_elements=1 << 23)


def init_errors(app: Flask) -> None:
    """Answer every error of this application in its group's shape."""
    app.extensions[_GROUPS] = []
    app.register_error_handler(Exception, _answer)


def register_group(app: Flask, group: Group) -> None:
    """Let errors of all paths below the group's prefix be answered its way, unknown paths too."""
    app.extensions[_GROUPS].append(group)


def known(error: Exception, request_id: str) -> ServiceError:
    """Any exception as an error with a status; one that nobody foresaw goes to the log and leaves without its text."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, library.InvalidInput):
        return BadRequest(str(error))
    if isinstance(error, library.EngineBusy):
        return Unavailable(str(error))
    if isinstance(error, library.EngineFailed):
        log.error("request %s: the actor failed", request_id, exc_info=error)
        return ActorFailed(str(error))
    if isinstance(error, library.EmbedderFailed | library.SummarizerFailed):
        log.warning("request %s: %s", request_id, error)
        return HelperFailed(str(error))
    if isinstance(error, HTTPException):
        return _from_http(error)
    if (reason := passing_failure(error)) is not None:
        log.warning("request %s: %s: %s", request_id, reason, error)
        return Unavailable(reason)
    log.error("request %s failed", request_id, exc_info=error)
    return ServiceError(f"internal error; the log has it as request {request_id}")


def refuse_schema(error: ValidationError) -> Response:
    """What flask-openapi3 calls with a body that does not fit: raise it with the places, without their values."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    places: list[BodyPlace] = [
        {"loc": list(place["loc"]), "msg": place["msg"], "type": place["type"]} for place in found[:_SHOWN_PLACES]
    ]
    if len(found) > len(places):
        places.append({"loc": [], "msg": f"and {len(found) - len(places)} more", "type": "more"})
    raise group_of(request.path).mismatch(places)


def _answer(error: Exception) -> Response:
    answer = known(error, g.request_id)
    response = jsonify(group_of(request.path).shape(answer))
    response.status_code = answer.status
    if answer.status == Unavailable.status:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
    if answer.status == Unauthenticated.status:
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, HTTPException) and (allowed := getattr(error, "valid_methods", None)):
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _from_http(error: HTTPException) -> ServiceError:
    status = error.code or 500
    if status == TooLarge.status:
        sent = f"{request.content_length} bytes" if request.content_length else "more"
        limit = current_app.extensions["remory"].config.max_body_bytes
        return TooLarge(f"a body may have {limit} bytes, this one has {sent}")
    if status == NotFound.status:
        return NotFound(f"no route {request.path}")
    if status == MethodNotAllowed.status:
        return MethodNotAllowed(f"{request.path} does not answer {request.method}")
    answer = BadRequest(error.description)
    answer.status = status
    return answer


def group_of(path: str) -> Group:
    """The group that a path belongs to."""
    for group in current_app.extensions[_GROUPS]:
        if path.startswith(group.prefix):
            return group
    return NATIVE

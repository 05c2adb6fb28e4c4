"""What can go wrong between the client and the service, as types: by the service's code, else by the HTTP status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import httpx

from remory.errors import InvalidInput, RemoryError


class RemoryHTTPError(RemoryError):
    """The service answered with an error, or not at all.

    `status`: HTTP status, None when there was no answer. `detail`: the service's own words, text or (for a body that
    does not fit the schema) a list of places. `request_id`: what the service's log has for this request, or None.
    `code`: the service's name for this kind of error, None where a group of routes has none. `fields`: what it says
    beside code and message.
    """

    default_code: ClassVar[str | None] = None

    def __init__(
        self,
        message: str,
        status: int | None = None,
        detail: Any = None,
        request_id: str | None = None,
        *,
        code: str | None = None,
        fields: Mapping[str, Any] | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.detail = detail
        self.request_id = request_id
        self.code = code or self.default_code
        self.fields = dict(fields or {})


class ConnectionFailed(RemoryHTTPError):
    """No answer came. The request may still have taken effect if it had been sent; nothing is tried again by itself."""


class InvalidRequest(RemoryHTTPError, InvalidInput):
    """400, 413 or 422: the request cannot be used. Nothing was changed.

    `status` is None when the client already saw that it cannot be sent.
    """


class Unauthorized(RemoryHTTPError):
    """401 or 403: the key is missing, unknown, revoked, or lacks the role."""


class NotFound(RemoryHTTPError):
    """404: no such handle, note, chat, message or memory for this user, or no such route."""


class Conflict(RemoryHTTPError):
    """409: the id of a new chat cannot be used, because something else has it. Nothing was changed."""


class ServerBusy(RemoryHTTPError):
    """503: the actor is starting or takes no more requests now. `retry_after`: seconds, or None."""

    retry_after: float | None = None


class ServerFailed(RemoryHTTPError):
    """Any other 5xx: a model (the actor, the embedder or the summariser, 502) or the service failed.

    What is stored is as it was.
    """


class InvalidScope(InvalidRequest):
    """The scope lacks its id, or the id has a length or characters that ids may not have."""

    default_code = "invalid_scope"


class InvalidKey(InvalidRequest):
    """A key is 1 to 512 bytes of UTF-8 without control characters."""

    default_code = "invalid_key"


class InvalidVector(InvalidRequest):
    """An embedding is a list of finite numbers whose norm is neither zero nor above 1e150."""

    default_code = "invalid_vector"


class InvalidMetadata(InvalidRequest):
    """Metadata is a JSON object of at most 16,384 canonical bytes."""

    default_code = "invalid_metadata"


class ValueTooLarge(InvalidRequest):
    """A value has at most 1 MiB canonical bytes."""

    default_code = "value_too_large"


class Forbidden(Unauthorized):
    """403: who asks is known and may not do this, such as write into another user's session."""

    default_code = "forbidden"


class LeaseRequired(Forbidden):
    """A worker's key reaches scoped memory only with a lease."""

    default_code = "lease_required"


class LeaseExpired(Forbidden):
    """The lease ran out, or was released."""

    default_code = "lease_expired"


class RevisionConflict(RemoryHTTPError):
    """The entry is not at the expected revision; nothing was changed. `revision`: the live one, 0 when none lives."""

    default_code = "revision_conflict"

    @property
    def revision(self) -> int:
        return self.fields["revision"]


class CursorExpired(RemoryHTTPError):
    """Changes after this cursor were pruned. `oldest_sequence`: the oldest change that is still there."""

    default_code = "cursor_expired"

    @property
    def oldest_sequence(self) -> int:
        return self.fields["oldest_sequence"]


_BY_STATUS: dict[int, type[RemoryHTTPError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    422: InvalidRequest,
    503: ServerBusy,
}
_BY_CODE: dict[str | None, type[RemoryHTTPError]] = {
    kind.default_code: kind
    for kind in (
        InvalidScope,
        InvalidKey,
        InvalidVector,
        InvalidMetadata,
        ValueTooLarge,
        Forbidden,
        LeaseRequired,
        LeaseExpired,
        RevisionConflict,
        CursorExpired,
    )
}


def http_error(response: httpx.Response) -> RemoryHTTPError:
    """The error that a response with an error status stands for."""
    try:
        body = response.json()
        detail = detail_of(body)
    except ValueError:
        body, detail = None, response.reason_phrase
    status = response.status_code
    fields = body["error"] if isinstance(body, dict) and isinstance(body.get("error"), dict) else {}
    code = fields["code"] if isinstance(fields.get("code"), str) else None
    more = {name: value for name, value in fields.items() if name not in ("code", "message")}
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status, ServerFailed if status >= 500 else RemoryHTTPError)
    error = kind(f"{status}: {detail}", status, detail, response.headers.get("x-request-id"), code=code, fields=more)
    if isinstance(error, ServerBusy):
        wait = response.headers.get("retry-after", "")
        error.retry_after = float(wait) if wait.isdigit() else None
    return error


def detail_of(body: Any) -> Any:
    """The service's own words in the body of an error, whichever group of routes it comes from."""
    if not isinstance(body, dict):
        return body
    error = body.get("error")
    return (
        body.get("detail") or (error.get("message") if isinstance(error, dict) else None) or body.get("message") or body
    )


def connection_failed(error: httpx.HTTPError, where: str) -> ConnectionFailed:
    """The error for a request to `where` that got no answer."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return ConnectionFailed(
            f"no Remory service answers at {where}; start one with `remory serve`, or give the URL of a running one"
        )
    if isinstance(error, httpx.TimeoutException):
        return ConnectionFailed(f"{where} sent nothing for too long; give Client a longer timeout, or stream")
    return ConnectionFailed(f"the connection to {where} broke: {error}")

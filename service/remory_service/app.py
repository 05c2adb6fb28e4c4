"""The application: routes, errors, identity and store put together."""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

import flask
from flask import Response, current_app, g, request
from flask.json.provider import DefaultJSONProvider
from flask_openapi3 import Info, OpenAPI
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import RequestEntityTooLarge

from remory import __version__
from remory_service.api.bodies import ErrorAnswer
from remory_service.api.chats import GROUPS as CHAT_GROUPS
from remory_service.api.chats import chat_routes
from remory_service.api.checkpoints import checkpoint_routes
from remory_service.api.inspector import inspector
from remory_service.api.native import native
from remory_service.api.operations import operations
from remory_service.api.recall import Recaller
from remory_service.api.rpc import RPC_GROUP, rpc
from remory_service.api.scoped import GROUP, scoped
from remory_service.api.transcripts import transcript_routes
from remory_service.autosave import Autosave
from remory_service.checkpoints import Shelf
from remory_service.config import Config
from remory_service.errors import (
    BadRequest,
    NestedTooDeep,
    NotFiniteNumber,
    group_of,
    init_errors,
    refuse_schema,
    register_group,
)
from remory_service.histories import Histories
from remory_service.identity import identify
from remory_service.metrics import Metrics
from remory_service.remembering import Remembering
from remory_service.runtime import Runtime
from remory_service.search import Searcher
from remory_service.store import memories
from remory_service.store.database import connection, now_ms, open_store
from remory_service.store.housekeeping import Housekeeper
from remory_service.texts import Texts

# What says nothing of anybody's: probes, the document, and a page that asks for the key itself.
_OPEN_ENDPOINTS = {"operations.health", "operations.ready", "operations.openapi", "inspector.page"}
_ARRAY_ENDPOINTS = {"chats.add_messages"}
# Where every field may be left out, so may the body.
_PARAMETER = re.compile(r"<(\w+)>")
_NO_BODY_ENDPOINTS = {"chats.make_chat", "chats.create_memory"}
_DESCRIPTION = (
    'Memory for language-model agents. Errors of the native routes are `{"detail": …}`, those of the scoped memory '
    '`{"error": {"code": …, "message": …}}`, those of the chats `{"statusCode": …, "error": …, "message": …}`, '
    'those of `/api/rpc` `{"success": false, "error": {"code": …, "message": …}}`.'
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SECURITY_SCHEMES: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "Not needed until a first key is made."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


class JSONBodyRequest(flask.Request):
    """A request whose body is a JSON object, an array where the route takes one, or none."""

    _body: Any = None

    def get_json(self, force: bool = False, silent: bool = False, cache: bool = True) -> Any:
        """The body. Raises BadRequest: a server that guesses at broken input hides the caller's fault."""
        if self._body is None:
            try:
                data = self.get_data(cache=False)
                if len(data) > current_app.extensions["remory"].config.max_body_bytes:
                    raise RequestEntityTooLarge
            except ParseException as error:
                raise BadRequest("the body's chunks are malformed") from error
            except BlockingIOError as error:
                raise BadRequest("the body did not come in time") from error
            except RequestEntityTooLarge:
                self._read_on()
                raise
            # A page elsewhere may also post nothing without asking first; then a browser names where it comes from.
            foreign = "Origin" in self.headers and not self.is_json
            if not data and self.endpoint in _NO_BODY_ENDPOINTS and not foreign:
                self._body = {}
            else:
                kinds = (dict, list) if self.endpoint in _ARRAY_ENDPOINTS else (dict,)
                self._body = _parsed(data, self.is_json, group_of(self.path).most_elements, kinds)
        return self._body

    def _read_on(self) -> None:
        """Take the rest of a body that is too large, up to a bound.

        A client that is still sending does not see the answer, and the connection would be cut under its next request.
        """
        end, left = time.monotonic() + _READ_ON_SECONDS, _READ_ON_BYTES
        with contextlib.suppress(OSError, ParseException):
            while left > 0 and time.monotonic() < end:
                taken = self.environ["wsgi.input"].read(min(left, _READ_ON_STEP))
                if not taken:
                    return
                left -= len(taken)


_READ_ON_SECONDS, _READ_ON_BYTES, _READ_ON_STEP = 10, 128 << 20, 1 << 16
_DEEPEST = 200


class StrictJSON(DefaultJSONProvider):
    """JSON as the standard has it: no NaN, text as UTF-8, fields in the order given."""

    sort_keys = False
    ensure_ascii = False
    compact = True

    def dumps(self, obj: Any, **settings: Any) -> str:
        return super().dumps(obj, allow_nan=False, **settings)


class RemoryApp(OpenAPI):
    """The application class, with our request and JSON."""

    request_class = JSONBodyRequest
    json_provider_class = StrictJSON

    def generate_spec_json(self) -> None:
        """The document, without the answer to a failed validation that flask-openapi3 adds to every route: each group
        names its own. It takes every body for one that must be sent, too.
        """
        super().generate_spec_json()
        for operations_of_path in self.spec_json["paths"].values():
            for operation in operations_of_path.values():
                if _is_added(operation["responses"].get(str(self.validation_error_status), {})):
                    del operation["responses"][str(self.validation_error_status)]
        for rule in self.url_map.iter_rules():
            if rule.endpoint in _NO_BODY_ENDPOINTS:
                path = _PARAMETER.sub(r"{\1}", rule.rule)
                self.spec_json["paths"][path]["post"]["requestBody"]["required"] = False


def create_app(config: Config, runtime: Runtime | None = None, clock: Callable[[], int] = now_ms) -> RemoryApp:
    """Open the store and make the application. `runtime` is started by whoever makes it; None makes an unstarted one.
    `clock` (epoch ms) decides what has expired.

    Raises StoreUnusable or StoreTooNew.
    """
    open_store(config.data, config.store)
    memories.remove_orphans()
    app = RemoryApp(
        __name__,
        info=Info(
            title="Remory",
            version=__version__,
            description=_DESCRIPTION,
        ),
        security_schemes=_SECURITY_SCHEMES,
        validation_error_status=422,
        validation_error_model=ErrorAnswer,
        validation_error_callback=refuse_schema,
        doc_ui=False,
        static_folder=None,
    )
    # One byte more than a body may have: reading stops there without a word when the length was not announced.
    app.config["MAX_CONTENT_LENGTH"] = config.max_body_bytes + 1
    app.extensions["remory"] = runtime or Runtime(config)
    init_errors(app)
    app.before_request(_name_request)
    app.extensions["remory_metrics"] = Metrics(app, app.extensions["remory"])
    app.before_request(_admit)
    app.after_request(_sign)
    app.extensions["remory_clock"] = clock
    app.extensions["remory_shelf"] = Shelf(config.checkpoints)
    app.extensions["remory_searcher"] = searcher = Searcher(config.vector_bytes)
    app.extensions["remory_texts"] = texts = Texts(app.extensions["remory"], searcher)
    app.extensions["remory_histories"] = kept = Histories(texts)
    app.extensions["remory_recaller"] = Recaller(texts, searcher, kept)
    app.extensions["remory_remembering"] = remembering = Remembering(app.extensions["remory"], texts, clock)
    app.extensions["remory_autosave"] = Autosave(app.extensions["remory"], remembering, config.autosave_tokens)
    app.extensions["remory_housekeeper"] = Housekeeper()
    for group in (GROUP, RPC_GROUP, *CHAT_GROUPS):
        register_group(app, group)
    own = (native, checkpoint_routes, transcript_routes, scoped, rpc, chat_routes, operations, inspector)
    for blueprint in own:
        app.register_api(blueprint)
    return app


def _is_added(answer: Mapping[str, Any]) -> bool:
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return schema.get("type") == "array"


def _name_request() -> None:
    g.request_id = secrets.token_hex(8)


def _admit() -> None:
    if request.endpoint in _OPEN_ENDPOINTS:
        return
    # Given back at once: a generation takes minutes, and a store's connections are few.
    with connection():
        g.caller = identify(request)


def _sign(response: Response) -> Response:
    response.headers["X-Request-Id"] = g.request_id
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _depth(value: Any) -> int:
    """How many arrays and objects lie within each other."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        if depth > _DEEPEST:
            break
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _parsed(data: bytes, declared: bool, most_elements: int, kinds: tuple[type, ...]) -> Any:
    if not declared:
        # A page elsewhere may post plain text here without asking first, but not JSON.
        raise BadRequest("send a JSON object with Content-Type: application/json")
    # Within the largest body there is room for tens of millions of arrays, which take gigabytes and many seconds. What
    # stands in texts is counted too: the bound is above what a text may have.
    elements = data.count(b",") + data.count(b"[") + data.count(b"{")
    if elements > most_elements:
        raise BadRequest(f"the body may have {most_elements} elements, this one has up to {elements}")
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
        if _SURROGATE.search(data):
            json.dumps(body, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise BadRequest("the body is not UTF-8 text") from error
    except RecursionError as error:
        raise NestedTooDeep(f"the body is nested deeper than {_DEEPEST} arrays and objects") from error
    except json.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    except ValueError as error:
        raise BadRequest("the body holds an integer with more digits than are read") from error
    if not isinstance(body, kinds):
        wanted = "a JSON object or an array" if list in kinds else "a JSON object"
        raise BadRequest(f"the body must be {wanted}, got {_JSON_TYPES[type(body)]}")
    # What is read near the recursion limit may not be writable again, and an answer can hold parts of its request.
    if data.count(b"[") + data.count(b"{") > _DEEPEST and _depth(body) > _DEEPEST:
        raise NestedTooDeep(f"the body is nested deeper than {_DEEPEST} arrays and objects")
    return body


_JSON_TYPES = {
    list: "an array",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
}


def _refuse_constant(name: str) -> float:
    raise NotFiniteNumber(f"the body is not JSON: {name} is not allowed")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotFiniteNumber(f"the body is not JSON: {text[:32]} is beyond a 64-bit float")
    return value

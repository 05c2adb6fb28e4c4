"""The MCP server itself: which tools there are, and how they are reached."""

from __future__ import annotations

import functools
import hmac
import inspect
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from remory import __version__
from remory.client import Client
from remory.errors import InvalidInput, RemoryError
from remory.mcp_server.notes import NoteTools
from remory.mcp_server.sessions import SessionTools

PATH = "/mcp"
_NAME_LENGTH = 256
_TOKEN_LENGTH = 16
# As much as the service itself takes.
_BODY_BYTES = 64 << 20
_SHUTDOWN_SECONDS = 2
_INSTRUCTIONS = """\
Remory keeps what should outlast a conversation. Notes (save_note, recall_notes, list_notes, delete_note) hold facts,
decisions and preferences across conversations: recall before you begin a task, save when you learn something that
lasts. Session memories (compact_session, continue_session, list_session_memories, delete_session_memory) shorten one
long conversation and let the service's model go on with it.
"""
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
_REPLACES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
_DELETES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


@dataclass(frozen=True)
class Options:
    """How `remory mcp` was called. `key` and `token` stay out of the repr.

    `url`, `key`, `session`: the Remory service and who asks there. `target_user`: whose notes, for a key that may work
    for others. `host`, `port`, `allowed_hosts`, `token`: for `transport` http, where this server listens, the further
    names it is reached by, and what its callers must present.
    """

    url: str
    session: str
    key: str | None = field(default=None, repr=False)
    target_user: str | None = None
    transport: Literal["stdio", "http"] = "stdio"
    host: str = "127.0.0.1"
    port: int = 8422
    allowed_hosts: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)


def run(options: Options) -> None:
    """Serve until the caller hangs up (stdio) or a signal comes (http).

    The service need not run yet: a tool that does not reach it says so. On stdio, stdout carries the protocol alone;
    what a person should see goes to stderr. Raises InvalidInput for options that cannot be served, RemoryError when
    the port cannot be taken.
    """
    _check(options)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    with Client(options.url, session=options.session, key=options.key) as client:
        server = make_server(client, options.target_user)
        if options.transport == "http":
            _serve_http(server, options)
        else:
            _serve_stdio(server)


def make_server(client: Client, target_user: str | None = None) -> MCPServer[Any]:
    """The server with all its tools over one client."""
    server: MCPServer[Any] = MCPServer(
        "remory", title="Remory", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    notes, sessions = NoteTools(client, target_user), SessionTools(client)
    tools: tuple[tuple[Callable[..., Any], ToolAnnotations], ...] = (
        (notes.save_note, _REPLACES),
        (notes.recall_notes, _READS),
        (notes.list_notes, _READS),
        (notes.delete_note, _DELETES),
        (sessions.compact_session, _ADDS),
        (sessions.continue_session, _READS),
        (sessions.list_session_memories, _READS),
        (sessions.delete_session_memory, _DELETES),
    )
    for tool, hints in tools:
        server.add_tool(_telling(tool), description=inspect.getdoc(tool), annotations=hints)
    return server


class TokenGate:
    """Lets requests through that carry the token, `Authorization: Bearer …`; answers all others with 401."""

    def __init__(self, app: ASGIApp, token: str):
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._admits(Headers(scope=scope)):
            refusal = Response("this MCP server needs its bearer token", 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admits(self, headers: Headers) -> bool:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self._expected)


def _telling(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, whose failures of a known kind become what its caller reads; others are told by their name alone."""

    @functools.wraps(tool)
    def told(**arguments: Any) -> Any:
        try:
            return tool(**arguments)
        except RemoryError as error:
            raise ToolError(str(error)) from error

    return told


def _serve_stdio(server: MCPServer[Any]) -> None:
    if sys.stdin.isatty():
        print("remory mcp: waiting for an agent's messages on stdin; agents start this command", file=sys.stderr)
    # Python's own handling would wait for the thread that reads stdin, and so for ever.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run("stdio")


def _serve_http(server: MCPServer[Any], options: Options) -> None:
    # Every call stands for itself, so a restart of this server ends no caller's session.
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        max_request_body_size=_BODY_BYTES,
        transport_security=_transport_security(options),
    )
    if options.token is not None:
        app = TokenGate(app, options.token)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=_SHUTDOWN_SECONDS)
    with _listen(options.host, options.port) as listener:
        port = listener.getsockname()[1]
        print(f"Remory's MCP server is ready at http://{_bracketed(options.host)}:{port}{PATH}", file=sys.stderr)
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise RemoryError(
            f"cannot listen on {_bracketed(host)}:{port}: {error.strerror}; --port 0 takes a free port"
        ) from error


def _transport_security(options: Options) -> TransportSecuritySettings:
    """A page elsewhere could reach us under its own name (DNS rebinding), so only the names that are ours will do."""
    names = {_bracketed(name) for name in ("127.0.0.1", "localhost", "::1", options.host, *options.allowed_hosts)}
    hosts = [form for name in sorted(names) for form in (name, f"{name}:*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )


def _check(options: Options) -> None:
    _check_url(options.url)
    _check_name("--session", options.session)
    if options.target_user is not None:
        _check_name("--target-user", options.target_user)
    if options.key is not None and not _is_word(options.key):
        raise InvalidInput("the key of the Remory service must be printable ASCII without spaces")
    if options.transport == "http":
        _check_http(options)


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not _is_word(url):
        raise InvalidInput("--url must be that of a Remory service, such as http://127.0.0.1:8421")
    # It stands in errors, which the agent reads.
    if parts.username is not None:
        raise InvalidInput("--url must hold no name or password: give the key by $REMORY_KEY")


def _check_http(options: Options) -> None:
    if not 0 <= options.port <= 65535:
        raise InvalidInput(f"--port must be in 0 to 65535, got {options.port}")
    if options.token is not None and not (_is_word(options.token) and len(options.token) >= _TOKEN_LENGTH):
        raise InvalidInput(f"$REMORY_MCP_TOKEN must have {_TOKEN_LENGTH} or more printable ASCII characters, no spaces")
    if options.token is None and not _is_loopback(options.host):
        raise InvalidInput(
            f"{options.host} is no loopback address: set $REMORY_MCP_TOKEN to a secret that callers of this server "
            "must send as `Authorization: Bearer …`"
        )


def _check_name(option: str, name: str) -> None:
    if not (1 <= len(name) <= _NAME_LENGTH and name.isascii() and name.isprintable()):
        raise InvalidInput(f"{option} must be 1 to {_NAME_LENGTH} printable ASCII characters, got {len(name)}")


def _is_word(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

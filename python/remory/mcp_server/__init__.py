"""An MCP server for agents: tools over a running Remory service. It is no part of that service, only its client."""

from remory.mcp_server.server import Options, run

__all__ = ["Options", "run"]

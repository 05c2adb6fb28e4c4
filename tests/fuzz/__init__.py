"""Requests that schemathesis makes up from the OpenAPI document of the scoped memory, against a real server."""

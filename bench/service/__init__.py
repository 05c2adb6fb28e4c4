"""The scoped memory under load: what a real server answers over HTTP, and what limits it."""

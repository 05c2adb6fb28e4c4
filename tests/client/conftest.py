"""A real server in a process of its own, as `remory serve` starts it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remory.client import Client

_SECONDS = 90


class Server:
    """One `remory serve` process on a free port. `url` is None when it ended without being ready."""

    def __init__(self, *arguments: str):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "remory.cli", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "2"},
        )
        self.url = self._await_url()

    def _await_url(self) -> str | None:
        assert self._process.stdout is not None
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            if select.select([self._process.stdout], [], [], 0.2)[0]:
                found = re.search(r"http://\S+", self._process.stdout.readline())
                return found[0] if found else None
        self.kill()
        raise TimeoutError("the server was not ready in time")

    def end(self) -> tuple[int, str]:
        """Wait for a server that ends by itself: exit code and what it wrote to stderr."""
        _, errors = self._process.communicate(timeout=_SECONDS)
        return self._process.returncode, errors

    def kill(self) -> None:
        """kill -9, all of its processes."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture(scope="session")
def start_server(tiny_actor: Path, tiny_checkpoint: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers with the tiny actor: `start_server(data_folder, *more_arguments)`. All end with the tests."""
    servers = []

    def start(data: Path, *arguments: str) -> Server:
        model = ("--model", str(tiny_actor), "--checkpoint", str(tiny_checkpoint))
        servers.append(Server("--data", str(data), *model, *arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def server(start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    return start_server(tmp_path_factory.mktemp("data"))


@pytest.fixture
def client(server: Server, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client with a session of its own for each test."""
    assert server.url is not None
    with Client(server.url, session=request.node.name[:200]) as client:
        yield client

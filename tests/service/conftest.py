"""Real servers with a tiny real actor, and stores in fresh folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from remory.actors import embedded_actor
from remory.checkpoints.smollm2_tail import describe_checkpoint
from remory.compaction import Memory, Node
from remory.network import MemoryNetwork, embedded_checkpoint, save_checkpoint
from remory.network.config import read_config
from remory_service.app import RemoryApp, create_app
from remory_service.config import Config
from remory_service.store.database import connection, open_store
from tests.conftest import SERVE_OPTIONS
from tests.databases import PostgresqlServer

PREFIX = [1, 5, 6, 7]
HISTORY = [10 + index % 300 for index in range(200)]
SUMMARY = [20, 21, 22]
GREEDY = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}
_READY = re.compile(r"Remory is ready at (http://\S+)\n")


@dataclass
class Server:
    """A server process of its own process group."""

    process: subprocess.Popen[str]
    url: str
    data: Path
    log: Path
    store: list[str] = field(default_factory=list)

    def client(self, session: str = "session", **headers: str) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"X-Remory-Session": session, **headers}, timeout=120)

    def figure(self, name: str) -> float:
        """One figure of /metrics."""
        text = httpx.get(f"{self.url}/metrics", timeout=30).text
        return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])

    def wait_for_running(self, count: int) -> None:
        """Wait until the engine runs so many requests. Raises TimeoutError."""
        deadline = time.monotonic() + 20
        while self.figure("remory_engine_requests_running") != count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the engine did not come to {count} running requests")
            time.sleep(0.02)

    def kill(self) -> None:
        """kill -9 of master and worker, as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


StartServer = Callable[..., Server]


def store_options(database_url: str | None) -> list[str]:
    """What tells a server to keep its store there."""
    return [] if database_url is None else ["--store", database_url]


def serve_command(*options: str | Path) -> list[str]:
    return [sys.executable, "-m", "remory.cli", "serve", *map(str, options)]


def launch(folder: Path, data: Path, actor: Path, checkpoint: Path, *options: str) -> Server:
    log = folder / f"server-{time.monotonic_ns()}.log"
    chosen = ["--port", "0", "--data", data, "--model", actor, "--checkpoint", checkpoint, *options, *SERVE_OPTIONS]
    command = serve_command(*chosen)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log.open("w"), text=True, start_new_session=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    found = _READY.fullmatch(line)
    assert found, f"the server said {line!r}; its log: {log.read_text()}"
    return Server(process, found[1], data, log)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, tiny_actor: Path, tiny_checkpoint: Path) -> Iterator[Server]:
    """One server for all tests that leave it running; each uses sessions of its own."""
    folder = tmp_path_factory.mktemp("server")
    running = launch(folder, folder / "data", tiny_actor, tiny_checkpoint)
    yield running
    running.kill()


@pytest.fixture
def start_server(tmp_path: Path, tiny_actor: Path, tiny_checkpoint: Path) -> Iterator[StartServer]:
    """Starts servers on this test's data folder; all are ended after it."""
    started: list[Server] = []

    def start(*options: str) -> Server:
        started.append(launch(tmp_path, tmp_path / "data", tiny_actor, tiny_checkpoint, *options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def make_fine_checkpoint(folder: Path) -> Path:
    """A second checkpoint for the embedded actor: half the block, other layers, other markers, its gate half open."""
    config = describe_checkpoint(embedded_actor())
    compressor = config["compressor"]
    compressor |= {"target_layer_ids": [4, 12, 20, 28], "local_window": 128, "intermediate_size": 384}
    config["residual"] |= {"block_tokens": 512, "memory_budget": 256}
    contract = config["summary_contract"]
    contract["student_memory_before_ids"] = contract["student_memory_before_ids"][:-2]
    settings, geometry = read_config(json.dumps(config))
    network = MemoryNetwork(
        geometry, output_embedding_rms=settings.compressor.output_embedding_rms, dtype=torch.bfloat16, seed=5
    )
    network.state_dict()["base_gate"].fill_(0.5)
    save_checkpoint(folder, network, config)
    return folder


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory, tiny_checkpoint: Path) -> Path:
    """A folder of checkpoints: `fine` and `runs/fine` fit the embedded actor, `tiny` does not, `broken` is damaged."""
    folder = tmp_path_factory.mktemp("shelf")
    make_fine_checkpoint(folder / "fine")
    shutil.copytree(folder / "fine", folder / "runs" / "deep" / "fine")
    shutil.copytree(tiny_checkpoint, folder / "tiny")
    shutil.copytree(folder / "fine", folder / "broken")
    with (folder / "broken" / "model.safetensors").open("r+b") as weights:
        weights.seek(-64, os.SEEK_END)
        weights.write(bytes(range(64)))
    (folder / "away").symlink_to(tiny_checkpoint)
    return folder


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def embedded_server(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    checkpoints: Path,
    postgresql: PostgresqlServer,
) -> Iterator[Server]:
    """A server of the embedded actor on each database that collects, and can load other checkpoints."""
    folder = tmp_path_factory.mktemp("embedded")
    options = ["--collect", "--checkpoints", str(checkpoints)]
    with ExitStack() as stack:
        url = None if request.param == "sqlite" else stack.enter_context(postgresql.fresh())
        running = launch(
            folder, folder / "data", embedded_actor(), embedded_checkpoint(trained=False), *options, *store_options(url)
        )
        stack.callback(running.kill)
        running.store = store_options(url)
        yield running


@pytest.fixture
def session(request: pytest.FixtureRequest) -> str:
    """A session that no other test uses."""
    return re.sub(r"[^ -~]", "?", request.node.nodeid)[-200:]


@pytest.fixture
def client(server: Server, session: str) -> Iterator[httpx.Client]:
    with server.client(session) as client:
        yield client


@pytest.fixture
def app(tmp_path: Path) -> RemoryApp:
    """An application on a fresh store, whose actor was never started."""
    return create_app(Config(data=tmp_path / "data"))


@pytest.fixture
def store(tmp_path: Path, database_url: str | None) -> Iterator[Path]:
    """A fresh store on each database, with a connection; the folder it lies in if it is a file."""
    open_store(tmp_path / "data", database_url)
    with connection():
        yield tmp_path / "data"


def make_memory(seed: int = 0, nodes: int = 2) -> Memory:
    """A memory with random rows of 8 for each of its nodes."""
    rows = torch.randn(nodes * 8, 16, generator=torch.Generator().manual_seed(seed)).bfloat16()
    frontier = tuple(Node(index * 64, index * 64 + 64, 1) for index in range(nodes))
    receipt: dict[str, Any] = {
        "frontier": [{"start": node.start, "stop": node.stop, "depth": node.depth} for node in frontier],
        "timings_ms": {"leaves": 1.0},
    }
    return Memory(torch.tensor(PREFIX), torch.tensor(SUMMARY), rows, frontier, "identity", receipt)


def compact(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    """A compaction that succeeds."""
    body = {"prefix_ids": PREFIX, "history_ids": HISTORY, "summary_ids": SUMMARY, "previous": None} | fields
    answer = client.post("/v1/compact", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def generate(client: httpx.Client, **fields: Any) -> Any:
    """A generation that succeeds."""
    answer = client.post("/generate", json={"sampling_params": GREEDY} | fields)
    assert answer.status_code == 200, answer.text
    return answer.json()

"""The JavaScript client: its own tests in Node, against real servers, and what its README shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from remory_service.identity import make_key
from tests.service.conftest import launch

FOLDER = Path(__file__).parents[2] / "service" / "js"
USERS = {"invoke": "planner", "worker": "builder", "agent": "agent", "admin": "admin"}
_OLDEST_NODE = 20
_SECONDS = 300


def node_version() -> int:
    """The major version of the Node on PATH, 0 without one."""
    node = shutil.which("node")
    found = node and re.match(r"v(\d+)\.", subprocess.run([node, "--version"], capture_output=True, text=True).stdout)
    return int(found[1]) if found else 0


pytestmark = pytest.mark.skipif(node_version() < _OLDEST_NODE, reason="needs Node 20 or newer")


@pytest.fixture(scope="module")
def servers(
    tmp_path_factory: pytest.TempPathFactory, tiny_actor: Path, tiny_checkpoint: Path
) -> Iterator[Mapping[str, str]]:
    """The environment that names two running servers, one without keys and one with a key of each role."""
    folder = tmp_path_factory.mktemp("js")
    keys = {role: make_key(folder / "keyed", user, [role]) for role, user in USERS.items()}
    keys["other"] = make_key(folder / "keyed", "other", ["invoke"])
    started = []
    try:
        for name in ("open", "keyed"):
            started.append(launch(folder, folder / name, tiny_actor, tiny_checkpoint))
        open_url, keyed_url = (server.url for server in started)
        yield {"REMORY_URL": open_url, "REMORY_KEYED_URL": keyed_url, "REMORY_KEYS": json.dumps(keys)}
    finally:
        for server in started:
            server.kill()


def run_node(servers: Mapping[str, str], *arguments: str | Path) -> str:
    """What Node writes. Fails with it when Node does."""
    command = ["node", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, env=os.environ | servers, text=True, timeout=_SECONDS, **pipes)
    if done.returncode:
        pytest.fail(f"node ended with {done.returncode}:\n{done.stdout}", pytrace=False)
    return done.stdout


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("test/*.test.mjs")))
def test_client(servers: Mapping[str, str], name: str) -> None:
    written = run_node(servers, "--test", "--test-reporter=spec", FOLDER / "test" / name)
    passed = re.search(r"^\S* ?pass (\d+)$", written, re.MULTILINE)
    assert passed and int(passed[1]), written


def test_what_the_readme_shows(servers: Mapping[str, str], tmp_path: Path) -> None:
    shown = re.search(r"```js\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert shown
    script = tmp_path / "example.mjs"
    script.write_text(shown[1].replace('"./client.mjs"', json.dumps((FOLDER / "client.mjs").as_uri())))
    written = run_node(servers, script)
    assert "The nightly build runs at two." in written

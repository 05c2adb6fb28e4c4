"""Real SGLang servers, from an environment of their own. Collected only when this folder is asked for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remory.engines.sglang.engine import SGLangEngine
from remory.engines.sglang.exchange import Exchange
from remory.engines.sglang.launch import LaunchedServer, LaunchOptions
from tests.conftest import CONTEXT, SGLANG_PYTHON
from tests.sglang.definition import PlainActor

_HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave these tests out where all tests are run: that environment is large, and not everybody has it."""
    asked = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(_HERE) for path in asked) else True


@pytest.fixture(scope="session")
def sglang_python() -> Path:
    """An interpreter that has SGLang and Remory, which these tests do not go without."""
    if not SGLANG_PYTHON.is_file():
        pytest.fail(f"there is no {SGLANG_PYTHON}: run `make setup-sglang`, or name another by $REMORY_SGLANG_PYTHON")
    return SGLANG_PYTHON


Launch = Callable[..., LaunchedServer]


@pytest.fixture(scope="session")
def launch(sglang_python: Path) -> Iterator[Launch]:
    """Starts servers of an actor's folder, with fields of LaunchOptions; all are ended after the tests."""
    started: list[LaunchedServer] = []

    def start(model: Path, **fields: object) -> LaunchedServer:
        options = {"python": str(sglang_python), "context_length": CONTEXT} | fields
        started.append(LaunchedServer(LaunchOptions(model, **options)))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="session")
def plain_actor(tiny_actor: Path) -> PlainActor:
    """What says which answers of the tiny actor are right."""
    return PlainActor(tiny_actor)


@pytest.fixture(scope="session")
def sglang_server(
    launch: Launch, tmp_path_factory: pytest.TempPathFactory, tiny_actor: Path, tiny_checkpoint: Path
) -> LaunchedServer:
    """One server of the tiny actor for all tests that leave it running."""
    return launch(tiny_actor, exchange=tmp_path_factory.mktemp("exchange"), checkpoint=tiny_checkpoint)


@pytest.fixture(scope="session")
def sglang_engine(sglang_server: LaunchedServer, tiny_actor: Path) -> Iterator[SGLangEngine]:
    """An engine on it."""
    engine = SGLangEngine(tiny_actor, sglang_server, Exchange(sglang_server.options.exchange))
    yield engine
    engine.close()

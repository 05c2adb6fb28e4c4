"""The child's life: how it starts, how it is started again, and that nothing of it is ever left."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
import torch

from remory.engines.sglang.folders import PrivateFolder, exchange_folder
from remory.engines.sglang.launch import (
    AttachedServer,
    LaunchedServer,
    LaunchOptions,
    check_arguments,
    command_line,
    environment,
)
from remory.errors import EngineFailed, InvalidInput
from tests.conftest import CONTEXT
from tests.sglang.processes import family, lives, named, servers, shared, wait_until

BODY = {"input_ids": [5, 6], "sampling_params": {"max_new_tokens": 2, "temperature": 0, "ignore_eos": True}}


def generated(server) -> httpx.Response:
    return httpx.post(f"{server.url}/generate", json=BODY, headers=server.headers, timeout=60)


def processes_of(server: LaunchedServer) -> list[psutil.Process]:
    """The child and all that it started."""
    port = f"--port={server.url.rpartition(':')[2]}"
    (child,) = (process for process in servers(family()) if port in process.cmdline())
    return [child, *family(child.pid)]


def log_of(server: LaunchedServer) -> str:
    assert server._folder is not None
    return (server._folder / "sglang.log").read_text()


def test_it_answers_those_who_know_the_key(sglang_server):
    assert sglang_server.problem() is None
    assert len(generated(sglang_server).json()["output_ids"]) == 2
    attached = AttachedServer(f"{sglang_server.url}/", sglang_server.headers["Authorization"].removeprefix("Bearer "))
    assert attached.problem() is None
    assert generated(attached).status_code == 200


@pytest.mark.parametrize("key", [None, "guess"])
def test_nobody_else_is_answered(sglang_server, key):
    stranger = AttachedServer(sglang_server.url, key)
    assert generated(stranger).status_code == 401
    assert httpx.get(f"{stranger.url}/server_info", headers=stranger.headers).status_code == 401


def test_it_listens_on_loopback_alone(sglang_server):
    addresses = {
        connection.laddr.ip
        for process in processes_of(sglang_server)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}


def test_its_key_stands_neither_in_its_log_nor_in_a_command_line(sglang_server):
    key = sglang_server.headers["Authorization"].removeprefix("Bearer ")
    assert "api_key" in log_of(sglang_server)
    assert key not in log_of(sglang_server)
    assert all(key not in " ".join(process.cmdline()) for process in processes_of(sglang_server))


def test_an_answer_with_a_seed_is_drawn(sglang_server):
    """The draws of requests with seeds need an operator that only our stand-in has on this kind of CPU."""
    sampling = {"max_new_tokens": 8, "temperature": 1.0, "sampling_seed": 3, "ignore_eos": True}
    answers = [
        httpx.post(
            f"{sglang_server.url}/generate",
            json=BODY | {"sampling_params": sampling},
            headers=sglang_server.headers,
            timeout=60,
        ).json()["output_ids"]
        for _ in range(2)
    ]
    assert answers[0] == answers[1]


@pytest.fixture(scope="module")
def proxy() -> Iterator[socket.socket]:
    """Where a proxy would listen."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture(scope="module")
def mortal(launch, tiny_actor, proxy) -> LaunchedServer:
    """A server whose processes may be killed, started in an environment with a proxy and with secrets of ours."""
    url = f"http://127.0.0.1:{proxy.getsockname()[1]}"
    told = {
        "HTTP_PROXY": url,
        "http_proxy": url,
        "NO_PROXY": "example.org",
        "REMORY_STORE": "postgresql://u:secret@h/d",
    }
    with pytest.MonkeyPatch.context() as environ:
        for name, value in told.items():
            environ.setenv(name, value)
        environ.delenv("no_proxy", raising=False)
        return launch(tiny_actor)


def test_a_start_tells_no_proxy_its_key_and_no_child_our_secrets(mortal, proxy):
    proxy.settimeout(0)
    with pytest.raises(BlockingIOError):
        proxy.accept()
    told = processes_of(mortal)[0].environ()
    assert told["NO_PROXY"] == "example.org,127.0.0.1"
    assert told["no_proxy"] == "127.0.0.1"
    assert {name for name in told if name.startswith("REMORY_")} == {
        "REMORY_LIVE_BYTES",
        "REMORY_PARENT",
        "REMORY_SGLANG_KEY",
    }


@pytest.mark.parametrize("victim", ["scheduler", "detokenizer", None])
def test_it_comes_again_when_a_process_of_it_is_killed(mortal, victim):
    before = processes_of(mortal)
    files = shared(before)
    # Whoever clears temporary files must not end it for good.
    (mortal._folder / "sglang.log").unlink()
    (named(victim, before) if victim else before[0]).kill()
    wait_until(lambda: mortal.problem() is not None, "the death was noticed", 2)
    assert re.search("died|ended with signal 9|starting", mortal.problem())
    wait_until(lambda: mortal.problem() is None, "it answered again")
    assert generated(mortal).status_code == 200
    assert not any(map(lives, before))
    assert files and not any(file.exists() for file in files)


def test_a_start_under_way_can_be_closed(sglang_python, tiny_actor):
    steps: list[str] = []
    ended: list[str] = []
    server = LaunchedServer(LaunchOptions(tiny_actor, str(sglang_python)), steps.append)

    def start() -> None:
        try:
            server.start()
        except EngineFailed as error:
            ended.append(str(error))

    starting = threading.Thread(target=start)
    starting.start()
    wait_until(lambda: any("processes" in step for step in steps), "it started its processes")
    processes = processes_of(server)
    server.close()
    starting.join(30)
    assert ended == ["SGLang was stopped"]
    assert not any(map(lives, processes))
    assert not server._folder.exists()
    assert steps[0] == "SGLang is starting: importing its libraries"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"more": ("--no-such-argument",)}, "unrecognized arguments: --no-such-argument"),
        ({"more": ("--load-format=no-such",)}, "no-such"),
        ({"context_length": CONTEXT + 1}, str(CONTEXT)),
        ({"python": sys.executable}, "SGLang is not installed"),
        pytest.param(
            {"device": "cuda"}, "sees no GPU", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="GPU")
        ),
        ({"python": "/no/python"}, "no interpreter /no/python"),
    ],
)
def test_a_start_that_fails_has_a_reason(launch, tiny_actor, fields, reason):
    before = set(family())
    with pytest.raises(EngineFailed, match=reason):
        launch(tiny_actor, **fields)
    assert not servers(list(set(family()) - before))


def test_a_lost_port_is_given_up_and_nothing_is_left_in_the_end(sglang_python, tiny_actor):
    server = LaunchedServer(LaunchOptions(tiny_actor, str(sglang_python)))
    lost = server.url
    with socket.create_server(("127.0.0.1", int(lost.rpartition(":")[2]))):
        server.start()
    assert server.url != lost
    assert generated(server).status_code == 200
    processes, folder = processes_of(server), server._folder
    files = shared(processes)
    assert {file.name.partition("_")[0] for file in files} >= {"sglang"}
    assert any(file.name.startswith("sem.mp-") for file in files)
    assert {process.cmdline()[0] for process in processes} >= {"sglang::scheduler", "sglang::detokenizer"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    server.close()
    server.close()
    assert not any(map(lives, processes))
    assert not any(file.exists() for file in files)
    assert not folder.exists()
    assert server.problem() == "SGLang was stopped"


def test_what_remory_decides_is_not_passed_on():
    check_arguments(["--schedule-policy", "lpm", "--tokenizer-mode=auto", "host", "--enable-dp-attention", "tp"])
    decided = ("--host", "--host=0.0.0.0", "--hos", "--port=1", "--api-key", "--tokenizer-worker-num=2")
    with_options = ("--tp=2", "--tp-size", "--tensor-parallel-size=2", "--tensor-par=2", "--dp", "--data-parallel-size")
    for argument in (*decided, *with_options):
        with pytest.raises(InvalidInput, match=argument.partition("=")[0]):
            LaunchOptions(Path(), more=(argument,))


def test_on_a_gpu_nothing_is_set_for_cpus(tmp_path, tiny_actor):
    options = LaunchOptions(
        tiny_actor, device="cuda:2", tp=2, mem_fraction_static=0.7, live_bytes=5, more=("--dtype=half",)
    )
    arguments = command_line(options, 1)
    assert {"--device=cuda", "--base-gpu-id=2", "--tp-size=2", "--mem-fraction-static=0.7"} < set(arguments)
    assert arguments.index("--dtype=float32") < arguments.index("--dtype=half")
    assert not [argument for argument in arguments if "torch_native" in argument or "cuda-graph" in argument]
    told = environment(options, tmp_path)
    assert told["REMORY_LIVE_BYTES"] == "5"
    assert not {"OMP_NUM_THREADS", "SGLANG_USE_CPU_ENGINE", "REMORY_EXCHANGE"} & set(told)


def test_folders_of_the_dead_are_removed_and_those_of_the_living_stay(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; from remory.engines.sglang.folders import PrivateFolder\n"
        "print(PrivateFolder(Path(sys.argv[1])).path, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    first = PrivateFolder(tmp_path)
    dead = Path(subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True).stdout.strip())
    assert dead.is_dir()
    second = PrivateFolder(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([first.path, second.path])
    (first.path / "rows").write_bytes(b"1")
    first.close()
    assert list(tmp_path.iterdir()) == [second.path]
    second.close()


def test_the_exchange_folder_is_private():
    folder = exchange_folder()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert folder.path.parent in (Path("/dev/shm"), Path(tempfile.gettempdir()))
    folder.close()
    assert not folder.path.exists()


def test_a_server_outlives_no_kill_of_whoever_started_it(sglang_python, tiny_actor):
    """Its starter is killed as soon as there is a child, in the middle of a start."""
    code = (
        "import sys; from pathlib import Path; from remory.engines.sglang.launch import LaunchedServer, LaunchOptions\n"
        "LaunchedServer(LaunchOptions(Path(sys.argv[1]), sys.argv[2]), print).start()"
    )
    command = [sys.executable, "-u", "-c", code, tiny_actor, sglang_python]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        while "processes" not in starter.stdout.readline():
            pass
        processes = family(starter.pid)
        assert servers(processes)
        os.kill(starter.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(lives, processes)), "all of its processes were gone", 10)

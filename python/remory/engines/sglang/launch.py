"""SGLang's server as a child of this process: started, watched, started again when it dies, and ended with us."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx
import psutil

from remory.engines.sglang.folders import temporary_folder
from remory.engines.sglang.server import CPU, KEY, PARENT
from remory.errors import EngineFailed, InvalidInput

log = logging.getLogger(__name__)

_HOST = "127.0.0.1"
_POLL_SECONDS = 0.25
_ANSWER_SECONDS = 5.0
_TIDY_SECONDS = 5.0
_END_SECONDS = 30.0
# A server that lived that long did not die of how it was started.
_GOOD_LIFE_SECONDS = 60.0
_MOST_SECONDS_BETWEEN_STARTS = 30.0
_FAILED_STARTS = 5
_PORTS_TRIED = 3
_LOG_BYTES = 16 << 20
_LAST_LINES = 20
# Keys and values that the cache holds on a CPU, unless a context needs more.
_CPU_TOKENS = 16384
_CPU_ARGUMENTS = (
    "--device=cpu",
    "--attention-backend=torch_native",
    "--sampling-backend=pytorch",
    "--cuda-graph-backend-decode=disabled",
    "--cuda-graph-backend-prefill=disabled",
    # Without it an idle server keeps a core busy.
    "--sleep-on-idle",
    "--skip-server-warmup",
    "--max-running-requests=16",
    # There is nothing to overlap with, and its penalties come a token late.
    "--disable-overlap-schedule",
)
# What Remory decides. Another host would show the port to others, and more processes for tokens would drop the key.
_OURS = ("--host", "--port", "--model-path", "--api-key", "--admin-api-key", "--config", "--tokenizer-worker-num")
# What Remory has options of its own for, whatever follows.
_OPTIONS = ("--tp", "--tensor-parallel", "--dp", "--data-parallel")
_SHARED_MEMORY = Path("/dev/shm")
_SHARED_NAMES = ("sglang_", "sgl_shm_", "sem.mp-")
# What a line of SGLang's log says of its start, the last step first.
_STEPS = (
    ("Uvicorn running", "waiting for its first answer"),
    ("Capture ", "capturing CUDA graphs"),
    ("Load weight end", "allocating its cache"),
    ("Load weight begin", "loading the weights"),
    ("server_args=", "starting its processes"),
)


@dataclass(frozen=True)
class LaunchOptions:
    """How to start SGLang.

    `model`: the actor's folder. `python`: an interpreter that has SGLang and Remory. `device` is cpu, cuda or cuda:N;
    `dtype` None keeps the actor's own. `tp` and `dp`: GPUs that share the actor, and copies of it. `context_length` in
    tokens; `mem_fraction_static` is the share of the device's memory for weights and cache. `checkpoint`: its layers
    are captured from the start. `exchange`: the folder for rows, None for rows inside of requests. `live_bytes`: host
    memory for features kept while sessions run, 0 for none. `more`: arguments for SGLang, which win over ours.

    Raises InvalidInput for one among `more` that Remory decides.
    """

    model: Path
    python: str = sys.executable
    device: str = "cpu"
    dtype: str | None = None
    tp: int = 1
    dp: int = 1
    context_length: int | None = None
    mem_fraction_static: float | None = None
    checkpoint: Path | None = None
    exchange: Path | None = None
    live_bytes: int = 0
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_arguments(self.more)

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"


class Server(Protocol):
    """What an engine needs of a running SGLang. `url` may change when a server is started again."""

    @property
    def url(self) -> str:
        """Such as http://127.0.0.1:PORT, without a slash at its end."""

    @property
    def headers(self) -> dict[str, str]:
        """What each request carries."""

    def problem(self) -> str | None:
        """None while it answers; otherwise what is going on, in words for a client.

        Raises EngineFailed with the reason once it never will again.
        """

    def close(self) -> None:
        """Let go of it. May be called more than once."""


class AttachedServer:
    """A server that somebody else runs, with its API key if it has one. It is watched by nobody here."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.headers = _bearer(key) if key else {}

    def problem(self) -> str | None:
        return None

    def close(self) -> None:
        pass


class LaunchedServer:
    """A server of our own on a free loopback port, with a key that this process alone knows.

    When it or one of its processes dies, the rest is ended and it is started again. It ends with this process, however
    that ends. `progress` is told in words what `start` is doing.
    """

    def __init__(self, options: LaunchOptions, progress: Callable[[str], None] = lambda words: None) -> None:
        self.options = options
        self._tell = progress
        self._key = secrets.token_urlsafe(32)
        self._port = _free_port()
        self._problem: str | None = "SGLang is not started"
        self._failure: str | None = None
        self._given_up: str | None = None
        self._folder: Path | None = None
        self._settled = threading.Event()
        self._closing = threading.Event()
        self._supervisor = threading.Thread(target=self._supervise, name="remory-sglang", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self._port}"

    @property
    def headers(self) -> dict[str, str]:
        return _bearer(self._key)

    def start(self) -> None:
        """Start it and wait until it answers. To be called once. Raises EngineFailed with the reason if it does not."""
        if shutil.which(self.options.python) is None:
            raise EngineFailed(f"SGLang cannot be started: there is no interpreter {self.options.python}")
        self._supervisor.start()
        self._settled.wait()
        if self._failure is not None:
            self.close()
            raise EngineFailed(self._failure)

    def problem(self) -> str | None:
        if self._given_up is not None:
            raise EngineFailed(self._given_up)
        return self._problem

    def close(self) -> None:
        """End all of its processes, a start under way too, and remove its files."""
        self._closing.set()
        if self._supervisor.ident is not None:
            self._supervisor.join()

    def _supervise(self) -> None:
        """The life of all children. They are forked in this thread, because they die with the one that forked them."""
        try:
            with closing(temporary_folder()) as folder:
                self._folder = folder.path
                if self._first_start():
                    self._keep_running()
        # The boundary of this thread: nobody may wait for it, or be told that all is well, when it has ended.
        except Exception as error:
            log.exception("SGLang cannot be run")
            self._failure = f"SGLang cannot be run: {error}"
            self._given_up = "SGLang cannot be run: the log has the reason"
        finally:
            if self._closing.is_set():
                self._failure = self._problem = "SGLang was stopped"
                self._given_up = None
            self._settled.set()

    def _first_start(self) -> bool:
        """Start for whoever waits in `start`, and run until the end of that child."""
        for _ in range(_PORTS_TRIED):
            with self._child() as child:
                if self._becomes_ready(child):
                    self._failure = None
                    self._settled.set()
                    self._run(child)
                    return True
            self._failure = f"SGLang did not start: {child.reason()}"
            if not child.lost_port():
                break
            self._port = _free_port()
        return False

    def _keep_running(self) -> None:
        """Start it again whenever it has died, later when it does not live long, until it does not start at all."""
        short_lives = failed_starts = 0
        while not self._closing.wait(_pause(short_lives)):
            began = time.monotonic()
            failed_starts = 0 if self._lived_again() else failed_starts + 1
            if self._closing.is_set():
                return
            short_lives = 0 if time.monotonic() - began > _GOOD_LIFE_SECONDS else short_lives + 1
            if failed_starts == _FAILED_STARTS:
                # The rest of the server needs no actor and goes on: another process would find the same once more.
                self._given_up = f"SGLang died and did not start again in {failed_starts} attempts: restart this server"
                log.error("%s", self._given_up)
                return

    def _lived_again(self) -> bool:
        """Start it and watch it until it ends; False when it did not become ready."""
        try:
            with self._child() as child:
                if self._becomes_ready(child):
                    log.warning("SGLang answers again")
                    self._run(child)
                    return True
            reason = child.reason()
            if child.lost_port():
                self._port = _free_port()
        # No room on the disk, no handle left: what ends one start need not end the next.
        except OSError as error:
            reason = str(error)
        if not self._closing.is_set():
            log.error("SGLang did not start again: %s", reason)
        return False

    def _child(self) -> _Child:
        assert self._folder is not None
        return _Child(self.options, self._port, self._key, self._folder)

    def _becomes_ready(self, child: _Child) -> bool:
        """Wait until it answers; False when it ended before, or is no longer wanted."""
        told = ""
        while not self._closing.wait(_POLL_SECONDS):
            if child.end() is not None:
                return False
            if child.answers(self.url, self.headers):
                self._problem = None
                return True
            if (step := child.step()) != told:
                told = step
                self._problem = f"SGLang is starting: {step}"
                if not self._settled.is_set():
                    self._tell(self._problem)
        return False

    def _run(self, child: _Child) -> None:
        """Watch it until it ends."""
        while not self._closing.wait(_POLL_SECONDS):
            # What cannot be looked at now, for want of a handle perhaps, is no end.
            with suppress(OSError):
                if (end := child.end()) is not None:
                    self._problem = f"{end}; SGLang is being started again"
                    log.error("%s; its last words:\n%s", self._problem, child.last_lines())
                    return
                child.bound_log()


class _Child:
    """One SGLang in a process group of its own, which is ended with this context."""

    def __init__(self, options: LaunchOptions, port: int, key: str, folder: Path) -> None:
        self._port = port
        self._log = folder / "sglang.log"
        self._log.unlink(missing_ok=True)
        self._scratch = folder / secrets.token_hex(4)
        self._scratch.mkdir()
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [options.python, "-m", "remory.engines.sglang.server", *command_line(options, port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_inherited() | environment(options, self._scratch) | {KEY: key, PARENT: str(os.getpid())},
                # So that Ctrl-C reaches us alone, and the end all of them.
                start_new_session=True,
            )
        self._workers: list[psutil.Process] = []
        self._shared: set[Path] = set()

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._note_shared()
        # SGLang's processes die with this one (see `server`). Python's resource tracker among them does not: when the
        # last of the others is gone it removes the semaphores and memory that Python knows they shared, and ends.
        self._process.kill()
        self._process.wait()
        if not _group_ends(self._process.pid, _TIDY_SECONDS):
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            # The next one needs the device's memory that this one has until the end.
            _group_ends(self._process.pid, _END_SECONDS)
        for left in self._shared:
            with suppress(OSError):
                left.unlink()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def answers(self, url: str, headers: dict[str, str]) -> bool:
        """Whether it is this child that listens, generates a token, and refuses those who do not know the key."""
        if not self._listens():
            return False
        try:
            if _status(f"{url}/health", headers) != 200:
                return False
            stranger = _status(f"{url}/model_info", {})
        except httpx.TransportError:
            return False
        if stranger != 401:
            raise EngineFailed(f"SGLang answers {stranger} and not 401 to a request without its key")
        self._workers = [process for process in self._children() if _is_worker(process)]
        self._note_shared()
        return True

    def end(self) -> str | None:
        """How it or one of its processes ended; None while all of them live."""
        if (code := self._process.poll()) is not None:
            return f"SGLang ended with {_ending(code)}"
        if any(not _lives(worker) for worker in self._workers):
            return "a process of SGLang died"
        return None

    def step(self) -> str:
        """What it is doing before it answers."""
        text = self._tail()
        return next((words for sign, words in _STEPS if sign in text), "importing its libraries")

    def reason(self) -> str:
        """Why it ended, for whoever runs this server: what it said for its user, else its last error, else its end."""
        lines = [line.strip() for line in self._tail().splitlines()]
        told = [line.removeprefix("remory: ") for line in lines if line.startswith("remory: ")]
        errors = [line for line in lines if re.match(r"([\w.]+(Error|Exception)|.*: error): .", line)]
        return (told or errors or [f"it ended with {_ending(self._process.wait())}"])[-1]

    def lost_port(self) -> bool:
        """Whether another process has taken the port since we chose it."""
        return "address already in use" in self._tail().lower()

    def last_lines(self) -> str:
        return "\n".join(self._tail().splitlines()[-_LAST_LINES:])

    def bound_log(self) -> None:
        """Empty the log when it has become large: SGLang writes lines for ever."""
        if self._log.stat().st_size > _LOG_BYTES:
            os.truncate(self._log, 0)

    def _tail(self) -> str:
        """The end of the log; nothing of one that is gone."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, self._log.stat().st_size - (64 << 10)))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def _note_shared(self) -> None:
        """Remember what they share: SGLang has files that it never removes, and may kill the tracker when it fails."""
        with suppress(OSError):
            for process in self._children():
                self._shared |= _shared_by(process)

    def _listens(self) -> bool:
        try:
            connections = psutil.Process(self._process.pid).net_connections("tcp")
        except psutil.Error:
            return False
        return any(one.status == psutil.CONN_LISTEN and one.laddr.port == self._port for one in connections)

    def _children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []


def check_arguments(arguments: Sequence[str]) -> None:
    """Raises InvalidInput for an argument of SGLang's that Remory decides itself."""
    for argument in arguments:
        name = argument.partition("=")[0]
        # SGLang takes a beginning for the whole too.
        ours = any(one.startswith(name) for one in (*_OURS, *_OPTIONS)) or name.startswith(_OPTIONS)
        if name.startswith("--") and ours:
            raise InvalidInput(f"{name} cannot be passed on to SGLang: Remory sets it itself")


def command_line(options: LaunchOptions, port: int) -> list[str]:
    """SGLang's arguments; the later ones win."""
    arguments = [f"--model-path={options.model}", f"--host={_HOST}", f"--port={port}", "--log-level-http=warning"]
    arguments += [f"--dtype={options.dtype or _own_dtype(options.model)}"]
    # The embedded engine's dialect of schemas and patterns; a small model may else fill JSON with white space.
    arguments += ["--grammar-backend=llguidance", "--constrained-json-disable-any-whitespace"]
    arguments += [f"--tp-size={options.tp}", f"--dp-size={options.dp}"]
    if options.context_length is not None:
        arguments.append(f"--context-length={options.context_length}")
    if options.mem_fraction_static is not None:
        arguments.append(f"--mem-fraction-static={options.mem_fraction_static}")
    if options.on_cpu:
        arguments += [*_CPU_ARGUMENTS, f"--max-total-tokens={max(_CPU_TOKENS, options.context_length or 0)}"]
    else:
        arguments += ["--device=cuda", f"--base-gpu-id={options.device.partition(':')[2] or 0}"]
    return [*arguments, *options.more]


def environment(options: LaunchOptions, scratch: Path) -> dict[str, str]:
    """What SGLang and the plug-in are told by the environment. `scratch`: a folder for the temporary files of one run.

    What is set already is kept where only speed depends on it.
    """
    told = {
        "TMPDIR": str(scratch),
        "REMORY_LIVE_BYTES": str(options.live_bytes),
        # The actor is a folder: nothing is to be asked of a hub.
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }
    if options.exchange is not None:
        told["REMORY_EXCHANGE"] = str(options.exchange)
    if options.checkpoint is not None:
        told["REMORY_CHECKPOINT"] = str(options.checkpoint)
    # Without it log-probabilities of answers are those at the request's temperature, and not the actor's own.
    told["SGLANG_RETURN_ORIGINAL_LOGPROB"] = "1"
    # By default its processes meet at ports that listen on other addresses of the machine too.
    told |= {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    # What its processes tell each other, the key among it, is for no proxy.
    told |= {name: ",".join(filter(None, (os.environ.get(name), _HOST))) for name in ("NO_PROXY", "no_proxy")}
    if options.dp == 1:
        told["SGLANG_DISTRIBUTED_INIT_METHOD_OVERRIDE"] = f"file://{scratch / 'meeting'}"
    if options.on_cpu:
        # The scheduler shares the cores with two more of its processes and with this one: with 2 threads on 2 busy
        # cores decoding takes tenfold the time.
        threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, len(os.sched_getaffinity(0)) // 2))
        if options.tp * options.dp > 1:
            told["SGLANG_CPU_OMP_THREADS_BIND"] = _shared_cores(options.tp * options.dp)
        # The functions that SGLang has compiled at their first call are few and small, and not worth a compiler.
        told |= {CPU: "1", "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "TORCH_COMPILE_DISABLE": "1"}
    return told


def _inherited() -> dict[str, str]:
    """Our own environment, without what is meant for us alone."""
    return {name: value for name, value in os.environ.items() if not name.startswith("REMORY_")}


def _shared_cores(ranks: int) -> str:
    """Cores for each rank, as SGLang wants them: it has none of its own for more ranks than the machine has nodes."""
    cores = sorted(os.sched_getaffinity(0))
    share = max(1, len(cores) // ranks)
    groups = [[cores[(rank * share + place) % len(cores)] for place in range(share)] for rank in range(ranks)]
    return "|".join(",".join(map(str, group)) for group in groups)


def _own_dtype(model: Path) -> str:
    """The dtype in which an actor is stored. SGLang's own choice would turn float32 into float16."""
    config = json.loads((model / "config.json").read_text())
    return config.get("dtype") or config.get("torch_dtype") or "float32"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return probe.getsockname()[1]


def _status(url: str, headers: dict[str, str]) -> int:
    # Without regard to a proxy, who would read the key.
    return httpx.get(url, headers=headers, timeout=_ANSWER_SECONDS, trust_env=False).status_code


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _pause(short_lives: int) -> float:
    """Seconds before the next start."""
    return min(2.0 ** (short_lives - 1), _MOST_SECONDS_BETWEEN_STARTS) if short_lives else 0.0


def _is_worker(process: psutil.Process) -> bool:
    """Whether SGLang needs it to the end, unlike a compiler that runs for a while."""
    try:
        return process.cmdline()[:1] != [] and process.cmdline()[0].startswith("sglang::")
    except psutil.Error:
        return False


def _group_ends(group: int, seconds: float) -> bool:
    """Wait so long until no process of a group is left; whether it is so."""
    deadline = time.monotonic() + seconds
    with suppress(OSError):
        while _group_lives(group):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True
    return False


def _group_lives(group: int) -> bool:
    """Whether a process of the group is left, whoever its parent is now."""
    for process in psutil.process_iter():
        with suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and _lives(process):
                return True
    return False


def _shared_by(process: psutil.Process) -> set[Path]:
    """The files of SGLang's and Python's in shared memory that this process has mapped."""
    try:
        maps = Path(f"/proc/{process.pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    # By number, because a semaphore gets its name after it was mapped under another.
    mapped = {int(number) for number in re.findall(rf" (\d+) +{_SHARED_MEMORY}/", maps)}
    with os.scandir(_SHARED_MEMORY) as files:
        return {Path(file) for file in files if file.inode() in mapped and file.name.startswith(_SHARED_NAMES)}


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"

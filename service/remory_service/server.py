"""The server process: binds, starts gunicorn with one threaded worker, and says when the actor answers."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import struct
import sys
import threading
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.gthread import TConn, ThreadWorker

from remory_service.config import Config
from remory_service.errors import ServiceError
from remory_service.identity import is_loopback, keys_exist
from remory_service.runtime import Runtime
from remory_service.store.database import close_store, connection, open_store

log = logging.getLogger(__name__)

_BACKLOG = 256
_SILENT_SECONDS = 30
_LINGER_MS = 5


class CannotServe(ServiceError):
    """The server cannot start: the address is taken, is no address of this machine, or would need keys."""


def run(config: Config) -> None:
    """Serve until SIGTERM or SIGINT, then end the process by SystemExit.

    Prints `Remory is ready at URL` once the actor answers. An actor that cannot be loaded ends the process with an
    exit code other than 0. Raises CannotServe, StoreUnusable or StoreTooNew before anything is served.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("remory_service").setLevel(logging.INFO)
    # The one line about being ready should not drown in bars of the libraries that load the actor.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # Read when the worker imports torch. By default OpenMP's threads spin while they wait for each other: with a busy
    # neighbour on the machine every operation then waits for a time slice, and decoding takes tenfold the time.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _prepare_store(config)
    listener = _bind(config)
    _Application(config, listener).run()


class Worker(ThreadWorker):
    """gunicorn's threaded worker, which tells the generations under way when it has to stop."""

    quitting = False

    def init_process(self) -> None:
        # The other half of the threads is always there for connections that come anew.
        self._lingering = threading.BoundedSemaphore(max(1, self.cfg.threads // 2))
        super().init_process()

    def handle(self, conn: TConn) -> Any:
        """Answer a connection's request, and the next ones as long as they follow at once.

        Otherwise each request goes from the main thread to a thread of the pool and back, which takes longer than the
        quick routes: with 16 clients reading values 1,450 answers a second became 1,830.
        """
        kept = super().handle(conn)
        while kept is True and self.alive and self._lingering.acquire(blocking=False):
            try:
                follows = _is_readable(conn.sock, _LINGER_MS)
            finally:
                self._lingering.release()
            if not follows:
                break
            kept = super().handle(conn)
        return kept

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.app.runtime.stop()
        super().handle_exit(sig, frame)

    def handle_quit(self, sig: int, frame: Any) -> None:
        # A terminal's Ctrl-C comes from the terminal and from the master: the second one must not cut the first short.
        if not self.quitting:
            self.quitting = True
            self.app.runtime.stop()
            super().handle_quit(sig, frame)

    def run(self) -> None:
        with contextlib.suppress(SystemExit):
            super().run()
        self.wsgi.extensions["remory_autosave"].close()
        self.app.runtime.close()
        self.wsgi.extensions["remory_histories"].close()
        self.wsgi.extensions["remory_searcher"].close()
        close_store()
        # An actor that is still loading, or a request that ran out of its time, must not hold up the end.
        os._exit(0)


def _is_readable(sock: socket.socket, milliseconds: int) -> bool:
    """Whether something comes on a socket within so long, be it its end."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(milliseconds))


class _Application(BaseApplication):
    """Our application in gunicorn's terms. The runtime is made here and started in the worker."""

    def __init__(self, config: Config, listener: socket.socket):
        self.config = config
        self.runtime = Runtime(config)
        self._url = _url(listener)
        self._fd = listener.detach()
        self._workers = 0
        super().__init__()

    def load_config(self) -> None:
        settings = {
            "bind": f"fd://{self._fd}",
            "workers": 1,
            "worker_class": Worker,
            "threads": self.config.threads,
            # The main thread of a worker only waits for connections, so there is nothing for a watchdog to watch.
            "timeout": 0,
            "graceful_timeout": self.config.stop_seconds,
            "loglevel": "warning",
            "control_socket_disable": True,
            "pre_fork": self._count,
            "child_exit": _tell_of_death,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        from remory_service.app import create_app

        app = create_app(self.config, self.runtime)
        self.runtime.start(self._loaded)
        app.extensions["remory_autosave"].start()
        return app

    def _count(self, arbiter: Arbiter, worker: Worker) -> None:
        self._workers += 1

    def _loaded(self, runtime: Runtime) -> None:
        if runtime.state == "failed":
            print(f"remory: the actor cannot be loaded: {runtime.progress}", file=sys.stderr, flush=True)
            # Told apart by the master from a worker that died, and not started again.
            os._exit(Arbiter.WORKER_BOOT_ERROR)
        if runtime.state == "ready" and self._workers == 1:
            print(f"Remory is ready at {self._url}", flush=True)


def _tell_of_death(arbiter: Arbiter, worker: Worker) -> None:
    if arbiter.LISTENERS:
        log.error("the worker process died; starting another, which loads the actor again")


def _prepare_store(config: Config) -> None:
    open_store(config.data, config.store)
    with connection():
        if not keys_exist() and not _binds_loopback(config.host):
            raise CannotServe(
                f"refusing to listen on {config.host} without keys, because anybody who reaches it could read all "
                "memories: make one with `remory keys add --user USER --role invoke`, or listen on 127.0.0.1"
            )
    # The worker is forked from this process and opens connections of its own.
    close_store()


def _binds_loopback(host: str) -> bool:
    return is_loopback(_address(host)[1][0])


def _address(host: str, port: int = 0) -> tuple[int, Any]:
    """Address family and socket address of a host. Raises CannotServe."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise CannotServe(f"cannot listen on {host!r}: {error.strerror}") from error
    return family, address


def _bind(config: Config) -> socket.socket:
    """A listening socket. Bound here and not by gunicorn, which would retry for seconds and hide the reason."""
    family, address = _address(config.host, config.port)
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit these from their listener. Without them a client that stops in mid-request, or never reads its
    # answer, keeps a thread for good, and as many of them as there are threads keep the whole server.
    patience = struct.pack("ll", _SILENT_SECONDS, 0)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotServe(
            f"cannot listen on {config.host} port {config.port}: {error.strerror}; --port 0 takes a free port"
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

"""The models' life in this process: loaded in the background, ready or failed, stopped."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remory.errors import CheckpointError, RemoryError
from remory_service.config import Config, Endpoint
from remory_service.errors import BadRequest, Unavailable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Loaded:
    """What answers requests once it is there; a request uses one such to its end. `compactor`, which has the checkpoint
    in use, is None without memory.
    """

    engine: Any
    compactor: Any
    summarizer: Any

    @property
    def checkpoint(self) -> Any:
        """The `remory.network.Checkpoint` in use."""
        return None if self.compactor is None else self.compactor.checkpoint


class Runtime:
    """Loads embedder, actor, checkpoint and engine once, off the request path. The embedder comes first and answers as
    soon as it is there.

    `state` is "starting", "ready", "failed" or "stopping"; `progress` says in words what is going on, or why it failed.
    `embedder`: a `remory.language.Embedder` that is there already and need not be loaded.
    """

    def __init__(self, config: Config, embedder: Any = None):
        self.config = config
        self.state = "starting"
        self.progress = "starting"
        self._embedder = embedder
        self._loaded: Loaded | None = None
        self._switching = threading.Lock()
        # What an actor needs beside its engine, from the moment that it is there.
        self._closing = ExitStack()

    def start(self, on_end: Callable[[Runtime], None] = lambda runtime: None) -> None:
        """Load in a thread of its own, then call `on_end`, ready or failed."""
        threading.Thread(target=self._run, args=(on_end,), name="remory-load", daemon=True).start()

    def loaded(self) -> Loaded:
        """What is loaded. Raises Unavailable while there is nothing yet, or no more, or it cannot answer now."""
        loaded = self._loaded
        state, progress = self.status()
        if loaded is None or state != "ready":
            raise Unavailable(f"the actor is not ready: {progress}")
        return loaded

    def status(self) -> tuple[str, str]:
        """`state` and `progress`, of an engine that is recovering too: that one is "starting" again, and "failed" when
        it will not come back by itself. What needs no actor goes on.
        """
        loaded = self._loaded
        if self.state != "ready" or loaded is None:
            return self.state, self.progress
        try:
            problem = loaded.engine.problem()
        except RemoryError as error:
            return "failed", str(error)
        return (self.state, self.progress) if problem is None else ("starting", problem)

    def with_memory(self) -> Loaded:
        """The same, of a server that has a memory checkpoint. Raises BadRequest without one."""
        loaded = self.loaded()
        if loaded.compactor is None:
            raise BadRequest("this server runs without a memory checkpoint: start it with --checkpoint")
        return loaded

    def use_checkpoint(self, folder: Path) -> Loaded:
        """Put another checkpoint in the place of the one in use; memories of that one can still be restored.

        Whoever has asked `loaded` before goes on with what it got. Raises CheckpointError or InvalidInput, which change
        nothing, and Unavailable.
        """
        import torch

        from remory.compaction import Compactor
        from remory.network import load_checkpoint

        with self._switching:
            loaded = self.loaded()
            earlier = loaded.compactor.contracts if loaded.compactor else None
            try:
                checkpoint = load_checkpoint(folder, device=self.config.network_device)
                compactor = Compactor(loaded.engine, checkpoint, earlier)
            except (MemoryError, torch.OutOfMemoryError) as error:
                raise CheckpointError(f"there is no memory left for checkpoint {folder.name}") from error
            # The server may have stopped meanwhile, and what it closed must not come back.
            self.loaded()
            self._loaded = replace(loaded, compactor=compactor)
            log.info("checkpoint %s is in use now, identity %s", checkpoint.name, compactor.identity)
            return self._loaded

    def embedder(self) -> Any:
        """The `remory.language.Embedder`. Raises Unavailable while there is none yet, or no more."""
        embedder = self._embedder
        if embedder is None or self.state in ("failed", "stopping"):
            raise Unavailable(f"the embedder is not ready: {self.progress}")
        return embedder

    def stats(self) -> dict[str, float]:
        """The engine's running figures; empty while there is no engine."""
        return self._loaded.engine.stats() if self._loaded else {}

    def stop(self) -> None:
        """Let no new work begin and generations under way end. Only sets attributes: called from a signal handler."""
        self.state, self.progress = "stopping", "the server is stopping"

    @property
    def stopping(self) -> bool:
        """Whether work under way should end."""
        return self.state == "stopping"

    def close(self) -> None:
        """Stop the engine and free the actor."""
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.engine.close()
        self._closing.close()

    def _run(self, on_end: Callable[[Runtime], None]) -> None:
        # The boundary of this thread: whatever a model's folder makes the libraries raise is the reason for "failed".
        try:
            self._loaded = self._load()
            self._end("ready", "ready")
        except RemoryError as error:
            self._end("failed", str(error))
        except Exception as error:
            log.exception("the actor could not be loaded")
            self._end("failed", f"{type(error).__name__}: {error}")
        on_end(self)

    def _end(self, state: str, progress: str) -> None:
        if state == "failed":
            self._closing.close()
        if not self.stopping:
            self.state, self.progress = state, progress

    def _load(self) -> Loaded:
        self._tell("importing the actor's libraries")
        # Imported here, in the worker: torch starts threads, which a process must not have when it forks.
        from remory.actors import resolve_actor
        from remory.compaction import Compactor
        from remory.network import embedded_checkpoint, load_checkpoint

        config = self.config
        if self._embedder is None:
            self._tell("loading the embedder")
            self._embedder = _make_embedder(config)
        self._tell("looking for the actor")
        actor = resolve_actor(config.model, progress=self._announce)
        folder = config.checkpoint or (None if config.model else embedded_checkpoint())
        checkpoint = None
        if folder is not None:
            self._tell("loading the memory checkpoint")
            checkpoint = load_checkpoint(folder, device=config.network_device)
        self._tell(f"loading the actor {actor.name}")
        engine = self._sglang(actor, checkpoint) if config.backend == "sglang" else _transformers(config, actor)
        compactor = Compactor(engine, checkpoint) if checkpoint else None
        return Loaded(engine, compactor, _make_summarizer(config, engine, self._embedder))

    def _sglang(self, actor: Path, checkpoint: Any) -> Any:
        """An engine whose actor runs in SGLang, which is started unless there is one at a URL."""
        from remory.engines.sglang.engine import SGLangEngine
        from remory.engines.sglang.exchange import Exchange
        from remory.engines.sglang.folders import exchange_folder
        from remory.engines.sglang.launch import AttachedServer, LaunchedServer

        chosen = self.config.sglang
        exchange = Path(chosen.exchange).expanduser() if chosen.exchange else None
        if chosen.url is not None:
            return SGLangEngine(
                actor, AttachedServer(chosen.url, chosen.key), Exchange(exchange), self.config.max_context
            )
        if exchange is None:
            private = exchange_folder()
            self._closing.callback(private.close)
            exchange = private.path
        server = LaunchedServer(_launch_options(self.config, actor, checkpoint, exchange), self._announce)
        self._closing.callback(server.close)
        server.start()
        return SGLangEngine(actor, server, Exchange(exchange), self.config.max_context)

    def _announce(self, progress: str) -> None:
        self._tell(progress)
        log.info("%s", progress)

    def _tell(self, progress: str) -> None:
        if not self.stopping:
            self.progress = progress


def _transformers(config: Config, actor: Path) -> Any:
    import torch

    from remory.engines.transformers import TransformersEngine

    return TransformersEngine(
        actor,
        device=config.device,
        dtype=getattr(torch, config.dtype) if config.dtype else None,
        cache_bytes=config.cache_bytes,
        max_context=config.max_context,
    )


def _launch_options(config: Config, actor: Path, checkpoint: Any, exchange: Path) -> Any:
    from remory.engines.sglang.launch import LaunchOptions

    chosen = config.sglang
    return LaunchOptions(
        actor,
        python=chosen.python or sys.executable,
        device=config.device,
        dtype=config.dtype,
        tp=chosen.tp,
        dp=chosen.dp,
        context_length=config.max_context,
        mem_fraction_static=chosen.mem_fraction_static,
        checkpoint=None if checkpoint is None else checkpoint.path,
        exchange=exchange,
        live_bytes=chosen.capture_live,
        more=chosen.arguments,
    )


def _make_embedder(config: Config) -> Any:
    from remory.language.embedder import EndpointEmbedder, load_embedder

    if isinstance(config.embedder, Endpoint):
        return EndpointEmbedder(config.embedder.url, config.embedder.model, config.embedder.key)
    return load_embedder(config.embedder)


def _make_summarizer(config: Config, engine: Any, embedder: Any) -> Any:
    from remory.language.summarizer import ActorSummarizer, EndpointSummarizer

    chosen = config.summarizer
    if chosen is None:
        return ActorSummarizer(engine, embedder)
    return EndpointSummarizer(chosen.url, chosen.model, embedder, chosen.key)

"""What a server is told at its start."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path

from remory.engines.sglang.launch import check_arguments

DEFAULT_PORT = 8421
DEFAULT_AUTOSAVE_TOKENS = 2048
DEFAULT_CACHE_BYTES = 1 << 30
BACKENDS = ("transformers", "sglang")
DTYPES = ("float32", "bfloat16", "float16")


def default_data_folder() -> Path:
    """Where memories and keys are kept: $REMORY_DATA, else the user's data folder."""
    if chosen := os.environ.get("REMORY_DATA"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "remory"


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint that runs a model for us: its base URL, the model's name there, and maybe a key,
    which is never shown.
    """

    url: str
    model: str
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class SGLang:
    """How SGLang runs the actor; nothing of it is for another backend.

    Remory starts it, by the interpreter `python` (None for its own), on `tp` GPUs and in `dp` copies, with the share
    `mem_fraction_static` of the device's memory, `capture_live` bytes of host memory for features kept while sessions
    run, and `arguments` as they are. Or it uses the server that answers at `url` with `key`, which is never shown, and
    then all of these are that server's own. `exchange`: the folder for rows; None for one of Remory's own, and inside
    of requests with a server at `url`.
    """

    python: str | None = None
    tp: int = 1
    dp: int = 1
    mem_fraction_static: float | None = None
    capture_live: int = 0
    arguments: tuple[str, ...] = ()
    url: str | None = None
    key: str | None = field(default=None, repr=False)
    exchange: str | None = None

    def __post_init__(self) -> None:
        if self.tp < 1 or self.dp < 1:
            raise ValueError(f"tp and dp must be positive, got {self.tp} and {self.dp}")
        if self.mem_fraction_static is not None and not 0 < self.mem_fraction_static < 1:
            raise ValueError(f"mem_fraction_static must be between 0 and 1, got {self.mem_fraction_static}")
        if self.exchange is not None:
            _check_writable(Path(self.exchange).expanduser())
        check_arguments(self.arguments)
        launching = [name for name in self.given() if name not in ("url", "key", "exchange")]
        if self.url is not None and launching:
            raise ValueError(
                f"{_flags(launching)}: for the SGLang at --sglang-url itself to be told, where it is started "
                "(docs/sglang.md)"
            )

    def given(self) -> list[str]:
        """The names of what is not as by default."""
        return [each.name for each in fields(self) if getattr(self, each.name) != each.default]


def _check_writable(folder: Path) -> None:
    if not folder.is_dir():
        raise ValueError(f"there is no folder for rows at {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ValueError(f"the folder for rows {folder} cannot be written to")


def _flags(names: list[str]) -> str:
    """Names of SGLang's settings as they stand on a command line."""
    flags = {
        "python": "--sglang-python",
        "url": "--sglang-url",
        "key": "$REMORY_SGLANG_KEY",
        "arguments": "what stands behind --",
    }
    return ", ".join(flags.get(name, f"--{name.replace('_', '-')}") for name in names)


def default_store() -> str | None:
    """The database's URL in $REMORY_STORE; None for an SQLite file in the data folder."""
    return os.environ.get("REMORY_STORE") or None


@dataclass(frozen=True)
class Config:
    """One server's settings.

    `port` 0 takes a free one. `store`: the URL of a PostgreSQL database, which may hold a password and is therefore
    never shown; None for an SQLite file in the folder `data`. `model`: a Hugging Face folder, or None for the embedded
    actor. `checkpoint`: a memory checkpoint's folder; None takes the packaged one when the actor is the embedded one,
    and otherwise serves generation without memory. `device` and `dtype` are torch's names; `dtype` None keeps the
    actor's own. `max_context` in tokens, None for what the actor allows. `cache_bytes` bounds the prefilled states that
    the backend transformers keeps, `vector_bytes` the images of vectors that searches keep. `threads` bounds the
    requests served at once, `max_sequences` the sequences of one request. `stop_seconds` is how long a stopping server
    waits for answers under way. `sglang`: more for the backend of that name.

    `embedder`: what makes vectors of texts, a sentence-transformers folder or an endpoint; None for the embedded model.
    `summarizer`: what writes chat memories, an endpoint; None for the actor. A chat gets a memory by itself when its
    messages without one have more than `autosave_tokens`; 0: never. `keep_history`: whether a compaction's removed
    history is kept for `recall`, where its request does not say.

    `collect`: keep token transcripts of sessions that agree, at most `collect_bytes` of all. `checkpoints`: a folder
    whose memory checkpoints may be loaded while the server runs, beside those that come with Remory.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    data: Path = field(default_factory=default_data_folder)
    store: str | None = field(default=None, repr=False)
    backend: str = "transformers"
    model: str | None = None
    checkpoint: str | None = None
    device: str = "cpu"
    dtype: str | None = None
    max_context: int | None = None
    embedder: str | Endpoint | None = None
    summarizer: Endpoint | None = None
    autosave_tokens: int = DEFAULT_AUTOSAVE_TOKENS
    keep_history: bool = True
    collect: bool = False
    collect_bytes: int = 1 << 30
    checkpoints: str | None = None
    cache_bytes: int = DEFAULT_CACHE_BYTES
    vector_bytes: int = 2 << 30
    max_body_bytes: int = 64 << 20
    threads: int = 64
    max_sequences: int = 128
    stop_seconds: int = 5
    sglang: SGLang = SGLang()

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {self.backend!r}")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be in [0, 65535], got {self.port}")
        if self.autosave_tokens < 0:
            raise ValueError(f"autosave_tokens must not be negative, got {self.autosave_tokens}")
        if self.collect_bytes < 1:
            raise ValueError(f"collect_bytes must be positive, got {self.collect_bytes}")
        if self.checkpoints is not None and not Path(self.checkpoints).expanduser().is_dir():
            raise ValueError(f"there is no folder of checkpoints at {self.checkpoints}")
        if self.backend != "sglang" and self.sglang.given():
            raise ValueError(f"{_flags(self.sglang.given())}: for the backend sglang, not for {self.backend}")
        if self.backend == "sglang" and self.cache_bytes != DEFAULT_CACHE_BYTES:
            raise ValueError("cache_bytes is for the backend transformers; SGLang has mem_fraction_static")
        if self.sglang.url is not None and self.dtype is not None:
            raise ValueError("--dtype: for the SGLang at --sglang-url itself to be told, where it is started")

    @property
    def network_device(self) -> str:
        """Where this process keeps memory networks: with SGLang nowhere, as they run in its workers."""
        return "meta" if self.backend == "sglang" else self.device

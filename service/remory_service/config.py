"""What a server is told at its start."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_PORT = 8421
DEFAULT_AUTOSAVE_TOKENS = 2048
BACKENDS = ("transformers",)
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
    the engine keeps, `vector_bytes` the images of vectors that searches keep. `threads` bounds the requests served at
    once, `max_sequences` the sequences of one request. `stop_seconds` is how long a stopping server waits for answers
    under way.

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
    cache_bytes: int = 1 << 30
    vector_bytes: int = 2 << 30
    max_body_bytes: int = 64 << 20
    threads: int = 64
    max_sequences: int = 128
    stop_seconds: int = 5

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

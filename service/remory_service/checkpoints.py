"""The checkpoints that a running server may be told to load: those in one folder, and those that come with Remory."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remory.engines.base import Engine
from remory.errors import CheckpointError, RemoryError
from remory.network import Checkpoint, MemoryNetwork, embedded_checkpoint
from remory.network.config import read_config
from remory_service.errors import BadRequest

log = logging.getLogger(__name__)

_CONFIG, _MANIFEST = "config.json", "manifest.json"
_LARGEST_JSON = 16 << 20
_DEPTHS = ("*", "*/*")


@dataclass(frozen=True)
class Shelved:
    """A checkpoint that may be named. `described` is without weights; None where `problem` says why it has none."""

    path: str
    shipped: bool
    described: Checkpoint | None
    problem: str | None


class Shelf:
    """Finds checkpoints by the names that requests give. `folder`: the one that the server was given, if any."""

    def __init__(self, folder: str | None):
        self._root = None if folder is None else Path(folder).expanduser().resolve()

    def find(self, path: str) -> Path:
        """The folder of a checkpoint: by its path within the server's folder, or else by a shipped one's name.

        Raises BadRequest for any other place, whether there is something or not.
        """
        inside = None if self._root is None else _inside(self._root, path)
        if inside is not None and inside.is_dir():
            return inside
        if path in (shipped := _shipped()):
            return shipped[path]
        if inside is not None:
            raise BadRequest(f"no checkpoint {path!r}: neither in the server's folder of checkpoints nor shipped")
        places = "from the server's folder of checkpoints" if self._root else "by `remory serve --checkpoints FOLDER`"
        raise BadRequest(f"checkpoints are loaded {places} and by the names {', '.join(shipped)}; {path!r} is neither")

    def listing(self, engine: Engine) -> list[Shelved]:
        """What may be named, ordered by name: of the server's folder what lies in it and one below. Descriptions are
        read, and weights are not.
        """
        found = {path: (folder, False) for path, folder in self._own()}
        shipped = {path: (folder, True) for path, folder in _shipped().items()}
        return [_look(path, *place, engine) for path, place in sorted((shipped | found).items())]

    def _own(self) -> Iterator[tuple[str, Path]]:
        if self._root is None:
            return
        for pattern in _DEPTHS:
            for manifest in self._root.glob(f"{pattern}/{_MANIFEST}"):
                path = manifest.parent.relative_to(self._root).as_posix()
                if (folder := _inside(self._root, path)) is not None:
                    yield path, folder


def _inside(root: Path, path: str) -> Path | None:
    """The folder `path` below `root`; None when it, or a file in it, really lies elsewhere."""
    # What no path can be, and links that go in circles, raise any of these.
    try:
        found = (root / path).resolve()
        parts = [found, *(part.resolve() for part in found.iterdir())] if found.is_dir() else [found]
    except (OSError, ValueError, RuntimeError):
        return None
    return found if found != root and all(part.is_relative_to(root) for part in parts) else None


def _shipped() -> dict[str, Path]:
    return {manifest.parent.name: manifest.parent for manifest in embedded_checkpoint().parent.glob(f"*/{_MANIFEST}")}


def _look(path: str, folder: Path, shipped: bool, engine: Engine) -> Shelved:
    described = None
    # The boundary: one folder, whatever it makes the libraries raise, must not take the others from the list.
    try:
        described = _describe(folder)
        engine.check(described)
    except Exception as error:
        return Shelved(path, shipped, described, reason(error, folder, path))
    return Shelved(path, shipped, described, None)


def reason(error: Exception, folder: Path, path: str) -> str:
    """Why a checkpoint cannot be used, without where on the disk it lies."""
    if isinstance(error, RemoryError):
        return str(error).replace(str(folder), path)
    if isinstance(error, OSError):
        return f"checkpoint {path} cannot be read: {error.strerror}"
    log.warning("checkpoint %s cannot be used", path, exc_info=error)
    return f"checkpoint {path} cannot be used: the log has the reason, a {type(error).__name__}"


def _describe(folder: Path) -> Checkpoint:
    """A checkpoint folder without its weights, and therefore unverified. Raises CheckpointError or OSError."""
    config, manifest = _read(folder / _CONFIG), _read(folder / _MANIFEST)
    if not {"config_sha256", "safetensors_sha256"} <= manifest.keys():
        raise CheckpointError(f"{_MANIFEST} does not state both digests")
    settings, geometry = read_config(json.dumps(config))
    return Checkpoint(MemoryNetwork(geometry, device="meta"), config, manifest, folder, settings)


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LARGEST_JSON:
        raise CheckpointError(f"{path.name} has {path.stat().st_size} bytes, at most {_LARGEST_JSON} are read")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path.name} must hold an object")
    return value

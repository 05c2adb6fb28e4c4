"""What engine and plug-in tell each other: JSON under one key of SGLang's `custom_params` and of `meta_info`.

Knows neither SGLang nor models. Both sides parse strictly: what does not fit raises InvalidInput that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from remory.errors import InvalidInput

VERSION = 1
KEY = "remory"
DTYPES = ("bfloat16", "float32")

Run = tuple[int, int]


@dataclass(frozen=True)
class Blob:
    """A tensor [rows, width] that travels beside the JSON: a file of the exchange folder, or `inline` as base64.

    `sha256` (hex) is over its bytes: little endian, row after row, in `dtype`. Without `inline` it is the file's name.
    """

    sha256: str
    rows: int
    width: int
    dtype: str = "bfloat16"
    inline: str | None = None

    def __post_init__(self) -> None:
        _need(
            isinstance(self.sha256, str) and len(self.sha256) == 64 and set(self.sha256) <= set("0123456789abcdef"),
            "a blob's sha256 must be 64 hexadecimal digits",
        )
        for name in ("rows", "width"):
            value = getattr(self, name)
            _need(_is_count(value) and value > 0, f"a blob's {name} must be a positive integer, got {value!r}")
        _need(self.dtype in DTYPES, f"a blob's dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        _need(self.inline is None or isinstance(self.inline, str), "a blob's inline must be base64 text")

    @property
    def nbytes(self) -> int:
        return self.rows * self.width * (2 if self.dtype == "bfloat16" else 4)


@dataclass(frozen=True)
class Injection:
    """Rows [R, D] that replace the embeddings at the places `runs` of the prompt, in ascending order."""

    rows: Blob
    runs: tuple[Run, ...]

    def __post_init__(self) -> None:
        _check_runs("rows", self.runs)
        places = count(self.runs)
        _need(places == self.rows.rows, f"{self.rows.rows} rows are given for {places} places")


@dataclass(frozen=True)
class States:
    """Return the final normalised states of the prompt from token `first` on, and of every token decoded but the last.

    They come back as one blob in the actor's dtype.
    """

    first: int

    def __post_init__(self) -> None:
        _need(_is_count(self.first), f"states.first must be a whole number, got {self.first!r}")


@dataclass(frozen=True)
class Encode:
    """Run the memory network over the source tokens, which stand at the places `runs` of the prompt.

    `leaves` cut the N source tokens into blocks: (start, stop, input depth), covering [0, N) in order. `checkpoint` is
    a folder that the worker can read, `digest` the SHA-256 that its manifest states of the weights. `summary`: the
    states of the summary, if the network is conditioned on one. The rows of all blocks come back as one blob. No token
    before `first` needs its states, so that much of the prompt may come from the prefix cache.
    """

    checkpoint: str
    digest: str
    first: int
    runs: tuple[Run, ...]
    leaves: tuple[tuple[int, int, int], ...]
    summary: Blob | None = None

    def __post_init__(self) -> None:
        _need(isinstance(self.checkpoint, str) and isinstance(self.digest, str), "encode names its checkpoint by text")
        _need(_is_count(self.first), f"encode.first must be a whole number, got {self.first!r}")
        _check_runs("encode", self.runs)
        _need(self.runs[0][0] >= self.first, f"source token {self.runs[0][0]} lies before encode.first {self.first}")
        end = 0
        for leaf in self.leaves:
            _need(len(leaf) == 3 and all(map(_is_count, leaf)), f"a leaf is three whole numbers, got {leaf!r}")
            _need(leaf[0] == end < leaf[1], f"leaves must follow each other, got {leaf!r} behind {end}")
            end = leaf[1]
        _need(end == count(self.runs), f"the leaves cover {end} of {count(self.runs)} source tokens")


@dataclass(frozen=True)
class Order:
    """What one request asks of the plug-in, beside what SGLang does anyhow.

    `inline`: blobs of the answer come back inline, because there is no folder that both can reach. `greeting`: answer
    with `Greeting`. `revision`: the actor's; a worker that runs another one refuses the order.
    """

    injection: Injection | None = None
    states: States | None = None
    encode: Encode | None = None
    inline: bool = False
    greeting: bool = False
    revision: str | None = None

    def __post_init__(self) -> None:
        _need(self.states is None or self.encode is None, "a request returns states or encodes, not both")

    def check_length(self, tokens: int) -> None:
        """Raises InvalidInput when a place lies beyond a prompt of so many tokens."""
        for name, runs in (
            ("rows", self.injection.runs if self.injection else ()),
            ("source tokens", self.encode.runs if self.encode else ()),
        ):
            _need(not runs or runs[-1][1] <= tokens, f"{name} reach to {runs and runs[-1][1]}, the prompt has {tokens}")
        if self.states is not None:
            _need(self.states.first < tokens, f"states.first is {self.states.first}, the prompt has {tokens} tokens")

    def dump(self) -> str:
        """For `custom_params`, whose values are flat: JSON text."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"))

    @staticmethod
    def load(text: Any) -> Order:
        """Raises InvalidInput."""
        fields = _object(text)
        version = fields.pop("version", None)
        _need(version == VERSION, f"engine and plug-in must be of one version: it is {version!r} there, {VERSION} here")
        injection, states, encode = (fields.pop(name, None) for name in ("injection", "states", "encode"))
        return _build(
            Order,
            fields
            | {
                "injection": None if injection is None else _injection(injection),
                "states": None if states is None else _build(States, states),
                "encode": None if encode is None else _encode(encode),
            },
        )


@dataclass(frozen=True)
class Greeting:
    """Who a worker is: what the engine must know before it can use it.

    `context_length`: tokens of prompt and answer together that it takes. `seeds`: whether a request's seed decides its
    draws. `exchange`: the folder of files that the worker uses, None without one. `captured`: the only layers that a
    checkpoint may read, None if it may read any.
    """

    revision: str
    dtype: str
    device: str
    width: int
    layers: int
    vocabulary: int
    context_length: int
    seeds: bool
    exchange: str | None
    captured: tuple[int, ...] | None


@dataclass(frozen=True)
class Report:
    """What the plug-in did for a request. `blob`: rows or states. `features`: of how many source tokens the features
    came from "live" (kept when the session ran) and from "prefill". `error`: why there is nothing.
    """

    blob: Blob | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    greeting: Greeting | None = None
    error: str | None = None

    def dump(self) -> str:
        """For `meta_info`: JSON text."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"))

    @staticmethod
    def load(text: Any) -> Report:
        """Raises InvalidInput."""
        fields = _object(text)
        fields.pop("version", None)
        blob, greeting = fields.pop("blob", None), fields.pop("greeting", None)
        return _build(
            Report,
            fields
            | {
                "blob": None if blob is None else _build(Blob, blob),
                "greeting": None if greeting is None else _greeting(greeting),
            },
        )


def runs_of(places: Sequence[int]) -> tuple[Run, ...]:
    """Ascending places as runs [start, stop)."""
    runs: list[Run] = []
    for place in places:
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1))
    return tuple(runs)


def places_of(runs: Sequence[Run]) -> list[int]:
    """The places that runs stand for."""
    return [place for start, stop in runs for place in range(start, stop)]


def count(runs: Sequence[Run]) -> int:
    """How many places runs stand for."""
    return sum(stop - start for start, stop in runs)


def _injection(fields: Any) -> Injection:
    _need(isinstance(fields, dict), "injection must be an object")
    rows = _build(Blob, fields.get("rows"))
    return _build(Injection, fields | {"rows": rows, "runs": _tuples("injection.runs", fields.get("runs"))})


def _encode(fields: Any) -> Encode:
    _need(isinstance(fields, dict), "encode must be an object")
    summary = fields.get("summary")
    return _build(
        Encode,
        fields
        | {
            "summary": None if summary is None else _build(Blob, summary),
            "runs": _tuples("encode.runs", fields.get("runs")),
            "leaves": _tuples("encode.leaves", fields.get("leaves")),
        },
    )


def _greeting(fields: Any) -> Greeting:
    _need(isinstance(fields, dict), "greeting must be an object")
    captured = fields.get("captured")
    return _build(Greeting, fields | {"captured": None if captured is None else tuple(captured)})


def _object(text: Any) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{KEY} must be JSON text: {error}") from error
    _need(isinstance(value, dict), f"{KEY} must be a JSON object")
    return value


def _build(kind: Any, fields: Any) -> Any:
    _need(isinstance(fields, dict), f"{kind.__name__.lower()} must be an object")
    try:
        return kind(**fields)
    except TypeError as error:
        raise InvalidInput(f"{kind.__name__.lower()}: {error}") from error


def _tuples(name: str, value: Any) -> tuple[tuple[Any, ...], ...]:
    _need(isinstance(value, list) and all(isinstance(item, list) for item in value), f"{name} must be a list of lists")
    return tuple(map(tuple, value))


def _check_runs(name: str, runs: Sequence[Any]) -> None:
    _need(len(runs) > 0, f"{name} have no place in the prompt")
    end = -1
    for run in runs:
        _need(len(run) == 2 and all(map(_is_count, run)) and run[0] < run[1], f"{name}: {run!r} is no run of places")
        _need(run[0] > end, f"{name}: the run {run!r} must lie behind {end}")
        end = run[1]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _need(fits: bool, problem: str) -> None:
    if not fits:
        raise InvalidInput(problem)

"""What was promised of the kernels, and what this run says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.kernels.figures import Figure, find

ROWS = 1_000_000
READ_SHARE, BATCH_OVER_NUMPY, BATCH_OVER_FAISS, CERTIFIED_OVER_READ = 0.9, 2.0, 3.0, 1.7
CAPTURE_GAIN, INJECT_GAIN, COPY_SHARE = 1.5, 1.0, 0.8
ENCODE_NEAR_GAIN, ENCODE_FULL_GAIN, ENCODE_MEMORY = 2.0, 1.2, 0.5
ADD_OVER_COPY = 3.0


@dataclass(frozen=True)
class Bar:
    """`met` None: this run did not measure it."""

    promise: str
    measured: str = ""
    met: bool | None = None


def bars(figures: Sequence[Figure]) -> list[Bar]:
    """Every bar of the CPU kernels; where one is about several cases, the worst decides."""
    search = partial(find, figures, op="cosine_topk", dtype="float32", rows=ROWS, kind="random", mask="", k=10)
    one, batch = search(batch=1), search(batch=32)
    certified = find(figures, op="FlatIndex.search", rows=ROWS, batch=1, kind="random", certified=True, masked=False)
    found = [
        _at_least("cosine_topk, batch 1: share of the read bandwidth", READ_SHARE, _each(one, lambda f: f.share)),
        _at_least("cosine_topk, batch 32: x numpy", BATCH_OVER_NUMPY, _each(batch, partial(_times, "numpy"))),
        _at_least("cosine_topk, batch 32: x faiss", BATCH_OVER_FAISS, _each(batch, partial(_times, "faiss"))),
        _at_least(
            "certified search, batch 1: x reading the float32 matrix", CERTIFIED_OVER_READ, _each(certified, _reads)
        ),
    ]
    for op, other, gain in (("capture", "torch eager", CAPTURE_GAIN), ("inject", "index_copy_", INJECT_GAIN)):
        moved = [figure for figure in figures if figure.op == op]
        found.append(_at_least(f"{op}: x {other}", gain, _each(moved, partial(_times, other))))
        found.append(_at_least(f"{op}: share of a copy of the same bytes", COPY_SHARE, _each(moved, lambda f: f.share)))
    near = [figure for figure in figures if figure.has(op="encode", blocks=16, window="near")]
    full = [figure for figure in figures if figure.has(op="encode", blocks=16, window="full")]
    found += [
        _at_least(
            "encode, 16 blocks, window 256: x torch eager",
            ENCODE_NEAR_GAIN,
            _each(near, partial(_times, "torch eager")),
        ),
        _at_least("encode, 16 blocks, window 256: x torch.compile", 1.0, _each(near, partial(_times, "torch.compile"))),
        _at_most(
            "encode, 16 blocks, window 256: peak memory, x torch eager's",
            ENCODE_MEMORY,
            _each(near, partial(_peak, "torch eager")),
        ),
        _at_most(
            "encode, 16 blocks, window 256: peak memory, x torch.compile's",
            ENCODE_MEMORY,
            _each(near, partial(_peak, "torch.compile")),
        ),
        _at_least(
            "encode, 16 blocks, full window: x torch eager",
            ENCODE_FULL_GAIN,
            _each(full, partial(_times, "torch eager")),
        ),
    ]
    added = [figure for figure in figures if figure.has(op="FlatIndex.add", rows=ROWS)]
    found.append(_at_most("FlatIndex.add: x the time of copying the vectors", ADD_OVER_COPY, _each(added, _copies)))
    return found


_Value = tuple[float, Figure]


def _each(figures: Figure | None | Sequence[Figure], value: Callable[[Figure], float | None]) -> list[_Value]:
    several = [] if figures is None else [figures] if isinstance(figures, Figure) else figures
    return [(found, figure) for figure in several if (found := value(figure)) is not None]


def _at_least(promise: str, least: float, values: list[_Value]) -> Bar:
    words = f"{promise}, at least {least:g}"
    return _judge(words, min(values, key=lambda v: v[0]), lambda v: v >= least, len(values)) if values else Bar(words)


def _at_most(promise: str, most: float, values: list[_Value]) -> Bar:
    words = f"{promise}, at most {most:g}"
    return _judge(words, max(values, key=lambda v: v[0]), lambda v: v <= most, len(values)) if values else Bar(words)


def _judge(words: str, worst: _Value, is_met: Callable[[float], bool], count: int) -> Bar:
    value, figure = worst
    where = f" ({figure.case}, {figure.dtype}: the worst of {count})" if count > 1 else ""
    return Bar(words, f"{value:.2f}{where}", is_met(value))


def _times(other: str, figure: Figure) -> float | None:
    return figure.others[other] / figure.seconds if other in figure.others else None


def _reads(figure: Figure) -> float | None:
    return None if figure.limit is None else figure.limit.seconds / figure.seconds


def _copies(figure: Figure) -> float | None:
    return None if figure.limit is None else figure.seconds / figure.limit.seconds


def _peak(other: str, figure: Figure) -> float | None:
    peak = figure.notes.get("peak_bytes", {})
    return peak["op"] / peak[other] if peak.get(other) else None

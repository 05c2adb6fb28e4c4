from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench.kernels import figures, table
from bench.kernels.bars import Bar, bars
from bench.kernels.figures import Figure, Run

MACHINE = {
    "processor": "Some",
    "flags": ["avx2"],
    "cores": 2,
    "threads": 2,
    "memory_gib": 4.0,
    "versions": {"torch": "2"},
}


def entry(op: str = "capture", seconds: float = 0.002, **changes: Any) -> dict[str, Any]:
    info = {
        "op": op,
        "case": "some rows",
        "dtype": "float32",
        "group": "ops",
        "parameters": {},
        "bytes": 80_000_000,
        "flops": 0,
        "ceiling": {"kind": "copy", "seconds": 0.001, "bytes": 60_000_000, "flops": 0},
        "others": {"slow": 0.008, "fast": 0.004},
        "absent": {"never": "not installed"},
        "notes": {},
    }
    return {"extra_info": {**info, **changes}, "stats": {"median": seconds}}


def read(folder: Path, *entries: dict[str, Any], failed: list[dict[str, str]] | None = None) -> Run:
    path = folder / "kernels.json"
    path.write_text(json.dumps({"machine_info": MACHINE, "benchmarks": entries, "failed": failed or []}))
    return figures.read(path)


def only(folder: Path, **changes: Any) -> Figure:
    return read(folder, entry(**changes)).figures[0]


def test_rate_share_and_speed_up(tmp_path: Path) -> None:
    figure = only(tmp_path)
    assert figure.rate == pytest.approx(40e9)
    # The copy reached 60 GB/s.
    assert figure.share == pytest.approx(2 / 3)
    assert figure.best_other == "fast"
    assert figure.speed_up == pytest.approx(2.0)


def test_a_product_is_counted_in_operations(tmp_path: Path) -> None:
    ceiling = {"kind": "product", "seconds": 0.5, "bytes": 0, "flops": 100_000_000_000}
    figure = only(tmp_path, flops=200_000_000, ceiling=ceiling)
    assert figure.rate == pytest.approx(100e9)
    assert figure.share == pytest.approx(0.5)
    assert "100.0 GFLOP/s" in table.as_text(read(tmp_path, entry(flops=200_000_000, ceiling=ceiling)))


def test_what_stands_alone_has_no_speed_up(tmp_path: Path) -> None:
    figure = only(tmp_path, others={}, ceiling=None)
    assert figure.speed_up is None
    assert figure.share is None
    assert figure.best_other is None


def test_text_has_the_line_the_mean_and_what_was_absent(tmp_path: Path) -> None:
    text = table.as_text(read(tmp_path, entry(), entry("inject", seconds=0.0005)))
    lines = text.splitlines()
    head = next(line for line in lines if line.startswith("op  ") and "x best other" in line)
    line = next(line for line in lines if line.startswith("capture"))
    assert line.split()[-6:] == ["40.0", "GB/s", "2.00", "fast", "67%", "copy"]
    assert line.index("2.00") < head.index("which")
    # 2 and 8 times.
    assert next(line for line in lines if line.startswith("geometric mean")).split() == ["geometric", "mean", "4.00"]
    assert "never: not installed" in text
    assert "fast 4.00 ms; slow 8.00 ms" in text


def test_markdown_has_as_many_cells_in_every_row(tmp_path: Path) -> None:
    growth = [
        entry(group="growth", seconds=size * 1e-6, parameters={"series": "search", "size": size})
        for size in (1_000, 10_000, 100_000)
    ]
    failed = [{"op": "encode", "case": "x", "dtype": "float32", "error": "out of memory"}]
    parts = table.as_markdown(read(tmp_path, entry(), *growth, failed=failed)).split("\n\n")
    tables = [part.splitlines() for part in parts if part.startswith("|")]
    assert len(tables) == 5  # ops, alternatives, growth, bars, failed
    for lines in tables:
        assert len({line.count("|") for line in lines}) == 1
    assert any("| fitted exponent | 1.00 |" in line for lines in tables for line in lines)


@pytest.mark.parametrize(
    ("seconds", "words"), [(2.5, "2.50 s"), (0.0214, "21.40 ms"), (0.001, "1.00 ms"), (3.21e-5, "32.1 µs")]
)
def test_time_in_words(seconds: float, words: str) -> None:
    assert table.time_words(seconds) == words


SEARCH = {"rows": 1_000_000, "kind": "random", "mask": "", "k": 10}
READ = {"kind": "read", "seconds": 0.020, "bytes": 1_536_000_000, "flops": 0}


def judged(run: Run, begins: str) -> Bar:
    return next(bar for bar in bars(run.figures) if bar.promise.startswith(begins))


@pytest.mark.parametrize(("seconds", "met"), [(0.0221, True), (0.0223, False)])
def test_the_bar_of_one_query_is_its_share_of_reading(tmp_path: Path, seconds: float, met: bool) -> None:
    one = entry("cosine_topk", seconds, parameters={**SEARCH, "batch": 1}, bytes=1_536_000_000, ceiling=READ)
    assert judged(read(tmp_path, one), "cosine_topk, batch 1").met is met


@pytest.mark.parametrize(("faiss", "met"), [(0.31, True), (0.29, False)])
def test_the_bar_of_a_batch_is_beside_each_library(tmp_path: Path, faiss: float, met: bool) -> None:
    batch = entry("cosine_topk", 0.1, parameters={**SEARCH, "batch": 32}, others={"numpy": 0.25, "faiss": faiss})
    run = read(tmp_path, batch)
    assert judged(run, "cosine_topk, batch 32: x faiss").met is met
    assert judged(run, "cosine_topk, batch 32: x numpy").met is True


def test_other_cases_do_not_answer_for_a_bar(tmp_path: Path) -> None:
    masked = entry("cosine_topk", 0.001, parameters={**SEARCH, "batch": 1, "mask": "half, bytes"}, ceiling=READ)
    small = entry("cosine_topk", 0.001, parameters={**SEARCH, "batch": 1, "rows": 20_000}, ceiling=READ)
    assert judged(read(tmp_path, masked, small), "cosine_topk, batch 1").met is None


def test_a_certified_search_is_measured_against_reading_everything(tmp_path: Path) -> None:
    where = {"rows": 1_000_000, "batch": 1, "kind": "random", "certified": True, "masked": False}
    bar = judged(read(tmp_path, entry("FlatIndex.search", 0.010, parameters=where, ceiling=READ)), "certified search")
    assert bar == Bar(bar.promise, "2.00", True)


def test_the_worst_case_decides(tmp_path: Path) -> None:
    good = entry("capture", 0.001, case="good", others={"torch eager": 0.002})
    bad = entry("capture", 0.001, case="bad", others={"torch eager": 0.0014})
    bar = judged(read(tmp_path, good, bad), "capture: x torch eager")
    assert bar.met is False
    assert "bad" in bar.measured and bar.measured.startswith("1.40")


@pytest.mark.parametrize(("op", "met"), [(400, True), (600, False)])
def test_the_bar_of_memory(tmp_path: Path, op: int, met: bool) -> None:
    peak = {"op": op, "torch eager": 1000, "torch.compile": 700}
    run = read(tmp_path, entry("encode", parameters={"blocks": 16, "window": "near"}, notes={"peak_bytes": peak}))
    assert judged(run, "encode, 16 blocks, window 256: peak memory, x torch eager's").met is met
    assert judged(run, "encode, 16 blocks, window 256: peak memory, x torch.compile's").met is False


@pytest.mark.parametrize(("seconds", "met"), [(2.9, True), (3.1, False)])
def test_adding_may_take_three_copies(tmp_path: Path, seconds: float, met: bool) -> None:
    copy = {"kind": "copy", "seconds": 1.0, "bytes": 1, "flops": 0}
    added = entry("FlatIndex.add", seconds, parameters={"rows": 1_000_000, "certified": True}, ceiling=copy)
    assert judged(read(tmp_path, added), "FlatIndex.add").met is met


def test_an_empty_run_meets_nothing(tmp_path: Path) -> None:
    assert {bar.met for bar in bars(read(tmp_path).figures)} == {None}

from __future__ import annotations

import pytest

from remory.search.choice import Choice, choose


@pytest.mark.parametrize(
    ("rows", "selected", "given", "expected"),
    [
        (10**6, 10**6, {"has_graph": True}, Choice("hnsw", "1,000,000 rows are more than 500,000")),
        (10**6, 10**6, {"has_graph": True, "asked": "exact"}, Choice("exact", "asked for")),
        (10**6, 10**6, {"has_graph": False, "asked": "hnsw"}, Choice("exact", "there is no graph")),
        (
            500_000,
            500_000,
            {"has_graph": True},
            Choice("exact", "500,000 rows, and up to 500,000 are searched exactly"),
        ),
        (500_000, 500_000, {"has_graph": True, "asked": "hnsw"}, Choice("hnsw", "asked for")),
        (
            10**6,
            9_999,
            {"has_graph": True, "asked": "hnsw"},
            Choice("exact", "9,999 rows to search, a graph pays from 10,000 on"),
        ),
        (
            10**6,
            49_999,
            {"has_graph": True, "asked": "hnsw"},
            Choice("exact", "49,999 of 1,000,000 rows match, too few for a graph to find them surely"),
        ),
        (10**6, 50_000, {"has_graph": True, "asked": "hnsw"}, Choice("hnsw", "asked for")),
        (
            10**6,
            10**6,
            {"has_graph": True, "device": "cuda"},
            Choice("exact", "the vectors lie on cuda, the graph on the CPU"),
        ),
        (10**6, 10**6, {"has_graph": True, "device": "cuda", "asked": "hnsw"}, Choice("hnsw", "asked for")),
    ],
)
def test_choice_and_its_reason(rows: int, selected: int, given: dict, expected: Choice) -> None:
    assert choose(rows, selected, **given) == expected

"""Which search answers a query: the exact one, or the graph. One place decides, and says why."""

from __future__ import annotations

from dataclasses import dataclass

EXACT, HNSW = "exact", "hnsw"
# Fewer rows than this are scored sooner than a graph is walked.
GRAPH_LEAST_ROWS = 10_000
# Up to so many rows the exact search is quick enough that nobody has to give up its certainty.
GRAPH_UNASKED_ROWS = 500_000
# A walk passes rows that do not match without counting them. Among 200,000 vectors in clusters it found 99 of 100 of
# the nearest when a filter let 1 in 20 through, 85 at 1 in 50 and 57 at 1 in 100.
GRAPH_LEAST_SHARE = 1 / 20


@dataclass(frozen=True)
class Choice:
    """`strategy` is "exact" or "hnsw"; `reason` is for people, with the numbers."""

    strategy: str
    reason: str


def choose(rows: int, selected: int, *, has_graph: bool, device: str = "cpu", asked: str | None = None) -> Choice:
    """How to search `selected` rows out of `rows`, those that pass mask and filters.

    `asked` is what the caller wants, "exact", "hnsw" or None for no wish. A graph is taken only where it is there and
    finds nearly all of the nearest: "exact" may answer who asked for "hnsw", never the other way round.
    """
    if asked == EXACT:
        return Choice(EXACT, "asked for")
    if not has_graph:
        return Choice(EXACT, "there is no graph")
    if selected < GRAPH_LEAST_ROWS:
        return Choice(EXACT, f"{selected:,} rows to search, a graph pays from {GRAPH_LEAST_ROWS:,} on")
    if selected < GRAPH_LEAST_SHARE * rows:
        return Choice(EXACT, f"{selected:,} of {rows:,} rows match, too few for a graph to find them surely")
    if asked == HNSW:
        return Choice(HNSW, "asked for")
    if device != "cpu":
        return Choice(EXACT, f"the vectors lie on {device}, the graph on the CPU")
    if rows <= GRAPH_UNASKED_ROWS:
        return Choice(EXACT, f"{rows:,} rows, and up to {GRAPH_UNASKED_ROWS:,} are searched exactly")
    return Choice(HNSW, f"{rows:,} rows are more than {GRAPH_UNASKED_ROWS:,}")

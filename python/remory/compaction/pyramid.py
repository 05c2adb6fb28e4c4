"""How a history is fitted into a budget of rows: leaves first, then folds of equal depth.

The rule is that of the published system: while the frontier holds more than the budget, the first run of `ratio`
adjacent nodes of equal depth becomes one parent. Nothing is ever dropped or truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """The rows of one block: the span [start, stop) of tokens it stands for, and its depth (1: made of raw tokens)."""

    start: int
    stop: int
    depth: int


@dataclass(frozen=True)
class Merge:
    """`children`, adjacent and of equal depth, become `parent`; `first` is the index of the first child then."""

    first: int
    children: tuple[Node, ...]
    parent: Node


@dataclass(frozen=True)
class Pyramid:
    """The frontier after all merges, oldest node first, and the merges in the order they happen."""

    frontier: list[Node]
    merges: list[Merge]


def plan_pyramid(
    source_tokens: int, *, budget: int, block: int, ratio: int, leaf_depths: Sequence[int] | None = None
) -> Pyramid:
    """Cut `source_tokens` tokens into blocks of `block` and merge until at most `budget` rows are left.

    Every node holds ceil(block / ratio) rows, a partial block's too. `leaf_depths` gives the depth of each leaf
    node, oldest first (default 1: made of raw tokens). Raises ValueError with the numbers when a size is not
    positive, when the depths do not fit the leaves, or when no merge is left and the budget is still exceeded.
    """
    for name, value in (("source_tokens", source_tokens), ("budget", budget), ("block", block), ("ratio", ratio)):
        if value < 1:
            raise ValueError(f"{name} is {value}, expected at least 1")
    spans = leaf_spans(source_tokens, block)
    depths = [1] * len(spans) if leaf_depths is None else list(leaf_depths)
    if len(depths) != len(spans):
        raise ValueError(f"{len(depths)} leaf depths for {len(spans)} leaves of {block} tokens")
    if depths and min(depths) < 1:
        raise ValueError(f"leaf depths begin at 1, got {min(depths)}")
    leaves = [Node(start, stop, depth) for (start, stop), depth in zip(spans, depths, strict=True)]
    return merge_to_budget(leaves, budget=budget, rows_per_node=-(-block // ratio), ratio=ratio)


def leaf_spans(source_tokens: int, block: int) -> list[tuple[int, int]]:
    """The spans of the blocks, oldest first; the last may be partial."""
    return [(start, min(start + block, source_tokens)) for start in range(0, source_tokens, block)]


def merge_to_budget(nodes: Sequence[Node], *, budget: int, rows_per_node: int, ratio: int) -> Pyramid:
    """Merge adjacent `nodes` until their rows fit the budget. Raises ValueError with the numbers when they cannot."""
    frontier = list(nodes)
    merges: list[Merge] = []
    while len(frontier) * rows_per_node > budget:
        first = _first_run(frontier, ratio)
        if first is None:
            raise ValueError(
                f"{len(frontier)} nodes of {rows_per_node} rows are {len(frontier) * rows_per_node} rows, "
                f"the budget is {budget}, and no {ratio} adjacent nodes have equal depth: "
                f"depths {[node.depth for node in frontier]}"
            )
        children = tuple(frontier[first : first + ratio])
        parent = Node(children[0].start, children[-1].stop, children[0].depth + 1)
        frontier[first : first + ratio] = [parent]
        merges.append(Merge(first, children, parent))
    return Pyramid(frontier, merges)


def _first_run(nodes: Sequence[Node], length: int) -> int | None:
    """The index where the first `length` adjacent nodes of equal depth begin. A run of one would never shrink."""
    if length < 2:
        return None
    run = 0
    for index, node in enumerate(nodes):
        run = run + 1 if index and node.depth == nodes[index - 1].depth else 1
        if run == length:
            return index - length + 1
    return None

"""The node list of a compaction: rows that are there, and parents that will be made of their children's rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from remory.engines.base import Fold


@dataclass(eq=False)
class Node:
    """A node of the list: its rows [n, D], or the children that they will be made of."""

    rows: Tensor | None = None
    children: tuple[Node, ...] = ()
    input_depth: int = 0
    level: int = 0

    def made(self) -> Tensor:
        """The rows [n, D] of a node that has them."""
        assert self.rows is not None, "children are encoded before their parents"
        return self.rows

    def source(self) -> Tensor:
        """What a parent is made of: its children's rows [T, D], one behind the other."""
        return torch.cat([child.made() for child in self.children])

    def settle(self, rows: Tensor) -> None:
        """Give a parent its rows; its children's are needed no more."""
        self.rows, self.children = rows, ()


def fold(nodes: Sequence[Node], folds: Sequence[Fold]) -> list[Node]:
    """Replace runs of nodes by parents that still have no rows."""
    folded = list(nodes)
    for one in folds:
        children = tuple(folded[one.first : one.first + one.count])
        level = 1 + max(child.level for child in children)
        folded[one.first : one.first + one.count] = [Node(None, children, one.input_depth, level)]
    return folded


def levels(nodes: Sequence[Node]) -> list[list[Node]]:
    """All parents without rows, by level: those of one level are made of nothing but lower ones."""
    by_level: dict[int, list[Node]] = defaultdict(list)
    for node in _descendants(nodes):
        if node.rows is None:
            by_level[node.level].append(node)
    return [by_level[level] for level in sorted(by_level)]


def _descendants(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield from _descendants(node.children)
        yield node

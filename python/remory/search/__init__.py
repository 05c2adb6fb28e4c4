"""Search among vectors with metadata: exact, or through a graph that names candidates."""

from remory.search.approximate import Graph, GraphUnusable, HnswGraph, hnsw_is_installed
from remory.search.exact import Collection, Found, Hit, Row, View
from remory.search.filters import Condition

__all__ = [
    "Collection",
    "Condition",
    "Found",
    "Graph",
    "GraphUnusable",
    "Hit",
    "HnswGraph",
    "Row",
    "View",
    "hnsw_is_installed",
]

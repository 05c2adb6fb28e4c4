"""Search among vectors with metadata: exact, or through a graph that names candidates."""

from remory.search.approximate import Graph, GraphUnusable, HnswGraph, hnsw_is_installed
from remory.search.exact import Collection, Found, Hit, Row, View

__all__ = [
    "Collection",
    "Found",
    "Graph",
    "GraphUnusable",
    "Hit",
    "HnswGraph",
    "Row",
    "View",
    "hnsw_is_installed",
]

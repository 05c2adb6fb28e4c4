"""Search by cosine: exact, or through a graph that names candidates.

`FlatIndex` searches vectors that come and go, `Collection` adds metadata and filters; `VectorSet` searches vectors that
stay, on any device and with any backend.
"""

from remory.search.approximate import Graph, GraphUnusable, HnswGraph, hnsw_is_installed
from remory.search.choice import Choice, choose
from remory.search.exact import Collection, Found, Hit, Row, View
from remory.search.filters import Condition
from remory.search.flat import FlatIndex, FlatView
from remory.search.vector_set import Results, VectorSet

__all__ = [
    "Choice",
    "Collection",
    "Condition",
    "FlatIndex",
    "FlatView",
    "Found",
    "Graph",
    "GraphUnusable",
    "Hit",
    "HnswGraph",
    "Results",
    "Row",
    "VectorSet",
    "View",
    "choose",
    "hnsw_is_installed",
]

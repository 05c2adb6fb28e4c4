"""Collections with made-up rows, and the definition that their answers are compared with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from remory.search import Collection, Found, Row


def make_row(id: int, sequence: int | None = None, key: str | None = None, **metadata: Any) -> Row:
    """Without a sequence, the id is it."""
    sequence = id if sequence is None else sequence
    return Row(id, key or f"key-{id:06}", sequence, sequence + 1, json.dumps(metadata).encode())


def collect(vectors: np.ndarray, describe: Callable[[int], dict[str, Any]] = lambda id: {}) -> Collection:
    """A collection of these vectors, with their numbers as ids."""
    collection = Collection(vectors.shape[1])
    collection.set_many([make_row(id, **describe(id)) for id in range(len(vectors))], vectors)
    return collection


def make_clusters(count: int, dimension: int, clusters: int = 100) -> np.ndarray:
    """Vectors [count, dimension] float32 that lie as embeddings do: around some centres."""
    generator = np.random.default_rng(count)
    centres = generator.standard_normal((clusters, dimension))
    noise = 0.5 * generator.standard_normal((count, dimension))
    return (centres[generator.integers(0, clusters, count)] + noise).astype(np.float32)


def nearest(vectors: np.ndarray, query: np.ndarray, k: int) -> list[int]:
    """The numbers of the k vectors of highest float64 cosine, rounded as in an answer; lower numbers first in a tie."""
    rows = vectors.astype(np.float64)
    rows /= np.abs(rows).max(axis=1, keepdims=True)
    cosines = (rows * query).sum(axis=1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    return np.argsort(-cosines.round(12), kind="stable")[:k].tolist()


def numbers(found: Found) -> list[int]:
    """The ids that `make_row` wrote into the keys."""
    return [int(hit.key.removeprefix("key-")) for hit in found.hits]

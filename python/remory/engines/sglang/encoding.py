"""The passes of one compaction as requests to SGLang."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from remory.engines.base import EncodeRequest, Leaf, Source
from remory.engines.folding import Node, fold, levels
from remory.engines.sglang.client import Call
from remory.engines.sglang.protocol import Blob, Encode, States, runs_of
from remory.engines.sglang.remote import Remote
from remory.network import Geometry

_PARENTS_AT_ONCE = 4
# Stands in a prompt where rows are injected; which token it is makes no difference.
_PLACEHOLDER = 0


@dataclass(frozen=True)
class Prepared:
    """A checkpoint as the worker is told of it, which loads it itself: absolute folder, and SHA-256 of the weights."""

    folder: Path
    digest: str
    geometry: Geometry
    layer_ids: tuple[int, ...]


@dataclass
class Encoding:
    """One compaction. The passes over the prefix begin in SGLang's prefix cache."""

    remote: Remote
    prepared: Prepared
    request: EncodeRequest
    timings_ms: dict[str, float] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)

    def run(self) -> list[Tensor]:
        """Run all passes; returns the rows [n, D] of every node left, oldest first, bfloat16.

        `timings_ms` then tells how long each phase took, and `features` where those of the source tokens came from.
        """
        with self._phase("summary"):
            summary = self._read_summary()
        with self._phase("leaves"):
            leaves = self._read_leaves(summary)
        nodes = fold([Node(rows) for rows in [*self.request.kept, *leaves]], self.request.folds)
        with self._phase("merge"):
            for parents in levels(nodes):
                for first in range(0, len(parents), _PARENTS_AT_ONCE):
                    self._read_parents(parents[first : first + _PARENTS_AT_ONCE], summary)
        return [node.made() for node in nodes]

    def _read_summary(self) -> Blob | None:
        """The states of the summary, which go from one request to the next without coming here."""
        summary_ids = self.request.summary_ids
        if summary_ids is None or not self.prepared.geometry.summary_conditioned:
            return None
        ids = torch.cat([self.request.prefix_ids, summary_ids])
        order = self.remote.order(states=States(len(ids) - self.request.summary_tokens))
        (report,) = self.remote.reports([self.remote.send(ids, order)])
        return report.blob

    def _read_leaves(self, summary: Blob | None) -> list[Tensor]:
        leaves, context = self.request.leaves, self.request.context
        if not leaves:
            return []
        places = self.request.positions[: leaves[-1].stop]
        call = self._encode(_until(context, int(places[-1]) + 1), places, leaves, summary)
        (report,) = self.remote.reports([call])
        self.features = report.features
        slots = self.prepared.geometry.slots
        return list(self.remote.tensor(report, len(leaves) * slots).split(slots))

    def _read_parents(self, parents: Sequence[Node], summary: Blob | None) -> None:
        """Make the rows of some parents of one level, each from its children's rows behind the prefix."""
        reports = self.remote.reports(self._encode_parent(parent, summary) for parent in parents)
        for parent, report in zip(parents, reports, strict=True):
            parent.settle(self.remote.tensor(report, self.prepared.geometry.slots))

    def _encode_parent(self, parent: Node, summary: Blob | None) -> Call:
        rows = parent.source()
        places = torch.arange(len(rows))
        context = Source(torch.full((len(rows),), _PLACEHOLDER), rows, places)
        return self._encode(context, places, [Leaf(0, len(rows), parent.input_depth)], summary)

    def _encode(self, context: Source, places: Tensor, leaves: Sequence[Leaf], summary: Blob | None) -> Call:
        """Send one pass: the prefix, then a context at whose `places` the source tokens of the leaves stand."""
        prefix = self.request.prefix_ids
        source = Source(torch.cat([prefix, context.ids]), context.rows, context.positions + len(prefix))
        order = self.remote.order(
            injection=self.remote.injection(source),
            encode=Encode(
                checkpoint=str(self.prepared.folder),
                digest=self.prepared.digest,
                first=len(prefix),
                runs=runs_of((places + len(prefix)).tolist()),
                leaves=tuple((leaf.start, leaf.stop, leaf.input_depth) for leaf in leaves),
                summary=summary,
            ),
        )
        return self.remote.send(source.ids, order)

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.timings_ms[name] = (time.perf_counter() - began) * 1000


def _until(context: Source, stop: int) -> Source:
    """A context cut before token `stop`, with the rows that are inside."""
    if context.rows is None:
        return Source(context.ids[:stop])
    inside = int(torch.searchsorted(context.positions, stop))
    return Source(context.ids[:stop], context.rows[:inside], context.positions[:inside])

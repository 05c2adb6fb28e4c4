"""One step's losses: rows of a sample's history, and what the frozen actor makes of questions behind them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from remory.network import MemoryNetwork
from remory.ops.encode_plain import keep
from remory.training.actor import TrainingActor
from remory.training.samples import Part, Sample
from remory.training.settings import LossSettings

_HINT = 1e4


@dataclass(frozen=True)
class Encoded:
    """Rows [n, D], the salience scores [T] they came from, whether each source token is marked [T] and the ones kept."""

    rows: Tensor
    scores: Tensor
    marked: Tensor
    kept: Tensor


@dataclass(frozen=True)
class _Source:
    """What a block is encoded from: embeddings [T, D], token ids [T] (-1 for rows), features [1, T, L*D], marks [T]."""

    embeddings: Tensor
    ids: Tensor
    features: Tensor
    marked: Tensor
    depth: int


class Objective:
    """Computes losses with gradients to the network. `contract`: the markers, as in config.json."""

    def __init__(self, actor: TrainingActor, contract: Mapping[str, Any], losses: LossSettings) -> None:
        self.actor = actor
        self.weights = losses
        self._summary_before = contract["student_summary_before_ids"]
        self._summary_after = contract["student_summary_after_ids"]
        self._memory_before = contract["student_memory_before_ids"]
        self._memory_after = contract["student_memory_after_ids"]

    def compute(
        self, network: MemoryNetwork, samples: Sequence[Sample], hints: float, r: random.Random
    ) -> tuple[Tensor, dict[str, float]]:
        """The weighted loss of a batch, and its parts for people to read (nats; shares of 1)."""
        encoded = [self.encode(network, sample, hints, r) for sample in samples]
        heads = [self.head(sample, one.rows) for sample, one in zip(samples, encoded, strict=True)]
        strands = [(*s.questions, *s.following, *s.unrelated) for s in samples]
        losses, hits = self.actor.losses(heads, strands)
        by_kind: dict[str, list[Tensor]] = {"answer": [], "continuation": [], "unrelated": []}
        right = []
        for sample, own, own_hits in zip(samples, losses, hits, strict=True):
            asked, following = len(sample.questions), len(sample.following)
            by_kind["answer"] += own[:asked]
            by_kind["continuation"] += own[asked : asked + following]
            by_kind["unrelated"] += own[asked + following :]
            right += [bool(hit.all()) for hit in own_hits[:asked]]
        parts = {name: torch.cat(values).mean() for name, values in by_kind.items() if values}
        parts["salience"] = torch.stack([_salience_loss(one) for one in encoded]).mean()
        total = torch.stack([getattr(self.weights, name) * value for name, value in parts.items()]).sum()
        figures = {name: float(value) for name, value in parts.items()}
        figures["exact"] = sum(right) / max(len(right), 1)
        figures["marked_kept"] = sum(_marked_kept(one) for one in encoded) / len(encoded)
        return total, figures

    def encode(self, network: MemoryNetwork, sample: Sample, hints: float, r: random.Random) -> Encoded:
        """Rows of the sample's last compaction; of earlier ones without gradients."""
        states = self._summary_states(sample)
        with torch.no_grad():
            source = self._first_source(sample, sample.parts[0])
        encoded: Encoded | None = None
        for part in sample.parts[1:]:
            with torch.no_grad():
                encoded = self._rows(network, source, states, 0.0, r)
                source = self._next_source(sample, part, encoded)
        return self._rows(network, source, states, hints, r)

    def head(self, sample: Sample, rows: Tensor) -> Tensor:
        """[H, D] embeddings of the restored prompt up to the end of the memory."""
        before = [*sample.prefix, *self._summary_before, *sample.summary, *self._summary_after, *self._memory_before]
        return torch.cat([self._embed(before), rows.to(self.actor.dtype), self._embed(self._memory_after)])

    def _rows(self, network: MemoryNetwork, source: _Source, states: Tensor, hints: float, r: random.Random) -> Encoded:
        lengths = torch.tensor([len(source.ids)], device=self.actor.device)
        embeddings = source.embeddings[None].float()
        features = source.features.float()
        scores = network.score_salience(features, lengths, embeddings)
        helped = source.marked & torch.tensor([r.random() < hints for _ in range(len(source.ids))])
        kept = keep(scores.detach() + _HINT * helped.to(scores.device), lengths, network.geometry.slots)
        depths = torch.tensor([source.depth], device=self.actor.device)
        rows = network.encode(features, lengths, states, depths, embeddings, source.ids[None], kept=kept)
        return Encoded(rows[0], scores[0], source.marked, kept[0])

    def _first_source(self, sample: Sample, part: Part) -> _Source:
        ids = torch.tensor(part.ids, device=self.actor.device)
        features = self.actor.features(torch.tensor([[*sample.prefix, *part.ids]]), len(sample.prefix))
        return _Source(self.actor.embedding(ids), ids, features, torch.tensor(part.marked), 0)

    def _next_source(self, sample: Sample, part: Part, encoded: Encoded) -> _Source:
        """Summary, old rows and new history as the actor sees them; markers are read but are no source."""
        pieces = [
            (self._embed(sample.prefix), False),
            (self._embed(self._summary_before), False),
            (self._embed(sample.summary), True),
            (self._embed([*self._summary_after, *self._memory_before]), False),
            (encoded.rows.to(self.actor.dtype), True),
            (self._embed(self._memory_after), False),
            (self._embed(part.ids), True),
        ]
        embeddings = torch.cat([piece for piece, _ in pieces])
        is_source = torch.tensor([flag for piece, flag in pieces for _ in range(len(piece))])
        features = self.actor.features_of(embeddings[None], 0)[:, is_source]
        rows = torch.full((len(encoded.rows),), -1)
        ids = torch.cat([torch.tensor(sample.summary), rows, torch.tensor(part.ids)]).to(self.actor.device)
        marked = torch.cat(
            [
                torch.zeros(len(sample.summary), dtype=torch.bool),
                encoded.marked[encoded.kept.cpu()],
                torch.tensor(part.marked),
            ]
        )
        return _Source(embeddings[is_source], ids, features, marked, 1)

    def _summary_states(self, sample: Sample) -> Tensor:
        ids = [*sample.prefix, *self._summary_before, *sample.summary]
        return self.actor.final_states(ids, len(ids) - len(sample.summary)).float()

    def _embed(self, ids: Sequence[int]) -> Tensor:
        return self.actor.embedding(torch.tensor(ids, dtype=torch.int64, device=self.actor.device))


def _salience_loss(encoded: Encoded) -> Tensor:
    return F.binary_cross_entropy_with_logits(encoded.scores, encoded.marked.to(encoded.scores))


def _marked_kept(encoded: Encoded) -> float:
    """The share of the marked tokens that rows start from; 1 without marks."""
    marked = int(encoded.marked.sum())
    room = min(marked, len(encoded.kept))
    kept = int(encoded.marked[encoded.kept.unique().cpu()].sum())
    return kept / room if room else 1.0

"""One step's losses: rows of a sample's history, and what the frozen actor makes of questions behind them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from remory.network import MemoryNetwork
from remory.ops.encode_plain import keep
from remory.training.actor import Strand, Teacher, TrainingActor
from remory.training.samples import Sample
from remory.training.settings import LossSettings

_HINT = 1e4
Origin = tuple[int, int] | None


@dataclass(frozen=True)
class Choice:
    """Salience scores [T] of a block's tokens, whether each is marked [T], and the ones kept [n].

    `origins`: for each kept token, the part and place it was told in; None for what is not history.
    """

    scores: Tensor
    marked: Tensor
    kept: Tensor
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Encoded:
    """Rows [k * n, D] of a memory of k nodes, and the choice of tokens that each node's rows start from."""

    rows: Tensor
    choices: tuple[Choice, ...]

    @property
    def origins(self) -> frozenset[Origin]:
        """Where the tokens were told that rows start from."""
        return frozenset(origin for choice in self.choices for origin in choice.origins)


@dataclass(frozen=True)
class _Source:
    """What a block is encoded from: embeddings [T, D], token ids [T] (-1 for rows), features [1, T, L*D], marks [T]."""

    embeddings: Tensor
    ids: Tensor
    features: Tensor
    marked: Tensor
    origins: tuple[Origin, ...]
    depth: int

    def blocks(self, tokens: int) -> list[_Source]:
        """The source in pieces of so many tokens, the last one shorter."""
        spans = [slice(start, start + tokens) for start in range(0, len(self.ids), tokens)]
        return [
            _Source(
                self.embeddings[span],
                self.ids[span],
                self.features[:, span],
                self.marked[span],
                self.origins[span],
                self.depth,
            )
            for span in spans
        ]


class Objective:
    """Computes losses with gradients to the network. `contract` and `strategy`: as in config.json."""

    def __init__(
        self,
        actor: TrainingActor,
        contract: Mapping[str, Any],
        losses: LossSettings,
        strategy: str,
        features_held: int = 1,
        blur: float = 0.0,
    ) -> None:
        self.actor = actor
        self._keeps_rows = strategy == "frontier"
        self._features: dict[tuple[tuple[int, ...], tuple[int, ...]], Tensor] = {}
        self._taught_strands: dict[tuple[tuple[int, ...], tuple[int, ...]], Strand] = {}
        self._features_held = features_held
        self._blur = blur
        self.weights = losses
        self._summary_before = contract["student_summary_before_ids"]
        self._summary_after = contract["student_summary_after_ids"]
        self._memory_before = contract["student_memory_before_ids"]
        self._memory_after = contract["student_memory_after_ids"]

    def compute(
        self,
        network: MemoryNetwork,
        samples: Sequence[Sample],
        hints: float,
        r: random.Random,
        limit: int,
        merged: bool = False,
    ) -> tuple[Tensor, dict[str, float]]:
        """The weighted loss of a batch, and its parts for people to read (nats; shares of 1).

        At most `limit` questions of a sample are asked; `asked` says how many were, on average. Samples without any
        train the choice of tokens alone, which costs next to nothing. `merged`: see `encode_merged`.
        """
        parts: dict[str, Tensor] = {}
        figures: dict[str, float] = {}
        if any(sample.questions for sample in samples):
            encode = self.encode_merged if merged else self.encode
            encoded = [encode(network, sample, hints, r) for sample in samples]
            heads = [self.head(sample, one.rows) for sample, one in zip(samples, encoded, strict=True)]
            asked = [_answerable(sample, one, limit) for sample, one in zip(samples, encoded, strict=True)]
            parts, figures = self._read_on([self._taught(sample) for sample in samples], heads, asked)
            choices = [choice for one in encoded for choice in one.choices]
        else:
            # One block a sample, or several small ones that would have been merged.
            sources = [self._first_source(sample) for sample in samples]
            blocks = [block for source in sources for block in source.blocks(network.geometry.block_tokens)]
            choices = [self._choose(network, block, hints, r) for block in blocks]
        parts["salience"] = torch.stack([_salience_loss(choice) for choice in choices]).mean()
        total = torch.stack([getattr(self.weights, name) * value for name, value in parts.items()]).sum()
        figures |= {name: float(value.detach()) for name, value in parts.items()}
        figures["marked_kept"] = sum(_marked_kept(choice) for choice in choices) / len(choices)
        return total, figures

    def _read_on(
        self, samples: Sequence[Sample], heads: Sequence[Tensor], questions: Sequence[Sequence[Strand]]
    ) -> tuple[dict[str, Tensor], dict[str, float]]:
        """The frozen actor's losses behind the memories, by kind, and the share of answers it has right."""
        strands = [(*q, *s.following, *s.unrelated) for q, s in zip(questions, samples, strict=True)]
        if not any(strands):
            return {}, {}
        losses, hits = self.actor.losses(heads, strands)
        by_kind: dict[str, list[Tensor]] = {"answer": [], "following": [], "unrelated": []}
        right = []
        for sample, mine, own, own_hits in zip(samples, questions, losses, hits, strict=True):
            asked, following = len(mine), len(sample.following)
            by_kind["answer"] += own[:asked]
            by_kind["following"] += own[asked : asked + following]
            by_kind["unrelated"] += own[asked + following :]
            right += [bool(hit.all()) for hit in own_hits[:asked]]
        parts = {name: torch.cat(values).mean() for name, values in by_kind.items() if values}
        return parts, {"exact": sum(right) / len(right), "asked": len(right) / len(samples)} if right else {}

    def encode(self, network: MemoryNetwork, sample: Sample, hints: float, r: random.Random) -> Encoded:
        """Rows of the memory after the sample's last compaction; of earlier ones without gradients."""
        states = self._summary_states(sample) if network.geometry.summary_conditioned else None
        nodes: list[Encoded] = []
        for number in range(len(sample.parts)):
            last = number == len(sample.parts) - 1
            with torch.no_grad():
                source = self._source(sample, number, nodes)
            with contextlib.nullcontext() if last else torch.no_grad():
                node = self._rows(network, source, states, hints if last else 0.0, r)
            nodes = [*nodes, node] if self._keeps_rows else [node]
        choices = tuple(choice for node in nodes for choice in node.choices)
        return Encoded(torch.cat([node.rows for node in nodes]), choices)

    def encode_merged(self, network: MemoryNetwork, sample: Sample, hints: float, r: random.Random) -> Encoded:
        """Rows of one parent: its children, without gradients, are the blocks of the sample's first part.

        The children's rows must fill a block and no more, as they do when there are `ratio` of them.
        """
        states = self._summary_states(sample) if network.geometry.summary_conditioned else None
        with torch.no_grad():
            blocks = self._first_source(sample).blocks(network.geometry.block_tokens)
            children = [self._rows(network, block, states, 0.0, r) for block in blocks]
            source = self._merged_source(sample, children)
        return self._rows(network, source, states, hints, r)

    def _merged_source(self, sample: Sample, children: Sequence[Encoded]) -> _Source:
        """The children's rows alone, as the actor reads them behind the prefix."""
        rows = torch.cat([child.rows for child in children]).to(self.actor.dtype)
        prefix = self._embed(sample.prefix)
        features = self.actor.features_of(torch.cat([prefix, rows])[None], len(prefix))
        choices = [choice for child in children for choice in child.choices]
        marked = torch.cat([choice.marked[choice.kept.cpu()] for choice in choices])
        origins = tuple(origin for choice in choices for origin in choice.origins)
        ids = torch.full((len(rows),), -1, device=self.actor.device)
        return _Source(rows, ids, features, marked, origins, 1)

    def _source(self, sample: Sample, number: int, nodes: Sequence[Encoded]) -> _Source:
        """What the compaction of a part reads: behind the first one there are nodes of earlier parts."""
        if not nodes:
            return self._first_source(sample)
        return (self._new_source if self._keeps_rows else self._whole_source)(sample, number, nodes)

    @torch.no_grad()
    def _taught(self, sample: Sample) -> Sample:
        """The sample with teachers for its continuations: who has read everything, and who has no memory."""
        whole = [*sample.prefix, *(token for part in sample.parts for token in part.ids)]
        bare = [*sample.prefix, *self._summary_before, *sample.summary, *self._summary_after]
        return replace(
            sample,
            following=tuple(self._teach_again(whole, strand) for strand in sample.following),
            unrelated=tuple(self._teach(bare, strand) for strand in sample.unrelated),
        )

    def _teach(self, context: Sequence[int], strand: Strand) -> Strand:
        """The strand with what the actor says behind a context, if it has no teacher yet."""
        if strand.teacher is not None:
            return strand
        taught = self.actor.teach(context, strand)
        return replace(strand, teacher=Teacher(taught["ids"], taught["logs"]))

    def _teach_again(self, context: Sequence[int], strand: Strand) -> Strand:
        """The same, kept for the last contexts: sessions come again, and with them what follows."""
        key = (tuple(context), strand.ids)
        if key not in self._taught_strands:
            self._taught_strands[key] = self._teach(context, strand)
            while len(self._taught_strands) > self._features_held:
                del self._taught_strands[next(iter(self._taught_strands))]
        return self._taught_strands[key]

    def head(self, sample: Sample, rows: Tensor) -> Tensor:
        """[H, D] embeddings of the restored prompt up to the end of the memory."""
        before = [*sample.prefix, *self._summary_before, *sample.summary, *self._summary_after, *self._memory_before]
        return torch.cat([self._embed(before), rows.to(self.actor.dtype), self._embed(self._memory_after)])

    def bare_head(self, sample: Sample) -> Tensor:
        """The same without a memory: [H, D] up to the end of the summary."""
        return self._embed([*sample.prefix, *self._summary_before, *sample.summary, *self._summary_after])

    def _rows(
        self, network: MemoryNetwork, source: _Source, states: Tensor | None, hints: float, r: random.Random
    ) -> Encoded:
        choice = self._choose(network, source, hints, r)
        lengths = torch.tensor([len(source.ids)], device=self.actor.device)
        depths = torch.tensor([source.depth], device=self.actor.device)
        embeddings, features = source.embeddings[None].float(), source.features.float()
        kept = choice.kept[None]
        rows = network.encode(features, lengths, states, depths, embeddings, source.ids[None], kept=kept)
        return Encoded(rows[0], (choice,))

    def _choose(self, network: MemoryNetwork, source: _Source, hints: float, r: random.Random) -> Choice:
        lengths = torch.tensor([len(source.ids)], device=self.actor.device)
        features, embeddings = self._blurred(source, r)
        scores = network.score_salience(features, lengths, embeddings)
        helped = source.marked & torch.tensor([r.random() < hints for _ in range(len(source.ids))])
        kept = keep(scores.detach() + _HINT * helped.to(scores.device), lengths, network.geometry.slots)
        return Choice(scores[0], source.marked, kept[0], tuple(source.origins[place] for place in kept[0].tolist()))

    def _blurred(self, source: _Source, r: random.Random) -> tuple[Tensor, Tensor]:
        """Features [1, T, L*D] and embeddings [1, T, D] as the choice of tokens sees them in training: with holes.

        Generated text repeats its words; what has learned them by heart chooses badly in any other text.
        """
        features, embeddings = source.features.float(), source.embeddings[None].float()
        if not torch.is_grad_enabled():
            return features, embeddings
        draws = torch.Generator(features.device).manual_seed(r.getrandbits(48))
        held = torch.rand(features.shape, generator=draws, device=features.device) >= self._blur
        known = torch.rand(embeddings.shape[:2], generator=draws, device=features.device) >= self._blur
        return features * held / (1 - self._blur), embeddings * known[..., None]

    def _first_source(self, sample: Sample) -> _Source:
        part = sample.parts[0]
        ids = torch.tensor(part.ids, device=self.actor.device)
        features = self._read(sample.prefix, part.ids) if part.features is None else part.features.to(ids.device)
        origins = tuple((0, place) for place in range(len(part.ids)))
        return _Source(self.actor.embedding(ids), ids, features, torch.tensor(part.marked), origins, 0)

    def _read(self, prefix: tuple[int, ...], ids: tuple[int, ...]) -> Tensor:
        """Features [1, T, L*D], from memory if they are among the last that were asked for."""
        key = (prefix, ids)
        if key not in self._features:
            self._features[key] = self.actor.features(torch.tensor([[*prefix, *ids]]), len(prefix))
            while len(self._features) > self._features_held:
                del self._features[next(iter(self._features))]
        return self._features[key]

    def _new_source(self, sample: Sample, number: int, nodes: Sequence[Encoded]) -> _Source:
        """The new history alone, as the actor reads it behind the prefix and the old rows."""
        part = sample.parts[number]
        ids = torch.tensor(part.ids, device=self.actor.device)
        rows = torch.cat([node.rows for node in nodes]).to(self.actor.dtype)
        embeddings = self.actor.embedding(ids)
        read = torch.cat([self._embed(sample.prefix), rows, embeddings])
        features = self.actor.features_of(read[None], len(read) - len(ids))
        origins = tuple((number, place) for place in range(len(part.ids)))
        return _Source(embeddings, ids, features, torch.tensor(part.marked), origins, 0)

    def _whole_source(self, sample: Sample, number: int, nodes: Sequence[Encoded]) -> _Source:
        """Summary, old rows and new history as the actor sees them; markers are read but are no source."""
        part, encoded = sample.parts[number], nodes[-1]
        choice = encoded.choices[-1]
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
                choice.marked[choice.kept.cpu()],
                torch.tensor(part.marked),
            ]
        )
        new = tuple((number, place) for place in range(len(part.ids)))
        origins = (*(None for _ in sample.summary), *choice.origins, *new)
        return _Source(embeddings[is_source], ids, features, marked, origins, 1)

    def _summary_states(self, sample: Sample) -> Tensor:
        ids = [*sample.prefix, *self._summary_before, *sample.summary]
        return self.actor.final_states(ids, len(ids) - len(sample.summary)).float()

    def _embed(self, ids: Sequence[int]) -> Tensor:
        return self.actor.embedding(torch.tensor(ids, dtype=torch.int64, device=self.actor.device))


def _answerable(sample: Sample, encoded: Encoded, limit: int) -> list[Strand]:
    """Up to `limit` questions whose answers are among the kept tokens: of others only guessing could be learned."""
    kept = encoded.origins
    able = [q.strand for q in sample.questions if all((q.part, place) in kept for place in q.places)]
    return able[:limit]


def _salience_loss(choice: Choice) -> Tensor:
    return F.binary_cross_entropy_with_logits(choice.scores, choice.marked.to(choice.scores))


def _marked_kept(choice: Choice) -> float:
    """The share of the marked tokens that rows start from; 1 without marks."""
    marked = int(choice.marked.sum())
    room = min(marked, len(choice.kept))
    kept = int(choice.marked[choice.kept.unique().cpu()].sum())
    return kept / room if room else 1.0

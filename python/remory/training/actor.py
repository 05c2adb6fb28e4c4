"""The frozen actor as training sees it: features of histories, and losses behind a memory with gradients to it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from remory import actors
from remory.errors import InvalidInput

_TAUGHT = 32
# Of a loss against a teacher: the divergence from its distribution, and the rest for the token that did follow.
_DIVERGENCE = 0.8
_SMALLEST_REST = 1e-6
_DTYPES = (torch.float32, torch.bfloat16)


@dataclass(frozen=True)
class Teacher:
    """For N scored tokens the K that a reader of everything holds likeliest: ids [N, K] int64, logs [N, K] float32."""

    ids: Tensor
    logs: Tensor


@dataclass(frozen=True)
class Strand:
    """Tokens that follow a memory, read as if no other strand were there.

    `ids` [N]; the loss is taken on those from `scored` on, each predicted from what stands before it. With a `teacher`
    it is mostly the divergence from the teacher's distribution.
    """

    ids: tuple[int, ...]
    scored: int
    teacher: Teacher | None = field(default=None, compare=False, repr=False)


class TrainingActor:
    """A Llama- or Qwen-type actor whose weights never change, in its own dtype or in `dtype`.

    Raises InvalidInput for another kind of model, a layer it does not have, and for float16, in which gradients vanish.
    """

    def __init__(self, folder: Path, layer_ids: Sequence[int], device: str, dtype: torch.dtype | None = None) -> None:
        model = actors.load_model(folder, device, dtype)
        if not (hasattr(model, "model") and hasattr(model.model, "layers") and hasattr(model.model, "norm")):
            raise InvalidInput(
                f"the actor at {folder} is a {model.config.model_type!r} model, not one of Llama or Qwen type"
            )
        self._decoder = model.model
        self.context_length: int = model.config.max_position_embeddings
        self._head = model.get_output_embeddings()
        self.embedding = model.get_input_embeddings()
        self.vocabulary, self.width = self.embedding.weight.shape
        self.device, self.dtype = self.embedding.weight.device, self.embedding.weight.dtype
        if self.dtype not in _DTYPES:
            raise InvalidInput(
                f"training needs an actor in float32 or bfloat16, this one is in {self.dtype}: see --dtype"
            )
        if layer_ids[-1] >= len(self._decoder.layers):
            raise InvalidInput(
                f"layer {layer_ids[-1]} is to be read; the actor has {len(self._decoder.layers)} (from 0)"
            )
        self._lower = _truncated(self._decoder, layer_ids[-1] + 1)
        self._captured: dict[int, Tensor] = {}
        self._layer_ids = tuple(layer_ids)
        for layer in layer_ids:
            self._decoder.layers[layer].register_forward_hook(self._hook(layer))

    @torch.no_grad()
    def features(self, ids: Tensor, skip: int) -> Tensor:
        """[B, T - skip, L*D]: the watched layers' outputs for token ids [B, T] behind the first `skip` of them."""
        return self.features_of(self.embedding(ids.to(self.device)), skip)

    @torch.no_grad()
    def features_of(self, embeddings: Tensor, skip: int) -> Tensor:
        """The same for input embeddings [B, T, D]."""
        self._captured.clear()
        self._lower(inputs_embeds=embeddings.to(self.dtype), use_cache=False)
        states = [self._captured[layer][:, skip:] for layer in self._layer_ids]
        self._captured.clear()
        return torch.cat(states, dim=2)

    @torch.no_grad()
    def final_states(self, ids: Sequence[int], skip: int) -> Tensor:
        """[T - skip, D]: final normalised states of token ids behind the first `skip`."""
        read = self._decoder(input_ids=torch.tensor([ids], device=self.device), use_cache=False)
        return read.last_hidden_state[0, skip:]

    def read_features(self, prefix: Sequence[int], ids: Sequence[int]) -> dict[str, Tensor]:
        """`features` [1, T, L*D] of T token ids behind a prefix."""
        return {"features": self.features(torch.tensor([[*prefix, *ids]]), len(prefix))}

    @torch.no_grad()
    def teach(self, context: Sequence[int], strand: Strand) -> dict[str, Tensor]:
        """`ids` [N, K] int64 and `logs` [N, K] float32: what the actor, behind a context, holds likeliest for the N
        scored tokens of a strand, K of them (32, or the vocabulary), with their log-shares of all tokens.
        """
        states = self.final_states([*context, *strand.ids], len(context) + strand.scored - 1)[:-1]
        logs = self._head(states).float().log_softmax(-1)
        best = logs.topk(min(_TAUGHT, self.vocabulary), dim=-1)
        return {"ids": best.indices, "logs": best.values}

    def losses(self, heads: Sequence[Tensor], strands: Sequence[Sequence[Strand]]) -> tuple[list[list[Tensor]], list]:
        """Cross-entropy (nats) of every scored token of every strand, behind its head; with a teacher see `Strand`.

        heads: B tensors [H_b, D] of input embeddings, with gradients. Returns, for each strand, losses [scored]
        float32, and whether each scored token was the likeliest.
        """
        inputs, positions, mask, places = self._pack(heads, strands)
        states = self._decoder(
            inputs_embeds=inputs, position_ids=positions, attention_mask=mask, use_cache=False
        ).last_hidden_state
        batch, index, targets, sizes = places
        logits = self._head(states[batch, index]).float()
        losses = nn.functional.cross_entropy(logits, targets, reduction="none")
        hits = logits.detach().argmax(-1) == targets
        flat_losses, flat_hits = list(losses.split(sizes)), list(hits.split(sizes))
        teachers = [strand.teacher for own in strands for strand in own]
        for number, (own_logits, teacher) in enumerate(zip(logits.split(sizes), teachers, strict=True)):
            if teacher is not None:
                divergence = _diverge(own_logits, teacher)
                flat_losses[number] = _DIVERGENCE * divergence + (1 - _DIVERGENCE) * flat_losses[number]
        counts = [len(own) for own in strands]
        return _regroup(flat_losses, counts), _regroup(flat_hits, counts)

    def _pack(self, heads: Sequence[Tensor], strands: Sequence[Sequence[Strand]]) -> tuple[Any, ...]:
        """All strands of a sample behind its head in one sequence; the mask hides each from the others."""
        lengths = [len(head) + sum(len(strand.ids) for strand in own) for head, own in zip(heads, strands, strict=True)]
        size = max(lengths)
        shape = (len(heads), size)
        inputs, positions = [], torch.zeros(shape, dtype=torch.int64)
        group = torch.full(shape, -1)  # 0: the head; 1, 2, …: the strands; -1: padding
        batch: list[int] = []
        index: list[int] = []
        targets: list[int] = []
        sizes: list[int] = []
        for row, (head, own) in enumerate(zip(heads, strands, strict=True)):
            ids: list[int] = []
            group[row, : len(head)] = 0
            positions[row, : len(head)] = torch.arange(len(head))
            for number, strand in enumerate(own, 1):
                start = len(head) + len(ids)
                stop = start + len(strand.ids)
                group[row, start:stop] = number
                positions[row, start:stop] = len(head) + torch.arange(len(strand.ids))
                scored = list(range(start + strand.scored, stop))
                batch += [row] * len(scored)
                index += [place - 1 for place in scored]
                targets += strand.ids[strand.scored :]
                sizes.append(len(scored))
                ids += strand.ids
            tail = self.embedding(torch.tensor(ids, device=self.device, dtype=torch.int64))
            padding = torch.zeros(size - lengths[row], self.width, device=self.device, dtype=self.dtype)
            inputs.append(torch.cat([head.to(self.dtype), tail, padding]))
        place = torch.arange(size)
        visible = (group[:, :, None] == group[:, None, :]) | (group[:, None, :] == 0)
        visible &= place[None, :, None] >= place[None, None, :]
        visible |= torch.eye(size, dtype=torch.bool)  # padding sees itself, or its softmax would be empty
        # The dtype is said because nothing may be scored at all: empty tensors would be float32.
        scored_at = torch.tensor(batch, dtype=torch.int64), torch.tensor(index, dtype=torch.int64)
        places = (*scored_at, torch.tensor(targets, dtype=torch.int64, device=self.device), sizes)
        return torch.stack(inputs), positions.to(self.device), visible[:, None].to(self.device), places

    def _hook(self, layer: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            if not torch.is_grad_enabled():
                self._captured[layer] = output[0] if isinstance(output, tuple) else output

        return keep


def _diverge(logits: Tensor, teacher: Teacher) -> Tensor:
    """[N] nats: the Kullback-Leibler divergence of logits [N, V] from the teacher, the unnamed as one token."""
    taught = teacher.logs.to(logits.device)
    given = logits.log_softmax(-1).gather(-1, teacher.ids.to(logits.device))
    rest, given_rest = (1 - logs.exp().sum(-1) for logs in (taught, given))
    named = (taught.exp() * (taught - given)).sum(-1)
    rest, given_rest = rest.clamp(min=_SMALLEST_REST), given_rest.clamp(min=_SMALLEST_REST)
    return named + rest * (rest.log() - given_rest.log())


def _truncated(decoder: Any, layers: int) -> Any:
    """The decoder's first layers, sharing their weights: nothing above them is needed for features."""
    lower = copy.copy(decoder)
    lower._modules = dict(decoder._modules)
    lower._modules["layers"] = nn.ModuleList(list(decoder.layers)[:layers])
    lower.config = copy.copy(decoder.config)
    lower.config.num_hidden_layers = layers
    return lower


def _regroup(items: list[Tensor], counts: Sequence[int]) -> list[list[Tensor]]:
    taken = iter(items)
    return [[next(taken) for _ in range(count)] for count in counts]

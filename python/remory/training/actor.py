"""The frozen actor as training sees it: features of histories, and losses behind a memory with gradients to its rows."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from remory import actors
from remory.errors import InvalidInput


@dataclass(frozen=True)
class Strand:
    """Tokens that follow a memory, read as if no other strand were there.

    `ids` [N]; the loss is taken on those from `scored` on, each predicted from what stands before it.
    """

    ids: tuple[int, ...]
    scored: int


class TrainingActor:
    """A Llama- or Qwen-type actor in bfloat16 (float32 on request) whose weights never change."""

    def __init__(self, folder: Path, layer_ids: Sequence[int], device: str, dtype: torch.dtype | None = None) -> None:
        model = actors.load_model(folder, device, dtype)
        self._decoder = model.model
        self._head = model.get_output_embeddings()
        self.embedding = model.get_input_embeddings()
        self.vocabulary, self.width = self.embedding.weight.shape
        self.device, self.dtype = self.embedding.weight.device, self.embedding.weight.dtype
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

    def losses(self, heads: Sequence[Tensor], strands: Sequence[Sequence[Strand]]) -> tuple[list[list[Tensor]], list]:
        """Cross-entropy (nats) of every scored token of every strand, behind its head.

        heads: B tensors [H_b, D] of input embeddings, with gradients. Returns, for each strand, losses [scored] float32,
        and whether each scored token was the likeliest.
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
        counts = [len(own) for own in strands]
        return _regroup(flat_losses, counts), _regroup(flat_hits, counts)

    def _pack(self, heads: Sequence[Tensor], strands: Sequence[Sequence[Strand]]) -> tuple[Any, ...]:
        """All strands of a sample behind its head in one sequence; the mask hides each from the others."""
        lengths = [len(head) + sum(len(strand.ids) for strand in own) for head, own in zip(heads, strands, strict=True)]
        size = max(lengths)
        shape = (len(heads), size)
        inputs, positions = [], torch.zeros(shape, dtype=torch.int64)
        group = torch.full(shape, -1)  # 0: the head; 1, 2, …: the strands; -1: padding
        batch, index, targets, sizes = [], [], [], []
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
        places = (torch.tensor(batch), torch.tensor(index), torch.tensor(targets, device=self.device), sizes)
        return torch.stack(inputs), positions.to(self.device), visible[:, None].to(self.device), places

    def _hook(self, layer: int) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            if not torch.is_grad_enabled():
                self._captured[layer] = output[0] if isinstance(output, tuple) else output

        return keep


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

"""What an answer may say by the definition of its sampling, from a plain reading of the actor.

Where two tokens are about as likely, the last bits of their logits decide which one comes next, and those are not the
same on every processor, in every batch and behind every cache. So no test here asks two computations for equal tokens.
The actor, under Transformers in float32, reads what was said, and every token must be the one that the definition
chooses, but for rounding. The definitions are written down here once more, apart from those of the engines.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from remory.engines.base import SamplingParams, Source

# Of logits. Those of the engines are within 5e-4 of the plain actor's (`test_engine` asks it of log-probabilities), so
# that two of them change places below 1e-3; a repetition penalty of 0.5 doubles that. Wrong counts make 2e-2 and more.
ROUNDING = 2e-3


class PlainActor:
    """The actor of a folder as Transformers has it: no cache, no chunks, no batch."""

    def __init__(self, folder: Path) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.inference_mode()
    def states(self, source: Source, said: Sequence[int]) -> Tensor:
        """Final normalised states [T, D] of a prompt, its rows in place, and of what was said but the last token."""
        ids = torch.cat([source.ids, torch.tensor(said[:-1], dtype=torch.int64)])
        embeddings = self._model.get_input_embeddings()(ids)
        if source.rows is not None:
            embeddings[source.positions] = source.rows.float()
        return self._model.model(inputs_embeds=embeddings[None]).last_hidden_state[0]

    @torch.inference_mode()
    def logits(self, source: Source, said: Sequence[int]) -> Tensor:
        """Logits [n, V] that each of n tokens was chosen from."""
        return self._model.get_output_embeddings()(self.states(source, said)[len(source) - 1 :])[: len(said)]


def counts(said: Sequence[int], vocabulary: int) -> Tensor:
    """How often each token had been said [n, V] before each of n was chosen."""
    counted = torch.zeros(len(said), vocabulary)
    for step, token in enumerate(said[:-1], start=1):
        counted[step:, token] += 1
    return counted


def penalised(logits: Tensor, counted: Tensor, params: SamplingParams) -> Tensor:
    """Logits [n, V] under penalties for what was said so often: what is subtracted comes first."""
    was_said = counted > 0
    left = logits - params.frequency_penalty * counted - params.presence_penalty * was_said
    divided = torch.where(left > 0, left / params.repetition_penalty, left * params.repetition_penalty)
    return torch.where(was_said, divided, left)


def shortfall(logits: Tensor, said: Sequence[int]) -> float:
    """By how much the worst of n tokens was below the greatest of its logits [n, V]; 0 for no token."""
    chosen = logits[torch.arange(len(said)), list(said)]
    return max((logits.amax(-1) - chosen).tolist(), default=0.0)


def is_greedy(actor: PlainActor, source: Source, said: Sequence[int], params: SamplingParams) -> bool:
    """Whether each token had the greatest logit under the penalties, but for rounding."""
    logits = actor.logits(source, said)
    return shortfall(penalised(logits, counts(said, logits.shape[-1]), params), said) < ROUNDING


def is_drawn(actor: PlainActor, source: Source, said: Sequence[int], params: SamplingParams) -> bool:
    """Whether each token is the one that the seed draws, but for rounding, with `top_k` and `min_p`.

    The tokens are ordered by their probability, and the place whose log-probability and noise are the most is drawn.
    Rounding may let two tokens that are about as likely change places, so what is drawn is any token as likely as that.
    """
    assert params.seed is not None
    likely = (actor.logits(source, said) / params.temperature).log_softmax(-1)
    for step, token in enumerate(said):
        ordered = likely[step].sort(descending=True).values
        best = ordered + noise(params.seed, len(source) - 1 + step, len(ordered))
        least = ordered[0] + torch.tensor(params.min_p).log()
        if params.top_k > 0:
            best[params.top_k :] = -torch.inf
        surely = best.masked_fill(ordered < least + ROUNDING, -torch.inf)
        perhaps = best.masked_fill(ordered < least - ROUNDING, -torch.inf)
        drawn = perhaps > surely.max() - ROUNDING
        if not bool((drawn & ((ordered - likely[step, token]).abs() < ROUNDING)).any()):
            return False
    return True


def noise(seed: int, position: int, places: int) -> Tensor:
    """Gumbel noise [places] of the token behind a position, float64: from hashes that are spread evenly over [0, 1]."""
    hashes = [murmur3(struct.pack("<qII", seed, position, place)) for place in range(places)]
    even = torch.tensor(hashes, dtype=torch.float64) / 0xFFFFFFFF
    return -(-even.log().clamp(max=-(2.0**-32))).log()


def murmur3(data: bytes) -> int:
    """MurmurHash3_x86_32 with seed 0, of whole blocks of 4 bytes."""

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> 32 - bits) & 0xFFFFFFFF

    value = 0
    for (block,) in struct.iter_unpack("<I", data):
        value ^= rotated(block * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        value = (rotated(value, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16

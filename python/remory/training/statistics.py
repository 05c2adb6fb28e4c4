"""What a network is told of the training text: each token's inverse document frequency and the mean embedding."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import torch
from torch import Tensor

from remory.training.generator import generate_session
from remory.training.phrasing import Phrasing

_SESSIONS = 200
_TOKENS = 512


def measure_statistics(phrasing: Phrasing, embeddings: Tensor, seed: int) -> dict[str, Any]:
    """`idf` [V], ln((1 + N) / (1 + n)) of a token in n of N messages; `mean` [D], weighted by frequency; `rms`, the mean
    over the vocabulary of each embedding's root mean square. embeddings [V, D].
    """
    documents, uses, messages = Counter[int](), Counter[int](), 0
    for number in range(_SESSIONS):
        session = generate_session(random.Random(f"statistics:{seed}:{number}"), phrasing.count, _TOKENS)
        for turn in session.turns:
            ids = phrasing.turn(turn)[0]
            documents.update(set(ids))
            uses.update(ids)
            messages += 1
    seen = torch.zeros(len(embeddings))
    seen[list(documents)] = torch.tensor(list(documents.values()), dtype=torch.float32)
    weight = torch.zeros(len(embeddings))
    weight[list(uses)] = torch.tensor(list(uses.values()), dtype=torch.float32)
    table = embeddings.float().cpu()
    return {
        "idf": torch.log((1 + messages) / (1 + seen)),
        "mean": (weight / weight.sum()) @ table,
        "rms": round(table.double().square().mean(dim=1).sqrt().mean().item(), 6),
    }

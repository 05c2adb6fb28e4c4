"""What a network is told of the training text: each token's inverse document frequency and the mean embedding."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from remory.training.documents import Document
from remory.training.generator import generate_session
from remory.training.phrasing import Phrasing

_TOKENS = 512
_PIECE, _PIECES = 128, 2000


def measure_rms(embeddings: Tensor) -> float:
    """The mean over the vocabulary of each embedding's root mean square, to six decimals; embeddings [V, D]."""
    return round(embeddings.cpu().double().square().mean(dim=1).sqrt().mean().item(), 6)


def measure_statistics(messages: Iterable[Sequence[int]], embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """`idf` [V], ln((1 + N) / (1 + n)) of a token in n of N messages, and the mean embedding [D] by frequency of use.

    messages: their token ids; embeddings [V, D]. Both float32 on the CPU.
    """
    documents, uses, count = Counter[int](), Counter[int](), 0
    for ids in messages:
        documents.update(set(ids))
        uses.update(ids)
        count += 1
    seen = torch.zeros(len(embeddings))
    seen[list(documents)] = torch.tensor(list(documents.values()), dtype=torch.float32)
    weight = torch.zeros(len(embeddings))
    weight[list(uses)] = torch.tensor(list(uses.values()), dtype=torch.float32)
    return torch.log((1 + count) / (1 + seen)), (weight / weight.sum()) @ embeddings.float().cpu()


def generated_messages(phrasing: Phrasing, seed: int, sessions: int) -> Iterator[list[int]]:
    """Token ids of the messages of some generated sessions."""
    for number in range(sessions):
        session = generate_session(random.Random(f"statistics:{seed}:{number}"), phrasing.count, _TOKENS)
        for turn in session.turns:
            yield phrasing.turn(turn)[0]


def own_messages(documents: Sequence[Document]) -> Iterator[list[int]]:
    """Pieces of documents, as long as messages are, evenly from all of them: 2,000 at most."""
    pieces = [(document, start) for document in documents for start in range(0, len(document.ids), _PIECE)]
    for document, start in pieces[:: -(-len(pieces) // _PIECES) or 1]:
        yield document.ids[start : start + _PIECE].tolist()

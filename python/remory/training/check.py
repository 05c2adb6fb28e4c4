"""A quick look at how a network does on the development set while it is trained; `remory eval` measures properly."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from remory.network import MemoryNetwork
from remory.training.actor import Strand, TrainingActor
from remory.training.objective import Objective
from remory.training.phrasing import Phrasing
from remory.training.samples import Part, Sample
from remory.training.sessions import Turn

_SET = Path(__file__).parent.parent / "evaluation" / "data" / "development.json"
_SUMMARY = "The user and the assistant work on the task step by step."


class Check:
    """The development set's first parts as samples: their questions are asked with the answers given (teacher forcing).

    A question counts as right when each token of its answer is the likeliest where it stands.
    """

    def __init__(self, phrasing: Phrasing) -> None:
        self.samples = [_sample(session, phrasing) for session in json.loads(_SET.read_text())["sessions"]]

    @torch.no_grad()
    def run(self, network: MemoryNetwork, objective: Objective) -> dict[str, float]:
        """Mean answer loss (nats a token) and share of right answers, with the own and with another session's rows."""
        rows = [objective.encode(network, sample, 0.0, random.Random(0)).rows for sample in self.samples]
        own, right = self._ask([objective.head(s, r) for s, r in zip(self.samples, rows, strict=True)], objective.actor)
        others = rows[1:] + rows[:1]
        other, other_right = self._ask(
            [objective.head(s, r) for s, r in zip(self.samples, others, strict=True)], objective.actor
        )
        return {"loss": own, "exact": right, "loss_other": other, "exact_other": other_right}

    @torch.no_grad()
    def run_full(self, actor: TrainingActor) -> dict[str, float]:
        """The same with the whole history in place of a memory."""
        heads = [actor.embedding(torch.tensor([*s.prefix, *s.parts[0].ids], device=actor.device)) for s in self.samples]
        loss, right = self._ask(heads, actor)
        return {"loss": loss, "exact": right}

    def _ask(self, heads: Sequence[Tensor], actor: TrainingActor) -> tuple[float, float]:
        losses, right = [], []
        for head, sample in zip(heads, self.samples, strict=True):
            own, hits = actor.losses([head], [sample.questions])
            losses += [float(loss[:-1].mean()) for loss in own[0]]
            right += [bool(hit[:-1].all()) for hit in hits[0]]
        return sum(losses) / len(losses), sum(right) / len(right)


def _sample(session: dict[str, Any], phrasing: Phrasing) -> Sample:
    ids = [token for m in session["parts"][0] for token in phrasing.turn(Turn(m["role"], m["content"]))[0]]
    asked = [q for q in session["questions"] if q["part"] == 0 and q["type"] != "absent"]
    return Sample(
        prefix=tuple(phrasing.prefix(session["system"], session["task"])),
        summary=tuple(phrasing.encode(_SUMMARY)),
        parts=(Part(tuple(ids), (False,) * len(ids)),),
        questions=tuple(_strand(q, phrasing) for q in asked),
    )


def _strand(question: dict[str, Any], phrasing: Phrasing) -> Strand:
    asked = phrasing.question(question["question"] + " Answer in a few words.")
    return Strand((*asked, *phrasing.encode(question["answer"]), *phrasing.end_ids), len(asked))

"""A quick look at how a network does on the development sets while it is trained; `remory eval` measures properly."""

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
from remory.training.samples import Part, Question, Sample
from remory.training.sessions import Turn

_DATA = Path(__file__).parent.parent / "evaluation" / "data"
SETS = ("development", "development_plain")
_FOREIGN = 128
_FEWEST = 3
_SUMMARY = "The user and the assistant work on the task step by step."


class Check:
    """First parts of the development sets as samples: their questions are asked with the answers given.

    A question counts as right when each token of its answer is the likeliest where it stands. Of a first part that is
    longer than `block_tokens` in this actor's tokens, the messages are taken that fit, and the questions about them.
    With fewer than three such sessions there are no samples.
    """

    def __init__(self, phrasing: Phrasing, block_tokens: int = 1024, sets: Sequence[str] = SETS) -> None:
        sessions = [s for name in sets for s in json.loads((_DATA / f"{name}.json").read_text())["sessions"]]
        samples = (_sample(session, phrasing, block_tokens) for session in sessions)
        self.samples = [sample for sample in samples if sample.questions]
        # Another's memory and another's text need a second and a third session.
        if len(self.samples) < _FEWEST:
            self.samples = []

    @torch.no_grad()
    def run(self, network: MemoryNetwork, objective: Objective, merged: bool = False) -> dict[str, float]:
        """Mean answer loss (nats a token) and share of right answers, with the own and with another session's rows.

        `harm`: how much higher the loss of another session's first 128 tokens is with the own rows than without any.
        `merged`: with rows of a parent, see `Objective.encode_merged`.
        """
        encode = objective.encode_merged if merged else objective.encode
        rows = [encode(network, sample, 0.0, random.Random(0)).rows for sample in self.samples]
        own, right = self._ask([objective.head(s, r) for s, r in zip(self.samples, rows, strict=True)], objective.actor)
        others = rows[1:] + rows[:1]
        other, other_right = self._ask(
            [objective.head(s, r) for s, r in zip(self.samples, others, strict=True)], objective.actor
        )
        harm = self._measure_harm(rows, objective)
        return {"loss": own, "exact": right, "loss_other": other, "exact_other": other_right, "harm": harm}

    @torch.no_grad()
    def run_full(self, actor: TrainingActor) -> dict[str, float]:
        """The same with the whole history in place of a memory."""
        heads = [actor.embedding(torch.tensor([*s.prefix, *s.parts[0].ids], device=actor.device)) for s in self.samples]
        loss, right = self._ask(heads, actor)
        return {"loss": loss, "exact": right}

    def _measure_harm(self, rows: Sequence[Tensor], objective: Objective) -> float:
        strangers = [Strand(sample.parts[0].ids[:_FOREIGN], 1) for sample in self.samples[2:] + self.samples[:2]]
        harm = []
        for sample, own, stranger in zip(self.samples, rows, strangers, strict=True):
            heads = objective.head(sample, own), objective.bare_head(sample)
            losses = [float(loss[0].mean()) for loss in objective.actor.losses(heads, [[stranger]] * 2)[0]]
            harm.append(losses[0] - losses[1])
        return sum(harm) / len(harm)

    def _ask(self, heads: Sequence[Tensor], actor: TrainingActor) -> tuple[float, float]:
        losses, right = [], []
        for head, sample in zip(heads, self.samples, strict=True):
            own, hits = actor.losses([head], [[question.strand for question in sample.questions]])
            losses += [float(loss[:-1].mean()) for loss in own[0]]
            right += [bool(hit[:-1].all()) for hit in hits[0]]
        return sum(losses) / len(losses), sum(right) / len(right)


def _sample(session: dict[str, Any], phrasing: Phrasing, block_tokens: int) -> Sample:
    ids: list[int] = []
    fitting = 0
    for message in session["parts"][0]:
        own = phrasing.turn(Turn(message["role"], message["content"]))[0]
        if len(ids) + len(own) > block_tokens:
            break
        ids += own
        fitting += 1
    told = [q for q in session["questions"] if q["part"] == 0 and q["type"] != "absent"]
    asked = [q for q in told if q["message"] < fitting]
    return Sample(
        prefix=tuple(phrasing.prefix(session["system"], session["task"])),
        summary=tuple(phrasing.encode(_SUMMARY)),
        parts=(Part(tuple(ids), (False,) * len(ids)),),
        questions=tuple(Question(_strand(q, phrasing), 0, ()) for q in asked),
    )


def _strand(question: dict[str, Any], phrasing: Phrasing) -> Strand:
    asked = [*phrasing.question(question["question"] + " Answer in a few words."), *phrasing.encode("Answer:")]
    return Strand((*asked, *phrasing.encode(" " + question["answer"]), *phrasing.end_ids), len(asked))

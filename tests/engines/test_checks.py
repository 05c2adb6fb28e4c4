"""What both engines refuse before they work, with the numbers in the text."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from remory.engines.base import ActorInfo, EncodeRequest, Fold, Leaf, SamplingParams, Source
from remory.engines.checks import Grammars, check_checkpoint, check_encode, check_source
from remory.errors import CheckpointError, ContextOverflow, InvalidInput
from remory.network import load_checkpoint

from ..conftest import make_tokenizer

ACTOR = ActorInfo(
    name="tiny",
    revision="test",
    width=64,
    vocabulary=384,
    context_length=100,
    dtype="float32",
    device="cpu",
    layers=4,
)


def ids(length: int) -> torch.Tensor:
    return torch.arange(length) % 384


@pytest.mark.parametrize(("tokens", "new"), [(99, 1), (100 - 7, 7), (99, 0), (1, 99)])
def test_a_source_may_fill_the_context(tokens, new):
    check_source(ACTOR, Source(ids(tokens)), new)


@pytest.mark.parametrize(("tokens", "new"), [(99, 2), (100, 0), (1, 100)])
def test_a_source_beyond_the_context_is_refused(tokens, new):
    with pytest.raises(ContextOverflow, match=f"{tokens} input tokens and {new} new ones are {tokens + new}; .* 100"):
        check_source(ACTOR, Source(ids(tokens)), new)


def request(prefix: int = 20, context: int = 60, **more) -> EncodeRequest:
    return EncodeRequest(ids(prefix), Source(ids(context)), torch.arange(context), [Leaf(0, context, 0)], **more)


def test_a_compaction_may_fill_the_context():
    check_encode(ACTOR, request(40, 60), slots=8)


@pytest.mark.parametrize(
    ("more", "longest"),
    [
        ({"context": 81}, 81),
        ({"summary_ids": ids(90), "summary_tokens": 90}, 90),
        ({"folds": [Fold(0, 11, 1)]}, 88),
    ],
    ids=["context", "summary", "children"],
)
def test_whatever_is_read_behind_the_prefix_needs_room(more, longest):
    with pytest.raises(ContextOverflow, match=f"20 tokens and {longest} to be read .* are {20 + longest}; .* 100"):
        check_encode(ACTOR, request(**more), slots=8)


@pytest.mark.parametrize("tokens", [0, 6])
def test_the_summary_lies_within_its_ids(tokens):
    with pytest.raises(InvalidInput, match=f"{tokens} of 5 summary_ids are the summary"):
        check_encode(ACTOR, request(summary_ids=ids(5), summary_tokens=tokens), slots=8)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"dtype": "float16"}, InvalidInput, "bfloat16 or float32, not float16"),
        ({"width": 128}, CheckpointError, "for an actor of width 64, this one has 128"),
        ({"layers": 2}, CheckpointError, "reads layer 2 .*, the actor has 2 layers"),
        ({"vocabulary": 20}, CheckpointError, "the actor's vocabulary has 20"),
    ],
)
def test_a_checkpoint_for_another_actor_is_refused(tiny_checkpoint, change, kind, message):
    checkpoint = load_checkpoint(tiny_checkpoint)
    check_checkpoint(ACTOR, checkpoint)
    with pytest.raises(kind, match=message):
        check_checkpoint(replace(ACTOR, **change), checkpoint)


def test_grammars_are_made_only_for_who_has_one():
    grammars = Grammars(make_tokenizer(), 384)
    assert grammars.constraint(SamplingParams()) is None
    constraint = grammars.constraint(SamplingParams(regex="b"))
    logits = torch.zeros(384)
    constraint.apply(logits)
    assert logits.isfinite().nonzero().flatten().tolist() == make_tokenizer().encode("b")

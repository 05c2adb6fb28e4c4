from __future__ import annotations

import pytest
import torch

from remory.engines.base import SamplingParams
from remory.engines.sampling import Sampler

PROBABILITIES = torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15])


def make_sampler(prompt: tuple[int, ...] = (), **params) -> Sampler:
    ids = torch.tensor(prompt, dtype=torch.int64)
    return Sampler(SamplingParams(seed=1, **params), ids, len(PROBABILITIES), torch.device("cpu"), None)


@pytest.mark.parametrize(
    ("params", "kept"),
    [
        ({"top_k": 2}, {1, 3}),
        ({"top_k": 3}, {1, 3, 4}),
        ({"top_p": 0.69}, {1, 3}),
        ({"top_p": 0.71}, {1, 3, 4}),
        ({"min_p": 0.3}, {1, 3, 4}),
        ({"top_k": 4, "min_p": 0.5}, {1, 3}),
        ({}, {0, 1, 2, 3, 4}),
    ],
)
def test_filters_keep_exactly_these_tokens(params, kept):
    filtered = make_sampler(**params)._filtered(PROBABILITIES.log())
    assert set(filtered.nonzero()[:, 0].tolist()) == kept
    torch.testing.assert_close(filtered[list(kept)], PROBABILITIES[list(kept)])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_temperature(temperature):
    sampler = make_sampler(temperature=temperature)
    drawn = torch.tensor([sampler.choose(PROBABILITIES.log()) for _ in range(4000)])
    expected = (PROBABILITIES.log() / temperature).softmax(-1)
    torch.testing.assert_close(drawn.bincount(minlength=5) / 4000, expected, atol=0.03, rtol=0)


def test_penalties_change_logits_by_their_formulas():
    sampler = make_sampler((0, 3), temperature=0, frequency_penalty=0.5, presence_penalty=0.25, repetition_penalty=2.0)
    logits = torch.tensor([1.0, 4.0, -1.0, -2.0, 0.5])
    assert sampler.choose(logits.clone()) == 1  # counted once from now on
    seen = logits.clone()
    sampler._penalise(seen)
    # 0 and 3 were in the prompt: divided if positive, multiplied if negative; 1 was chosen: halved, then -0.5 - 0.25.
    torch.testing.assert_close(seen, torch.tensor([0.5, 1.25, -1.0, -4.0, 0.5]))

from __future__ import annotations

import pytest
import torch

from remory.engines.base import SamplingParams
from remory.engines.sampling import Sampler

PROBABILITIES = torch.tensor([0.05, 0.4, 0.1, 0.3, 0.15])


def make_sampler(**params) -> Sampler:
    return Sampler(SamplingParams(seed=1, **params), len(PROBABILITIES), torch.device("cpu"), None)


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
    sampler = make_sampler(temperature=0, frequency_penalty=0.5, presence_penalty=0.25, repetition_penalty=2.0)
    logits = torch.tensor([1.0, 4.0, -1.0, -2.0, 0.5])
    for said in ([0, 0, 0, 9, 0], [0, 9, 0, 0, 0], [0, 9, 0, 0, 0]):
        sampler.choose(torch.tensor(said, dtype=torch.float32))
    sampler._penalise(logits)
    # 1 was chosen twice and 3 once: -0.5 each time, -0.25, then halved if positive, doubled if negative.
    torch.testing.assert_close(logits, torch.tensor([1.0, 1.375, -1.0, -5.5, 0.5]))

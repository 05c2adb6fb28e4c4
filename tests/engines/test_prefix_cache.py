from __future__ import annotations

import torch

from remory.engines.base import Source
from remory.engines.prefix_cache import PrefixCache, chunk_keys, chunk_spans


def piece(size: int = 16) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8)


def fill(cache: PrefixCache, name: str, count: int) -> list[bytes]:
    """What a cold prompt does: insert its pieces in order, then touch them."""
    keys = [f"{name}{number}".encode() for number in range(count)]
    for number, key in enumerate(keys):
        cache.insert(key, piece(), keys[:number])
    cache.match(keys)
    return keys


def test_spans_end_at_cuts_and_chunks():
    assert list(chunk_spans(20, (3, 12), 8)) == [(0, 3), (3, 11), (11, 12), (12, 20)]
    assert list(chunk_spans(5, (0, 5, 9), 8)) == [(0, 5)]


def test_the_limit_holds_and_the_end_of_the_oldest_prompt_goes_first():
    cache = PrefixCache(64)
    old = fill(cache, "old", 4)
    fill(cache, "new", 1)
    assert cache.bytes == 64
    assert len(cache.match(old)) == 3


def test_a_prompt_larger_than_the_cache_keeps_its_beginning():
    cache = PrefixCache(64)
    keys = fill(cache, "long", 7)
    assert len(cache.match(keys)) == 4
    assert cache.bytes == 64


def test_a_piece_above_the_limit_is_not_kept():
    cache = PrefixCache(8)
    cache.insert(b"large", piece())
    assert cache.bytes == 0
    assert cache.match([b"large"]) == []


def test_equal_prompts_have_equal_keys_and_later_tokens_change_later_keys_only():
    ids = torch.arange(20)
    other = ids.clone()
    other[15] = 99
    spans = [(0, 8), (8, 16), (16, 20)]
    one, two = chunk_keys(Source(ids), spans, "actor"), chunk_keys(Source(other), spans, "actor")
    assert one[0] == two[0]
    assert not {*one[1:]} & {*two[1:]}
    assert not {*one} & {*chunk_keys(Source(ids), spans, "another actor")}


def test_rows_are_never_taken_for_ids():
    """The bytes of ids, positions and a zero row, written as ids, are another prompt."""
    ids = torch.arange(1, 201)
    rows = Source(ids, torch.zeros(1, 64, dtype=torch.bfloat16), torch.tensor([50]))
    same_bytes = Source(torch.cat([ids, torch.tensor([50]), torch.zeros(16, dtype=torch.int64)]))
    assert chunk_keys(rows, [(0, 200)], "a") != chunk_keys(same_bytes, [(0, 217)], "a")


def test_rows_at_other_places_have_other_keys():
    ids, row = torch.arange(1, 201), torch.ones(1, 64, dtype=torch.bfloat16)
    keys = [chunk_keys(Source(ids, row, torch.tensor([place])), [(0, 200)], "a")[0] for place in (50, 51)]
    assert keys[0] != keys[1]

from __future__ import annotations

import hashlib
import struct
import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remory.engines.sglang.live import LiveStore, PrefixKeys
from remory.errors import InvalidInput

AMPLE = 1 << 30

SEQUENCES = st.lists(st.integers(0, 1), min_size=1, max_size=8)
STEPS = st.lists(st.tuples(st.sampled_from(["record", "read", "read", "clear"]), SEQUENCES, st.integers(0, 7)))


def keys_of(ids) -> list[bytes]:
    keys = PrefixKeys()
    keys.extend(ids)
    return keys[:]


def features(tokens: int, width: int = 4, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, width, generator=torch.Generator().manual_seed(seed)).bfloat16()


def size_of(tokens: int, width: int = 4) -> int:
    """What one record of so many tokens takes."""
    store = LiveStore(AMPLE)
    store.record(keys_of(range(tokens)), features(tokens, width))
    return store.bytes


def record(store: LiveStore, name: int, tokens: int = 4) -> list[bytes]:
    """Record a sequence that begins with `name`, as one segment."""
    keys = keys_of([name, *range(tokens - 1)])
    store.record(keys, features(tokens, seed=name))
    return keys


class Model:
    """A store without a limit: rows by the ids up to and with their position."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, ...], list[float]] = {}

    def record(self, store: LiveStore, ids: list[int], start: int) -> None:
        prefixes = [tuple(ids[: place + 1]) for place in range(start, len(ids))]
        for prefix in prefixes:
            self.rows.setdefault(prefix, [len(self.rows), -len(self.rows)])
        wide = torch.tensor([[*self.rows[prefix], 7.0] for prefix in prefixes]).view(-1, 3)
        store.record(keys_of(ids)[start:], wide[:, :2])

    def check(self, store: LiveStore, ids: list[int]) -> int:
        """Compare what the store has of a sequence, and return how many positions that are."""
        keys = keys_of(ids)
        places = [place for place, known in enumerate(store.known(keys)) if known]
        if places:
            rows = [self.rows[tuple(ids[: place + 1])] for place in places]
            assert store.read([keys[place] for place in places]).tolist() == rows
        return len(places)


def take(steps, store: LiveStore, model: Model) -> None:
    for action, ids, start in steps:
        if action == "record":
            model.record(store, ids, min(start, len(ids)))
        elif action == "read":
            model.check(store, ids)
        else:
            store.clear()
        assert store.bytes <= store.limit_bytes


@given(STEPS, st.integers(0, 6000))
def test_what_is_read_is_what_was_recorded_for_exactly_these_ids(steps, limit):
    store, model = LiveStore(limit), Model()
    take(steps, store, model)
    known = [ids for ids in model.rows if store.known(keys_of(ids))[-1]]
    assert len(known) == store.tokens
    for ids in known:
        assert store.read(keys_of(ids)[-1:]).tolist() == [model.rows[ids]]


@given(STEPS)
def test_without_need_nothing_is_forgotten(steps):
    store, model = LiveStore(AMPLE), Model()
    take([step for step in steps if step[0] != "clear"], store, model)
    assert all(store.known([keys_of(ids)[-1] for ids in model.rows]))
    assert store.tokens == len(model.rows)


@given(SEQUENCES, SEQUENCES)
def test_keys_are_equal_where_all_ids_so_far_are(one, other):
    for place, (left, right) in enumerate(zip(keys_of(one), keys_of(other), strict=False)):
        assert (left == right) == (one[: place + 1] == other[: place + 1])


@given(st.lists(st.integers(0, 2**63 - 1)), st.integers(0, 5))
def test_keys_do_not_depend_on_how_the_ids_arrive(ids, cut):
    keys = PrefixKeys()
    keys.extend(ids[:cut])
    keys.extend(iter(ids[cut:]))
    assert keys[:] == keys_of(ids)
    assert len(keys) == len(ids)


def test_a_key_hashes_the_key_before_it_and_its_id():
    keys = PrefixKeys()
    keys.extend([5, 1 << 40])
    first = hashlib.blake2b(struct.pack("<q", 5), digest_size=16).digest()
    assert keys[0] == first
    assert keys[-1] == hashlib.blake2b(first + struct.pack("<q", 1 << 40), digest_size=16).digest()


@pytest.mark.parametrize("token", [1 << 63, -(1 << 63) - 1])
def test_no_key_is_made_of_what_is_no_int64(token):
    with pytest.raises(struct.error):
        PrefixKeys().extend([token])


def test_sequences_that_begin_alike_share_entries():
    store, rows = LiveStore(AMPLE), features(6)
    store.record(keys_of([1, 2, 3, 4]), rows[[0, 1, 2, 5]])
    before = store.bytes
    other = keys_of([1, 2, 3, 9, 4])
    assert store.known(other) == [True, True, True, False, False]
    store.record(other, rows[:5])
    assert store.tokens == 6
    assert store.bytes - before == size_of(2)
    assert store.read(other).equal(rows[:5])


def test_the_same_tokens_behind_another_beginning_are_others():
    store = LiveStore(AMPLE)
    store.record(keys_of([1, 5, 6, 7]), features(4))
    assert store.known(keys_of([2, 5, 6, 7])) == [False] * 4


def test_a_known_position_keeps_what_it_has():
    store = LiveStore(AMPLE)
    keys = record(store, 1)
    before = store.bytes
    store.record(keys, features(4, seed=99))
    assert store.bytes == before
    assert store.read(keys).equal(features(4, seed=1))


def test_positions_are_read_in_the_order_asked_across_segments():
    store = LiveStore(AMPLE)
    keys, rows = keys_of(range(100)), features(100)
    for start in range(0, 100, 7):
        store.record(keys[start : start + 7], rows[start : start + 7])
    order = torch.randperm(100, generator=torch.Generator().manual_seed(0)).tolist()
    assert store.read(keys).equal(rows)
    assert store.read([keys[place] for place in order]).equal(rows[order])


def test_the_store_and_its_readers_hold_copies():
    store = LiveStore(AMPLE)
    keys, given_rows = keys_of(range(4)), features(4)
    store.record(keys, given_rows)
    given_rows.zero_()
    store.read(keys).zero_()
    assert store.read(keys).equal(features(4))


def test_what_is_kept_holds_neither_a_wider_buffer_nor_a_graph():
    store = LiveStore(AMPLE)
    keys, wide = keys_of(range(4)), features(4, width=64).requires_grad_()
    store.record(keys, wide[:, 8:12])
    assert store.bytes == size_of(4)
    kept = store.read(keys)
    assert kept.is_contiguous() and not kept.requires_grad
    assert kept.equal(wide[:, 8:12])


def test_the_oldest_record_goes_first_and_as_a_whole():
    store = LiveStore(3 * size_of(4))
    one, two, three = (record(store, name) for name in (1, 2, 3))
    record(store, 4, tokens=1)
    assert [store.known(keys) for keys in (one, two, three)] == [[False] * 4, [True] * 4, [True] * 4]
    assert store.tokens == 9


@pytest.mark.parametrize(("room", "staying"), [(0, [True, True, True]), (-1, [False, True, True])])
def test_the_limit_holds_to_the_byte(room, staying):
    store = LiveStore(3 * size_of(4) + room)
    records = [record(store, name) for name in (1, 2, 3)]
    assert [store.known(keys)[0] for keys in records] == staying
    assert store.bytes == sum(staying) * size_of(4)


def test_reading_a_part_counts_as_use_of_its_segment_and_asking_does_not():
    store = LiveStore(3 * size_of(4))
    one, two, three = (record(store, name) for name in (1, 2, 3))
    store.read(one[2:3])
    store.known(two)
    record(store, 4)
    assert [store.known(keys)[0] for keys in (one, two, three)] == [True, False, True]


def test_recording_what_is_there_counts_as_use():
    store = LiveStore(3 * size_of(4))
    one, two, three = (record(store, name) for name in (1, 2, 3))
    record(store, 1)
    record(store, 4)
    assert [store.known(keys)[0] for keys in (one, two, three)] == [True, False, True]


def test_of_a_record_above_the_limit_the_first_positions_stay():
    store = LiveStore(size_of(11) - 1)
    record(store, 1)
    keys = keys_of([7, *range(40)])
    store.record(keys, features(41))
    assert store.known(keys) == [True] * 10 + [False] * 31
    assert store.tokens == 10
    assert store.read(keys[:10]).equal(features(41)[:10])


@pytest.mark.parametrize("limit", [0, size_of(1) - 1])
def test_where_no_token_fits_nothing_is_kept(limit):
    store = LiveStore(limit)
    assert store.known(record(store, 1)) == [False] * 4
    assert (store.bytes, store.tokens) == (0, 0)


def test_features_of_another_layout_follow_after_clear():
    store = LiveStore(AMPLE)
    keys = record(store, 1)
    store.clear()
    assert (store.bytes, store.tokens, store.known(keys)) == (0, 0, [False] * 4)
    store.record(keys, features(4, width=6).float())
    assert store.read(keys).equal(features(4, width=6).float())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (features(3), r"must be \[4, F\] for 4 keys, got \[3, 4\]"),
        (features(4)[0], r"must be \[4, F\] for 4 keys, got \[4\]"),
        (features(4, width=6), r"6 wide in torch.bfloat16, those held are 4 wide in torch.bfloat16"),
        (features(4).float(), r"4 wide in torch.float32, those held are 4 wide in torch.bfloat16"),
    ],
)
def test_features_that_do_not_fit_change_nothing(wrong, words):
    store = LiveStore(AMPLE)
    held = record(store, 1)
    new = keys_of([2, 3, 4, 5])
    before = store.bytes
    with pytest.raises(InvalidInput, match=words):
        store.record(new, wrong)
    assert (store.bytes, store.known(new)) == (before, [False] * 4)
    assert store.read(held).equal(features(4, seed=1))


def test_a_missing_position_is_told_with_the_numbers():
    store = LiveStore(AMPLE)
    keys = record(store, 1)
    with pytest.raises(InvalidInput, match="of 5 positions are wanted, those of 4 are there"):
        store.read([*keys, *keys_of([9])])
    with pytest.raises(InvalidInput, match="of 0 positions are wanted"):
        store.read([])


@pytest.mark.parametrize("chunk", [1, 32, 2048])
def test_the_estimate_of_the_index_is_fair(chunk):
    """Python's own objects are counted here; the features, and the tensors that hold them, live outside its heap."""
    tokens, rows = 4 * 2048, torch.zeros(chunk, 1)
    tracemalloc.start()
    store, keys = LiveStore(AMPLE), PrefixKeys()
    for start in range(0, tokens, chunk):
        keys.extend(range(start, start + chunk))
        store.record(keys[start:], rows)
    del keys
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    index = store.bytes - tokens * rows.element_size()
    assert index / 3 < taken < index

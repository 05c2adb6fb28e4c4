from __future__ import annotations

import pytest
import torch

from remory.compaction import Memory, Node
from remory.compaction.memory import pack_ids, pack_rows, unpack_ids, unpack_rows
from remory.errors import InvalidInput


def test_rows_survive_packing_bit_for_bit():
    rows = torch.randn(12, 7).to(torch.bfloat16)
    assert torch.equal(unpack_rows(pack_rows(rows), 7), rows)


def test_rows_are_little_endian_bfloat16():
    assert pack_rows(torch.tensor([[1.0, -2.0]])) == bytes.fromhex("803f00c0")


def test_ids_survive_packing():
    ids = torch.tensor([0, 1, 49151, 2**31 - 1])
    assert torch.equal(unpack_ids(pack_ids(ids)), ids)
    assert pack_ids([1]) == b"\x01\0\0\0"


@pytest.mark.parametrize("size", [1, 13, 15])
def test_bytes_that_are_no_rows_are_refused(size):
    with pytest.raises(InvalidInput, match=f"{size} bytes"):
        unpack_rows(bytes(size), 7)


def test_a_memory_returns_from_its_bytes():
    rows = torch.randn(8, 4).to(torch.bfloat16)
    memory = Memory(torch.tensor([1, 2]), torch.tensor([3]), rows, (Node(0, 60, 1), Node(60, 90, 1)), "me", {"a": 1})
    again = Memory.from_bytes(
        prefix_ids=pack_ids(memory.prefix_ids),
        summary_ids=pack_ids(memory.summary_ids),
        rows=memory.rows_bytes(),
        width=4,
        frontier=[[0, 60, 1], [60, 90, 1]],
        identity="me",
        receipt={"a": 1},
        handle="rm_x",
    )
    assert again.rows_sha256 == memory.rows_sha256
    assert again.frontier == memory.frontier
    assert torch.equal(again.prefix_ids, memory.prefix_ids)
    assert again.source_total == 90


def test_rows_must_divide_into_nodes():
    with pytest.raises(InvalidInput, match="3 rows do not divide into 2 nodes"):
        Memory.from_bytes(
            prefix_ids=b"",
            summary_ids=b"",
            rows=bytes(3 * 8),
            width=4,
            frontier=[[0, 1, 1], [1, 2, 1]],
            identity="",
            receipt={},
        )

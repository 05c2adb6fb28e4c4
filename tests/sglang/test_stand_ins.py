"""What stands in for compiled kernels does what they do."""

from __future__ import annotations

import struct

import torch

from remory.engines.sglang.cpu_stand_ins.sgl_kernel import assign_req_to_token_pool_cpu, murmur_hash32_cpu
from tests.sglang.definition import murmur3


def test_the_hash_is_murmur3_of_seed_position_and_column():
    # The published value, so that the definition above is right itself.
    assert murmur3(b"\xff\xff\xff\xff") == 0x76293B50
    seeds, positions, columns = [-1, 5, (1 << 62) + 3], [0, 7, 2047], [0, 1, 49151]
    hashed = murmur_hash32_cpu(
        torch.tensor(seeds).to(torch.uint64), torch.tensor(positions), torch.tensor(columns, dtype=torch.int32)
    )
    assert hashed.dtype == torch.uint32
    assert hashed.tolist() == [
        [murmur3(struct.pack("<qII", seed, position, column)) for column in columns]
        for seed, position in zip(seeds, positions, strict=True)
    ]


def test_places_of_new_tokens_are_written_request_by_request():
    table = torch.full((4, 6), -1, dtype=torch.int32)
    assign_req_to_token_pool_cpu(
        torch.tensor([2, 0]), table, torch.tensor([1, 0]), torch.tensor([4, 2]), torch.arange(10, 15), 6
    )
    assert table[2].tolist() == [-1, 10, 11, 12, -1, -1]
    assert table[0].tolist() == [13, 14, -1, -1, -1, -1]
    assert (table[[1, 3]] == -1).all()

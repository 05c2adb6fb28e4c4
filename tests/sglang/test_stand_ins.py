"""What stands in for compiled kernels does what they do."""

from __future__ import annotations

import struct

import torch

from remory.engines.sglang.cpu_stand_ins.sgl_kernel import assign_req_to_token_pool_cpu, murmur_hash32_cpu


def murmur3(data: bytes) -> int:
    """MurmurHash3_x86_32 with seed 0, of whole blocks of 4 bytes."""

    def rotated(value: int, bits: int) -> int:
        return (value << bits | value >> 32 - bits) & 0xFFFFFFFF

    value = 0
    for (block,) in struct.iter_unpack("<I", data):
        value ^= rotated(block * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        value = (rotated(value, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    value = (value ^ value >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return value ^ value >> 16


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

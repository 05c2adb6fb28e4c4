#pragma once

#include "../slots.h"
#include "element.h"

namespace remory::cpu {

// Vectors by (block, row, head), each contiguous; strides in elements.
template <class Pointer>
struct BasicHeads {
  Pointer data;
  int64_t block_stride, row_stride, head_stride;
};
using Heads = BasicHeads<void*>;
using ConstHeads = BasicHeads<const void*>;

// Attention of the slots of `blocks` blocks over source tokens and slots, seen from one window each. All tensors hold
// elements of `type`. `lengths` [blocks] counts the source tokens of each block, or is null when all `tokens` count;
// what lies behind them is never read. Source or slot keys may be absent (data null). `heads` is a multiple of
// `kv_heads`.
struct Attention {
  ElementType type;
  ConstHeads queries;
  ConstHeads source_keys, source_values;
  ConstHeads slot_keys, slot_values;
  Heads out;
  const int64_t* lengths;
  int64_t tokens;
  Slots slots;
  int64_t blocks, heads, kv_heads, head_dim;
  float scale;

  // The units of work: (block, kv head, tile of slots).
  int64_t tile_slots() const;
  int64_t tiles() const;
};

// Computes the tiles [begin, end). Any two tiles may run at the same time.
void attend(const Attention& attention, int64_t begin, int64_t end);

}  // namespace remory::cpu

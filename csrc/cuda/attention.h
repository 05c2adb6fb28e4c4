#pragma once

#include "../slots.h"
#include "launch.h"

namespace remory::REMORY_DEVICE {

// Vectors by (block, row, head), each contiguous; strides in elements.
template <class Pointer>
struct BasicHeads {
  Pointer data;
  int64_t block_stride, row_stride, head_stride;
};
using Heads = BasicHeads<void*>;
using ConstHeads = BasicHeads<const void*>;

constexpr int64_t kMostHeadDim = 256;

// Attention of the slots of `blocks` blocks over source tokens and slots, seen from one window each. All tensors hold
// elements of `type`. `lengths` [blocks] counts the source tokens of each block, 0 to `tokens`, or is null when all
// count; what lies behind them is never read. Source or slot keys may be absent (data null); a block stride of 0 shares
// them. `heads` is a multiple of `kv_heads`; head_dim is at most kMostHeadDim.
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
};
int attend(const Attention& attention, void* stream);

}  // namespace remory::REMORY_DEVICE

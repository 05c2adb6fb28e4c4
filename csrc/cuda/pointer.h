#pragma once

#include "../slots.h"
#include "attention.h"
#include "launch.h"

namespace remory::REMORY_DEVICE {

// The copy path: every slot and head take a weighted mean of the embeddings of the tokens in the slot's window. Score
// of token t: q · k / sqrt(head_dim) + idf_scale[head] * idf[t] + group_bonus[head] * [t in the slot's own group].
// Vectors hold elements of `type`; `width` elements in an embedding, in `mean` and in a row of `out`.
struct Pointer {
  ElementType type;
  ConstHeads queries, keys;  // (block, slot, head) and (block, token, head): head_dim elements
  ConstHeads embeddings;     // (block, token), no heads
  const void* idf;           // [blocks, tokens] of idf_type at these strides
  ElementType idf_type;
  int64_t idf_block_stride, idf_token_stride;
  const float* idf_scale;    // [heads]
  const float* group_bonus;  // [heads]
  const float* mean;         // [width], taken off the embeddings
  Heads out;                 // (block, slot, head); zero where a slot sees no token
  const int64_t* lengths;
  Slots slots;
  const int64_t* kept;  // [blocks, slots] where each slot's own group begins; it ends where the next one does. Or null
  int64_t blocks, tokens, heads, head_dim, width;
};
int point(const Pointer& pointer, void* stream);

}  // namespace remory::REMORY_DEVICE

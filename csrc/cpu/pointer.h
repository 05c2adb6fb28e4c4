#pragma once

#include "../slots.h"
#include "attention.h"

namespace remory::cpu {

// The copy path: every slot and head take a weighted mean of the embeddings of the tokens in the slot's window. Score
// of token t: q · k / sqrt(head_dim) + idf_scale[head] * idf[t] + group_bonus[head] * [t in the slot's own group].
// Vectors hold elements of `type`; `width` elements in an embedding, in `mean` and in a row of `out`.
struct Pointer {
  ElementType type;
  ConstHeads queries, keys;  // (block, slot, head) and (block, token, head): head_dim elements
  ConstHeads embeddings;     // (block, token), no heads
  const float* idf;          // [blocks, tokens]
  const float* idf_scale;    // [heads]
  const float* group_bonus;  // [heads]
  const float* mean;         // [width], taken off the embeddings
  Heads out;                 // (block, slot, head); zero where a slot sees no token
  const int64_t* lengths;
  Slots slots;
  const int64_t* kept;  // [blocks, slots] where each slot's own group begins; it ends where the next one does. Or null
  int64_t blocks, tokens, heads, head_dim, width;

  // The units of work: (block, tile of slots).
  int64_t tiles() const;

  // The source tokens of a slot's own group.
  Range group(int64_t block, int64_t slot) const {
    if (!kept) return {slots.first(slot), slots.stop(slot)};
    const int64_t* first = kept + block * slots.count() + slot;
    return {first[0], slot + 1 < slots.count() ? first[1] : lengths[block]};
  }
};

// Computes the tiles [begin, end). Any two tiles may run at the same time.
void point(const Pointer& pointer, int64_t begin, int64_t end);

}  // namespace remory::cpu

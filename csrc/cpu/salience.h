// Which source tokens a block's rows start from: scores over each token and its neighbours, and the best of them.
#pragma once

#include <vector>

#include "element.h"

namespace remory::cpu {

// out[b, t] = silu(sum_k taps[k] * x[b, t + k - reach]), x = source + lexical_scale * lexical. Tokens outside the block
// or behind its length count as zeros and are never read; their own rows of `out` are zeros.
struct Neighbours {
  ConstMatrix source, lexical;  // [blocks * tokens, channels]
  float lexical_scale;
  const float* taps;  // [2 * reach + 1, channels]
  const int64_t* lengths;
  int64_t tokens, reach, channels;
  Matrix out;  // [blocks * tokens, channels], float32
};
// Computes the rows [begin, end) out of blocks * tokens.
void mix_neighbours(const Neighbours& neighbours, int64_t begin, int64_t end);

// scores[r] = sum_c silu(mixed[r, c]) * weight[c]; `mixed` hold float32.
void score(const ConstMatrix& mixed, const float* weight, float* scores, int64_t channels, int64_t begin, int64_t end);

// kept[b]: the `slots` tokens of block b with the highest scores, ascending; of equal scores the earlier token, and NaN
// above all. A block of fewer tokens keeps them all, the first one repeated in front.
struct Selection {
  const float* scores;  // [blocks, tokens]
  const int64_t* lengths;
  int64_t tokens, slots;
  int64_t* kept;  // [blocks, slots]
};
// Selects for the blocks [begin, end).
void select(const Selection& selection, int64_t begin, int64_t end);

}  // namespace remory::cpu

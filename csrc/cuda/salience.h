// Which source tokens a block's rows start from: scores over each token and its neighbours, and the best of them.
#pragma once

#include "launch.h"

namespace remory::REMORY_DEVICE {

// out[b, t] = silu(sum_k taps[k] * x[b, t + k - reach]), x = source + lexical / output_rms. Tokens outside the block or
// behind its length count as zeros and are never read; their own rows of `out` are zeros.
struct Neighbours {
  ConstMatrix source, lexical;  // [blocks * tokens, channels], of one type
  const float* output_rms;      // one number
  const float* taps;            // [2 * reach + 1, channels]
  const int64_t* lengths;
  int64_t blocks, tokens, reach, channels;
  float* out;  // [blocks * tokens, channels]
};
int mix_neighbours(const Neighbours& neighbours, void* stream);

// kept[b]: the `slots` tokens of block b with the highest scores sum_c silu(mixed[b, t, c]) * weight[c], ascending; of
// equal scores the earlier token, and NaN above all. A block of fewer tokens keeps them all, the first one repeated in
// front.
struct Selection {
  ConstMatrix mixed;    // [blocks * tokens, channels], float32
  const float* weight;  // [channels]
  const int64_t* lengths;
  int64_t blocks, tokens, channels, slots;
  unsigned* ranks;  // [blocks, tokens]: room for the scores as numbers that sort alike
  int64_t* kept;    // [blocks, slots]
};
int select(const Selection& selection, void* stream);

}  // namespace remory::REMORY_DEVICE

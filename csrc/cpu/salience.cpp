#include "salience.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "simd.h"

namespace remory::cpu {

REMORY_CLONES
void mix_neighbours(const Neighbours& neighbours, int64_t begin, int64_t end) {
  const int64_t channels = neighbours.channels, tokens = neighbours.tokens, reach = neighbours.reach;
  dispatch(neighbours.source.type, [&](auto element) __attribute__((always_inline)) {
    using T = decltype(element);
    // The tokens that these rows look at, each converted once.
    const int64_t first = std::max(begin - reach, begin / tokens * tokens);
    const int64_t last = std::min(end + reach, ((end - 1) / tokens + 1) * tokens);
    std::vector<float> window((last - first) * channels);
    for (int64_t r = first; r < last; ++r) {
      if (r % tokens >= neighbours.lengths[r / tokens]) continue;
      const T *source = row<T>(neighbours.source, r), *lexical = row<T>(neighbours.lexical, r);
      float* target = &window[(r - first) * channels];
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) {
        target[c] = load(source[c]) + neighbours.lexical_scale * load(lexical[c]);
      }
    }
    for (int64_t r = begin; r < end; ++r) {
      const int64_t start = r / tokens * tokens, stop = start + neighbours.lengths[r / tokens];
      float* out = row<float>(neighbours.out, r);
      std::fill(out, out + channels, 0.0f);
      if (r >= stop) continue;
      for (int64_t near = std::max(r - reach, start); near < std::min(r + reach + 1, stop); ++near) {
        const float* values = &window[(near - first) * channels];
        const float* taps = neighbours.taps + (near - r + reach) * channels;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) out[c] += taps[c] * values[c];
      }
#pragma omp simd
      for (int64_t c = 0; c < channels; ++c) out[c] = silu(out[c]);
    }
  });
}

REMORY_CLONES
void score(const ConstMatrix& mixed, const float* weight, float* scores, int64_t channels, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const float* values = row<float>(mixed, r);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < channels; ++c) sum += silu(values[c]) * weight[c];
    scores[r] = sum;
  }
}

void select(const Selection& selection, int64_t begin, int64_t end) {
  std::vector<int64_t> order(selection.tokens);
  for (int64_t block = begin; block < end; ++block) {
    const float* scores = selection.scores + block * selection.tokens;
    const auto better = [scores](int64_t left, int64_t right) {
      const bool left_nan = std::isnan(scores[left]), right_nan = std::isnan(scores[right]);
      if (left_nan != right_nan) return left_nan;
      if (scores[left] != scores[right] && !left_nan) return scores[left] > scores[right];
      return left < right;
    };
    const int64_t length = selection.lengths[block], count = std::min(selection.slots, length);
    std::iota(order.begin(), order.begin() + length, int64_t{0});
    std::nth_element(order.begin(), order.begin() + count, order.begin() + length, better);
    std::sort(order.begin(), order.begin() + count);
    int64_t* kept = selection.kept + block * selection.slots;
    std::fill(kept, kept + selection.slots - count, int64_t{0});
    std::copy(order.begin(), order.begin() + count, kept + selection.slots - count);
  }
}

}  // namespace remory::cpu

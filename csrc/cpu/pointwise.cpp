#include "pointwise.h"

#include <algorithm>
#include <cmath>

#include "simd.h"

namespace remory::cpu {
namespace {

template <class T>
REMORY_INLINE float inverse_rms(const T* values, int64_t width, float eps) {
  float squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t d = 0; d < width; ++d) squares += load(values[d]) * load(values[d]);
  return 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
}

template <class In, class Out>
REMORY_INLINE void norm_row(const In* in, const float* weight, float scale, float eps, Out* out, int64_t width) {
  const float factor = scale * inverse_rms(in, width, eps);
  if (weight) {
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) out[d] = store<Out>(load(in[d]) * factor * weight[d]);
  } else {
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) out[d] = store<Out>(load(in[d]) * factor);
  }
}

// Dimension i is paired with i + head_dim / 2.
template <class T>
REMORY_INLINE void norm_and_rotate(T* head, const float* weight, const float* rotation, float eps, int64_t head_dim) {
  const float scale = inverse_rms(head, head_dim, eps);
  const int64_t half = head_dim / 2;
  const float *cosines = rotation, *sines = rotation + half;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const float first = load(head[i]) * scale * weight[i];
    const float second = load(head[i + half]) * scale * weight[i + half];
    head[i] = store<T>(first * cosines[i] - second * sines[i]);
    head[i + half] = store<T>(second * cosines[i] + first * sines[i]);
  }
}

}  // namespace

REMORY_CLONES
void rms_norm(const RmsNorm& norm, int64_t begin, int64_t end) {
  dispatch(norm.in.type, [&](auto read) __attribute__((always_inline)) {
    dispatch(norm.out.type, [&](auto written) __attribute__((always_inline)) {
      for (int64_t r = begin; r < end; ++r) {
        const auto* in = row<decltype(read)>(norm.in, r);
        norm_row(in, norm.weight, norm.scale, norm.eps, row<decltype(written)>(norm.out, r), norm.width);
      }
    });
  });
}

// In double: a float32 angle at position 1000 is already off by 3e-5.
void rotation(int64_t position, double theta, int64_t head_dim, float* cosines_and_sines) {
  const int64_t half = head_dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * std::pow(theta, -2.0 * i / head_dim);
    cosines_and_sines[i] = static_cast<float>(std::cos(angle));
    cosines_and_sines[half + i] = static_cast<float>(std::sin(angle));
  }
}

REMORY_CLONES
void norm_heads(const HeadNorm& norm, int64_t begin, int64_t end) {
  dispatch(norm.projected.type, [&](auto element) __attribute__((always_inline)) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t block = r / norm.per_block, position = r % norm.per_block;
      if (norm.lengths && position >= norm.lengths[block]) continue;
      for (int64_t h = 0; h < norm.heads; ++h) {
        auto* head = row<decltype(element)>(norm.projected, r) + h * norm.head_dim;
        if (norm.rotations) {
          const float* rotation = norm.rotations + r % norm.rotated * norm.head_dim;
          norm_and_rotate(head, norm.weight, rotation, norm.eps, norm.head_dim);
        } else {
          norm_row(head, norm.weight, 1.0f, norm.eps, head, norm.head_dim);
        }
      }
    }
  });
}

REMORY_CLONES
void swiglu(const Matrix& gate, const ConstMatrix& up, int64_t width, int64_t begin, int64_t end) {
  dispatch(gate.type, [&](auto element) __attribute__((always_inline)) {
    using T = decltype(element);
    for (int64_t r = begin; r < end; ++r) {
      T* gates = row<T>(gate, r);
      const T* ups = row<T>(up, r);
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) gates[d] = store<T>(silu(load(gates[d])) * load(ups[d]));
    }
  });
}

REMORY_CLONES
void add_scaled(const Matrix& sums, const ConstMatrix& addends, float scale, int64_t width, int64_t begin,
                int64_t end) {
  dispatch(addends.type, [&](auto element) __attribute__((always_inline)) {
    for (int64_t r = begin; r < end; ++r) {
      float* sum = row<float>(sums, r);
      const auto* addend = row<decltype(element)>(addends, r);
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) sum[d] += scale * load(addend[d]);
    }
  });
}

void keep_last(const int64_t* lengths, int64_t slots, int64_t* kept, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    kept[r] = std::max<int64_t>(lengths[r / slots] - slots + r % slots, 0);
  }
}

REMORY_CLONES
void add_kept(const Kept& kept, int64_t begin, int64_t end) {
  dispatch(kept.tokens.type, [&](auto element) __attribute__((always_inline)) {
    for (int64_t r = begin; r < end; ++r) {
      const auto* token = row<decltype(element)>(kept.tokens, kept.indices[r]) + r / kept.slots * kept.block_stride;
      float* target = row<float>(kept.rows, r);
#pragma omp simd
      for (int64_t d = 0; d < kept.width; ++d) target[d] = load(token[d]) + kept.gate * target[d];
    }
  });
}

}  // namespace remory::cpu

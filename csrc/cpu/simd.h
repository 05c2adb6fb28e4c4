// Vector building blocks of the attention kernels, written with GCC's vector extension: each clone of a kernel
// compiles them to its own registers.
#pragma once

#include "element.h"

namespace remory::cpu {

constexpr int64_t kLanes = 16;

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

REMORY_INLINE Vector& vector_at(float* data) { return *reinterpret_cast<Vector*>(data); }
REMORY_INLINE const Vector& vector_at(const float* data) { return *reinterpret_cast<const Vector*>(data); }

constexpr int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// exp of a value that is at most about 88, to 2 ulp; below -87 it is cut off at 1.6e-38, which no sum notices.
// x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts keeps r exact, and exp(r) is its Taylor series to r^7.
REMORY_INLINE float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;  // 1.5 * 2^23: the sum rounds to an integer
  const float k = shifted - 12582912.0f;
  const float r = (x - k * 0.693145751953125f) - k * 1.42860682030941723e-6f;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  const uint32_t scale_bits = (bits << 23) + 0x3F800000;
  float scale;
  std::memcpy(&scale, &scale_bits, sizeof(scale));
  return series * scale;
}

// x * sigmoid(x). exp of the negated magnitude never overflows; for the negative half sigmoid(x) is
// exp(x) / (1 + exp(x)).
REMORY_INLINE float silu(float x) {
  const float decay = exponential(x < 0 ? x : -x);
  return x * ((x < 0 ? decay : 1.0f) / (1.0f + decay));
}

// sums[q * stride] += Σ_k weights[q][k] * values[k] over rows [begin, end) of `values`, `Columns` vectors wide.
template <int Queries, int Columns>
REMORY_INLINE void accumulate_columns(const float* weights, int64_t weight_stride, const float* values,
                                      int64_t value_stride, int64_t begin, int64_t end, float* sums,
                                      int64_t sum_stride) {
  Vector total[Queries][Columns];
  for (int q = 0; q < Queries; ++q) {
    for (int c = 0; c < Columns; ++c) total[q][c] = vector_at(sums + q * sum_stride + c * kLanes);
  }
  for (int64_t k = begin; k < end; ++k) {
    for (int c = 0; c < Columns; ++c) {
      const Vector value = vector_at(values + k * value_stride + c * kLanes);
      for (int q = 0; q < Queries; ++q) total[q][c] += weights[q * weight_stride + k] * value;
    }
  }
  for (int q = 0; q < Queries; ++q) {
    for (int c = 0; c < Columns; ++c) vector_at(sums + q * sum_stride + c * kLanes) = total[q][c];
  }
}

// sums[q][0 … width) += Σ_k weights[q][k] * values[k][0 … width); width is a multiple of kLanes.
template <int Queries>
REMORY_INLINE void accumulate(const float* weights, int64_t weight_stride, const float* values, int64_t value_stride,
                              int64_t begin, int64_t end, float* sums, int64_t sum_stride, int64_t width) {
  int64_t d = 0;
  for (; d + 2 * kLanes <= width; d += 2 * kLanes) {
    accumulate_columns<Queries, 2>(weights, weight_stride, values + d, value_stride, begin, end, sums + d, sum_stride);
  }
  if (d < width) {
    accumulate_columns<Queries, 1>(weights, weight_stride, values + d, value_stride, begin, end, sums + d, sum_stride);
  }
}

// What softmax needs to know of the scores seen so far.
struct SoftmaxState {
  float maximum, sum;
};

// Turns scores[begin … end) into exp(score - maximum) and returns what the sums made so far must be scaled by.
REMORY_INLINE float softmax_step(float* scores, int64_t begin, int64_t end, SoftmaxState& state) {
  float maximum = state.maximum;
#pragma omp simd reduction(max : maximum)
  for (int64_t k = begin; k < end; ++k) maximum = scores[k] > maximum ? scores[k] : maximum;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t k = begin; k < end; ++k) {
    scores[k] = exponential(scores[k] - maximum);
    sum += scores[k];
  }
  const float correction = exponential(state.maximum - maximum);
  state = {maximum, state.sum * correction + sum};
  return correction;
}

}  // namespace remory::cpu

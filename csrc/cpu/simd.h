// Vector building blocks of the attention kernels, written with GCC's vector extension: each clone of a kernel
// compiles them to its own registers.
#pragma once

#include "element.h"

namespace remory::cpu {

constexpr int64_t kLanes = 16;

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

REMORY_INLINE Vector& vector_at(float* data) { return *reinterpret_cast<Vector*>(data); }
REMORY_INLINE const Vector& vector_at(const float* data) { return *reinterpret_cast<const Vector*>(data); }

typedef uint32_t Words __attribute__((vector_size(kLanes * sizeof(uint32_t)), aligned(sizeof(uint32_t)), may_alias));
typedef uint16_t Halves __attribute__((vector_size(kLanes * sizeof(uint16_t)), aligned(sizeof(uint16_t)), may_alias));

REMORY_INLINE Vector load_vector(const float* data) { return vector_at(data); }

REMORY_INLINE Vector load_vector(const bfloat16* data) {
  const Halves halves = *reinterpret_cast<const Halves*>(data);
  return reinterpret_cast<Vector>(__builtin_convertvector(halves, Words) << 16);
}

// The bits of store<bfloat16> in the upper half of each word; the lower half is of no use.
REMORY_INLINE Words round_to_upper_half(const Vector& values) {
  const Words bits = reinterpret_cast<Words>(values);
  return values == values ? bits + 0x7FFF + ((bits >> 16) & 1) : bits | 0x400000;
}

REMORY_INLINE Halves to_halves(const Vector& values) {
  return __builtin_convertvector(round_to_upper_half(values) >> 16, Halves);
}

REMORY_INLINE void store_vector(float* data, const Vector& values) { vector_at(data) = values; }
REMORY_INLINE void store_vector(bfloat16* data, const Vector& values) {
  *reinterpret_cast<Halves*>(data) = to_halves(values);
}

typedef float Quad __attribute__((vector_size(4 * sizeof(float)), aligned(sizeof(float)), may_alias));

REMORY_INLINE Quad& quad_at(float* data) { return *reinterpret_cast<Quad*>(data); }

// out[j * out_stride + i] = in[i * in_stride + j] for i, j in [0, 4)
REMORY_INLINE void transpose(float* in, int64_t in_stride, float* out, int64_t out_stride) {
  const Quad a = quad_at(in), b = quad_at(in + in_stride), c = quad_at(in + 2 * in_stride);
  const Quad d = quad_at(in + 3 * in_stride);
  const Quad ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad AB = __builtin_shufflevector(a, b, 2, 6, 3, 7), CD = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  quad_at(out) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  quad_at(out + out_stride) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  quad_at(out + 2 * out_stride) = __builtin_shufflevector(AB, CD, 0, 1, 4, 5);
  quad_at(out + 3 * out_stride) = __builtin_shufflevector(AB, CD, 2, 3, 6, 7);
}

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

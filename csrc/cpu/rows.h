// One pass over rows that lie scattered in memory, for the kernels that only move them: kStep elements at a time, each
// step asking for the same part of a row that comes later, because no processor guesses where that lies.
#pragma once

#include <algorithm>
#include <type_traits>

#include "simd.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace remory::cpu {

constexpr int64_t kStep = 2 * kLanes;
constexpr int64_t kRowsAhead = 4;

// Outputs of this many bytes leave the caches before anyone reads them: they are written past the caches, which also
// saves reading the lines that are overwritten.
constexpr int64_t kStreamedBytes = 4 << 20;

// Whether to write `rows` rows of `width` elements past the caches. That needs addresses that are multiples of 16.
inline bool streams(const Matrix& out, int64_t rows, int64_t width) {
#ifdef __SSE2__
  const int64_t size = element_size(out.type);
  const bool aligned = reinterpret_cast<uintptr_t>(out.data) % 16 == 0 && out.stride * size % 16 == 0;
  return aligned && rows * width * size >= kStreamedBytes;
#else
  return false;
#endif
}

// Makes streamed rows visible to other threads.
inline void finish_streaming() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

template <class T>
REMORY_INLINE void prefetch_step(const T* elements) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t d = 0; d < kStep; d += kLine) __builtin_prefetch(elements + d);
}

// A line that is written in part is read first, unless it is written past the caches.
template <bool kStreamed, class T>
REMORY_INLINE void prefetch_target(const T* elements) {
  if constexpr (!kStreamed) prefetch_step(elements);
}

template <bool kStreamed>
REMORY_INLINE void write(void* target, const Vector& values) {
#ifdef __SSE2__
  if constexpr (kStreamed) {
    float* floats = static_cast<float*>(target);
    _mm_stream_ps(floats, __builtin_shufflevector(values, values, 0, 1, 2, 3));
    _mm_stream_ps(floats + 4, __builtin_shufflevector(values, values, 4, 5, 6, 7));
    _mm_stream_ps(floats + 8, __builtin_shufflevector(values, values, 8, 9, 10, 11));
    _mm_stream_ps(floats + 12, __builtin_shufflevector(values, values, 12, 13, 14, 15));
    return;
  }
#endif
  vector_at(static_cast<float*>(target)) = values;
}

template <bool kStreamed>
REMORY_INLINE void write_step(float* out, const Vector& first, const Vector& second) {
  write<kStreamed>(out, first);
  write<kStreamed>(out + kLanes, second);
}

template <bool kStreamed>
REMORY_INLINE void write_step(bfloat16* out, const Vector& first, const Vector& second) {
  const Halves halves[2] = {to_halves(first), to_halves(second)};
  write<kStreamed>(out, vector_at(reinterpret_cast<const float*>(halves)));
}

// out[0 … kStep) = in, cast.
template <bool kStreamed, class In, class Out>
REMORY_INLINE void copy_step(const In* in, Out* out) {
  if constexpr (std::is_same_v<In, Out>) {
    const float* words = reinterpret_cast<const float*>(in);
    for (size_t w = 0; w < kStep * sizeof(In) / sizeof(float); w += kLanes) {
      write<kStreamed>(reinterpret_cast<float*>(out) + w, vector_at(words + w));
    }
  } else {
    write_step<kStreamed>(out, load_vector(in), load_vector(in + kLanes));
  }
}

// out[0 … kStep) = left + right, cast.
template <bool kStreamed, class In, class Out>
REMORY_INLINE void add_step(const In* left, const In* right, Out* out) {
  if constexpr (std::is_same_v<In, bfloat16> && std::is_same_v<Out, bfloat16>) {
    // Even and odd elements apart: that takes no shuffle.
    const Words a = *reinterpret_cast<const Words*>(left), b = *reinterpret_cast<const Words*>(right);
    const Vector even = reinterpret_cast<Vector>(a << 16) + reinterpret_cast<Vector>(b << 16);
    const Vector odd = reinterpret_cast<Vector>(a & 0xFFFF0000) + reinterpret_cast<Vector>(b & 0xFFFF0000);
    const Words sums = (round_to_upper_half(even) >> 16) | (round_to_upper_half(odd) & 0xFFFF0000);
    write<kStreamed>(out, reinterpret_cast<Vector>(sums));
  } else {
    write_step<kStreamed>(out, load_vector(left) + load_vector(right),
                          load_vector(left + kLanes) + load_vector(right + kLanes));
  }
}

}  // namespace remory::cpu

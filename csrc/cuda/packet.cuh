// Elements moved 16 bytes at a time, and copies into shared memory that nobody waits for at once.
#pragma once

#include <initializer_list>

#include "../simt/simt.h"
#include "element.cuh"

namespace remory::REMORY_DEVICE {

template <class T>
constexpr int kPacketOf = 16 / static_cast<int>(sizeof(T));

// N neighbours as one access of up to 16 bytes, or several of 16; aligned to its size, or to 16.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Run {
  T elements[N];
};

template <class T, int N>
__device__ __forceinline__ void load_run(const T* source, float* values) {
  const Run<T, N> run = *reinterpret_cast<const Run<T, N>*>(source);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = load(run.elements[i]);
}

// To global memory, by name: where nvcc can merge it with the same stores one by one it takes it to pieces.
__device__ __forceinline__ void store_words(const unsigned* words, unsigned* target, int count) {
#ifdef __CUDA_ARCH__
  if (count == 4) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  } else if (count == 2) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(target), "r"(words[0]), "r"(words[1]) : "memory");
  } else {
    *target = *words;
  }
#else
  memcpy(target, words, count * sizeof(unsigned));
#endif
}

template <class T, int N>
__device__ __forceinline__ void store_run(T* target, const float* values) {
  constexpr int kWords = N * static_cast<int>(sizeof(T)) / 4;
  if constexpr (kWords == 0) {
    *target = store<T>(*values);
  } else {
    unsigned words[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if constexpr (sizeof(T) == 4) {
        words[w] = __float_as_uint(values[w]);
      } else {
        words[w] = store<T>(values[2 * w]).bits | static_cast<unsigned>(store<T>(values[2 * w + 1]).bits) << 16;
      }
    }
#pragma unroll
    for (int w = 0; w < kWords; w += 4) {
      store_words(words + w, reinterpret_cast<unsigned*>(target) + w, kWords < 4 ? kWords : 4);
    }
  }
}

// The first `count` of N elements, zeros behind them. With `packets` the row is aligned and `count` a multiple of N.
template <class T, int N>
__device__ __forceinline__ void load_some(const T* source, int64_t count, bool packets, float* values) {
  if (packets && count >= N) return load_run<T, N>(source, values);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = i < count ? load(source[i]) : 0.0f;
}

template <class T, int N>
__device__ __forceinline__ void store_some(T* target, int64_t count, bool packets, const float* values) {
  if (packets && count >= N) return store_run<T, N>(target, values);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < count) target[i] = store<T>(values[i]);
  }
}

// 16 bytes into shared memory, aligned on both sides. The emulation copies them at once.
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
#ifdef __CUDA_ARCH__
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(global) : "memory");
#else
  *static_cast<uint4*>(shared) = *static_cast<const uint4*>(global);
#endif
}

// Closes a thread's group of copies, which may be empty.
__device__ __forceinline__ void commit_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most `kGroups` of this thread's groups are on their way; others see them behind the next barrier.
template <int kGroups>
__device__ __forceinline__ void wait_for_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
#endif
}

// Whether all rows at these strides, in elements, begin at 16 bytes.
inline bool all_aligned(const void* data, int64_t element_bytes, std::initializer_list<int64_t> strides) {
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0) return false;
  for (const int64_t stride : strides) {
    if (stride * element_bytes % 16 != 0) return false;
  }
  return true;
}

}  // namespace remory::REMORY_DEVICE

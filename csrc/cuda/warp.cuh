// What all lanes of a warp do together. Every lane must call.
#pragma once

#include "../simt/simt.h"

namespace remory::REMORY_DEVICE {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFF;

// Every lane gets the sum; in the same order of additions everywhere.
template <int Lanes = kWarp, class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int distance = Lanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

template <int Lanes = kWarp>
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = Lanes / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

// Shuffles of what CUDA has none for: T in words of 4 bytes.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int distance) {
  static_assert(sizeof(T) % sizeof(unsigned) == 0);
  constexpr int kWords = sizeof(T) / sizeof(unsigned);
  unsigned words[kWords];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (int w = 0; w < kWords; ++w) words[w] = __shfl_xor_sync(kAllLanes, words[w], distance);
  memcpy(&value, words, sizeof(T));
  return value;
}

template <class T>
__device__ __forceinline__ T shuffle(T value, int lane) {
  static_assert(sizeof(T) % sizeof(unsigned) == 0);
  constexpr int kWords = sizeof(T) / sizeof(unsigned);
  unsigned words[kWords];
  memcpy(words, &value, sizeof(T));
#pragma unroll
  for (int w = 0; w < kWords; ++w) words[w] = __shfl_sync(kAllLanes, words[w], lane);
  memcpy(&value, words, sizeof(T));
  return value;
}

}  // namespace remory::REMORY_DEVICE

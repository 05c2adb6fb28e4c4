// Element types of the CUDA kernels: what is stored, and float32, in which everything is computed; one by one or in
// packets of 16 bytes.
#pragma once

#include "../simt/simt.h"

namespace remory::REMORY_DEVICE {

struct bfloat16 {
  uint16_t bits;
};
struct float16 {
  uint16_t bits;
};

__device__ __forceinline__ float load(float value) { return value; }

__device__ __forceinline__ float load(bfloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

#if defined(__CUDACC__)
__device__ __forceinline__ float load(float16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
#else
// Normal numbers get another bias of the exponent; the multiplication normalises subnormal ones.
inline float load(float16 value) {
  const unsigned sign = static_cast<unsigned>(value.bits & 0x8000) << 16, rest = value.bits & 0x7FFF;
  if (rest >= 0x7C00) return __uint_as_float(sign | 0x7F800000 | rest << 13);
  const float magnitude =
      rest < 0x0400 ? static_cast<float>(rest) * 0x1p-24f : __uint_as_float((rest << 13) + 0x38000000);
  return __uint_as_float(sign | __float_as_uint(magnitude));
}
#endif

template <class T>
__device__ T store(float value);

template <>
__device__ __forceinline__ float store<float>(float value) {
  return value;
}

// Round to nearest, ties to even. A NaN stays one: rounding could carry its mantissa away into an infinity.
template <>
__device__ __forceinline__ bfloat16 store<bfloat16>(float value) {
  const unsigned bits = __float_as_uint(value);
  const unsigned rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return {static_cast<uint16_t>(is_nan ? bits >> 16 | 0x40 : rounded)};
}

constexpr int64_t kPacketBytes = 16;

// Reads a packet's elements out of it.
template <class T>
__device__ __forceinline__ void unpack(const uint4& packet, float* values) {
  const unsigned words[4] = {packet.x, packet.y, packet.z, packet.w};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(T) == 4) {
      values[w] = __uint_as_float(words[w]);
    } else {
      values[2 * w] = load(T{static_cast<uint16_t>(words[w])});
      values[2 * w + 1] = load(T{static_cast<uint16_t>(words[w] >> 16)});
    }
  }
}

template <class T>
__device__ __forceinline__ uint4 pack(const float* values) {
  unsigned words[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(T) == 4) {
      words[w] = __float_as_uint(values[w]);
    } else {
      words[w] = store<T>(values[2 * w]).bits | static_cast<unsigned>(store<T>(values[2 * w + 1]).bits) << 16;
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// Reads `Count` elements from an address aligned to 16 bytes; Count fills packets of T.
template <int Count, class T>
__device__ __forceinline__ void load_packets(const T* from, float (&values)[Count]) {
  constexpr int kEach = kPacketBytes / sizeof(T);
  static_assert(Count % kEach == 0);
#pragma unroll
  for (int p = 0; p < Count / kEach; ++p) unpack<T>(reinterpret_cast<const uint4*>(from)[p], values + p * kEach);
}

// To global memory. nvcc takes an ordinary store of a uint4 to pieces where it cannot prove the alignment again.
__device__ __forceinline__ void store_packet(const uint4& packet, uint4* to) {
#if defined(__CUDACC__)
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(packet.x), "r"(packet.y), "r"(packet.z),
               "r"(packet.w)
               : "memory");
#else
  *to = packet;
#endif
}

// Writes `Count` elements to an address in global memory aligned to 16 bytes; Count fills packets of T.
template <int Count, class T>
__device__ __forceinline__ void store_packets(const float (&values)[Count], T* to) {
  constexpr int kEach = kPacketBytes / sizeof(T);
  static_assert(Count % kEach == 0);
#pragma unroll
  for (int p = 0; p < Count / kEach; ++p) store_packet(pack<T>(values + p * kEach), reinterpret_cast<uint4*>(to) + p);
}

template <class T>
__device__ __forceinline__ T* row(const Matrix& matrix, int64_t index) {
  return static_cast<T*>(matrix.data) + index * matrix.stride;
}

template <class T>
__device__ __forceinline__ const T* row(const ConstMatrix& matrix, int64_t index) {
  return static_cast<const T*>(matrix.data) + index * matrix.stride;
}

// Hosts: calls `body` with a value of the stored type: `dispatch(type, [&](auto element) { … decltype(element) … })`.
template <class Body>
void dispatch(ElementType type, const Body& body) {
  if (type == ElementType::float32) {
    body(float{});
  } else {
    body(bfloat16{});
  }
}

template <class Body>
void dispatch_with_float16(ElementType type, const Body& body) {
  if (type == ElementType::float16) {
    body(float16{});
  } else {
    dispatch(type, body);
  }
}

// Whether every row can be read or written in packets from its beginning on.
template <class Pointer>
bool in_packets(const BasicMatrix<Pointer>& matrix) {
  const int64_t element = matrix.type == ElementType::float32 ? 4 : 2;
  return reinterpret_cast<uintptr_t>(matrix.data) % kPacketBytes == 0 && matrix.stride * element % kPacketBytes == 0;
}

}  // namespace remory::REMORY_DEVICE

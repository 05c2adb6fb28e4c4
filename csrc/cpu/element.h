// Element types of the CPU kernels: what is stored, and float32, in which everything is computed.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#define REMORY_INLINE inline __attribute__((always_inline))

// One binary for every x86-64 machine: the loader picks the clone that the processor can run. What a clone calls must
// be inlined into it, or it would run at the baseline.
// -DREMORY_ARCH=x86-64 (or x86-64-v3, x86-64-v4) leaves one level alone, for tests.
#if defined(REMORY_ARCH)
#define REMORY_QUOTED(text) #text
#define REMORY_TARGET(arch) __attribute__((target("arch=" REMORY_QUOTED(arch))))
#define REMORY_CLONES REMORY_TARGET(REMORY_ARCH)
#elif defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define REMORY_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define REMORY_CLONES
#endif

namespace remory::cpu {

struct bfloat16 {
  uint16_t bits;
};

REMORY_INLINE float load(float value) { return value; }

REMORY_INLINE float load(bfloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

struct float16 {
  uint16_t bits;
};

REMORY_INLINE float load(float16 value) {
  const uint32_t magnitude = value.bits & 0x7FFF, sign = static_cast<uint32_t>(value.bits & 0x8000) << 16;
  uint32_t bits = (magnitude << 13) + (112 << 23);                 // the exponent's bias is 15 there and 127 here
  if (magnitude >= 0x7C00) bits = (magnitude << 13) | 0x7F800000;  // infinity or NaN
  if (magnitude < 0x400) {                                         // zero or subnormal: a multiple of 2^-24
    const float exact = static_cast<float>(magnitude) * 0x1p-24f;
    std::memcpy(&bits, &exact, sizeof(bits));
  }
  bits |= sign;
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

template <class T>
T store(float value);

template <>
REMORY_INLINE float store<float>(float value) {
  return value;
}

// Round to nearest, ties to even. A NaN stays one: rounding could carry its mantissa away into an infinity.
template <>
REMORY_INLINE bfloat16 store<bfloat16>(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return {static_cast<uint16_t>(is_nan ? quiet_nan : rounded)};
}

// The value in another type; in its own it keeps its bits, a NaN's too.
template <class Out, class In>
REMORY_INLINE Out cast(In value) {
  if constexpr (std::is_same_v<In, Out>) {
    return value;
  } else {
    return store<Out>(load(value));
  }
}

enum class ElementType { float32, bfloat16, float16 };

constexpr int64_t element_size(ElementType type) { return type == ElementType::float32 ? 4 : 2; }

// Calls `body` with a value of the stored type, float32 or bfloat16:
// `dispatch(type, [&](auto element) { using T = decltype(element); … })`.
template <class Body>
REMORY_INLINE void dispatch(ElementType type, const Body& body) {
  if (type == ElementType::float32) {
    body(float{});
  } else {
    body(bfloat16{});
  }
}

// The same for kernels that read float16 too.
template <class Body>
REMORY_INLINE void dispatch_all(ElementType type, const Body& body) {
  if (type == ElementType::float16) {
    body(float16{});
  } else {
    dispatch(type, body);
  }
}

// Rows of elements, each contiguous, `stride` elements apart: a matrix or a slice out of a wider one.
template <class Pointer>
struct BasicMatrix {
  Pointer data;
  ElementType type;
  int64_t stride;

  explicit operator bool() const { return data != nullptr; }
};
using Matrix = BasicMatrix<void*>;
using ConstMatrix = BasicMatrix<const void*>;

template <class T>
REMORY_INLINE T* row(const Matrix& matrix, int64_t index) {
  return static_cast<T*>(matrix.data) + index * matrix.stride;
}

template <class T>
REMORY_INLINE const T* row(const ConstMatrix& matrix, int64_t index) {
  return static_cast<const T*>(matrix.data) + index * matrix.stride;
}

}  // namespace remory::cpu

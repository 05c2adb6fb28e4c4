// CUDA's vector types and qualifiers for a compiler that has no CUDA headers.
#pragma once

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __constant__ static const
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

#define REMORY_VECTOR_TYPES(element, name, alignment2, alignment4)                     \
  struct alignas(alignment2) name##2 { element x, y; };                                \
  struct name##3 { element x, y, z; };                                                 \
  struct alignas(alignment4) name##4 { element x, y, z, w; };                          \
  inline name##2 make_##name##2(element x, element y) { return {x, y}; }               \
  inline name##3 make_##name##3(element x, element y, element z) { return {x, y, z}; } \
  inline name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

REMORY_VECTOR_TYPES(signed char, char, 2, 4)
REMORY_VECTOR_TYPES(unsigned char, uchar, 2, 4)
REMORY_VECTOR_TYPES(short, short, 4, 8)
REMORY_VECTOR_TYPES(unsigned short, ushort, 4, 8)
REMORY_VECTOR_TYPES(int, int, 8, 16)
REMORY_VECTOR_TYPES(unsigned int, uint, 8, 16)
REMORY_VECTOR_TYPES(float, float, 8, 16)
REMORY_VECTOR_TYPES(long long, longlong, 16, 16)
REMORY_VECTOR_TYPES(unsigned long long, ulonglong, 16, 16)
REMORY_VECTOR_TYPES(double, double, 16, 16)

#undef REMORY_VECTOR_TYPES

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

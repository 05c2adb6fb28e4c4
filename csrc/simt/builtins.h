// What CUDA offers kernels without an include, for the emulation: the same names, and only the types that CUDA takes,
// so that what compiles here compiles there.
#pragma once

#include <math.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator.h"

#define threadIdx (::remory::emulation::current->index)
#define blockIdx (::remory::emulation::current->block->index())
#define blockDim (::remory::emulation::current->block->launch().block)
#define gridDim (::remory::emulation::current->block->launch().grid)
#define warpSize 32

using std::max;
using std::min;

namespace remory::emulation {

template <class T, class... Allowed>
constexpr bool one_of = (std::is_same_v<T, Allowed> || ...);

template <class To, class From>
To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

template <class T>
uint64_t to_word(T value) {
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(value));
  return word;
}

template <class T>
T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

inline Site site(const char* what, const char* file, int line) { return {what, file, line}; }

// Meetings of a warp.

inline uint64_t take_nothing(const Meeting&, unsigned) { return 0; }

inline uint64_t take_value_of_lane(const Meeting& meeting, unsigned lane) {
  if ((meeting.mask >> lane & 1) == 0)
    throw Fault("a shuffle at " + current->site.text() + " reads lane " + std::to_string(lane) +
                ", which is not in the mask");
  return meeting.values[lane];
}

template <class Fold>
uint64_t folded(const Meeting& meeting, uint64_t start, const Fold& fold) {
  for (uint32_t rest = meeting.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    start = fold(start, meeting.values[lane], lane);
  }
  return start;
}

inline uint64_t take_ballot(const Meeting& meeting, unsigned) {
  return folded(meeting, 0, [](uint64_t ballot, uint64_t vote, int lane) { return ballot | vote << lane; });
}

// The lanes that brought the value of lane `own`.
inline uint64_t take_equals(const Meeting& meeting, unsigned own) {
  return folded(meeting, 0, [&](uint64_t lanes, uint64_t value, int lane) {
    return lanes | static_cast<uint64_t>(value == meeting.values[own]) << lane;
  });
}

template <class T, class Fold>
T reduce(const char* what, const char* file, int line, unsigned mask, T value, Fold) {
  static_assert(one_of<T, int, unsigned>, "CUDA reduces int and unsigned");
  const Exchange take = [](const Meeting& meeting, unsigned) {
    const uint64_t first = meeting.values[__builtin_ctz(meeting.mask)];
    return folded(Meeting{meeting}, first, [&](uint64_t total, uint64_t next, int lane) {
      return lane == __builtin_ctz(meeting.mask) ? total : to_word(Fold()(from_word<T>(total), from_word<T>(next)));
    });
  };
  return from_word<T>(current->block->meet(site(what, file, line), mask, take, to_word(value), 0));
}

template <class T>
T shuffle(const char* what, const char* file, int line, unsigned mask, T value, unsigned source) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "CUDA shuffles int, long, long long, their unsigned kinds, float and double; for more: cuda/warp.cuh");
  return from_word<T>(current->block->meet(site(what, file, line), mask, &take_value_of_lane, to_word(value), source));
}

// The segment of `width` lanes in which a shuffle takes place.
struct Segment {
  unsigned lane, first, end;

  explicit Segment(int width) : lane(current->lane) {
    if (width < 1 || width > 32 || (width & (width - 1)) != 0) throw Fault("the width of a shuffle is a power of two");
    first = lane & ~static_cast<unsigned>(width - 1);
    end = first + static_cast<unsigned>(width);
  }
};

inline BarrierVotes barrier(const char* what, const char* file, int line, int vote) {
  return current->block->barrier(site(what, file, line), vote != 0);
}

template <class T, class Change>
T atomic_change(T* address, const Change& change) {
  T old;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  T next = change(old);
  while (!__atomic_compare_exchange(address, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    next = change(old);
  return old;
}

}  // namespace remory::emulation

#define REMORY_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

// Barriers

inline void __syncthreads(REMORY_HERE) { remory::emulation::barrier("__syncthreads", file, line, 0); }
inline int __syncthreads_or(int vote, REMORY_HERE) {
  return remory::emulation::barrier("__syncthreads_or", file, line, vote).in_favour > 0;
}
inline int __syncthreads_and(int vote, REMORY_HERE) {
  const remory::emulation::BarrierVotes votes = remory::emulation::barrier("__syncthreads_and", file, line, vote);
  return votes.in_favour == votes.threads;
}
inline int __syncthreads_count(int vote, REMORY_HERE) {
  return static_cast<int>(remory::emulation::barrier("__syncthreads_count", file, line, vote).in_favour);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFF, REMORY_HERE) {
  using namespace remory::emulation;
  current->block->meet(site("__syncwarp", file, line), mask, &take_nothing, 0, 0);
}
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Votes and shuffles of a warp

inline unsigned __ballot_sync(unsigned mask, int vote, REMORY_HERE) {
  using namespace remory::emulation;
  return static_cast<unsigned>(
      current->block->meet(site("__ballot_sync", file, line), mask, &take_ballot, vote != 0, 0));
}
inline int __any_sync(unsigned mask, int vote, REMORY_HERE) { return __ballot_sync(mask, vote, file, line) != 0; }
inline int __all_sync(unsigned mask, int vote, REMORY_HERE) { return __ballot_sync(mask, vote, file, line) == mask; }

template <class T>
unsigned __match_any_sync(unsigned mask, T value, REMORY_HERE) {
  using namespace remory::emulation;
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  return static_cast<unsigned>(
      current->block->meet(site("__match_any_sync", file, line), mask, &take_equals, to_word(value), current->lane));
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, REMORY_HERE) {
  const remory::emulation::Segment segment(width);
  const unsigned lane = segment.first | (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1));
  return remory::emulation::shuffle("__shfl_sync", file, line, mask, value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, REMORY_HERE) {
  const remory::emulation::Segment segment(width);
  const unsigned lane = segment.lane ^ static_cast<unsigned>(lanes);
  return remory::emulation::shuffle("__shfl_xor_sync", file, line, mask, value,
                                    lane < segment.end ? lane : segment.lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, REMORY_HERE) {
  const remory::emulation::Segment segment(width);
  const unsigned lane = segment.lane + delta;
  return remory::emulation::shuffle("__shfl_down_sync", file, line, mask, value,
                                    lane < segment.end ? lane : segment.lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, REMORY_HERE) {
  const remory::emulation::Segment segment(width);
  const bool inside = segment.lane >= segment.first + delta;
  return remory::emulation::shuffle("__shfl_up_sync", file, line, mask, value,
                                    inside ? segment.lane - delta : segment.lane);
}

#define REMORY_REDUCTION(name, expression)                                    \
  template <class T>                                                          \
  T name(unsigned mask, T value, REMORY_HERE) {                               \
    struct Fold {                                                             \
      T operator()(T a, T b) const { return expression; }                     \
    };                                                                        \
    return remory::emulation::reduce(#name, file, line, mask, value, Fold()); \
  }
REMORY_REDUCTION(__reduce_add_sync, static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
REMORY_REDUCTION(__reduce_min_sync, b < a ? b : a)
REMORY_REDUCTION(__reduce_max_sync, a < b ? b : a)
#undef REMORY_REDUCTION
#undef REMORY_HERE

// Atomics: they answer what was there before.

#define REMORY_ATOMIC(name, allowed, next)                                      \
  template <class T>                                                            \
  T name(T* address, std::enable_if_t<true, T> value) {                         \
    using namespace remory::emulation;                                          \
    static_assert(allowed, "CUDA has no " #name " for this type");              \
    return atomic_change(address, [&](T old) { return static_cast<T>(next); }); \
  }
using remory_ull = unsigned long long;
REMORY_ATOMIC(atomicAdd, (one_of<T, int, unsigned, remory_ull, float, double>), old + value)
REMORY_ATOMIC(atomicSub, (one_of<T, int, unsigned>), old - value)
REMORY_ATOMIC(atomicMin, (one_of<T, int, unsigned, remory_ull, long long>), value < old ? value : old)
REMORY_ATOMIC(atomicMax, (one_of<T, int, unsigned, remory_ull, long long>), old < value ? value : old)
REMORY_ATOMIC(atomicAnd, (one_of<T, int, unsigned, remory_ull>), old& value)
REMORY_ATOMIC(atomicOr, (one_of<T, int, unsigned, remory_ull>), old | value)
REMORY_ATOMIC(atomicXor, (one_of<T, int, unsigned, remory_ull>), old ^ value)
REMORY_ATOMIC(atomicExch, (one_of<T, int, unsigned, remory_ull, float>), (static_cast<void>(old), value))
REMORY_ATOMIC(atomicInc, (one_of<T, unsigned>), old >= value ? 0 : old + 1)
#undef REMORY_ATOMIC

template <class T>
T atomicCAS(T* address, std::enable_if_t<true, T> compare, std::enable_if_t<true, T> value) {
  using namespace remory::emulation;
  static_assert(one_of<T, int, unsigned, remory_ull, unsigned short>, "CUDA has no atomicCAS for this type");
  return atomic_change(address, [&](T old) { return old == compare ? value : old; });
}

// Loads, bits and arithmetic

template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcs(const T* address) {
  return *address;
}
template <class T>
void __stcs(T* address, T value) {
  *address = value;
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}

inline unsigned __float_as_uint(float x) { return remory::emulation::bits_as<unsigned>(x); }
inline int __float_as_int(float x) { return remory::emulation::bits_as<int>(x); }
inline float __uint_as_float(unsigned x) { return remory::emulation::bits_as<float>(x); }
inline float __int_as_float(int x) { return remory::emulation::bits_as<float>(x); }
inline long long __double_as_longlong(double x) { return remory::emulation::bits_as<long long>(x); }
inline double __longlong_as_double(long long x) { return remory::emulation::bits_as<double>(x); }

inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline int __float2int_rn(float x) { return static_cast<int>(nearbyintf(x)); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

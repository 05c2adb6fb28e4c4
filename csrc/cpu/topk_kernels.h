// The arithmetic of cosine_topk: float32 scores of a tile of vectors with all queries, and the float64 score of one.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "element.h"

namespace remory::cpu {

// A vector register that lies across two cache lines takes two accesses.
template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class Other>
  LineAllocator(const LineAllocator<Other>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* data, std::size_t) { ::operator delete(data, kLine); }
  bool operator==(const LineAllocator&) const { return true; }
  bool operator!=(const LineAllocator&) const { return false; }
};
template <class T>
using Aligned = std::vector<T, LineAllocator<T>>;

// Queries as unit vectors, as both kinds of score read them. Rows of zeros fill up the last group.
struct Directions {
  static constexpr int64_t kGroup = 16;
  // Up to so many queries, a vector is multiplied with one query after the other; more are taken side by side.
  static constexpr int64_t kFew = 8;

  Directions(const ConstMatrix& queries, int64_t count, int64_t width);

  int64_t groups() const { return (count + kGroup - 1) / kGroup; }
  const double* exact_row(int64_t query) const { return exact.data() + query * depth; }

  int64_t count, width;
  int64_t depth;            // width, rounded up; zeros fill the rest
  Aligned<double> exact;    // [count, depth]
  Aligned<float> rows;      // [count, depth], for few queries
  Aligned<float> columns;   // [groups, depth, kGroup], for more
  std::vector<bool> valid;  // false: the query has no direction, and zeros stand in for one
};

// Vectors that are scored at a time, and what comes out. A vector whose squared norm is not within the limits may have
// any score, even NaN.
struct Tile {
  static constexpr int64_t kRows = 12;

  float squares[kRows];   // of the norms
  Aligned<float> scores;  // [kRows, groups * kGroup]
  Aligned<float> best;    // [groups * kGroup], the largest of each column that is not NaN
};

struct Norms {
  // Squared norms between which no square, no product and no sum of a few million of them leaves float32's normal range
  // and the float16 numbers that read an infinity as 65536 show none.
  float smallest, largest;
};

inline Norms norms(ElementType type) { return {0x1p-80f, type == ElementType::float16 ? 0x1p32f : 0x1p120f}; }

// How far a score of a tile may be from the exact cosine, whether or not that was rounded to float32.
float score_error(const Directions& directions);

// One level of the processor's instructions.
class TopkKernels {
 public:
  // The best level that this processor has, or the one that the environment names: REMORY_CPU = v4, v3 or baseline.
  static const TopkKernels& get();

  // A scratch buffer for `score`, one a thread.
  Aligned<float> scratch(const Directions& directions) const;

  // Scores Tile::kRows vectors, of which `rows` are the addresses; `ahead` are those of vectors that will be scored
  // soon, which are fetched meanwhile.
  void (*score)(const Directions& directions, ElementType type, const void* const* rows, const void* const* ahead,
                float* scratch, Tile& tile);

  // The float32 nearest to the cosine of a finite vector other than zero: summed alike wherever the vector lies.
  float (*score_exactly)(const double* direction, ElementType type, const void* row, int64_t width);

  // The same, bit for bit, of all rows of a tile with all queries: several times as fast as one by one.
  void (*score_tile_exactly)(const Directions& directions, ElementType type, const void* const* rows, Tile& tile);
};

}  // namespace remory::cpu

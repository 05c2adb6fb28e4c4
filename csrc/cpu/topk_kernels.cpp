#include "topk_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

// Each level is a function of its own, because the best shape of a tile depends on how many registers there are.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define REMORY_LEVELS
#define REMORY_V3 __attribute__((target("arch=x86-64-v3")))
#define REMORY_V4 __attribute__((target("arch=x86-64-v4")))
#endif

// Vectors are passed only to functions that are inlined: which registers would carry them does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace remory::cpu {
namespace {

constexpr int64_t kGroup = Directions::kGroup;
constexpr int64_t kChunk = 128;     // elements of a row that lie together in the scratch buffer
constexpr int64_t kLineBytes = 64;  // of a cache line

// The compiler converts between vectors only where their types depend on no template parameter.
template <int Lanes>
struct Vectors;
#define REMORY_DEFINE_VECTORS(lanes)                                                                            \
  template <>                                                                                                   \
  struct Vectors<lanes> {                                                                                       \
    typedef float Floats __attribute__((vector_size(lanes * 4), aligned(4), may_alias));                        \
    typedef int32_t Ints __attribute__((vector_size(lanes * 4)));                                               \
    typedef uint32_t Words __attribute__((vector_size(lanes * 4)));                                             \
    typedef uint16_t Halves __attribute__((vector_size(lanes * 2), aligned(2), may_alias));                     \
    typedef double Doubles __attribute__((vector_size(lanes * 8), aligned(8), may_alias));                      \
    static REMORY_INLINE Words widen(Halves values) { return __builtin_convertvector(values, Words); }          \
    static REMORY_INLINE Floats to_floats(Ints values) { return __builtin_convertvector(values, Floats); }      \
    static REMORY_INLINE Doubles to_doubles(Floats values) { return __builtin_convertvector(values, Doubles); } \
  };
REMORY_DEFINE_VECTORS(2)
REMORY_DEFINE_VECTORS(4)
REMORY_DEFINE_VECTORS(8)
REMORY_DEFINE_VECTORS(16)

template <int Lanes>
struct Simd : Vectors<Lanes> {
  using typename Vectors<Lanes>::Floats;
  using typename Vectors<Lanes>::Halves;
  using typename Vectors<Lanes>::Ints;
  using typename Vectors<Lanes>::Words;

  static REMORY_INLINE Floats read(const float* data) { return *reinterpret_cast<const Floats*>(data); }

  static REMORY_INLINE Floats read(const bfloat16* data) { return (Floats)(widened(data) << 16); }

  // As the scalar load, but infinity and NaN may come out as 65536 or more: norms() tells such rows.
  static REMORY_INLINE Floats read(const float16* data) {
#ifdef REMORY_LEVELS
    // The compiler does not find this instruction, which all levels with such long vectors have.
    if constexpr (Lanes >= 8) {
      Floats values;
      asm("vcvtph2ps %1, %0" : "=v"(values) : "m"(*reinterpret_cast<const Halves*>(data)));
      return values;
    }
#endif
    const Words half = widened(data), magnitude = half & 0x7FFF;
    const Words normal = (magnitude << 13) + (112 << 23);
    const Words subnormal = (Words)(Simd::to_floats((Ints)magnitude) * 0x1p-24f);
    return (Floats)((magnitude < 0x400 ? subnormal : normal) | (half & 0x8000) << 16);
  }

  // The last elements of a row, and zeros behind them.
  template <class T>
  static REMORY_INLINE Floats read_some(const T* data, int64_t count) {
    T padded[Lanes] = {};
    std::memcpy(padded, data, static_cast<size_t>(count) * sizeof(T));
    return read(padded);
  }

  static REMORY_INLINE void write(float* data, Floats values) { *reinterpret_cast<Floats*>(data) = values; }

 private:
  template <class T>
  static REMORY_INLINE Words widened(const T* data) {
    return Simd::widen(*reinterpret_cast<const Halves*>(data));
  }
};

template <int Lanes, class Values>
REMORY_INLINE auto sum(const Values& values) {
  if constexpr (Lanes == 2) {
    return values[0] + values[1];
  } else if constexpr (Lanes == 4) {
    return sum<2>(__builtin_shufflevector(values, values, 0, 1) + __builtin_shufflevector(values, values, 2, 3));
  } else if constexpr (Lanes == 8) {
    return sum<4>(__builtin_shufflevector(values, values, 0, 1, 2, 3) +
                  __builtin_shufflevector(values, values, 4, 5, 6, 7));
  } else {
    static_assert(Lanes == 16);
    return sum<8>(__builtin_shufflevector(values, values, 0, 1, 2, 3, 4, 5, 6, 7) +
                  __builtin_shufflevector(values, values, 8, 9, 10, 11, 12, 13, 14, 15));
  }
}

template <class T>
REMORY_INLINE void fetch(const T* row, int64_t column) {
  __builtin_prefetch(reinterpret_cast<const char*>(row) + column * static_cast<int64_t>(sizeof(T)));
}

REMORY_INLINE float inverse_root(float square) { return 1.0f / std::sqrt(square); }

// Vectors one by one, each with `Queries` queries from `first` on: the vector's elements are in registers for its norm
// and all dots.
template <int Lanes, int Queries, class T>
REMORY_INLINE void score_with_some(const Directions& directions, int64_t first, const void* const* rows,
                                   const void* const* ahead, Tile& tile) {
  using S = Simd<Lanes>;
  using Floats = typename S::Floats;
  constexpr int64_t kStep = 2 * Lanes;
  constexpr int64_t kLines = std::max<int64_t>(kStep * static_cast<int64_t>(sizeof(T)) / kLineBytes, 1);
  const int64_t width = directions.width, depth = directions.depth;
  const float* queries = directions.rows.data() + first * depth;
  float* scores = tile.scores.data() + first;
  for (int64_t r = 0; r < Tile::kRows; ++r) {
    const T* row = static_cast<const T*>(rows[r]);
    const T* later = static_cast<const T*>(ahead[r]);
    Floats squares[2] = {}, dots[Queries][2] = {};
    const auto add = [&](Floats values, int64_t d, int part) __attribute__((always_inline)) {
      squares[part] += values * values;
      for (int q = 0; q < Queries; ++q) dots[q][part] += values * S::read(queries + q * depth + d);
    };
    int64_t d = 0;
    for (; d + kStep <= width; d += kStep) {
      for (int64_t line = 0; line < kLines; ++line) fetch(later, d + line * (kStep / kLines));
      add(S::read(row + d), d, 0);
      add(S::read(row + d + Lanes), d + Lanes, 1);
    }
    if (d + Lanes <= width) {
      add(S::read(row + d), d, 0);
      d += Lanes;
    }
    if (d < width) add(S::read_some(row + d, width - d), d, 1);
    tile.squares[r] = sum<Lanes>(squares[0] + squares[1]);
    for (int q = 0; q < Queries; ++q) scores[r * kGroup + q] = sum<Lanes>(dots[q][0] + dots[q][1]);
  }
  float scales[Tile::kRows];
  for (int64_t r = 0; r < Tile::kRows; ++r) scales[r] = inverse_root(tile.squares[r]);
  for (int q = 0; q < Queries; ++q) {
    float best = -std::numeric_limits<float>::infinity();
    for (int64_t r = 0; r < Tile::kRows; ++r) {
      const float score = scores[r * kGroup + q] *= scales[r];
      best = score > best ? score : best;
    }
    tile.best[static_cast<size_t>(first + q)] = best;
  }
}

// Four queries at a time: their sums are as many as the smallest set of registers holds. The tile stays in the cache.
template <int Lanes, class T>
REMORY_INLINE void score_with_few(const Directions& directions, const void* const* rows, const void* const* ahead,
                                  Tile& tile) {
  for (int64_t first = 0; first < directions.count; first += 4, ahead = rows) {
    switch (directions.count - first) {
      case 1:
        score_with_some<Lanes, 1, T>(directions, first, rows, ahead, tile);
        break;
      case 2:
        score_with_some<Lanes, 2, T>(directions, first, rows, ahead, tile);
        break;
      case 3:
        score_with_some<Lanes, 3, T>(directions, first, rows, ahead, tile);
        break;
      default:
        score_with_some<Lanes, 4, T>(directions, first, rows, ahead, tile);
    }
  }
}

// Copies `Rows` rows as float32 to [depth / kChunk, Rows, kChunk], so that all of them lie at constant distances, and
// finds their norms.
template <int Lanes, int Rows, class T>
REMORY_INLINE void pack(const void* const* rows, int64_t width, int64_t depth, float* packed, float* squares) {
  using S = Simd<Lanes>;
  using Floats = typename S::Floats;
  for (int r = 0; r < Rows; ++r) {
    const T* row = static_cast<const T*>(rows[r]);
    Floats sums[2] = {};
    for (int64_t chunk = 0; chunk < depth; chunk += kChunk) {
      float* target = packed + chunk * Rows + r * kChunk;
      const int64_t end = std::min(kChunk, depth - chunk);
      for (int64_t d = 0; d < end; d += Lanes) {
        const int64_t left = width - chunk - d;
        const T* source = row + chunk + d;
        const Floats values = left >= Lanes ? S::read(source) : left > 0 ? S::read_some(source, left) : Floats{};
        sums[d / Lanes % 2] += values * values;
        S::write(target + d, values);
      }
    }
    squares[r] = sum<Lanes>(sums[0] + sums[1]);
  }
}

// `Rows` packed rows with `Groups` groups of queries: each element of a row is multiplied with vectors of queries, and
// all sums stay in registers.
template <int Lanes, int Rows, int Groups, class T>
REMORY_INLINE void score_groups(const float* packed, const float* queries, int64_t depth, const void* const* ahead,
                                const float* scales, float* scores, int64_t stride, float* best) {
  using S = Simd<Lanes>;
  using Floats = typename S::Floats;
  constexpr int kParts = kGroup / Lanes, kColumns = Groups * kParts;
  Floats totals[Rows][kColumns] = {};
  for (int64_t chunk = 0; chunk < depth; chunk += kChunk, packed += Rows * kChunk) {
    Floats sums[Rows][kColumns] = {};  // of a chunk alone: short sums have small errors
    const int64_t end = std::min(kChunk, depth - chunk);
    for (int64_t start = 0; start < end; start += kGroup) {
      if (ahead) {
        for (int r = 0; r < Rows; ++r) fetch(static_cast<const T*>(ahead[r]), chunk + start);
      }
      for (int64_t d = start; d < start + kGroup; ++d) {
        Floats query[kColumns];
        for (int c = 0; c < kColumns; ++c) {
          query[c] = S::read(queries + (c / kParts * depth + chunk + d) * kGroup + c % kParts * Lanes);
        }
        for (int r = 0; r < Rows; ++r) {
          for (int c = 0; c < kColumns; ++c) sums[r][c] += packed[r * kChunk + d] * query[c];
        }
      }
    }
    for (int r = 0; r < Rows; ++r) {
      for (int c = 0; c < kColumns; ++c) totals[r][c] += sums[r][c];
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    Floats largest = S::read(best + c * Lanes);
    for (int r = 0; r < Rows; ++r) {
      const Floats values = totals[r][c] * scales[r];
      S::write(scores + r * stride + c * Lanes, values);
      largest = values > largest ? values : largest;
    }
    S::write(best + c * Lanes, largest);
  }
}

template <int Lanes, int Rows, int Groups, class T>
REMORY_INLINE void score_with_many(const Directions& directions, const void* const* rows, const void* const* ahead,
                                   float* packed, Tile& tile) {
  const int64_t depth = directions.depth, groups = directions.groups(), stride = groups * kGroup;
  std::fill(tile.best.begin(), tile.best.end(), -std::numeric_limits<float>::infinity());
  for (int64_t r = 0; r < Tile::kRows; r += Rows) {
    pack<Lanes, Rows, T>(rows + r, directions.width, depth, packed, tile.squares + r);
    float scales[Rows];
    for (int i = 0; i < Rows; ++i) scales[i] = inverse_root(tile.squares[r + i]);
    const void* const* later = ahead + r;
    int64_t group = 0;
    for (; group + Groups <= groups; group += Groups, later = nullptr) {
      score_groups<Lanes, Rows, Groups, T>(packed, directions.columns.data() + group * depth * kGroup, depth, later,
                                           scales, tile.scores.data() + r * stride + group * kGroup, stride,
                                           tile.best.data() + group * kGroup);
    }
    if constexpr (Groups > 1) {
      if (group < groups) {
        score_groups<Lanes, Rows, 1, T>(packed, directions.columns.data() + group * depth * kGroup, depth, later,
                                        scales, tile.scores.data() + r * stride + group * kGroup, stride,
                                        tile.best.data() + group * kGroup);
      }
    }
  }
}

template <int Lanes, int Rows, int Groups>
REMORY_INLINE void score(const Directions& directions, ElementType type, const void* const* rows,
                         const void* const* ahead, float* scratch, Tile& tile) {
  static_assert(Tile::kRows % Rows == 0 && kGroup % Lanes == 0);
  dispatch_all(type, [&](auto element) __attribute__((always_inline)) {
    using T = decltype(element);
    if (directions.count <= Directions::kFew) return score_with_few<Lanes, T>(directions, rows, ahead, tile);
    score_with_many<Lanes, Rows, Groups, T>(directions, rows, ahead, scratch, tile);
  });
}

// Products that are summed in float64, each sum in the same order wherever a row lies and whatever is summed beside it:
// equal vectors must have equal scores.
template <int Lanes>
class ExactSums {
 public:
  using S = Simd<Lanes>;
  using Doubles = typename S::Doubles;

  REMORY_INLINE void add(Doubles left, Doubles right, int64_t part) { parts_[part] += left * right; }
  REMORY_INLINE double total() const { return sum<Lanes>(parts_[0] + parts_[1] + (parts_[2] + parts_[3])); }

 private:
  Doubles parts_[4] = {};  // a sum waits for the one before: several go side by side
};

// body(values, d, part) for all elements of a row, Lanes of them at a time as float64.
template <int Lanes, class T, class Body>
REMORY_INLINE void for_doubles(const T* elements, int64_t width, const Body& body) {
  using S = Simd<Lanes>;
  constexpr int64_t kParts = 4;
  int64_t d = 0;
  for (; d + kParts * Lanes <= width; d += kParts * Lanes) {
    for (int64_t part = 0; part < kParts; ++part) {
      body(S::to_doubles(S::read(elements + d + part * Lanes)), d + part * Lanes, part);
    }
  }
  for (; d + Lanes <= width; d += Lanes) body(S::to_doubles(S::read(elements + d)), d, 0);
  if (d < width) body(S::to_doubles(S::read_some(elements + d, width - d)), d, 1);
}

template <int Lanes>
REMORY_INLINE typename Simd<Lanes>::Doubles doubles_at(const double* data) {
  return *reinterpret_cast<const typename Simd<Lanes>::Doubles*>(data);
}

REMORY_INLINE float cosine(double dot, double norm) {
  return static_cast<float>(std::min(std::max(dot / norm, -1.0), 1.0));
}

template <int Lanes>
REMORY_INLINE float score_exactly(const double* direction, ElementType type, const void* row, int64_t width) {
  using Doubles = typename Simd<Lanes>::Doubles;
  ExactSums<Lanes> dot, square;
  dispatch_all(type, [&](auto element) __attribute__((always_inline)) {
    const auto* elements = static_cast<const decltype(element)*>(row);
    for_doubles<Lanes>(elements, width, [&](Doubles values, int64_t d, int64_t part) __attribute__((always_inline)) {
      dot.add(values, doubles_at<Lanes>(direction + d), part);
      square.add(values, values, part);
    });
  });
  return cosine(dot.total(), std::sqrt(square.total()));
}

// `Queries` queries with all rows of a tile: they stay in the nearest cache.
template <int Lanes, int Queries, class T>
REMORY_INLINE void score_some_exactly(const Directions& directions, int64_t first, const void* const* rows,
                                      const double* norms, Tile& tile) {
  using Doubles = typename Simd<Lanes>::Doubles;
  const int64_t stride = directions.groups() * kGroup;
  const double* direction = directions.exact_row(first);
  double totals[Queries][Tile::kRows];
  for (int64_t r = 0; r < Tile::kRows; ++r) {
    ExactSums<Lanes> dots[Queries];
    const auto add = [&](Doubles values, int64_t d, int64_t part) __attribute__((always_inline)) {
      for (int q = 0; q < Queries; ++q) {
        dots[q].add(values, doubles_at<Lanes>(direction + q * directions.depth + d), part);
      }
    };
    for_doubles<Lanes>(static_cast<const T*>(rows[r]), directions.width, add);
    for (int q = 0; q < Queries; ++q) totals[q][r] = dots[q].total();
  }
  for (int q = 0; q < Queries; ++q) {
    float scores[Tile::kRows], best = -std::numeric_limits<float>::infinity();
    for (int64_t r = 0; r < Tile::kRows; ++r) scores[r] = cosine(totals[q][r], norms[r]);
    for (int64_t r = 0; r < Tile::kRows; ++r) {
      tile.scores[static_cast<size_t>(r * stride + first + q)] = scores[r];
      best = scores[r] > best ? scores[r] : best;
    }
    tile.best[static_cast<size_t>(first + q)] = best;
  }
}

template <int Lanes, int Queries>
REMORY_INLINE void score_tile_exactly(const Directions& directions, ElementType type, const void* const* rows,
                                      Tile& tile) {
  using Doubles = typename Simd<Lanes>::Doubles;
  dispatch_all(type, [&](auto element) __attribute__((always_inline)) {
    using T = decltype(element);
    double norms[Tile::kRows];
    for (int64_t r = 0; r < Tile::kRows; ++r) {
      ExactSums<Lanes> square;
      const auto add = [&](Doubles values, int64_t, int64_t part)
                           __attribute__((always_inline)) { square.add(values, values, part); };
      for_doubles<Lanes>(static_cast<const T*>(rows[r]), directions.width, add);
      norms[r] = std::sqrt(square.total());
    }
    int64_t q = 0;
    for (; q + Queries <= directions.count; q += Queries) {
      score_some_exactly<Lanes, Queries, T>(directions, q, rows, norms, tile);
    }
    for (; q < directions.count; ++q) score_some_exactly<Lanes, 1, T>(directions, q, rows, norms, tile);
  });
}

#define REMORY_DEFINE_LEVEL(name, target, lanes, rows, groups, queries)                                             \
  target void score_##name(const Directions& directions, ElementType type, const void* const* vectors,              \
                           const void* const* ahead, float* scratch, Tile& tile) {                                  \
    score<lanes, rows, groups>(directions, type, vectors, ahead, scratch, tile);                                    \
  }                                                                                                                 \
  target float score_exactly_##name(const double* direction, ElementType type, const void* row, int64_t width) {    \
    return score_exactly<lanes / 2>(direction, type, row, width);                                                   \
  }                                                                                                                 \
  target void score_tile_exactly_##name(const Directions& directions, ElementType type, const void* const* vectors, \
                                        Tile& tile) {                                                               \
    score_tile_exactly<lanes / 2, queries>(directions, type, vectors, tile);                                        \
  }                                                                                                                 \
  constexpr TopkKernels k_##name{score_##name, score_exactly_##name, score_tile_exactly_##name};

REMORY_DEFINE_LEVEL(baseline, , 4, 2, 1, 2)
#ifdef REMORY_LEVELS
REMORY_DEFINE_LEVEL(v3, REMORY_V3, 8, 6, 1, 3)
REMORY_DEFINE_LEVEL(v4, REMORY_V4, 16, 12, 2, 4)
#endif

const TopkKernels& choose() {
  const char* asked = std::getenv("REMORY_CPU");
  const std::string_view level = asked ? asked : "v4";
#ifdef REMORY_LEVELS
  if (level == "v4" && __builtin_cpu_supports("x86-64-v4")) return k_v4;
  if (level != "baseline" && __builtin_cpu_supports("x86-64-v3")) return k_v3;
#endif
  return k_baseline;
}

}  // namespace

const TopkKernels& TopkKernels::get() {
  static const TopkKernels& kernels = choose();
  return kernels;
}

Aligned<float> TopkKernels::scratch(const Directions& directions) const {
  if (directions.count <= Directions::kFew) return {};
  const int64_t chunks = (directions.depth + kChunk - 1) / kChunk;
  return Aligned<float>(static_cast<size_t>(Tile::kRows * chunks * kChunk));
}

Directions::Directions(const ConstMatrix& queries, int64_t query_count, int64_t elements)
    : count(query_count),
      width(elements),
      depth((elements + kGroup - 1) / kGroup * kGroup),
      exact(static_cast<size_t>(count * depth)),
      valid(static_cast<size_t>(count)) {
  const bool few = count <= kFew;
  (few ? rows : columns).resize(static_cast<size_t>(few ? count * depth : groups() * kGroup * depth));
  for (int64_t q = 0; q < count; ++q) {
    double* direction = exact.data() + q * depth;
    dispatch_all(queries.type, [&](auto element) {
      const auto* query = row<decltype(element)>(queries, q);
      std::transform(query, query + width, direction, [](auto value) { return static_cast<double>(load(value)); });
    });
    double square = 0;
    for (int64_t d = 0; d < width; ++d) square += direction[d] * direction[d];
    valid[static_cast<size_t>(q)] = square > 0 && square < std::numeric_limits<double>::infinity();
    const double norm = std::sqrt(square);
    for (int64_t d = 0; d < width; ++d) {
      direction[d] = valid[static_cast<size_t>(q)] ? direction[d] / norm : 0;
      const float rounded = static_cast<float>(direction[d]);
      if (few) {
        rows[static_cast<size_t>(q * depth + d)] = rounded;
      } else {
        columns[static_cast<size_t>((q / kGroup * depth + d) * kGroup + q % kGroup)] = rounded;
      }
    }
  }
}

// With u = 2^-24, a sum of products in which each passes at most n roundings is off by at most n u / (1 - n u) times
// the product of the norms, fused multiply-add or not (Higham, Accuracy and Stability of Numerical Algorithms,
// section 3.1). Norms, and dots of few queries, are sums of at least 2 * 4 lanes: D / 8 roundings in a lane and one
// more for the tail, then 3 that join the lanes. Dots of many queries pass the elements of a chunk, then the chunks. A
// norm counts half, because it is the root of a sum. Rounding the query, its norm, root, inverse, product and the
// rounding of a true score are u each; the bounds themselves are rounded, too: twelve are enough. Products that leave
// the normal range, which a processor may flush to zero, are 2^-126 each of a norm of at least 2^-40: nothing beside u.
float score_error(const Directions& directions) {
  const double width = static_cast<double>(directions.width), lanes = width / 8 + 5;
  const double dot =
      directions.count <= Directions::kFew ? lanes : std::min<double>(width, kChunk) + width / kChunk + 1;
  const double share = (dot + lanes / 2 + 12) * 0x1p-24;
  return share < 0.5 ? static_cast<float>(share / (1 - share)) : std::numeric_limits<float>::infinity();
}

}  // namespace remory::cpu

// A search of one state: bounds for all rows that take part, then exact scores of those that may be among the best.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "../cpu/candidates.h"
#include "../cpu/topk_kernels.h"
#include "exact.h"
#include "flat_index.h"
#include "workers.h"

namespace remory::index {
namespace {

using cpu::Candidate;
using cpu::Candidates;
using cpu::Tile;
using cpu::TopkKernels;

constexpr int64_t kQueries = 32;  // at a time
constexpr int64_t kTile = 4;      // groups that are multiplied at once
// In a group where fewer rows take part, their float32 elements are less to read than the codes of all sixteen; for
// many queries, less to multiply.
constexpr int kFew = 4, kFewForMany = 12;
constexpr int64_t kManyQueries = 16;
// A tile with fewer rows is mostly waste.
constexpr int64_t kLeastOfTile = 4;
// Rows between the one that is scored and the one that is fetched, for few queries.
constexpr int64_t kAhead = 4;
constexpr int64_t kPieceElements = int64_t{1} << 18;
// A thread is worth its start from about this many products on.
constexpr int64_t kElementsPerThread = int64_t{1} << 22;

// Neighbouring rows of one segment.
struct Piece {
  size_t segment;
  int64_t begin, end;
};

// Candidates name a row by its segment's number in the state and its own in the segment.
int64_t name_of(size_t segment, int64_t row) { return static_cast<int64_t>(segment) << 32 | row; }

std::vector<Piece> pieces_of(const State& state, int64_t width) {
  constexpr int64_t tile_rows = kTile * kGroup;
  const int64_t rows = std::max(kPieceElements / width / tile_rows, int64_t{1}) * tile_rows;
  std::vector<Piece> pieces;
  for (size_t segment = 0; segment < state.segments->size(); ++segment) {
    const int64_t count = state.rows_of(segment);
    for (int64_t begin = 0; begin < count; begin += rows) {
      pieces.push_back({segment, begin, std::min(begin + rows, count)});
    }
  }
  return pieces;
}

// Some queries [count, width] of a search and their unit vectors in float64.
struct Queries {
  Queries(const float* queries, const double* directions, int64_t count, int64_t width)
      : directions(directions),
        count(count),
        width(width),
        compressed(directions, count, width),
        rounded({queries, cpu::ElementType::float32, width}, count, width),
        error(cpu::score_error(rounded) + kScoreRounding) {}

  const double* direction(int64_t query) const { return directions + query * width; }

  const double* directions;
  int64_t count, width;
  CompressedQueries compressed;
  cpu::Directions rounded;
  float error;  // of float32 scores
};

// The first pass, on one thread.
class Scan {
 public:
  Scan(const State& state, const Queries& queries, const Mask& mask, int64_t k)
      : state_(state),
        queries_(queries),
        mask_(mask),
        best_(queries.count, Candidates(k)),
        products_(kTile * 2 * queries.count * kGroup),
        columns_(queries.rounded.groups() * cpu::Directions::kGroup),
        scratch_(kernels_.scratch(queries.rounded)) {
    tile_.scores.resize(Tile::kRows * columns_);
    tile_.best.resize(columns_);
  }

  std::vector<Candidates>& best() { return best_; }

  void scan(const Piece& piece) {
    const Segment& segment = *(*state_.segments)[piece.segment];
    const int64_t groups = (piece.end - piece.begin + kGroup - 1) / kGroup;
    const int few = queries_.count < kManyQueries ? kFew : kFewForMany;
    taking_.resize(groups);
    compressed_.resize(groups);
    rows_.clear();
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = piece.begin + g * kGroup;
      taking_[g] = rows_taking(segment, first, piece.end);
      compressed_[g] = segment.compressed && first + kGroup <= piece.end && __builtin_popcount(taking_[g]) >= few;
      if (compressed_[g]) continue;
      for (uint32_t rest = taking_[g]; rest != 0; rest &= rest - 1) rows_.push_back(first + __builtin_ctz(rest));
    }
    for (int64_t g = 0; g < groups;) {
      int64_t end = g;
      while (end < groups && end - g < kTile && compressed_[end]) ++end;
      if (end > g) scan_compressed(segment, piece.segment, piece.begin + g * kGroup, end - g, &taking_[g]);
      g = std::max(end, g + 1);
    }
    if (!rows_.empty()) scan_rows(segment, piece.segment);
  }

 private:
  // A bit for each of a group's rows that is in the state and in the mask.
  uint32_t rows_taking(const Segment& segment, int64_t first, int64_t end) const {
    const int64_t rows = std::min(kGroup, end - first);
    uint32_t taking = (1u << rows) - 1;
    if (segment.dead.load(std::memory_order_relaxed) != 0) {
      uint32_t alive = 0;
      for (int64_t i = 0; i < rows; ++i) {
        const Segment::Version died = segment.died[first + i].load(std::memory_order_relaxed);
        alive |= static_cast<uint32_t>(died > state_.version) << i;
      }
      taking &= alive;
    }
    if (mask_.bytes != nullptr && taking != 0) {
      uint32_t taken = 0;
      for (int64_t i = 0; i < rows; ++i) taken |= static_cast<uint32_t>(mask_.takes(segment.ids[first + i])) << i;
      taking &= taken;
    }
    return taking;
  }

  void scan_compressed(const Segment& segment, size_t number, int64_t first, int64_t groups, const uint32_t* taking) {
    queries_.compressed.multiply(segment.group_codes(first / kGroup), groups, products_.data());
    float lower[kGroup], upper[kGroup];
    for (int64_t g = 0; g < groups; ++g, first += kGroup) {
      const int32_t* products = products_.data() + g * 2 * queries_.count * kGroup;
      const float *scales = &segment.scales[first], *errors = &segment.errors[first];
      for (int64_t q = 0; q < queries_.count; ++q) {
        uint32_t reaching = queries_.compressed.bound(q, products, scales, errors, best_[q].floor(), lower, upper);
        for (reaching &= taking[g]; reaching != 0; reaching &= reaching - 1) {
          const int lane = __builtin_ctz(reaching);
          best_[q].offer(lower[lane], upper[lane], name_of(number, first + lane));
        }
      }
    }
  }

  void scan_rows(const Segment& segment, size_t number) {
    const auto count = static_cast<int64_t>(rows_.size());
    const int64_t ahead = queries_.count <= cpu::Directions::kFew ? kAhead : Tile::kRows;
    // The last one again fills up the last tile, and is all that there is to fetch beyond.
    vectors_.assign(count + 2 * Tile::kRows + kAhead, segment.row(rows_.back()));
    for (int64_t i = 0; i < count; ++i) vectors_[i] = segment.row(rows_[i]);
    int64_t first = 0;
    for (; first + kLeastOfTile <= count; first += Tile::kRows) {
      const void* const* tile = vectors_.data() + first;
      kernels_.score(queries_.rounded, cpu::ElementType::float32, tile, tile + ahead, scratch_.data(), tile_);
      select(segment, number, &rows_[first], std::min(Tile::kRows, count - first));
    }
    for (; first < count; ++first) offer_exactly(segment, number, rows_[first]);
  }

  // Offers a tile's rows to the queries.
  void select(const Segment& segment, size_t number, const int64_t* rows, int64_t count) {
    for (int64_t r = 0; r < count; ++r) {
      const float square = tile_.squares[r];
      // Float32 cannot square the norm, or not even tell it: a NaN is neither within nor without.
      if (square > norms_.smallest && square < norms_.largest) continue;
      offer_exactly(segment, number, rows[r]);
      std::fill_n(&tile_.scores[r * columns_], columns_, std::numeric_limits<float>::quiet_NaN());
    }
    for (int64_t q = 0; q < queries_.count; ++q) {
      if (!(tile_.best[q] + queries_.error >= best_[q].floor())) continue;
      for (int64_t r = 0; r < count; ++r) {
        const float score = tile_.scores[r * columns_ + q];
        if (score + queries_.error < best_[q].floor() || std::isnan(score)) continue;
        best_[q].offer(score - queries_.error, score + queries_.error, name_of(number, rows[r]));
      }
    }
  }

  void offer_exactly(const Segment& segment, size_t number, int64_t row) {
    products_of_row_.resize(queries_.count);
    dots(segment.row(row), queries_.directions, queries_.count, queries_.width, products_of_row_.data());
    for (int64_t q = 0; q < queries_.count; ++q) {
      const auto score = static_cast<float>(products_of_row_[q] / segment.norms[row]);
      best_[q].offer(score - kScoreRounding, score + kScoreRounding, name_of(number, row));
    }
  }

  const State& state_;
  const Queries& queries_;
  const Mask& mask_;
  std::vector<Candidates> best_;
  std::vector<int32_t> products_;
  std::vector<uint32_t> taking_;     // of a piece, by group
  std::vector<uint8_t> compressed_;  // whether its codes are read
  std::vector<int64_t> rows_;        // of a piece, those whose elements are read
  std::vector<const void*> vectors_;
  std::vector<double> products_of_row_;
  const TopkKernels& kernels_ = TopkKernels::get();
  const cpu::Norms norms_ = cpu::norms(cpu::ElementType::float32);
  int64_t columns_;
  cpu::Aligned<float> scratch_;
  Tile tile_;
};

// For each query the rows that can be among its k best.
std::vector<std::vector<Candidate>> find_candidates(const State& state, const Queries& queries, const Mask& mask,
                                                    int64_t k, int threads) {
  const std::vector<Piece> pieces = pieces_of(state, queries.width);
  int64_t rows = 0;
  for (const Piece& piece : pieces) rows += piece.end - piece.begin;
  const int64_t worth = 1 + rows * queries.width / kElementsPerThread * queries.count;
  threads = static_cast<int>(std::min<int64_t>(threads, worth));

  std::vector<Scan> scans(threads, Scan(state, queries, mask, k));
  for_pieces(threads, static_cast<int64_t>(pieces.size()), 1,
             [&](int worker, int64_t piece, int64_t) { scans[worker].scan(pieces[piece]); });

  std::vector<std::vector<Candidate>> found;
  for (int64_t q = 0; q < queries.count; ++q) {
    Candidates& best = scans[0].best()[q];
    for (size_t other = 1; other < scans.size(); ++other) best.merge(scans[other].best()[q]);
    found.push_back(best.take());
  }
  return found;
}

struct Scored {
  float score;
  int64_t id;

  bool operator<(const Scored& other) const { return std::tie(other.score, id) < std::tie(score, other.id); }
};

Scored score(const State& state, const double* direction, int64_t width, int64_t name) {
  const Segment& segment = *(*state.segments)[static_cast<size_t>(name >> 32)];
  const int64_t row = name & 0xFFFFFFFF;
  double product;
  dots(segment.row(row), direction, 1, width, &product);
  return {static_cast<float>(std::clamp(product / segment.norms[row], -1.0, 1.0)), segment.ids[row]};
}

// Scores the candidates of one query and writes the k best.
void decide(const State& state, const double* direction, int64_t width, const std::vector<Candidate>& candidates,
            int64_t k, int threads, float* scores, int64_t* ids) {
  const auto count = static_cast<int64_t>(candidates.size());
  std::vector<Scored> scored(count);
  const int64_t worth = 1 + count * width / kElementsPerThread;
  for_pieces(static_cast<int>(std::min<int64_t>(threads, worth)), count, 64, [&](int, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) scored[i] = score(state, direction, width, candidates[i].row);
  });
  const int64_t filled = std::min(k, count);
  std::partial_sort(scored.begin(), scored.begin() + filled, scored.end());
  for (int64_t i = 0; i < k; ++i) {
    scores[i] = i < filled ? scored[i].score : -std::numeric_limits<float>::infinity();
    ids[i] = i < filled ? scored[i].id : -1;
  }
}

std::vector<double> directions_of(const float* queries, int64_t count, int64_t width) {
  std::vector<double> directions(count * width);
  for (int64_t q = 0; q < count; ++q) {
    const float* query = queries + q * width;
    const double length = norm(query, width);
    const std::string name = "queries[" + std::to_string(q) + "]";
    if (!std::isfinite(length)) throw InvalidInput(name + " has a NaN or an infinity");
    if (length == 0) throw InvalidInput(name + " is zero: it has no direction");
    for (int64_t d = 0; d < width; ++d) directions[q * width + d] = query[d] / length;
  }
  return directions;
}

}  // namespace

void FlatView::search(const float* queries, int64_t count, int64_t k, const Mask& mask, int threads, float* scores,
                      int64_t* ids) const {
  if (k < 1) throw InvalidInput("k is " + std::to_string(k) + ", expected at least 1");
  const std::vector<double> directions = directions_of(queries, count, dimension_);
  const int64_t most = std::min(k, std::max<int64_t>(state_.live, 1));
  for (int64_t first = 0; first < count; first += kQueries) {
    const Queries some(queries + first * dimension_, directions.data() + first * dimension_,
                       std::min(kQueries, count - first), dimension_);
    const auto found = find_candidates(state_, some, mask, most, threads);
    for (int64_t q = 0; q < some.count; ++q) {
      const int64_t out = (first + q) * k;
      decide(state_, some.direction(q), dimension_, found[q], k, threads, scores + out, ids + out);
    }
  }
}

std::vector<Bounded> FlatView::bounds(const float* query, int64_t k, const Mask& mask, int threads) const {
  const std::vector<double> directions = directions_of(query, 1, dimension_);
  std::vector<Bounded> bounded;
  const Queries one(query, directions.data(), 1, dimension_);
  const auto found = find_candidates(state_, one, mask, k, threads);
  for (const Candidate& candidate : found[0]) {
    const Segment& segment = *(*state_.segments)[static_cast<size_t>(candidate.row >> 32)];
    bounded.push_back({segment.ids[candidate.row & 0xFFFFFFFF], candidate.lower, candidate.upper});
  }
  return bounded;
}

}  // namespace remory::index

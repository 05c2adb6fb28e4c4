#include "topk.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace remory::cpu {
namespace {

constexpr int64_t kListed = 1024;  // rows that are picked from the mask at a time
constexpr int64_t kAhead = 4;      // rows between the one that is scored and the one that is fetched, for few queries
constexpr int64_t kOpenShare = 8;  // a tile is scored exactly if one in so many pairs is open
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

REMORY_INLINE bool eight_zeros(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word == 0;
}

// Lists rows that take part from `row` on, up to `end`, at most kListed of them; returns their number. `row` becomes
// the first that was not looked at.
int64_t list_rows(const RowMask& mask, int64_t& row, int64_t end, int64_t* listed) {
  int64_t count = 0;
  if (!mask.data) {
    const int64_t first = row;
    count = std::min(kListed, end - row);
    for (int64_t i = 0; i < count; ++i) listed[i] = first + i;
    row += count;
    return count;
  }
  const int64_t per_byte = mask.bits ? 8 : 1;
  while (row < end && count + 8 <= kListed) {
    const uint8_t* byte = mask.data + row / per_byte;
    if (row % per_byte == 0 && row + 8 * per_byte <= end && eight_zeros(byte)) {
      row += 8 * per_byte;
      continue;
    }
    for (const int64_t stop = std::min(row / 8 * 8 + 8, end); row < stop; ++row) {
      listed[count] = row;
      const uint8_t taken = mask.bits ? mask.data[row / 8] >> row % 8 & 1 : mask.data[row];
      count += taken != 0;
    }
  }
  return count;
}

}  // namespace

// One piece of the vectors: the candidates that it has for every query.
class Topk::Scan {
 public:
  explicit Scan(Topk& topk)
      : topk_(topk),
        columns_(topk.directions_.groups() * Directions::kGroup),
        candidates_(static_cast<size_t>(topk.directions_.count), Candidates(topk.k_)),
        floors_(static_cast<size_t>(columns_), kInfinity),
        scratch_(topk.kernels_.scratch(topk.directions_)) {
    for (int64_t q = 0; q < topk.directions_.count; ++q) {
      if (topk.directions_.valid[static_cast<size_t>(q)]) floors_[static_cast<size_t>(q)] = -kInfinity;
    }
    tile_.scores.resize(static_cast<size_t>(Tile::kRows * columns_));
    tile_.best.resize(static_cast<size_t>(columns_));
  }

  // False at a vector without a direction.
  bool run(int64_t begin, int64_t end) {
    const void* vectors[kListed + 2 * Tile::kRows + kAhead];
    const int64_t ahead = topk_.directions_.count <= Directions::kFew ? kAhead : Tile::kRows;
    while (begin < end) {
      const int64_t count = list_rows(topk_.mask_, begin, end, rows_);
      if (count == 0) break;
      for (int64_t i = 0; i < count; ++i) vectors[i] = topk_.vector(rows_[i]);
      // The last one again fills up the last tile, and is all that there is to fetch beyond.
      std::fill(vectors + count, vectors + count + 2 * Tile::kRows + kAhead, vectors[count - 1]);
      for (int64_t first = 0; first < count; first += Tile::kRows) {
        const void* const* listed = vectors + first;
        topk_.kernels_.score(topk_.directions_, topk_.vectors_.type, listed, listed + ahead, scratch_.data(), tile_);
        if (!select(rows_ + first, listed, std::min(Tile::kRows, count - first))) return false;
      }
    }
    return true;
  }

  std::vector<Candidates>& candidates() { return candidates_; }

 private:
  bool select(const int64_t* rows, const void* const* vectors, int64_t count) {
    bool exactly = crowded_ && !float32_decides();
    for (int64_t r = 0; r < count; ++r) {
      const float square = tile_.squares[r];
      // A NaN is neither within nor without.
      if (square > topk_.norms_.smallest && square < topk_.norms_.largest) continue;
      if (!topk_.has_direction(rows[r])) {
        topk_.refuse(rows[r]);
        return false;
      }
      exactly = true;
    }
    if (exactly) topk_.kernels_.score_tile_exactly(topk_.directions_, topk_.vectors_.type, vectors, tile_);
    const float error = exactly ? 0 : topk_.error_;
    // Nearly always nothing is near a floor: then this is all that there is to do.
    int hits = 0;
    for (int64_t q = 0; q < columns_; ++q) {
      hits |= tile_.best[static_cast<size_t>(q)] + error > floors_[static_cast<size_t>(q)];
    }
    if (!hits) return true;
    for (int64_t q = 0; q < topk_.directions_.count; ++q) {
      if (tile_.best[static_cast<size_t>(q)] + error > floors_[static_cast<size_t>(q)]) offer(q, rows, count, error);
    }
    return true;
  }

  // Whether a tile's scores leave so few pairs of a query and a row open that these are better scored one by one.
  bool float32_decides() const {
    int64_t open = 0;
    for (int64_t r = 0; r < Tile::kRows; ++r) {
      const float* scores = tile_.scores.data() + r * columns_;
      int32_t near = 0;
      for (int64_t q = 0; q < columns_; ++q) near += scores[q] + topk_.error_ > floors_[static_cast<size_t>(q)];
      open += near;
    }
    return open * kOpenShare < Tile::kRows * topk_.directions_.count;
  }

  // Rows come in ascending order, so that one that only equals the floor loses to k others.
  void offer(int64_t query, const int64_t* rows, int64_t count, float error) {
    Candidates& candidates = candidates_[static_cast<size_t>(query)];
    for (int64_t r = 0; r < count; ++r) {
      const float score = tile_.scores[static_cast<size_t>(r * columns_ + query)];
      if (score + error > candidates.floor()) candidates.offer(score - error, score + error, rows[r]);
    }
    settle(query);
  }

  void settle(int64_t query) {
    Candidates& candidates = candidates_[static_cast<size_t>(query)];
    if (candidates.crowded()) {
      crowded_ = true;
      candidates.settle([&](int64_t row) { return topk_.score_exactly(query, row); });
    }
    floors_[static_cast<size_t>(query)] = candidates.floor();
  }

  Topk& topk_;
  int64_t columns_;
  std::vector<Candidates> candidates_;
  std::vector<float> floors_;  // of the candidates; nothing reaches that of a query without a direction
  Aligned<float> scratch_;
  Tile tile_;
  bool crowded_ = false;  // once float32 could not tell rows apart
  int64_t rows_[kListed];
};

Topk::Topk(const ConstMatrix& queries, int64_t count, const ConstMatrix& vectors, int64_t width, RowMask mask,
           int64_t k)
    : kernels_(TopkKernels::get()),
      directions_(queries, count, width),
      vectors_(vectors),
      mask_(mask),
      k_(k),
      error_(score_error(directions_)),
      norms_(norms(vectors.type)),
      refused_(kNone),
      found_(static_cast<size_t>(count), Candidates(k)) {}

void Topk::scan(int64_t begin, int64_t end) {
  if (begin > refused_) return;
  Scan piece(*this);
  if (!piece.run(begin, end)) return;
  const std::lock_guard<std::mutex> lock(merging_);
  for (size_t q = 0; q < found_.size(); ++q) found_[q].merge(piece.candidates()[q]);
}

void Topk::rank(int64_t query, float* scores, int64_t* ids) {
  std::fill(scores, scores + k_, -kInfinity);
  std::fill(ids, ids + k_, int64_t{-1});
  if (!directions_.valid[static_cast<size_t>(query)] || refused_ != kNone) {
    scores[0] = std::numeric_limits<float>::quiet_NaN();
    if (directions_.valid[static_cast<size_t>(query)]) ids[0] = refused_;
    return;
  }
  Candidates& candidates = found_[static_cast<size_t>(query)];
  candidates.settle([&](int64_t row) { return score_exactly(query, row); });
  std::vector<Candidate> best = candidates.take();
  // They come in the order of their rows, and a stable sort keeps it among equal scores.
  std::stable_sort(best.begin(), best.end(), [](const Candidate& a, const Candidate& b) { return a.lower > b.lower; });
  for (size_t i = 0; i < best.size(); ++i) {
    scores[i] = best[i].lower;
    ids[i] = best[i].row;
  }
}

bool Topk::has_direction(int64_t row_number) const {
  bool finite = true, zero = true;
  dispatch_all(vectors_.type, [&](auto element) {
    const auto* elements = row<decltype(element)>(vectors_, row_number);
    for (int64_t d = 0; d < directions_.width; ++d) {
      const float value = load(elements[d]);
      finite &= std::isfinite(value);
      zero &= value == 0;
    }
  });
  return finite && !zero;
}

void Topk::refuse(int64_t row) {
  int64_t lowest = refused_;
  while (row < lowest && !refused_.compare_exchange_weak(lowest, row)) {
  }
}

}  // namespace remory::cpu

// Which rows of a scan can be among the k best, when each score is known only between two bounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace remory::cpu {

struct Candidate {
  float lower, upper;  // the true score lies between them
  int64_t row;
};

// Offered rows in any order. At least k rows have true scores of `floor` or more, so that a row whose upper bound is
// lower is not among the best and is dropped. Equal scores are all kept: who wins a tie is decided by the caller.
class Candidates {
 public:
  explicit Candidates(int64_t k) : k_(static_cast<size_t>(k)), limit_(first_limit()) {}

  // -inf until k rows were offered.
  float floor() const { return floor_; }

  void offer(float lower, float upper, int64_t row) {
    if (upper < floor_) return;
    kept_.push_back({lower, upper, row});
    if (kept_.size() >= limit_) prune();
  }

  // Whether the bounds are too wide to tell rows apart, so that more and more are kept: time to settle.
  bool crowded() const { return kept_.size() > 2 * first_limit(); }

  // Asks score(row) for the true score of every row that is kept, and keeps the k best; of equal scores the lower rows.
  // A row that comes back is scored no second time.
  template <class Score>
  void settle(const Score& score) {
    prune();
    for (Candidate& candidate : kept_) {
      if (candidate.lower < candidate.upper) candidate.lower = candidate.upper = score(candidate.row);
    }
    const auto better = [](const Candidate& a, const Candidate& b) {
      return a.lower > b.lower || (a.lower == b.lower && a.row < b.row);
    };
    if (kept_.size() > k_) {
      std::nth_element(kept_.begin(), kept_.begin() + static_cast<int64_t>(k_), kept_.end(), better);
      kept_.resize(k_);
    }
    prune();
    limit_ = first_limit();
  }

  // Takes what another scan of other rows has kept.
  void merge(const Candidates& other) {
    floor_ = std::max(floor_, other.floor_);
    for (const Candidate& candidate : other.kept_) offer(candidate.lower, candidate.upper, candidate.row);
  }

  // All rows that can be among the k best of those offered, ascending.
  std::vector<Candidate> take() {
    prune();
    std::sort(kept_.begin(), kept_.end(), [](const Candidate& a, const Candidate& b) { return a.row < b.row; });
    return std::move(kept_);
  }

 private:
  size_t first_limit() const { return std::max<size_t>(4 * k_, 256); }

  void prune() {
    if (kept_.size() >= k_) {
      const auto kth = kept_.begin() + static_cast<int64_t>(k_ - 1);
      std::nth_element(kept_.begin(), kth, kept_.end(),
                       [](const Candidate& a, const Candidate& b) { return a.lower > b.lower; });
      floor_ = std::max(floor_, kth->lower);
    }
    kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [&](const Candidate& c) { return c.upper < floor_; }),
                kept_.end());
    // When bounds are wide or scores near each other, most stay; then pruning again at once would find nothing.
    limit_ = std::max(limit_, 2 * kept_.size());
  }

  size_t k_, limit_;
  float floor_ = -std::numeric_limits<float>::infinity();
  std::vector<Candidate> kept_;
};

}  // namespace remory::cpu

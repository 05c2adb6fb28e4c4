// The k vectors of highest cosine for each query, in one pass over the vectors.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "candidates.h"
#include "element.h"
#include "topk_kernels.h"

namespace remory::cpu {

// Which rows take part: a byte or, in little order, a bit each. Without data, all.
struct RowMask {
  const uint8_t* data;
  bool bits;
};

// scan() all rows, in any pieces and on any threads; then rank() every query.
//
// Float32 scores with a bound on their error find the few vectors that can be among the best; these are scored again in
// float64, each alike, so that equal vectors have equal scores.
class Topk {
 public:
  // At most so many queries at a time stay in the cache with a tile of vectors.
  static constexpr int64_t kMostQueries = 256;

  Topk(const ConstMatrix& queries, int64_t count, const ConstMatrix& vectors, int64_t width, RowMask mask, int64_t k);

  // Vectors [begin, end).
  void scan(int64_t begin, int64_t end);

  // scores[k] and ids[k] of a query, best first, equal scores by id, padded with -inf and -1. A row without a direction
  // is told by a NaN in front: ids[0] is the lowest such vector, or -1 if it is the query.
  void rank(int64_t query, float* scores, int64_t* ids);

 private:
  class Scan;

  const void* vector(int64_t row) const {
    return static_cast<const char*>(vectors_.data) + row * vectors_.stride * element_size(vectors_.type);
  }
  bool has_direction(int64_t row) const;
  float score_exactly(int64_t query, int64_t row) const {
    return kernels_.score_exactly(directions_.exact_row(query), vectors_.type, vector(row), directions_.width);
  }
  void refuse(int64_t row);

  const TopkKernels& kernels_;
  Directions directions_;
  ConstMatrix vectors_;
  RowMask mask_;
  int64_t k_;
  float error_;
  Norms norms_;
  std::atomic<int64_t> refused_;  // the lowest vector without a direction
  std::mutex merging_;
  std::vector<Candidates> found_;  // by query
};

}  // namespace remory::cpu

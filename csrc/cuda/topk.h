// Exact top-k by cosine.
//
// Dot products and norms are summed in float64, so that no score needs a second look, for which the host would have to
// wait. Every row is summed in one order, whatever the batch, the alignment or the place of the row: equal vectors have
// equal scores. By the processors' data sheets memory is the limit for a batch of a few queries where float64 is fast
// (sm_80, 90, 100); where it is slow (sm_86, 89, 120) arithmetic is, from the first query on.
#pragma once

#include <cstdint>

#include "launch.h"

namespace remory::REMORY_DEVICE {

constexpr int64_t kMostTopk = 1024;

// A byte for each vector, or a bit, the lowest of a byte first.
enum class MaskKind { none, bytes, bits };

struct CosineTopk {
  ConstMatrix queries, vectors;
  int64_t query_count, vector_count, width;
  int64_t k;  // 1 to kMostTopk
  const uint8_t* mask = nullptr;
  MaskKind mask_kind = MaskKind::none;
  int64_t mask_stride = 1;
  float* scores = nullptr;  // [query_count, k], best first; -inf where fewer vectors take part
  int64_t* ids = nullptr;   // [query_count, k]; there -1
};

// How a search is laid out on the current device: a block scans a slice of the vectors for a tile of the queries.
struct TopkPlan {
  int queries;           // of a tile
  int capacity;          // keys that a block holds for each of them
  int64_t slices;        // of the vectors
  int slice_rows;        // vectors of each slice but the last
  int64_t padded_width;  // of a query's direction in the scratch memory
  int chunk;             // of it in shared memory at a time
  int64_t shared_bytes;  // of a block
};

TopkPlan plan_cosine_topk(const CosineTopk& search);

// Of the memory that a search needs beside its arguments, on 16 bytes.
int64_t scratch_bytes(const CosineTopk& search, const TopkPlan& plan);

// A row without a direction (not finite, or zero) makes the first score of every query NaN, and the first id the lowest
// such vector that takes part; of a query that has none itself the first id is -1.
int cosine_topk(const CosineTopk& search, const TopkPlan& plan, void* scratch, void* stream);

}  // namespace remory::REMORY_DEVICE

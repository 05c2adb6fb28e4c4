// The projection of features, RMSNorm(features · weightᵀ), on devices whose matrix units a library of ours can feed.
#pragma once

#include "launch.h"

namespace remory::REMORY_DEVICE {

// A tile of the product is one thread block's at a time.
constexpr int64_t kProjectionTileRows = 128, kProjectionTileColumns = 256;

// out = features · weightᵀ in bfloat16, [rows, width] contiguous, of features [rows, depth] and weight [width, depth],
// whose rows are `stride`s of elements apart. squares[t][r] is the sum over the columns of tile t of what is in row r,
// squared: [tiles(), padded_rows()] float32, of the float32 sums that `out` rounds. norm [width] is the norm's weight.
struct Projection {
  const void* features;
  int64_t feature_stride;
  const void* weight;
  int64_t weight_stride;
  const float* norm;
  int64_t rows, width, depth;
  void* out;
  float* squares;

  constexpr int64_t row_tiles() const { return (rows + kProjectionTileRows - 1) / kProjectionTileRows; }
  constexpr int64_t tiles() const { return (width + kProjectionTileColumns - 1) / kProjectionTileColumns; }
  constexpr int64_t padded_rows() const { return row_tiles() * kProjectionTileRows; }
};

// Whether `project` takes a projection on the current device; what it does not take is torch's to multiply.
// `out` and `squares` need not exist yet.
bool projects(const Projection& projection);

int project(const Projection& projection, void* stream);

// Finishes the norm in place: out[r] *= norm / sqrt(squares of r / width + eps).
int scale_rows(const Projection& projection, float eps, void* stream);

// What TMA can address and what keeps the device busy, for the implementations of `projects`.
bool suits_tiles(const Projection& projection, int64_t processors);

}  // namespace remory::REMORY_DEVICE

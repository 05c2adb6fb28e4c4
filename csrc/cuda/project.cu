#include <limits>

#include "element.cuh"
#include "project.h"
#include "warp.cuh"

namespace remory::REMORY_DEVICE {
namespace {

constexpr int kWarps = 8;  // of a block, a row each
constexpr int kPacket = kPacketBytes / sizeof(bfloat16);

__global__ void __launch_bounds__(kWarps* kWarp) scale_rows_kernel(Projection projection, float eps) {
  const int lane = threadIdx.x % kWarp;
  const int64_t row = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  if (row >= projection.rows) return;

  float squares = 0.0f;
  for (int64_t tile = lane; tile < projection.tiles(); tile += kWarp) {
    squares += projection.squares[tile * projection.padded_rows() + row];
  }
  const float factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(projection.width) + eps);

  bfloat16* const out = static_cast<bfloat16*>(projection.out) + row * projection.width;
  for (int64_t d = lane * kPacket; d < projection.width; d += kWarp * kPacket) {
    float values[kPacket], weights[kPacket];
    load_packets(out + d, values);
    load_packets(projection.norm + d, weights);
#pragma unroll
    for (int i = 0; i < kPacket; ++i) values[i] *= factor * weights[i];
    store_packets(values, out + d);
  }
}

bool aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kPacketBytes == 0; }

// Rows that overlap are no matrix to TMA.
bool addressable(const void* data, int64_t stride, int64_t depth) {
  return aligned(data) && stride % kPacket == 0 && stride >= depth && depth % kPacket == 0;
}

// Whether the tiles' last wave leaves at most a quarter of the processors' time unused. Short of that torch, which
// knows smaller tiles, is the better choice.
bool fills(int64_t tiles, int64_t processors) {
  const int64_t waves = (tiles + processors - 1) / processors;
  return 4 * tiles >= 3 * waves * processors;
}

}  // namespace

bool suits_tiles(const Projection& projection, int64_t processors) {
  for (const int64_t size : {projection.rows, projection.width, projection.depth}) {
    if (size < 1 || size > std::numeric_limits<int32_t>::max()) return false;
  }
  return addressable(projection.features, projection.feature_stride, projection.depth) &&
         addressable(projection.weight, projection.weight_stride, projection.depth) && aligned(projection.norm) &&
         projection.width % kPacket == 0 && fills(projection.row_tiles() * projection.tiles(), processors);
}

int scale_rows(const Projection& projection, float eps, void* stream) {
  const int64_t blocks = (projection.rows + kWarps - 1) / kWarps;
  REMORY_LAUNCH(scale_rows_kernel, static_cast<unsigned>(blocks), kWarps * kWarp, 0, stream, projection, eps);
  return launch_result();
}

}  // namespace remory::REMORY_DEVICE

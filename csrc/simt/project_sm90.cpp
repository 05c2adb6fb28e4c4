// Stands in for the matrix product of cuda/project_sm90.cu, which no emulation runs: the same sums by plain loops, so
// that all around it is tested.
#include "../cuda/element.cuh"
#include "../cuda/project.h"

namespace remory::simt {
namespace {

float dot(const bfloat16* left, const bfloat16* right, int64_t depth) {
  float sum = 0.0f;
  for (int64_t d = 0; d < depth; ++d) sum += load(left[d]) * load(right[d]);
  return sum;
}

}  // namespace

bool projects(const Projection& projection) { return suits_tiles(projection, multiprocessors()); }

int project(const Projection& projection, void*) {
  const auto* features = static_cast<const bfloat16*>(projection.features);
  const auto* weight = static_cast<const bfloat16*>(projection.weight);
  auto* out = static_cast<bfloat16*>(projection.out);
  for (int64_t row = 0; row < projection.rows; ++row) {
    for (int64_t tile = 0; tile < projection.tiles(); ++tile) {
      const int64_t begin = tile * kProjectionTileColumns;
      const int64_t end = std::min(begin + kProjectionTileColumns, projection.width);
      float squares = 0.0f;
      for (int64_t column = begin; column < end; ++column) {
        const float sum = dot(features + row * projection.feature_stride, weight + column * projection.weight_stride,
                              projection.depth);
        out[row * projection.width + column] = store<bfloat16>(sum);
        squares += sum * sum;
      }
      projection.squares[tile * projection.padded_rows() + row] = squares;
    }
  }
  return 0;
}

}  // namespace remory::simt

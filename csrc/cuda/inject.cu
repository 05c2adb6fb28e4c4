#include "inject.h"
#include "rows.cuh"

namespace remory::REMORY_DEVICE {
namespace {

template <int Step, class In, class Out>
__global__ void __launch_bounds__(kMoverThreads)
    inject_rows(Matrix embeddings, ConstMatrix rows, const int64_t* __restrict__ positions, int64_t tokens,
                int64_t width, int64_t count, int threads_a_row) {
  const GroupRows group(threads_a_row);
  for (int64_t i = group.first; i < count; i += group.stride) {
    const int64_t position = positions[i];
    if (position == -1) continue;
    if (position < 0 || position >= tokens) REMORY_TRAP("inject: a position is out of range");
    move_row<Step, In>(row<In>(rows, i), nullptr, row<Out>(embeddings, position), width, group.thread, threads_a_row);
  }
}

}  // namespace

int inject(const Matrix& embeddings, const ConstMatrix& rows, const int64_t* positions, int64_t tokens, int64_t width,
           int64_t count, void* stream) {
  if (count == 0) return 0;
  const bool packets = in_packets(embeddings) && in_packets(rows);
  dispatch(rows.type, [&](auto in) {
    dispatch(embeddings.type, [&](auto stored) {
      using In = decltype(in);
      using Out = decltype(stored);
      constexpr int kElements = kStep<In, Out>;
      const RowGroups groups(count, packets ? (width + kElements - 1) / kElements : width);
      const auto kernel = packets ? &inject_rows<kElements, In, Out> : &inject_rows<1, In, Out>;
      REMORY_LAUNCH(kernel, groups.blocks, kMoverThreads, 0, stream, embeddings, rows, positions, tokens, width, count,
                    groups.threads);
    });
  });
  return launch_result();
}

}  // namespace remory::REMORY_DEVICE

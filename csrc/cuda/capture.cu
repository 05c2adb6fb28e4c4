#include "capture.h"
#include "rows.cuh"

namespace remory::REMORY_DEVICE {
namespace {

template <int Step, class In, class Out>
__global__ void __launch_bounds__(kMoverThreads)
    capture_rows(ConstMatrix hidden, ConstMatrix residual, const int64_t* __restrict__ rows, Matrix out, int64_t tokens,
                 int64_t width, int64_t count, int threads_a_row) {
  const GroupRows group(threads_a_row);
  for (int64_t i = group.first; i < count; i += group.stride) {
    const int64_t source = rows[i];
    if (source < 0 || source >= tokens) REMORY_TRAP("capture: a row is out of range");
    const In* added = residual.data != nullptr ? row<In>(residual, source) : nullptr;
    move_row<Step>(row<In>(hidden, source), added, row<Out>(out, i), width, group.thread, threads_a_row);
  }
}

}  // namespace

int capture(const ConstMatrix& hidden, const ConstMatrix& residual, const int64_t* rows, const Matrix& out,
            int64_t tokens, int64_t width, int64_t count, void* stream) {
  if (count == 0) return 0;
  const bool packets = in_packets(hidden) && in_packets(out) && (residual.data == nullptr || in_packets(residual));
  dispatch(hidden.type, [&](auto in) {
    dispatch(out.type, [&](auto stored) {
      using In = decltype(in);
      using Out = decltype(stored);
      constexpr int kElements = kStep<In, Out>;
      const RowGroups groups(count, packets ? (width + kElements - 1) / kElements : width);
      const auto kernel = packets ? &capture_rows<kElements, In, Out> : &capture_rows<1, In, Out>;
      REMORY_LAUNCH(kernel, groups.blocks, kMoverThreads, 0, stream, hidden, residual, rows, out, tokens, width, count,
                    groups.threads);
    });
  });
  return launch_result();
}

}  // namespace remory::REMORY_DEVICE

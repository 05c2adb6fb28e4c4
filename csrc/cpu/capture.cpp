#include "capture.h"

namespace remory::cpu {
namespace {

template <class In, class Out>
REMORY_INLINE void copy_row(const In* in, Out* out, int64_t width) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) out[d] = store<Out>(load(in[d]));
}

template <class In, class Out>
REMORY_INLINE void add_rows(const In* left, const In* right, Out* out, int64_t width) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) out[d] = store<Out>(load(left[d]) + load(right[d]));
}

}  // namespace

REMORY_CLONES
void capture(const ConstMatrix& hidden, const ConstMatrix& residual, const int64_t* rows, const Matrix& out,
             int64_t width, int64_t begin, int64_t end) {
  dispatch(hidden.type, [&](auto in) __attribute__((always_inline)) {
    dispatch(out.type, [&](auto stored) __attribute__((always_inline)) {
      using In = decltype(in);
      using Out = decltype(stored);
      for (int64_t i = begin; i < end; ++i) {
        const In* source = row<In>(hidden, rows[i]);
        if (residual) {
          add_rows(source, row<In>(residual, rows[i]), row<Out>(out, i), width);
        } else {
          copy_row(source, row<Out>(out, i), width);
        }
      }
    });
  });
}

}  // namespace remory::cpu

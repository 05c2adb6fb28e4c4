#include "inject.h"

namespace remory::cpu {

REMORY_CLONES
void inject(const Matrix& embeddings, const ConstMatrix& rows, const int64_t* positions, int64_t width, int64_t begin,
            int64_t end) {
  dispatch(rows.type, [&](auto in) __attribute__((always_inline)) {
    dispatch(embeddings.type, [&](auto stored) __attribute__((always_inline)) {
      using In = decltype(in);
      using Out = decltype(stored);
      for (int64_t i = begin; i < end; ++i) {
        if (positions[i] < 0) continue;
        const In* source = row<In>(rows, i);
        Out* target = row<Out>(embeddings, positions[i]);
#pragma omp simd
        for (int64_t d = 0; d < width; ++d) target[d] = store<Out>(load(source[d]));
      }
    });
  });
}

}  // namespace remory::cpu

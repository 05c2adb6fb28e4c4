#include "inject.h"

#include "rows.h"

namespace remory::cpu {
namespace {

template <bool kStreamed, class In, class Out>
REMORY_INLINE void inject_rows(const Inject& inject, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    if (inject.positions[i] < 0) continue;
    const int64_t ahead = std::min(i + kRowsAhead, end - 1);
    const In *in = row<In>(inject.rows, i), *later_in = row<In>(inject.rows, ahead);
    Out* out = row<Out>(inject.embeddings, inject.positions[i]);
    const Out* later_out = row<Out>(inject.embeddings, std::max<int64_t>(inject.positions[ahead], 0));
    int64_t d = 0;
    for (; d + kStep <= inject.width; d += kStep) {
      prefetch_step(later_in + d);
      prefetch_target<kStreamed>(later_out + d);
      copy_step<kStreamed>(in + d, out + d);
    }
    for (; d < inject.width; ++d) out[d] = cast<Out>(in[d]);
  }
}

}  // namespace

REMORY_CLONES
void inject(const Inject& inject, int64_t begin, int64_t end) {
  dispatch(inject.rows.type, [&](auto in) __attribute__((always_inline)) {
    dispatch(inject.embeddings.type, [&](auto out) __attribute__((always_inline)) {
      if (streams(inject.embeddings, inject.count, inject.width)) {
        inject_rows<true, decltype(in), decltype(out)>(inject, begin, end);
        finish_streaming();
      } else {
        inject_rows<false, decltype(in), decltype(out)>(inject, begin, end);
      }
    });
  });
}

}  // namespace remory::cpu

#include "capture.h"

#include "rows.h"

namespace remory::cpu {
namespace {

template <bool kStreamed, class In, class Out>
REMORY_INLINE void copy_row(const In* in, const In* later, Out* out, const Out* later_out, int64_t width) {
  int64_t d = 0;
  for (; d + kStep <= width; d += kStep) {
    prefetch_step(later + d);
    prefetch_target<kStreamed>(later_out + d);
    copy_step<kStreamed>(in + d, out + d);
  }
  for (; d < width; ++d) out[d] = cast<Out>(in[d]);
}

template <bool kStreamed, class In, class Out>
REMORY_INLINE void add_rows(const In* left, const In* later_left, const In* right, const In* later_right, Out* out,
                            const Out* later_out, int64_t width) {
  int64_t d = 0;
  for (; d + kStep <= width; d += kStep) {
    prefetch_step(later_left + d);
    prefetch_step(later_right + d);
    prefetch_target<kStreamed>(later_out + d);
    add_step<kStreamed>(left + d, right + d, out + d);
  }
  for (; d < width; ++d) out[d] = store<Out>(load(left[d]) + load(right[d]));
}

template <bool kStreamed, class In, class Out>
REMORY_INLINE void capture_rows(const Capture& capture, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t ahead = std::min(i + kRowsAhead, end - 1), now = capture.rows[i], later = capture.rows[ahead];
    const In *hidden = row<In>(capture.hidden, now), *later_hidden = row<In>(capture.hidden, later);
    Out *out = row<Out>(capture.out, i), *later_out = row<Out>(capture.out, ahead);
    if (capture.residual) {
      const In *residual = row<In>(capture.residual, now), *later_residual = row<In>(capture.residual, later);
      add_rows<kStreamed>(hidden, later_hidden, residual, later_residual, out, later_out, capture.width);
    } else {
      copy_row<kStreamed>(hidden, later_hidden, out, later_out, capture.width);
    }
  }
}

}  // namespace

REMORY_CLONES
void capture(const Capture& capture, int64_t begin, int64_t end) {
  dispatch(capture.hidden.type, [&](auto in) __attribute__((always_inline)) {
    dispatch(capture.out.type, [&](auto out) __attribute__((always_inline)) {
      if (streams(capture.out, capture.count, capture.width)) {
        capture_rows<true, decltype(in), decltype(out)>(capture, begin, end);
        finish_streaming();
      } else {
        capture_rows<false, decltype(in), decltype(out)>(capture, begin, end);
      }
    });
  });
}

}  // namespace remory::cpu

#include "pointer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "simd.h"

namespace remory::cpu {
namespace {

constexpr int64_t kChunk = 64;  // embeddings converted to float32 at a time

class PointingSlot {
 public:
  explicit PointingSlot(const Pointer& pointer)
      : pointer_(pointer),
        width_(round_up(pointer.width, kLanes)),
        query_(pointer.head_dim),
        shares_(pointer.heads * pointer.tokens),
        embeddings_(kChunk * width_),
        sums_(pointer.heads * width_) {}

  template <class T>
  REMORY_INLINE void run(int64_t index) {
    block_ = index / pointer_.slots.count();
    slot_ = index % pointer_.slots.count();
    seen_ = pointer_.slots.tokens_seen(slot_, pointer_.lengths[block_]);
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    if (seen_.begin < seen_.end) {
      for (int64_t head = 0; head < pointer_.heads; ++head) share_out<T>(head);
      for (int64_t start = seen_.begin; start < seen_.end; start += kChunk) {
        add_chunk<T>(start, std::min(kChunk, seen_.end - start));
      }
      subtract_mean();
    }
    store_sums<T>();
  }

 private:
  template <class T>
  REMORY_INLINE static const T* at(const ConstHeads& heads, int64_t block, int64_t row, int64_t head) {
    return static_cast<const T*>(heads.data) + block * heads.block_stride + row * heads.row_stride +
           head * heads.head_stride;
  }

  float* shares(int64_t head) { return &shares_[head * pointer_.tokens]; }

  // The shares of one head: softmax over the tokens seen.
  template <class T>
  REMORY_INLINE void share_out(int64_t head) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(pointer_.head_dim));
    const T* query = at<T>(pointer_.queries, block_, slot_, head);
    for (int64_t d = 0; d < pointer_.head_dim; ++d) query_[d] = load(query[d]) * scale;

    const float* idf = pointer_.idf + block_ * pointer_.tokens;
    float* scores = shares(head);
    for (int64_t t = seen_.begin; t < seen_.end; ++t) {
      const T* key = at<T>(pointer_.keys, block_, t, head);
      float score = 0;
#pragma omp simd reduction(+ : score)
      for (int64_t d = 0; d < pointer_.head_dim; ++d) score += query_[d] * load(key[d]);
      scores[t] = score + pointer_.idf_scale[head] * idf[t];
    }
    const Range group = pointer_.group(block_, slot_);
    for (int64_t t = std::max(group.begin, seen_.begin); t < std::min(group.end, seen_.end); ++t) {
      scores[t] += pointer_.group_bonus[head];
    }

    SoftmaxState state{-std::numeric_limits<float>::infinity(), 0.0f};
    softmax_step(scores, seen_.begin, seen_.end, state);
    const float share = 1.0f / state.sum;
#pragma omp simd
    for (int64_t t = seen_.begin; t < seen_.end; ++t) scores[t] *= share;
  }

  // All heads take from the same embeddings: each is read and converted once.
  template <class T>
  REMORY_INLINE void add_chunk(int64_t start, int64_t count) {
    for (int64_t t = 0; t < count; ++t) {
      const T* embedding = at<T>(pointer_.embeddings, block_, start + t, 0);
      float* target = &embeddings_[t * width_];
#pragma omp simd
      for (int64_t d = 0; d < pointer_.width; ++d) target[d] = load(embedding[d]);
    }
    for (int64_t head = 0; head < pointer_.heads; ++head) {
      accumulate<1>(shares(head) + start, 0, embeddings_.data(), width_, 0, count, &sums_[head * width_], 0, width_);
    }
  }

  REMORY_INLINE void subtract_mean() {
    for (int64_t head = 0; head < pointer_.heads; ++head) {
      float* sums = &sums_[head * width_];
#pragma omp simd
      for (int64_t d = 0; d < pointer_.width; ++d) sums[d] -= pointer_.mean[d];
    }
  }

  template <class T>
  REMORY_INLINE void store_sums() {
    for (int64_t head = 0; head < pointer_.heads; ++head) {
      T* target = static_cast<T*>(pointer_.out.data) + block_ * pointer_.out.block_stride +
                  slot_ * pointer_.out.row_stride + head * pointer_.out.head_stride;
      const float* sums = &sums_[head * width_];
#pragma omp simd
      for (int64_t d = 0; d < pointer_.width; ++d) target[d] = store<T>(sums[d]);
    }
  }

  const Pointer& pointer_;
  const int64_t width_;
  std::vector<float> query_, shares_, embeddings_, sums_;
  int64_t block_ = 0, slot_ = 0;
  Range seen_{0, 0};
};

}  // namespace

REMORY_CLONES
void point(const Pointer& pointer, int64_t begin, int64_t end) {
  PointingSlot slot(pointer);
  dispatch(pointer.type, [&](auto element) __attribute__((always_inline)) {
    for (int64_t i = begin; i < end; ++i) slot.run<decltype(element)>(i);
  });
}

}  // namespace remory::cpu

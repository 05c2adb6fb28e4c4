#include "pointer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "simd.h"

namespace remory::cpu {
namespace {

constexpr int64_t kChunk = 64;     // embeddings converted to float32 at a time
constexpr int64_t kTileSlots = 8;  // slots that share a converted chunk

// A few neighbouring slots of one block: they see nearly the same tokens, and all heads take from the same embeddings.
class Tile {
 public:
  explicit Tile(const Pointer& pointer)
      : pointer_(pointer),
        width_(round_up(pointer.width, kLanes)),
        query_(pointer.head_dim),
        shares_(kTileSlots * pointer.heads * pointer.tokens),
        embeddings_(kChunk * width_),
        sums_(kTileSlots * pointer.heads * width_) {}

  template <class T>
  REMORY_INLINE void run(int64_t tile) {
    const int64_t tiles_of_block = pointer_.tiles() / pointer_.blocks;
    block_ = tile / tiles_of_block;
    begin_ = tile % tiles_of_block * kTileSlots;
    end_ = std::min(begin_ + kTileSlots, pointer_.slots.count());
    const Range seen{pointer_.slots.tokens_seen(begin_, pointer_.lengths[block_]).begin,
                     pointer_.slots.tokens_seen(end_ - 1, pointer_.lengths[block_]).end};
    std::fill(sums_.begin(), sums_.end(), 0.0f);
    for (int64_t slot = begin_; slot < end_; ++slot) {
      for (int64_t head = 0; head < pointer_.heads; ++head) share_out<T>(slot, head, seen);
    }
    for (int64_t start = seen.begin; start < seen.end; start += kChunk) {
      add_chunk<T>(start, std::min(kChunk, seen.end - start));
    }
    store_sums<T>();
  }

 private:
  template <class T>
  REMORY_INLINE static const T* at(const ConstHeads& heads, int64_t block, int64_t row, int64_t head) {
    return static_cast<const T*>(heads.data) + block * heads.block_stride + row * heads.row_stride +
           head * heads.head_stride;
  }

  Range tokens_seen(int64_t slot) const { return pointer_.slots.tokens_seen(slot, pointer_.lengths[block_]); }

  // A slot and a head: where their shares and their sums lie.
  int64_t taker(int64_t slot, int64_t head) const { return (slot - begin_) * pointer_.heads + head; }

  // The shares of one head: softmax over the tokens that the slot sees, zeros for the others of the tile.
  template <class T>
  REMORY_INLINE void share_out(int64_t slot, int64_t head, Range tile_sees) {
    const Range seen = tokens_seen(slot);
    float* shares = &shares_[taker(slot, head) * pointer_.tokens];
    if (tile_sees.begin < tile_sees.end) std::fill(shares + tile_sees.begin, shares + tile_sees.end, 0.0f);
    if (seen.begin >= seen.end) return;

    const float scale = 1.0f / std::sqrt(static_cast<float>(pointer_.head_dim));
    const T* query = at<T>(pointer_.queries, block_, slot, head);
    for (int64_t d = 0; d < pointer_.head_dim; ++d) query_[d] = load(query[d]) * scale;
    const float* idf = pointer_.idf + block_ * pointer_.tokens;
    for (int64_t t = seen.begin; t < seen.end; ++t) {
      const T* key = at<T>(pointer_.keys, block_, t, head);
      float score = 0;
#pragma omp simd reduction(+ : score)
      for (int64_t d = 0; d < pointer_.head_dim; ++d) score += query_[d] * load(key[d]);
      shares[t] = score + pointer_.idf_scale[head] * idf[t];
    }
    const Range group = pointer_.group(block_, slot);
    for (int64_t t = std::max(group.begin, seen.begin); t < std::min(group.end, seen.end); ++t) {
      shares[t] += pointer_.group_bonus[head];
    }

    SoftmaxState state{-std::numeric_limits<float>::infinity(), 0.0f};
    softmax_step(shares, seen.begin, seen.end, state);
    const float share = 1.0f / state.sum;
#pragma omp simd
    for (int64_t t = seen.begin; t < seen.end; ++t) shares[t] *= share;
  }

  // Each embedding is read and converted once for all slots and heads of the tile.
  template <class T>
  REMORY_INLINE void add_chunk(int64_t start, int64_t count) {
    for (int64_t t = 0; t < count; ++t) {
      const T* embedding = at<T>(pointer_.embeddings, block_, start + t, 0);
      float* target = &embeddings_[t * width_];
#pragma omp simd
      for (int64_t d = 0; d < pointer_.width; ++d) target[d] = load(embedding[d]);
    }
    const int64_t takers = (end_ - begin_) * pointer_.heads;
    int64_t taker = 0;
    for (; taker + 4 <= takers; taker += 4) add_to<4>(taker, start, count);
    for (; taker < takers; ++taker) add_to<1>(taker, start, count);
  }

  template <int Takers>
  REMORY_INLINE void add_to(int64_t taker, int64_t start, int64_t count) {
    accumulate<Takers>(&shares_[taker * pointer_.tokens + start], pointer_.tokens, embeddings_.data(), width_, 0, count,
                       &sums_[taker * width_], width_, width_);
  }

  template <class T>
  REMORY_INLINE void store_sums() {
    for (int64_t slot = begin_; slot < end_; ++slot) {
      const Range seen = tokens_seen(slot);
      const float shares = seen.begin < seen.end ? 1.0f : 0.0f;
      for (int64_t head = 0; head < pointer_.heads; ++head) {
        T* target = static_cast<T*>(pointer_.out.data) + block_ * pointer_.out.block_stride +
                    slot * pointer_.out.row_stride + head * pointer_.out.head_stride;
        const float* sums = &sums_[taker(slot, head) * width_];
#pragma omp simd
        for (int64_t d = 0; d < pointer_.width; ++d) target[d] = store<T>(sums[d] - shares * pointer_.mean[d]);
      }
    }
  }

  const Pointer& pointer_;
  const int64_t width_;
  std::vector<float> query_, shares_, embeddings_, sums_;
  int64_t block_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace

int64_t Pointer::tiles() const { return blocks * ((slots.count() + kTileSlots - 1) / kTileSlots); }

REMORY_CLONES
void point(const Pointer& pointer, int64_t begin, int64_t end) {
  Tile tile(pointer);
  dispatch(pointer.type, [&](auto element) __attribute__((always_inline)) {
    for (int64_t i = begin; i < end; ++i) tile.run<decltype(element)>(i);
  });
}

}  // namespace remory::cpu

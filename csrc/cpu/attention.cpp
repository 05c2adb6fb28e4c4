#include "attention.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "simd.h"

namespace remory::cpu {
namespace {

constexpr int64_t kChunk = 128;                    // keys converted to float32 at a time
constexpr int64_t kChunkStride = kChunk + kLanes;  // an odd number of cache lines: transposing hits all cache sets
constexpr int64_t kTileQueries = 96;               // queries that share a converted chunk, about

constexpr int64_t kQueries = 6;  // queries computed at once: so many sums fit the registers
constexpr int64_t kKeys = 4;     // keys transposed at once

// One tile's float32 state: the queries of its slots, their running softmax, and the chunk of keys at hand.
class Tile {
 public:
  explicit Tile(const Attention& attention)
      : attention_(attention),
        group_(attention.heads / attention.kv_heads),
        width_(round_up(attention.head_dim, kLanes)),
        queries_(attention.tile_slots() * group_ * width_),
        sums_(queries_.size()),
        states_(attention.tile_slots() * group_),
        scores_(kQueries * kChunkStride),
        key_rows_(kKeys * width_),
        keys_(width_ * kChunkStride),
        values_(kChunk * width_) {}

  template <class T>
  REMORY_INLINE void run(int64_t tile) {
    const int64_t tiles_of_slots = (attention_.slots.count() + attention_.tile_slots() - 1) / attention_.tile_slots();
    begin_ = tile % tiles_of_slots * attention_.tile_slots();
    end_ = std::min(begin_ + attention_.tile_slots(), attention_.slots.count());
    kv_head_ = tile / tiles_of_slots % attention_.kv_heads;
    block_ = tile / tiles_of_slots / attention_.kv_heads;
    load_queries<T>();
    if (attention_.source_keys.data) {
      const int64_t length = attention_.lengths ? attention_.lengths[block_] : attention_.tokens;
      walk<T>(attention_.source_keys, attention_.source_values,
              [&](int64_t slot) { return attention_.slots.tokens_seen(slot, length); });
    }
    if (attention_.slot_keys.data) {
      walk<T>(attention_.slot_keys, attention_.slot_values,
              [&](int64_t slot) { return attention_.slots.slots_seen(slot); });
    }
    store_sums<T>();
  }

 private:
  template <class T>
  REMORY_INLINE static const T* at(const ConstHeads& heads, int64_t block, int64_t row, int64_t head) {
    return static_cast<const T*>(heads.data) + block * heads.block_stride + row * heads.row_stride +
           head * heads.head_stride;
  }

  template <class T>
  REMORY_INLINE void load_queries() {
    for (int64_t slot = begin_; slot < end_; ++slot) {
      for (int64_t g = 0; g < group_; ++g) {
        const int64_t query = (slot - begin_) * group_ + g;
        const T* source = at<T>(attention_.queries, block_, slot, kv_head_ * group_ + g);
        for (int64_t d = 0; d < attention_.head_dim; ++d) {
          queries_[query * width_ + d] = load(source[d]) * attention_.scale;
        }
        states_[query] = {-std::numeric_limits<float>::infinity(), 0.0f};
      }
    }
    std::fill(sums_.begin(), sums_.end(), 0.0f);
  }

  // Walks the keys that any slot of the tile sees, chunk by chunk.
  template <class T, class Seen>
  REMORY_INLINE void walk(const ConstHeads& keys, const ConstHeads& values, const Seen& seen) {
    const int64_t first = seen(begin_).begin, last = seen(end_ - 1).end;
    for (int64_t start = first; start < last; start += kChunk) {
      const int64_t count = std::min(kChunk, last - start);
      load_chunk<T>(keys, values, start, count);
      for (int64_t slot = begin_; slot < end_;) {
        const Range range = part_of(seen(slot), start, count);
        const int64_t alike = slot;
        do ++slot;
        while (slot < end_ && part_of(seen(slot), start, count) == range);
        if (range.begin < range.end) attend_chunk((alike - begin_) * group_, (slot - alike) * group_, range);
      }
    }
  }

  // What of a range lies in the chunk of `count` keys at `start`, counted from there.
  static Range part_of(Range range, int64_t start, int64_t count) {
    return {std::max<int64_t>(range.begin - start, 0), std::min(range.end - start, count)};
  }

  // Keys are transposed, so that a vector holds one dimension of neighbouring keys and scores need no horizontal sum.
  template <class T>
  REMORY_INLINE void load_chunk(const ConstHeads& keys, const ConstHeads& values, int64_t start, int64_t count) {
    for (int64_t k = 0; k < count; k += kKeys) {
      for (int64_t i = 0; i < kKeys; ++i) {
        const int64_t key = start + std::min(k + i, count - 1);  // the last one again where there is no other
        convert(at<T>(keys, block_, key, kv_head_), &key_rows_[i * width_]);
      }
      for (int64_t d = 0; d < attention_.head_dim; d += kKeys) {
        transpose(&key_rows_[d], width_, &keys_[d * kChunkStride + k], kChunkStride);
      }
    }
    for (int64_t k = 0; k < count; ++k) convert(at<T>(values, block_, start + k, kv_head_), &values_[k * width_]);
  }

  template <class T>
  REMORY_INLINE void convert(const T* source, float* target) {
#pragma omp simd
    for (int64_t d = 0; d < attention_.head_dim; ++d) target[d] = load(source[d]);
  }

  // Adds keys of the chunk to neighbouring queries, all of which see the same.
  REMORY_INLINE void attend_chunk(int64_t query, int64_t count, Range keys) {
    int64_t q = 0;
    for (; q + kQueries <= count; q += kQueries) attend_queries<kQueries>(query + q, keys.begin, keys.end);
    for (; q + 3 <= count; q += 3) attend_queries<3>(query + q, keys.begin, keys.end);
    for (; q < count; ++q) attend_queries<1>(query + q, keys.begin, keys.end);
  }

  template <int Queries>
  REMORY_INLINE void attend_queries(int64_t query, int64_t low, int64_t high) {
    score<Queries>(&queries_[query * width_], low, high);
    for (int q = 0; q < Queries; ++q) {
      const float correction = softmax_step(&scores_[q * kChunkStride], low, high, states_[query + q]);
      float* sums = &sums_[(query + q) * width_];
      for (int64_t d = 0; d < width_; d += kLanes) vector_at(sums + d) *= correction;
    }
    accumulate<Queries>(scores_.data(), kChunkStride, values_.data(), width_, low, high, &sums_[query * width_], width_,
                        width_);
  }

  // scores[q][k] = queries[q] · keys[k]. Whole vectors are computed; those outside [low, high) are never used.
  template <int Queries>
  REMORY_INLINE void score(const float* queries, int64_t low, int64_t high) {
    for (int64_t k = low / kLanes * kLanes; k < high; k += 2 * kLanes) {
      Vector left[Queries] = {}, right[Queries] = {};
      for (int64_t d = 0; d < attention_.head_dim; ++d) {
        const Vector left_keys = vector_at(&keys_[d * kChunkStride + k]);
        const Vector right_keys = vector_at(&keys_[d * kChunkStride + k + kLanes]);
        for (int q = 0; q < Queries; ++q) {
          left[q] += queries[q * width_ + d] * left_keys;
          right[q] += queries[q * width_ + d] * right_keys;
        }
      }
      for (int q = 0; q < Queries; ++q) {
        vector_at(&scores_[q * kChunkStride + k]) = left[q];
        vector_at(&scores_[q * kChunkStride + k + kLanes]) = right[q];
      }
    }
  }

  template <class T>
  REMORY_INLINE void store_sums() {
    for (int64_t slot = begin_; slot < end_; ++slot) {
      for (int64_t g = 0; g < group_; ++g) {
        const int64_t query = (slot - begin_) * group_ + g;
        T* target = static_cast<T*>(attention_.out.data) + block_ * attention_.out.block_stride +
                    slot * attention_.out.row_stride + (kv_head_ * group_ + g) * attention_.out.head_stride;
        const float share = 1.0f / states_[query].sum;
        for (int64_t d = 0; d < attention_.head_dim; ++d) target[d] = store<T>(sums_[query * width_ + d] * share);
      }
    }
  }

  const Attention& attention_;
  const int64_t group_, width_;
  std::vector<float> queries_, sums_;
  std::vector<SoftmaxState> states_;
  std::vector<float> scores_, key_rows_, keys_, values_;
  int64_t block_ = 0, kv_head_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace

// All tiles of a block are of about one size: a small last one would cost nearly as much as the others.
int64_t Attention::tile_slots() const {
  const int64_t most = std::max<int64_t>(1, kTileQueries / (heads / kv_heads));
  const int64_t tiles = (slots.count() + most - 1) / most;
  return (slots.count() + tiles - 1) / tiles;
}

int64_t Attention::tiles() const { return blocks * kv_heads * ((slots.count() + tile_slots() - 1) / tile_slots()); }

REMORY_CLONES
void attend(const Attention& attention, int64_t begin, int64_t end) {
  Tile tile(attention);
  dispatch(attention.type, [&](auto element) __attribute__((always_inline)) {
    for (int64_t i = begin; i < end; ++i) tile.run<decltype(element)>(i);
  });
}

}  // namespace remory::cpu

// A block takes a slot, up to four heads of it and a stretch of the embeddings' dimensions, and goes over the slot's
// window chunk by chunk: a group of lanes scores a token, a warp keeps the softmax of a head, and each thread sums some
// dimensions of every so-many-th token.
#include "../simt/simt.h"
#include "element.cuh"
#include "packet.cuh"
#include "pointer.h"
#include "warp.cuh"

namespace remory::REMORY_DEVICE {
namespace {

constexpr int kHeads = 4;  // of a block, a warp each
constexpr int kThreads = kHeads * 32;
constexpr int kChunk = 64;      // tokens
constexpr int kScoreLanes = 8;  // that score a token together

__host__ __device__ constexpr int padded(int64_t head_dim, int packet) {
  return static_cast<int>((head_dim + packet - 1) / packet * packet);
}

template <class T>
class PointingBlock {
 public:
  __device__ PointingBlock(const Pointer& pointer, int dimension_lanes, bool packets, float* queries)
      : pointer_(pointer),
        packets_(packets),
        lanes_(dimension_lanes),
        head_dim_(static_cast<int>(pointer.head_dim)),
        query_stride_(padded(pointer.head_dim, kPacket)),
        queries_(queries) {
    const int64_t stretch = static_cast<int64_t>(lanes_) * kPacket;
    const int64_t stretches = (pointer.width + stretch - 1) / stretch,
                  head_groups = (pointer.heads + kHeads - 1) / kHeads;
    const int64_t index = blockIdx.x;
    dimension_ = index % stretches * stretch + threadIdx.x % lanes_ * kPacket;
    first_head_ = index / stretches % head_groups * kHeads;
    heads_ = static_cast<int>(min(static_cast<int64_t>(kHeads), pointer.heads - first_head_));
    slot_ = index / stretches / head_groups % pointer.slots.count();
    block_ = index / stretches / head_groups / pointer.slots.count();
  }

  __device__ void run() {
    const int64_t length = pointer_.lengths[block_];
    const Range seen = pointer_.slots.tokens_seen(slot_, length);
    group_ = group(length);
    load_queries();
    for (int h = 0; h < kHeads; ++h) {
      for (int j = 0; j < kPacket; ++j) sums_[h][j] = 0.0f;
    }
    for (int64_t start = seen.begin; start < seen.end; start += kChunk) {
      const int count = static_cast<int>(min(static_cast<int64_t>(kChunk), seen.end - start));
      __syncthreads();
      score(start, count);
      __syncthreads();
      share_out(count);
      __syncthreads();
      sum(start, count);
    }
    gather();
    write(seen.begin < seen.end);
  }

 private:
  static constexpr int kPacket = kPacketOf<T>;
  struct alignas(16) Shared {
    float shares[kChunk][kHeads];  // first the scores
    float corrections[kHeads], totals[kHeads];
    float sums[kHeads][kPacket][kThreads];
  };

  __device__ static Shared& shared() {
    REMORY_SHARED(Shared, shared);
    return shared;
  }

  __device__ static const T* at(const ConstHeads& heads, int64_t block, int64_t row, int64_t head) {
    return static_cast<const T*>(heads.data) + block * heads.block_stride + row * heads.row_stride +
           head * heads.head_stride;
  }

  // The source tokens of the slot's own group.
  __device__ Range group(int64_t length) const {
    if (!pointer_.kept) return {pointer_.slots.first(slot_), pointer_.slots.stop(slot_)};
    const int64_t* first = pointer_.kept + block_ * pointer_.slots.count() + slot_;
    return {first[0], slot_ + 1 < pointer_.slots.count() ? first[1] : length};
  }

  __device__ float idf(int64_t token) const {
    const int64_t at = block_ * pointer_.idf_block_stride + token * pointer_.idf_token_stride;
    return pointer_.idf_type == ElementType::float32 ? static_cast<const float*>(pointer_.idf)[at]
                                                     : load(static_cast<const bfloat16*>(pointer_.idf)[at]);
  }

  __device__ void load_queries() const {
    const float scale = 1.0f / sqrtf(static_cast<float>(head_dim_));
    for (int h = 0; h < heads_; ++h) {
      const T* query = at(pointer_.queries, block_, slot_, first_head_ + h);
      for (int d = threadIdx.x; d < query_stride_; d += kThreads) {
        queries_[h * query_stride_ + d] = d < head_dim_ ? load(query[d]) * scale : 0.0f;
      }
    }
  }

  // All lanes of a warp go the same number of rounds, those behind the last pair with nothing.
  __device__ void score(int64_t start, int count) const {
    const int lane = threadIdx.x % kScoreLanes, pairs = count * heads_;
    for (int first = 0; first < pairs; first += kThreads / kScoreLanes) {
      const int pair = first + threadIdx.x / kScoreLanes, h = pair % heads_;
      const bool live = pair < pairs;
      const int64_t token = start + pair / heads_;
      const T* key = at(pointer_.keys, block_, live ? token : start, first_head_ + h);
      float sum = 0.0f;
      for (int d = lane * kPacket; live && d < head_dim_; d += kScoreLanes * kPacket) {
        float values[kPacket];
        load_some<T, kPacket>(key + d, head_dim_ - d, packets_, values);
#pragma unroll
        for (int j = 0; j < kPacket; ++j) sum = fmaf(queries_[h * query_stride_ + d + j], values[j], sum);
      }
      sum = warp_sum<kScoreLanes>(sum);
      if (live && lane == 0) shared().shares[pair / heads_][h] = sum + bias(h, token);
    }
  }

  __device__ float bias(int h, int64_t token) const {
    const float bonus = token >= group_.begin && token < group_.end ? pointer_.group_bonus[first_head_ + h] : 0.0f;
    return pointer_.idf_scale[first_head_ + h] * idf(token) + bonus;
  }

  // Turns the scores of this warp's head into shares of the sums so far.
  __device__ void share_out(int count) {
    const int h = threadIdx.x / 32;
    if (h >= heads_) return;
    float highest = -INFINITY;
    for (int t = threadIdx.x % 32; t < count; t += 32) highest = fmaxf(highest, shared().shares[t][h]);
    const float maximum = fmaxf(maximum_, warp_max(highest));
    const float base = maximum == -INFINITY ? 0.0f : maximum, correction = expf(maximum_ - base);
    float sum = 0.0f;
    for (int t = threadIdx.x % 32; t < count; t += 32) {
      const float share = expf(shared().shares[t][h] - base);
      shared().shares[t][h] = share;
      sum += share;
    }
    maximum_ = maximum;
    total_ = total_ * correction + warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
      shared().corrections[h] = correction;
      shared().totals[h] = total_;
    }
  }

  __device__ void sum(int64_t start, int count) {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float correction = h < heads_ ? shared().corrections[h] : 0.0f;
#pragma unroll
      for (int j = 0; j < kPacket; ++j) sums_[h][j] *= correction;
    }
    if (dimension_ >= pointer_.width) return;
    for (int t = threadIdx.x / lanes_; t < count; t += kThreads / lanes_) {
      float values[kPacket];
      const T* embedding = at(pointer_.embeddings, block_, start + t, 0);
      load_some<T, kPacket>(embedding + dimension_, pointer_.width - dimension_, packets_, values);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if (h >= heads_) break;
        const float share = shared().shares[t][h];
#pragma unroll
        for (int j = 0; j < kPacket; ++j) sums_[h][j] = fmaf(share, values[j], sums_[h][j]);
      }
    }
  }

  // Adds up what threads with the same dimensions have summed, and leaves it to the first of them.
  __device__ void gather() {
    if (lanes_ == kThreads) return;
    auto& sums = shared().sums;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int j = 0; j < kPacket; ++j) sums[h][j][threadIdx.x] = sums_[h][j];
    }
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= lanes_) return;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
#pragma unroll
      for (int j = 0; j < kPacket; ++j) {
        for (int other = threadIdx.x + lanes_; other < kThreads; other += lanes_) sums_[h][j] += sums[h][j][other];
      }
    }
  }

  __device__ void write(bool sees_any) const {
    if (static_cast<int>(threadIdx.x) >= lanes_ || dimension_ >= pointer_.width) return;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= heads_) break;
      float values[kPacket];
      const float share = sees_any ? 1.0f / shared().totals[h] : 0.0f;
#pragma unroll
      for (int j = 0; j < kPacket; ++j) {
        const bool inside = sees_any && dimension_ + j < pointer_.width;
        values[j] = inside ? sums_[h][j] * share - pointer_.mean[dimension_ + j] : 0.0f;
      }
      const Heads& out = pointer_.out;
      T* target = static_cast<T*>(out.data) + block_ * out.block_stride + slot_ * out.row_stride +
                  (first_head_ + h) * out.head_stride + dimension_;
      store_some<T, kPacket>(target, pointer_.width - dimension_, packets_, values);
    }
  }

  const Pointer& pointer_;
  const bool packets_;
  const int lanes_, head_dim_, query_stride_;
  float* const queries_;  // [heads_, query_stride_]
  int64_t block_, slot_, first_head_, dimension_;
  int heads_;
  Range group_;
  float maximum_ = -INFINITY, total_ = 0.0f;  // of this warp's head
  float sums_[kHeads][kPacket];
};

template <class T>
__global__ void __launch_bounds__(kThreads) point_kernel(Pointer pointer, int dimension_lanes, bool packets) {
  REMORY_DYNAMIC_SHARED(float, queries);
  PointingBlock<T>(pointer, dimension_lanes, packets, queries).run();
}

bool in_packets(const Pointer& pointer, int64_t bytes) {
  const Heads& out = pointer.out;
  const auto aligned = [&](const ConstHeads& heads) {
    return all_aligned(heads.data, bytes, {heads.block_stride, heads.row_stride, heads.head_stride});
  };
  return pointer.head_dim * bytes % 16 == 0 && pointer.width * bytes % 16 == 0 && aligned(pointer.keys) &&
         aligned(pointer.embeddings) && aligned({out.data, out.block_stride, out.row_stride, out.head_stride});
}

template <class T>
int launch(const Pointer& pointer, void* stream) {
  constexpr int kPacket = kPacketOf<T>;
  int lanes = 1;
  while (lanes < kThreads && lanes * kPacket < pointer.width) lanes *= 2;
  const int64_t stretch = static_cast<int64_t>(lanes) * kPacket;
  const int64_t stretches = (pointer.width + stretch - 1) / stretch;
  const int64_t head_groups = (pointer.heads + kHeads - 1) / kHeads;
  const dim3 grid(static_cast<unsigned>(pointer.blocks * pointer.slots.count() * head_groups * stretches));
  const size_t bytes = sizeof(float) * kHeads * padded(pointer.head_dim, kPacket);
  REMORY_ALLOW_SHARED(point_kernel<T>, bytes);
  REMORY_LAUNCH(point_kernel<T>, grid, dim3(kThreads), bytes, stream, pointer, lanes, in_packets(pointer, sizeof(T)));
  return launch_result();
}

}  // namespace

int point(const Pointer& pointer, void* stream) {
  if (pointer.blocks == 0 || pointer.heads == 0 || pointer.width == 0) return 0;
  return pointer.type == ElementType::float32 ? launch<float>(pointer, stream) : launch<bfloat16>(pointer, stream);
}

}  // namespace remory::REMORY_DEVICE

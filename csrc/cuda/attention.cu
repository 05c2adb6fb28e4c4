// Flash attention from positions. A warp holds 8 queries and, lane by lane, 32 keys at a time; a thread block has up to
// 4 warps, which share the queries of one key head or the keys of one chunk: few blocks of many queries read the keys
// less often, many blocks of few queries fill the device when there is little to do.
#include "../simt/simt.h"
#include "attention.h"
#include "element.cuh"
#include "packet.cuh"
#include "warp.cuh"

namespace remory::REMORY_DEVICE {
namespace {

constexpr int kQueries = 8;  // of a warp
constexpr int kKeys = 32;    // of a warp at a time, one a lane
constexpr int kWarps = 4;
constexpr int64_t kMostShared = 99 << 10;       // what every architecture from sm_80 on gives a block
constexpr float kLog2e = 1.44269504088896341f;  // exp(x) = exp2(x * log2 e)

// How the warps of a block divide its work, and where things lie in its shared memory.
template <class T, int kDims>
struct Plan {
  int query_warps, key_warps;
  int head_dim, width, key_stride;

  static Plan make(int query_warps, int key_warps, int64_t head_dim) {
    constexpr int kPacket = kPacketOf<T>;
    const int width = static_cast<int>(head_dim + kPacket - 1) / kPacket * kPacket;
    // An odd number of packets: lanes that read the same packet of neighbouring rows meet different banks.
    const int key_stride = (width / kPacket | 1) * kPacket;
    return {query_warps, key_warps, static_cast<int>(head_dim), width, key_stride};
  }

  __host__ __device__ int queries() const { return query_warps * kQueries; }
  __host__ __device__ int chunk() const { return key_warps * kKeys; }
  __host__ __device__ int warps() const { return query_warps * key_warps; }

  __host__ __device__ int values_at() const { return chunk() * key_stride * static_cast<int>(sizeof(T)); }
  __host__ __device__ int queries_at() const { return values_at() + chunk() * kDims * static_cast<int>(sizeof(T)); }
  __host__ __device__ int shares_at() const { return queries_at() + queries() * width * 4; }
  __host__ __device__ int seen_at() const { return shares_at() + warps() * kKeys * kQueries * 4; }
  __host__ __device__ int shared_bytes() const { return seen_at() + queries() * 16; }
};

// What one query sees of the source and of the slots.
struct Seen {
  int token_begin, token_end, slot_begin, slot_end;
};

template <class T>
struct Chunk {
  const T *keys, *values;
  int64_t key_stride, value_stride;
  int start, count;
  bool of_slots;
};

template <class T, int kDims>
class AttendingBlock {
 public:
  __device__ AttendingBlock(const Attention& attention, const Plan<T, kDims>& plan, bool packets, unsigned char* shared)
      : attention_(attention),
        plan_(plan),
        packets_(packets),
        keys_(reinterpret_cast<T*>(shared)),
        values_(reinterpret_cast<T*>(shared + plan.values_at())),
        queries_(reinterpret_cast<float*>(shared + plan.queries_at())),
        seen_(reinterpret_cast<Seen*>(shared + plan.seen_at())),
        group_(static_cast<int>(attention.heads / attention.kv_heads)),
        warp_(threadIdx.x / 32),
        lane_(threadIdx.x % 32),
        first_query_(warp_ % plan.query_warps * kQueries),
        first_key_(warp_ / plan.query_warps * kKeys),
        shares_(reinterpret_cast<float*>(shared + plan.shares_at()) + warp_ * kKeys * kQueries),
        merged_(reinterpret_cast<float*>(shared)) {
    const int queries = static_cast<int>(attention.slots.count()) * group_;
    const int64_t tiles = (queries + plan.queries() - 1) / plan.queries();
    last_query_ = queries - 1;
    tile_begin_ = static_cast<int>(blockIdx.x % tiles) * plan.queries();
    kv_head_ = blockIdx.x / tiles % attention.kv_heads;
    block_ = blockIdx.x / tiles / attention.kv_heads;
    for (int q = 0; q < kQueries; ++q) {
      maxima_[q] = -INFINITY;
      sums_[q] = 0.0f;
      for (int j = 0; j < kPerLane; ++j) outs_[q][j] = 0.0f;
    }
  }

  __device__ void run() {
    look();
    load_queries();
    __syncthreads();
    plan_chunks();
    if (chunks_ > 0) {
      stage_keys(0);
      stage_values(0);
    }
    for (int i = 0; i < chunks_; ++i) walk(i);
    for (int q = 0; q < kQueries; ++q) sums_[q] = warp_sum(sums_[q]);
    if (plan_.key_warps > 1) merge();
    if (first_key_ == 0) write();
  }

 private:
  static constexpr int kPerLane = kDims / 32;
  static constexpr int kRun = kPerLane < kPacketOf<T> ? kPerLane : kPacketOf<T>;  // neighbouring dimensions of a lane

  __device__ int dimension(int run) const { return run * 32 * kRun + lane_ * kRun; }

  // Queries behind the last one repeat it and are not written.
  __device__ int query(int index) const { return min(tile_begin_ + index, last_query_); }
  __device__ int slot_of(int query) const { return query / group_; }
  __device__ int64_t head_of(int query) const { return kv_head_ * group_ + query % group_; }

  __device__ void look() {
    const int64_t length = attention_.lengths ? attention_.lengths[block_] : attention_.tokens;
    if (length < 0 || length > attention_.tokens) REMORY_TRAP("slot_attention: a length is out of range");
    for (int i = threadIdx.x; i < plan_.queries(); i += blockDim.x) {
      const int slot = slot_of(query(i));
      const Range tokens = attention_.slots.tokens_seen(slot, length), slots = attention_.slots.slots_seen(slot);
      seen_[i] = {static_cast<int>(tokens.begin < length ? tokens.begin : length), static_cast<int>(tokens.end),
                  static_cast<int>(slots.begin), static_cast<int>(slots.end)};
    }
  }

  __device__ void load_queries() {
    constexpr int kPacket = kPacketOf<T>, kRow = kDims / kPacket;
    for (int i = threadIdx.x; i < plan_.queries() * kRow; i += blockDim.x) {
      const int d = i % kRow * kPacket, q = query(i / kRow);
      if (d >= plan_.width) continue;
      const ConstHeads& heads = attention_.queries;
      const T* source = static_cast<const T*>(heads.data) + block_ * heads.block_stride +
                        slot_of(q) * heads.row_stride + head_of(q) * heads.head_stride;
      float values[kPacket];
      load_some<T, kPacket>(source + d, plan_.head_dim - d, packets_, values);
      float* target = queries_ + i / kRow * plan_.width + d;
      for (int j = 0; j < kPacket; ++j) target[j] = values[j] * (attention_.scale * kLog2e);
    }
  }

  __device__ void plan_chunks() {
    const Seen &first = seen_[0], &last = seen_[plan_.queries() - 1];
    const int chunk = plan_.chunk();
    token_begin_ = first.token_begin, token_end_ = attention_.source_keys.data ? last.token_end : 0;
    slot_begin_ = first.slot_begin, slot_end_ = attention_.slot_keys.data ? last.slot_end : 0;
    token_chunks_ = (max(token_end_ - token_begin_, 0) + chunk - 1) / chunk;
    chunks_ = token_chunks_ + (max(slot_end_ - slot_begin_, 0) + chunk - 1) / chunk;
  }

  __device__ const T* head(const ConstHeads& heads) const {
    return static_cast<const T*>(heads.data) + block_ * heads.block_stride + kv_head_ * heads.head_stride;
  }

  __device__ Chunk<T> chunk_at(int index) const {
    const bool of_slots = index >= token_chunks_;
    const ConstHeads& keys = of_slots ? attention_.slot_keys : attention_.source_keys;
    const ConstHeads& values = of_slots ? attention_.slot_values : attention_.source_values;
    const int start =
        of_slots ? slot_begin_ + (index - token_chunks_) * plan_.chunk() : token_begin_ + index * plan_.chunk();
    const int count = min((of_slots ? slot_end_ : token_end_) - start, plan_.chunk());
    return {head(keys), head(values), keys.row_stride, values.row_stride, start, count, of_slots};
  }

  __device__ void stage(T* target, int target_stride, const T* source, int64_t source_stride, int rows) const {
    constexpr int kPacket = kPacketOf<T>, kRow = kDims / kPacket;
    if (packets_) {
#pragma unroll 1
      for (int i = threadIdx.x; i < rows * kRow; i += blockDim.x) {
        const int row = i / kRow, d = i % kRow * kPacket;
        if (d < plan_.head_dim) copy_async(target + row * target_stride + d, source + row * source_stride + d);
      }
    } else {
#pragma unroll 1
      for (int i = threadIdx.x; i < rows * kDims; i += blockDim.x) {
        const int row = i / kDims, d = i % kDims;
        if (d < plan_.width)
          target[row * target_stride + d] = d < plan_.head_dim ? source[row * source_stride + d] : T{};
      }
    }
    commit_copies();
  }

  __device__ void stage_keys(int index) const {
    if (index >= chunks_) return commit_copies();
    const Chunk<T> chunk = chunk_at(index);
    stage(keys_, plan_.key_stride, chunk.keys + chunk.start * chunk.key_stride, chunk.key_stride, chunk.count);
  }

  __device__ void stage_values(int index) const {
    if (index >= chunks_) return commit_copies();
    const Chunk<T> chunk = chunk_at(index);
    stage(values_, kDims, chunk.values + chunk.start * chunk.value_stride, chunk.value_stride, chunk.count);
  }

  // One chunk. While its keys are scored its values are still on their way, and the next keys while it is summed.
  __device__ void walk(int index) {
    const Chunk<T> chunk = chunk_at(index);
    const Seen &first = seen_[first_query_], &last = seen_[first_query_ + kQueries - 1];
    const int begin = chunk.of_slots ? first.slot_begin : first.token_begin;
    const int end = chunk.of_slots ? last.slot_end : last.token_end;
    const int low = max(begin - chunk.start - first_key_, 0);
    const int high = min(min(end - chunk.start, chunk.count) - first_key_, kKeys);
    wait_for_copies<1>();
    __syncthreads();
    if (low < high) weigh(chunk);
    wait_for_copies<0>();
    __syncthreads();
    stage_keys(index + 1);
    if (low < high) sum(low, high);
    __syncthreads();
    stage_values(index + 1);
  }

  // Scores of this lane's key, and from them the shares of the 8 queries.
  __device__ void weigh(const Chunk<T>& chunk) {
    float scores[kQueries];
    score(scores);
    const int key = chunk.start + first_key_ + lane_;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const Seen& seen = seen_[first_query_ + q];
      const int begin = chunk.of_slots ? seen.slot_begin : seen.token_begin;
      const int end = chunk.of_slots ? seen.slot_end : seen.token_end;
      const float value = key >= begin && key < end ? scores[q] : -INFINITY;
      const float maximum = fmaxf(maxima_[q], warp_max(value));
      const float base = maximum == -INFINITY ? 0.0f : maximum;
      const float correction = exp2f(maxima_[q] - base);
      scores[q] = exp2f(value - base);
      maxima_[q] = maximum;
      sums_[q] = sums_[q] * correction + scores[q];
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) outs_[q][j] *= correction;
    }
    float4* shares = reinterpret_cast<float4*>(shares_ + lane_ * kQueries);
    shares[0] = make_float4(scores[0], scores[1], scores[2], scores[3]);
    shares[1] = make_float4(scores[4], scores[5], scores[6], scores[7]);
  }

  __device__ void score(float (&scores)[kQueries]) const {
    constexpr int kPacket = kPacketOf<T>;
    for (int q = 0; q < kQueries; ++q) scores[q] = 0.0f;
    const T* key = keys_ + (first_key_ + lane_) * plan_.key_stride;
    const float* queries = queries_ + first_query_ * plan_.width;
    for (int d = 0; d < plan_.width; d += kPacket) {
      float values[kPacket];
      load_run<T, kPacket>(key + d, values);
#pragma unroll
      for (int q = 0; q < kQueries; ++q) {
#pragma unroll
        for (int j = 0; j < kPacket; j += 4) {
          const float4 four = *reinterpret_cast<const float4*>(queries + q * plan_.width + d + j);
          scores[q] = fmaf(four.x, values[j], scores[q]);
          scores[q] = fmaf(four.y, values[j + 1], scores[q]);
          scores[q] = fmaf(four.z, values[j + 2], scores[q]);
          scores[q] = fmaf(four.w, values[j + 3], scores[q]);
        }
      }
    }
  }

  // Adds the values of this warp's keys [low, high), weighted with their shares.
  __device__ void sum(int low, int high) {
    const T* values = values_ + first_key_ * kDims;
#pragma unroll 2
    for (int k = low; k < high; ++k) {
      float row[kPerLane];
#pragma unroll
      for (int run = 0; run < kPerLane / kRun; ++run) {
        load_run<T, kRun>(values + k * kDims + dimension(run), row + run * kRun);
      }
      const float4* shares = reinterpret_cast<const float4*>(shares_ + k * kQueries);
      const float4 left = shares[0], right = shares[1];
      const float weights[kQueries] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
#pragma unroll
      for (int q = 0; q < kQueries; ++q) {
#pragma unroll
        for (int j = 0; j < kPerLane; ++j) outs_[q][j] = fmaf(weights[q], row[j], outs_[q][j]);
      }
    }
  }

  // Brings together the sums of warps that went over different keys with the same queries; the first of them gets all.
  __device__ void merge() {
    constexpr int kOuts = kQueries * kDims, kState = kOuts + 2 * kQueries;
    const int others = plan_.query_warps;
    float* mine = merged_ + (warp_ - others) * kState;
    if (first_key_ > 0) {
#pragma unroll
      for (int q = 0; q < kQueries; ++q) {
#pragma unroll
        for (int j = 0; j < kPerLane; ++j) mine[q * kDims + j * 32 + lane_] = outs_[q][j];
        mine[kOuts + q] = maxima_[q];
        mine[kOuts + kQueries + q] = sums_[q];
      }
    }
    __syncthreads();
    if (first_key_ > 0) return;
    for (int other = warp_; other < plan_.warps() - others; other += others) take(merged_ + other * kState);
  }

  __device__ void take(const float* state) {
    constexpr int kOuts = kQueries * kDims;
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const float maximum = fmaxf(maxima_[q], state[kOuts + q]);
      const float base = maximum == -INFINITY ? 0.0f : maximum;
      const float own = exp2f(maxima_[q] - base), others = exp2f(state[kOuts + q] - base);
      maxima_[q] = maximum;
      sums_[q] = sums_[q] * own + state[kOuts + kQueries + q] * others;
#pragma unroll
      for (int j = 0; j < kPerLane; ++j) {
        outs_[q][j] = outs_[q][j] * own + state[q * kDims + j * 32 + lane_] * others;
      }
    }
  }

  __device__ void write() const {
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      const int index = tile_begin_ + first_query_ + q;
      if (index > last_query_) return;
      const Heads& out = attention_.out;
      T* target = static_cast<T*>(out.data) + block_ * out.block_stride + slot_of(index) * out.row_stride +
                  head_of(index) * out.head_stride;
      const float share = 1.0f / sums_[q];
#pragma unroll
      for (int run = 0; run < kPerLane / kRun; ++run) {
        float values[kRun];
#pragma unroll
        for (int j = 0; j < kRun; ++j) values[j] = outs_[q][run * kRun + j] * share;
        store_some<T, kRun>(target + dimension(run), plan_.head_dim - dimension(run), packets_, values);
      }
    }
  }

  const Attention& attention_;
  const Plan<T, kDims>& plan_;
  const bool packets_;
  T *const keys_, *const values_;
  float* const queries_;
  Seen* const seen_;
  const int group_, warp_, lane_, first_query_, first_key_;
  float *const shares_, *const merged_;
  int last_query_, tile_begin_;
  int64_t kv_head_, block_;
  int token_begin_, token_end_, slot_begin_, slot_end_, token_chunks_, chunks_;
  float maxima_[kQueries], sums_[kQueries];  // sums_: of this lane's keys until the walk is over
  float outs_[kQueries][kPerLane];
};

// No minimum of blocks a multiprocessor: with one, nvcc hoists loads up to the limit of registers and then spills.
template <class T, int kDims>
__global__ void __launch_bounds__(kWarps * 32) attend_kernel(Attention attention, Plan<T, kDims> plan, bool packets) {
  REMORY_DYNAMIC_SHARED(unsigned char, shared);
  AttendingBlock<T, kDims>(attention, plan, packets, shared).run();
}

template <class T, int kDims>
Plan<T, kDims> plan_for(const Attention& attention) {
  const int64_t queries = attention.slots.count() * (attention.heads / attention.kv_heads);
  const auto blocks = [&](int warps) {
    return attention.blocks * attention.kv_heads * ((queries + warps * kQueries - 1) / (warps * kQueries));
  };
  const int64_t enough = 2 * multiprocessors();
  int query_warps = kWarps;
  while (query_warps > 1 && blocks(query_warps) < enough) query_warps /= 2;
  int key_warps = kWarps / query_warps;
  const auto plan = [&] { return Plan<T, kDims>::make(query_warps, key_warps, attention.head_dim); };
  while (plan().shared_bytes() > kMostShared) (key_warps > 1 ? key_warps : query_warps) /= 2;
  return plan();
}

bool in_packets(const ConstHeads& heads, int64_t element_bytes) {
  return all_aligned(heads.data, element_bytes, {heads.block_stride, heads.row_stride, heads.head_stride});
}

bool in_packets(const Attention& attention, int64_t element_bytes) {
  const Heads& out = attention.out;
  const ConstHeads written{out.data, out.block_stride, out.row_stride, out.head_stride};
  for (const ConstHeads& heads : {attention.queries, attention.source_keys, attention.source_values,
                                  attention.slot_keys, attention.slot_values, written}) {
    if (!in_packets(heads, element_bytes)) return false;
  }
  return attention.head_dim * element_bytes % 16 == 0;
}

template <class T, int kDims>
int launch(const Attention& attention, void* stream) {
  const Plan<T, kDims> plan = plan_for<T, kDims>(attention);
  const int64_t queries = attention.slots.count() * (attention.heads / attention.kv_heads);
  const int64_t tiles = (queries + plan.queries() - 1) / plan.queries();
  const dim3 grid(static_cast<unsigned>(attention.blocks * attention.kv_heads * tiles));
  REMORY_ALLOW_SHARED((attend_kernel<T, kDims>), plan.shared_bytes());
  REMORY_LAUNCH((attend_kernel<T, kDims>), grid, dim3(plan.warps() * 32), plan.shared_bytes(), stream, attention, plan,
                in_packets(attention, sizeof(T)));
  return launch_result();
}

template <class T>
int launch(const Attention& attention, void* stream) {
  if (attention.head_dim <= 32) return launch<T, 32>(attention, stream);
  if (attention.head_dim <= 64) return launch<T, 64>(attention, stream);
  if (attention.head_dim <= 128) return launch<T, 128>(attention, stream);
  return launch<T, 256>(attention, stream);
}

}  // namespace

int attend(const Attention& attention, void* stream) {
  if (attention.blocks == 0 || attention.heads == 0) return 0;
  return attention.type == ElementType::float32 ? launch<float>(attention, stream)
                                                : launch<bfloat16>(attention, stream);
}

}  // namespace remory::REMORY_DEVICE

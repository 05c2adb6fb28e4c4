#include "../simt/simt.h"
#include "element.cuh"
#include "topk.h"

namespace remory::REMORY_DEVICE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Eight lanes, an octet, share a row: 128 neighbouring bytes at a time. An octet takes as many rows as it has lanes, so
// that summing over its lanes leaves each lane the sums of one row, and a warp's lanes stand for 32 rows in order.
constexpr int kOctet = 8;
constexpr int kWarpRows = 32;

constexpr uint32_t kAll = 0xFFFFFFFF;
constexpr int64_t kNone = -1;
constexpr int kMostQueries = 32;  // of a block
constexpr int kMergeCapacity = 2 * kMostTopk;

template <class T>
constexpr int kPacket = 16 / sizeof(T);  // elements

// A warp takes up to eight queries at a time: then its sums fill the registers, and one block the multiprocessor.
constexpr int kMostWarpQueries = 8;
constexpr int warp_queries(int queries) { return queries < kMostWarpQueries ? queries : kMostWarpQueries; }
constexpr int blocks_together(int warp_queries) { return warp_queries == 1 ? 2 : 1; }
constexpr int tile_rows(int queries) { return kWarps / (queries / warp_queries(queries)) * kWarpRows; }

// A key orders by score, then by the lower number; no key is 0, which stands for none.
__device__ inline uint64_t make_key(float score, uint32_t number) {
  const uint32_t bits = __float_as_uint(score + 0.0f);  // -0 and 0 are equal
  const uint32_t ordered = bits & 0x80000000 ? ~bits : bits | 0x80000000;
  return static_cast<uint64_t>(ordered) << 32 | ~number;
}

__device__ inline uint32_t number_of(uint64_t key) { return ~static_cast<uint32_t>(key); }

__device__ inline float score_of(uint64_t key) {
  const uint32_t ordered = static_cast<uint32_t>(key >> 32);
  return __uint_as_float(ordered & 0x80000000 ? ordered & 0x7FFFFFFF : ~ordered);
}

__device__ inline bool is_direction(double square) { return square > 0 && square < INFINITY; }

struct Warp {
  __device__ static int rank() { return threadIdx.x % 32; }
  __device__ static int size() { return 32; }
  __device__ static void sync() { __syncwarp(); }
};

struct Block {
  __device__ static int rank() { return threadIdx.x; }
  __device__ static int size() { return kThreads; }
  __device__ static void sync() { __syncthreads(); }
};

// Bitonic, highest first. `count` is a power of two; all threads of the group call it.
template <class Group>
__device__ void sort_keys(uint64_t* keys, int count) {
  for (int run = 2; run <= count; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      Group::sync();
      for (int i = Group::rank(); i < count / 2; i += Group::size()) {
        const int low = 2 * i - (i & (distance - 1)), high = low + distance;
        const uint64_t left = keys[low], right = keys[high];
        const bool falling = (low & run) == 0;
        if ((left < right) == falling) {
          keys[low] = right;
          keys[high] = left;
        }
      }
    }
  }
  Group::sync();
}

// The best keys offered for one query, in shared memory: up to `capacity` of them unsorted, of which `prune` leaves the
// k best. Between two prunings no more than half the capacity may be offered; k is at most the other half.
struct Selection {
  uint64_t* keys;
  int* count;
  uint64_t* floor;  // the k-th best at the last pruning, or 0

  __device__ void clear() const {
    *count = 0;
    *floor = 0;
  }

  // All lanes of a warp offer a key, or 0.
  __device__ void offer(uint64_t key) const {
    const bool is_better = key > *floor;
    const uint32_t better = __ballot_sync(kAll, is_better);
    if (better == 0) return;
    const int lane = threadIdx.x % 32, leader = __ffs(better) - 1;
    int start = 0;
    if (lane == leader) start = atomicAdd(count, __popc(better));
    start = __shfl_sync(kAll, start, leader);
    if (is_better) keys[start + __popc(better & ((1u << lane) - 1))] = key;
  }

  // The keys are sorted after it. All threads of the group call it.
  template <class Group>
  __device__ void prune(int k) const {
    const int filled = *count;
    int length = 1;
    while (length < filled) length *= 2;
    for (int i = filled + Group::rank(); i < length; i += Group::size()) keys[i] = 0;
    sort_keys<Group>(keys, length);
    if (Group::rank() == 0 && filled >= k) {
      *count = k;
      *floor = keys[k - 1];
    }
    Group::sync();
  }
};

// A query's direction is stored in the order in which octets read it: an element for each lane at a time, so that the
// lanes read neighbours.
__device__ inline int64_t direction_place(int64_t d, int packet) {
  const int64_t step = d / (kOctet * packet), lane = d / packet % kOctet;
  return (step * packet + d % packet) * kOctet + lane;
}

// A search's parts of the scratch memory.
struct Scratch {
  double* directions;   // [queries, padded_width]
  uint64_t* lists;      // [queries, slices, k]: the best keys of each slice, or 0; their numbers are rows of the slice
  int64_t* undirected;  // [slices]: the first vector without a direction, or kNone
  uint8_t* has_direction;  // [queries]
};

struct Scan {
  CosineTopk search;
  TopkPlan plan;
  Scratch scratch;
};

// All threads of a block get the sum, added in one order.
__device__ double sum_over_block(double value) {
  REMORY_SHARED(double[kWarps], sums);
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(kAll, value, distance);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  double total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp];
  return total;
}

// A block a query: its direction in float64, zero where it has none.
template <class T>
__global__ void __launch_bounds__(kThreads) find_directions(const Scan scan, int packet) {
  const int64_t width = scan.search.width, padded_width = scan.plan.padded_width;
  const auto element = [&](int64_t d) { return static_cast<double>(load(row<T>(scan.search.queries, blockIdx.x)[d])); };
  double square = 0;
  for (int64_t d = threadIdx.x; d < width; d += kThreads) {
    const double value = element(d);
    square = fma(value, value, square);
  }
  square = sum_over_block(square);
  const bool found = is_direction(square);
  const double inverse = rsqrt(square);
  double* direction = scan.scratch.directions + blockIdx.x * padded_width;
  for (int64_t d = threadIdx.x; d < padded_width; d += kThreads) {
    direction[direction_place(d, packet)] = found && d < width ? element(d) * inverse : 0;
  }
  if (threadIdx.x == 0) scan.scratch.has_direction[blockIdx.x] = found;
}

// 16 bytes of a row.
template <class T>
struct alignas(16) Packet {
  uint32_t words[4];

  // `left` elements are left of the row; behind them come zeros. Aligned rows hold whole packets.
  template <bool kAligned>
  __device__ static Packet read(const T* source, int left) {
    if constexpr (kAligned) return *reinterpret_cast<const Packet*>(source);
    Packet packet = {};
#pragma unroll
    for (int i = 0; i < kPacket<T>; ++i) {
      if (i >= left) continue;
      if constexpr (sizeof(T) == 4) {
        packet.words[i] = __float_as_uint(source[i]);
      } else {
        packet.words[i / 2] |= static_cast<uint32_t>(source[i].bits) << (i % 2 * 16);
      }
    }
    return packet;
  }

  __device__ double operator[](int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[i]);
    } else {
      return load(T{static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16))});
    }
  }
};

// What a lane has summed of its octet's rows.
template <int kQueries>
struct Sums {
  double dots[kQueries][kOctet] = {};
  double squares[kOctet] = {};

  // `columns` columns from `rows` on. Rows whose bit in `takes` is not set are not read. `directions` are `stride`
  // elements apart.
  template <bool kAligned, class T>
  __device__ void add(const T* rows, int64_t row_stride, uint32_t takes, int columns, const double* directions,
                      int stride) {
    const int lane = threadIdx.x % kOctet;
    rows += lane * kPacket<T>;
    directions += lane;
#pragma unroll 1
    for (int left = columns - lane * kPacket<T>; left > 0; left -= kOctet * kPacket<T>) {
      Packet<T> packets[kOctet] = {};
#pragma unroll
      for (int row = 0; row < kOctet; ++row) {
        if (takes >> row & 1) packets[row] = Packet<T>::template read<kAligned>(rows + row * row_stride, left);
      }
#pragma unroll
      for (int i = 0; i < kPacket<T>; ++i) add_element(packets, i, directions + i * kOctet, stride);
      rows += kOctet * kPacket<T>;
      directions += kOctet * kPacket<T>;
    }
  }

  template <class T>
  __device__ void add_element(const Packet<T> (&packets)[kOctet], int i, const double* directions, int stride) {
    double values[kOctet];
#pragma unroll
    for (int row = 0; row < kOctet; ++row) {
      values[row] = packets[row][i];
      squares[row] = fma(values[row], values[row], squares[row]);
    }
#pragma unroll
    for (int query = 0; query < kQueries; ++query) {
      const double direction = directions[query * stride];
#pragma unroll
      for (int row = 0; row < kOctet; ++row) dots[query][row] = fma(direction, values[row], dots[query][row]);
    }
  }
};

// Sums over the lanes of an octet; each lane keeps the row of its own number. Halving the rows at each exchange adds
// the lanes of every row in the same tree.
__device__ inline double sum_rows(double (&rows)[kOctet]) {
#pragma unroll
  for (int half = kOctet / 2; half > 0; half /= 2) {
    const bool is_upper = threadIdx.x & half;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const double kept = is_upper ? rows[i + half] : rows[i], given = is_upper ? rows[i] : rows[i + half];
      rows[i] = kept + __shfl_xor_sync(kAll, given, half);
    }
  }
  return rows[0];
}

struct ScanState {
  int counts[kMostQueries];
  uint64_t floors[kMostQueries];
  uint32_t undirected;  // the lowest row of the slice without a direction, or kAll
};

// A block's work: one slice of the vectors for one tile of queries. Its warps are dealt out to groups of kQueries of
// these, each group's to the rows of a tile; groups find each other's rows in the cache.
template <class T, int kQueries, bool kAligned>
class SliceScan {
 public:
  __device__ SliceScan(const Scan& scan, uint64_t* shared, ScanState& state)
      : search_(scan.search),
        plan_(scan.plan),
        scratch_(scan.scratch),
        query_count_(static_cast<int>(min(search_.query_count - first_query(), static_cast<int64_t>(plan_.queries)))),
        keys_(shared),
        directions_(reinterpret_cast<double*>(shared + plan_.queries * plan_.capacity)),
        state_(state) {}

  __device__ void run() {
    if (threadIdx.x < kMostQueries) selection(threadIdx.x).clear();
    if (threadIdx.x == 0) state_.undirected = kAll;
    __syncthreads();
    const int rows = static_cast<int>(min(search_.vector_count - first_row(), static_cast<int64_t>(plan_.slice_rows)));
    const int round = plan_.capacity / 2, tile = kWarpRows * kWarps / groups();
    for (int start = 0; start < rows; start += round) {
      const int end = min(start + round, rows);
      for (int row = start; row < end; row += tile) scan_tile(row, end);
      __syncthreads();
      for_each_query([&](auto group, int query) {
        if (state_.counts[query] > round) selection(query).template prune<decltype(group)>(k());
      });
      __syncthreads();
    }
    for_each_query([&](auto group, int query) { store_list<decltype(group)>(query); });
    if (blockIdx.x == 0 && threadIdx.x == 0)
      scratch_.undirected[slice()] = state_.undirected == kAll ? kNone : first_row() + state_.undirected;
  }

 private:
  __device__ int groups() const { return kQueries < kMostWarpQueries ? 1 : plan_.queries / kQueries; }
  __device__ int k() const { return static_cast<int>(search_.k); }
  __device__ int64_t first_query() const { return static_cast<int64_t>(blockIdx.x) * plan_.queries; }
  __device__ int64_t slice() const { return blockIdx.y; }
  __device__ int64_t first_row() const { return slice() * plan_.slice_rows; }

  __device__ Selection selection(int query) const {
    return {keys_ + query * plan_.capacity, &state_.counts[query], &state_.floors[query]};
  }

  // Long sorts for few queries take all threads together; of many queries each warp takes some.
  template <class Visit>
  __device__ void for_each_query(const Visit& visit) const {
    if constexpr (kQueries < kWarps) {
      for (int query = 0; query < query_count_; ++query) visit(Block(), query);
    } else {
      for (int query = threadIdx.x / 32; query < query_count_; query += kWarps) visit(Warp(), query);
    }
  }

  __device__ bool takes_part(int row, int end) const {
    if (row >= end) return false;
    const int64_t id = first_row() + row;
    if (search_.mask_kind == MaskKind::bytes) return search_.mask[id * search_.mask_stride] != 0;
    if (search_.mask_kind == MaskKind::bits) return search_.mask[id / 8 * search_.mask_stride] >> (id % 8) & 1;
    return true;
  }

  // Rows of the slice, as many as the block has lanes for from `row`, and before `end`.
  __device__ void scan_tile(int row, int end) {
    const int row_warps = kWarps / groups(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int query = warp / row_warps * kQueries;
    row += warp % row_warps * kWarpRows;
    const uint32_t takes = __ballot_sync(kAll, query < query_count_ && takes_part(row + lane, end));
    const int octet = lane / kOctet * kOctet;
    const T* rows = remory::REMORY_DEVICE::row<T>(search_.vectors, first_row() + row + octet);
    Sums<kQueries> sums;
    for (int64_t begin = 0; begin < plan_.padded_width; begin += plan_.chunk) {
      hold_directions(begin);
      if (takes == 0) continue;
      const int columns = static_cast<int>(min(search_.width - begin, static_cast<int64_t>(plan_.chunk)));
      sums.template add<kAligned>(rows + begin, search_.vectors.stride, takes >> octet, columns,
                                  directions_ + query * plan_.chunk, plan_.chunk);
    }
    if (takes != 0) offer(sums, query, row + lane, takes >> lane & 1);
  }

  // Each lane offers its row to the queries of its group.
  __device__ void offer(Sums<kQueries>& sums, int first_query, int row, bool takes) {
    const double square = sum_rows(sums.squares);
    if (takes && !is_direction(square)) {
      atomicMin(&state_.undirected, static_cast<uint32_t>(row));
      takes = false;
    }
    const double inverse = rsqrt(square);
#pragma unroll
    for (int query = 0; query < kQueries; ++query) {
      const double cosine = fmin(fmax(sum_rows(sums.dots[query]) * inverse, -1.0), 1.0);
      if (first_query + query >= query_count_) continue;
      selection(first_query + query).offer(takes ? make_key(static_cast<float>(cosine), row) : 0);
    }
  }

  // The part of the queries' directions from `begin` in shared memory, for all threads.
  __device__ void hold_directions(int64_t begin) {
    if (begin == held_) return;
    const int used = static_cast<int>(min(plan_.padded_width - begin, static_cast<int64_t>(plan_.chunk)));
    const double* source = scratch_.directions + first_query() * plan_.padded_width + begin;
    __syncthreads();
    for (int query = 0; query < plan_.queries; ++query) {
      for (int i = threadIdx.x; i < used; i += kThreads) {
        directions_[query * plan_.chunk + i] = query < query_count_ ? source[query * plan_.padded_width + i] : 0;
      }
    }
    __syncthreads();
    held_ = begin;
  }

  template <class Group>
  __device__ void store_list(int query) const {
    const Selection best = selection(query);
    best.prune<Group>(k());
    uint64_t* list = scratch_.lists + ((first_query() + query) * plan_.slices + slice()) * k();
    for (int i = Group::rank(); i < k(); i += Group::size()) list[i] = i < *best.count ? best.keys[i] : 0;
  }

  const CosineTopk& search_;
  const TopkPlan& plan_;
  const Scratch& scratch_;
  const int query_count_;
  uint64_t* const keys_;
  double* const directions_;
  ScanState& state_;
  int64_t held_ = -1;
};

template <class T, int kQueries, bool kAligned>
__global__ void __launch_bounds__(kThreads, blocks_together(kQueries)) scan_slices(const Scan scan) {
  REMORY_DYNAMIC_SHARED(uint64_t, shared);
  REMORY_SHARED(ScanState, state);
  SliceScan<T, kQueries, kAligned>(scan, shared, state).run();
}

// A warp finds the lowest vector without a direction, or kNone.
__device__ inline int64_t first_undirected(const int64_t* undirected, int64_t slices) {
  const int lane = threadIdx.x % 32;
  for (int64_t start = 0; start < slices; start += 32) {
    const int64_t id = start + lane < slices ? undirected[start + lane] : kNone;
    const uint32_t found = __ballot_sync(kAll, id != kNone);
    if (found != 0) return __shfl_sync(kAll, static_cast<long long>(id), __ffs(found) - 1);
  }
  return kNone;
}

// A block a query. Keys of the slices are numbered by their place in the lists: among equal scores it rises with the
// vectors' ids, and unlike these it always has room in a key.
__global__ void __launch_bounds__(kThreads) merge_slices(const Scan scan) {
  REMORY_SHARED(uint64_t[kMergeCapacity], keys);
  REMORY_SHARED(int, count);
  REMORY_SHARED(uint64_t, floor);
  const int k = static_cast<int>(scan.search.k);
  const Selection best{keys, &count, &floor};
  if (threadIdx.x == 0) best.clear();
  __syncthreads();

  constexpr int kRound = kMergeCapacity / 2;
  const int64_t places = scan.plan.slices * k;
  const uint64_t* list = scan.scratch.lists + blockIdx.x * places;
  for (int64_t start = 0; start < places; start += kRound) {
    for (int i = threadIdx.x; i < kRound; i += kThreads) {
      const int64_t place = start + i;
      const uint64_t key = place < places ? list[place] : 0;
      best.offer(key == 0 ? 0 : make_key(score_of(key), static_cast<uint32_t>(place)));
    }
    __syncthreads();
    const bool is_full = count > kRound;
    __syncthreads();
    if (is_full) best.prune<Block>(k);
  }
  best.prune<Block>(k);

  float* scores = scan.search.scores + static_cast<int64_t>(blockIdx.x) * k;
  int64_t* ids = scan.search.ids + static_cast<int64_t>(blockIdx.x) * k;
  for (int i = threadIdx.x; i < k; i += kThreads) {
    const bool is_found = i < count;
    const uint32_t place = number_of(keys[i]);
    scores[i] = is_found ? score_of(keys[i]) : -INFINITY;
    ids[i] = is_found ? static_cast<int64_t>(place / k) * scan.plan.slice_rows + number_of(list[place]) : kNone;
  }
  if (threadIdx.x >= 32) return;
  const int64_t undirected = first_undirected(scan.scratch.undirected, scan.plan.slices);
  const bool has_direction = scan.scratch.has_direction[blockIdx.x];
  if (threadIdx.x == 0 && (undirected != kNone || !has_direction)) {
    scores[0] = NAN;
    ids[0] = has_direction ? undirected : kNone;
  }
}

#if defined(__CUDACC__)

// Of the current device, for a block that asks for all it can have.
int64_t most_shared_bytes() {
  int device = 0, bytes = 48 << 10;
  if (cudaGetDevice(&device) == cudaSuccess)
    static_cast<void>(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

#else

int64_t most_shared_bytes() { return 99 << 10; }

#endif

constexpr int64_t kKeysBytes = 64 << 10;
constexpr int64_t kDirectionBytes = 32 << 10;  // where two blocks share a multiprocessor
constexpr int64_t kStaticBytes = 1 << 10;      // at least a block's other shared memory
constexpr int64_t kMostSliceRows = 1 << 30;    // a key has 32 bits for the row

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
int64_t round_up(int64_t value, int64_t multiple) { return divide_up(value, multiple) * multiple; }

int packet_of(ElementType type) { return type == ElementType::float32 ? 4 : 8; }

// Room for two tiles between prunings, and for k beside what comes before the next one.
int keys_held(int queries, int64_t k) {
  int capacity = 4 * tile_rows(queries);
  while (capacity < 2 * k) capacity *= 2;
  return capacity;
}

int64_t keys_bytes(int queries, int64_t k) {
  return static_cast<int64_t>(sizeof(uint64_t)) * queries * keys_held(queries, k);
}

int queries_of_a_tile(int64_t count, int64_t k) {
  if (count <= 1) return 1;
  int queries = 4;
  while (queries < count && queries < kMostQueries && keys_bytes(2 * queries, k) <= kKeysBytes) queries *= 2;
  return queries;
}

int64_t direction_elements(const CosineTopk& search, const TopkPlan& plan) {
  return search.query_count * plan.padded_width;
}

int64_t list_keys(const CosineTopk& search, const TopkPlan& plan) {
  return search.query_count * plan.slices * search.k;
}

Scratch divide(void* memory, const CosineTopk& search, const TopkPlan& plan) {
  Scratch scratch;
  scratch.directions = static_cast<double*>(memory);
  scratch.lists = reinterpret_cast<uint64_t*>(scratch.directions + direction_elements(search, plan));
  scratch.undirected = reinterpret_cast<int64_t*>(scratch.lists + list_keys(search, plan));
  scratch.has_direction = reinterpret_cast<uint8_t*>(scratch.undirected + plan.slices);
  return scratch;
}

template <class T, int kQueries, bool kAligned>
void launch_scan_of(const Scan& scan, void* stream) {
  const int64_t tiles = divide_up(scan.search.query_count, scan.plan.queries);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(scan.plan.slices));
  const auto kernel = scan_slices<T, kQueries, kAligned>;
  REMORY_ALLOW_SHARED(kernel, scan.plan.shared_bytes);
  REMORY_LAUNCH(kernel, grid, kThreads, scan.plan.shared_bytes, stream, scan);
}

template <class T, bool kAligned>
void launch_scan(const Scan& scan, void* stream) {
  const int queries = warp_queries(scan.plan.queries);
  if (queries == 1) launch_scan_of<T, 1, kAligned>(scan, stream);
  if (queries == 4) launch_scan_of<T, 4, kAligned>(scan, stream);
  if (queries == 8) launch_scan_of<T, 8, kAligned>(scan, stream);
}

}  // namespace

TopkPlan plan_cosine_topk(const CosineTopk& search) {
  TopkPlan plan;
  plan.queries = queries_of_a_tile(search.query_count, search.k);
  plan.capacity = keys_held(plan.queries, search.k);

  const int together = blocks_together(warp_queries(plan.queries));
  const int64_t tiles = divide_up(search.query_count, plan.queries);
  const int64_t wanted = std::max<int64_t>(1, multiprocessors() * together / std::max<int64_t>(1, tiles));
  // Without columns no query has a direction, and no vector can be among its best.
  const int64_t count = search.width > 0 ? search.vector_count : 0;
  const int64_t rows = std::max<int64_t>(1, divide_up(count, wanted));
  plan.slice_rows = static_cast<int>(std::min(round_up(rows, tile_rows(plan.queries)), kMostSliceRows));
  plan.slices = divide_up(count, plan.slice_rows);

  const int64_t span = kOctet * packet_of(search.vectors.type), keys = keys_bytes(plan.queries, search.k);
  const int64_t room = together > 1 ? kDirectionBytes : most_shared_bytes() - kStaticBytes - keys;
  const int64_t fits = room / (static_cast<int64_t>(sizeof(double)) * plan.queries) / span * span;
  plan.padded_width = round_up(std::max<int64_t>(1, search.width), span);
  plan.chunk = static_cast<int>(std::min(plan.padded_width, fits));
  plan.shared_bytes = keys + static_cast<int64_t>(sizeof(double)) * plan.queries * plan.chunk;
  return plan;
}

int64_t scratch_bytes(const CosineTopk& search, const TopkPlan& plan) {
  const int64_t words = direction_elements(search, plan) + list_keys(search, plan) + plan.slices;
  return words * static_cast<int64_t>(sizeof(uint64_t)) + search.query_count;
}

int cosine_topk(const CosineTopk& search, const TopkPlan& plan, void* memory, void* stream) {
  if (search.query_count == 0) return 0;
  const Scan scan{search, plan, divide(memory, search, plan)};
  const unsigned queries = static_cast<unsigned>(search.query_count);
  dispatch_with_float16(search.queries.type, [&](auto element) {
    REMORY_LAUNCH(find_directions<decltype(element)>, queries, kThreads, 0, stream, scan,
                  packet_of(search.vectors.type));
  });
  if (plan.slices > 0) {
    const bool aligned = in_packets(search.vectors) && search.width % packet_of(search.vectors.type) == 0;
    dispatch_with_float16(search.vectors.type, [&](auto element) {
      if (aligned) {
        launch_scan<decltype(element), true>(scan, stream);
      } else {
        launch_scan<decltype(element), false>(scan, stream);
      }
    });
  }
  REMORY_LAUNCH(merge_slices, queries, kThreads, 0, stream, scan);
  return launch_result();
}

}  // namespace remory::REMORY_DEVICE

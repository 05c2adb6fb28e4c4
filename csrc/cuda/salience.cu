#include "../simt/simt.h"
#include "element.cuh"
#include "salience.h"
#include "warp.cuh"

namespace remory::REMORY_DEVICE {
namespace {

constexpr int kThreads = 128;
constexpr int kStrip = 4;  // neighbouring tokens of a thread: each reads what the four have in common once
constexpr int kSelectThreads = 512;
constexpr int kSelectWarps = kSelectThreads / 32;
constexpr int kDigits = 256;

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

template <class T>
__global__ void __launch_bounds__(kThreads) mix_neighbours_kernel(Neighbours neighbours) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t c = index % neighbours.channels, strips = (neighbours.tokens + kStrip - 1) / kStrip;
  const int64_t block = index / neighbours.channels / strips;
  if (block >= neighbours.blocks) return;
  const int64_t start = index / neighbours.channels % strips * kStrip, first = block * neighbours.tokens;
  const int64_t length = neighbours.lengths[block];
  const float lexical_scale = 1.0f / *neighbours.output_rms;
  const auto value = [&](int64_t t) {
    if (t < 0 || t >= length) return 0.0f;
    return load(row<T>(neighbours.source, first + t)[c]) +
           lexical_scale * load(row<T>(neighbours.lexical, first + t)[c]);
  };

  float window[kStrip], sums[kStrip];
#pragma unroll
  for (int i = 0; i < kStrip; ++i) {
    window[i] = i + 1 < kStrip ? value(start + i - neighbours.reach) : 0.0f;
    sums[i] = 0.0f;
  }
  for (int64_t k = 0; k <= 2 * neighbours.reach; ++k) {
    const float tap = neighbours.taps[k * neighbours.channels + c];
    window[kStrip - 1] = value(start + kStrip - 1 + k - neighbours.reach);
#pragma unroll
    for (int i = 0; i < kStrip; ++i) {
      sums[i] = fmaf(tap, window[i], sums[i]);
      if (i + 1 < kStrip) window[i] = window[i + 1];
    }
  }
#pragma unroll
  for (int i = 0; i < kStrip; ++i) {
    if (start + i >= neighbours.tokens) break;
    neighbours.out[(first + start + i) * neighbours.channels + c] = start + i < length ? silu(sums[i]) : 0.0f;
  }
}

// Unsigned numbers in the order of the scores: of -0 and 0 the same, NaN the highest.
__device__ unsigned rank_of(float score) {
  if (score != score) return 0xFFFFFFFFu;
  const unsigned bits = __float_as_uint(score == 0.0f ? 0.0f : score);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// A warp scores a token.
__global__ void __launch_bounds__(kThreads) rank_kernel(Selection selection) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (token >= selection.blocks * selection.tokens) return;
  const float* mixed = row<float>(selection.mixed, token);
  float sum = 0.0f;
  for (int64_t c = threadIdx.x % 32; c < selection.channels; c += 32) sum += silu(mixed[c]) * selection.weight[c];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) selection.ranks[token] = rank_of(sum);
}

constexpr int kOwnDigits = kDigits / 32;

struct Digit {
  unsigned digit;
  unsigned above;  // how many have a higher one
};

// The digit of the `count`-th best by their histogram, called by one warp; the lane that holds it writes it.
__device__ void find_digit(const unsigned* histogram, int64_t count, Digit& found) {
  const int lane = threadIdx.x;
  unsigned own[kOwnDigits], sum = 0;
#pragma unroll
  for (int i = 0; i < kOwnDigits; ++i) sum += own[i] = histogram[lane * kOwnDigits + i];
  unsigned above = sum;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const unsigned other = __shfl_down_sync(kAllLanes, above, distance);
    if (lane + distance < 32) above += other;
  }
  above -= sum;
#pragma unroll
  for (int i = kOwnDigits - 1; i >= 0; --i) {
    if (above < count && count <= above + own[i]) found = {static_cast<unsigned>(lane * kOwnDigits + i), above};
    above += own[i];
  }
}

// The rank of the `count`-th best of a block, and how many of that rank are among the best: digit by digit, from the
// highest, the histogram of the ranks that begin like the one sought.
struct Threshold {
  unsigned rank;
  int64_t equals;
};
__device__ Threshold find_threshold(const unsigned* ranks, int64_t length, int64_t count) {
  REMORY_SHARED(unsigned[kDigits], histogram);
  REMORY_SHARED(Digit, found);
  unsigned prefix = 0, mask = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < kDigits; i += kSelectThreads) histogram[i] = 0;
    __syncthreads();
    for (int64_t t = threadIdx.x; t < length; t += kSelectThreads) {
      if ((ranks[t] & mask) == prefix) atomicAdd(&histogram[ranks[t] >> shift & (kDigits - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 32) find_digit(histogram, count, found);
    __syncthreads();
    prefix |= found.digit << shift;
    mask |= static_cast<unsigned>(kDigits - 1) << shift;
    count -= found.above;
  }
  return {prefix, count};
}

// Writes the chosen tokens in their order, behind the first one as often as it must be repeated.
__global__ void __launch_bounds__(kSelectThreads) select_kernel(Selection selection) {
  REMORY_SHARED(unsigned[kSelectWarps], above_of);
  REMORY_SHARED(unsigned[kSelectWarps], equal_of);
  const int64_t length = selection.lengths[blockIdx.x];
  const int64_t count = length < selection.slots ? length : selection.slots;
  const unsigned* ranks = selection.ranks + blockIdx.x * selection.tokens;
  int64_t* kept = selection.kept + blockIdx.x * selection.slots;
  const Threshold threshold = find_threshold(ranks, length, count);
  for (int64_t i = threadIdx.x; i < selection.slots - count; i += kSelectThreads) kept[i] = 0;
  kept += selection.slots - count;

  const unsigned warp = threadIdx.x / 32, before = (1u << threadIdx.x % 32) - 1;
  int64_t above = 0, equal = 0;  // among the tokens in front
  for (int64_t first = 0; first < length; first += kSelectThreads) {
    const int64_t t = first + threadIdx.x;
    const bool is_above = t < length && ranks[t] > threshold.rank;
    const bool is_equal = t < length && ranks[t] == threshold.rank;
    const unsigned above_lanes = __ballot_sync(kAllLanes, is_above), equal_lanes = __ballot_sync(kAllLanes, is_equal);
    if (threadIdx.x % 32 == 0) {
      above_of[warp] = __popc(above_lanes);
      equal_of[warp] = __popc(equal_lanes);
    }
    __syncthreads();
    int64_t own_above = above + __popc(above_lanes & before), own_equal = equal + __popc(equal_lanes & before);
    for (unsigned w = 0; w < kSelectWarps; ++w) {
      if (w < warp) own_above += above_of[w];
      if (w < warp) own_equal += equal_of[w];
      above += above_of[w];
      equal += equal_of[w];
    }
    const int64_t equal_kept = own_equal < threshold.equals ? own_equal : threshold.equals;
    if (is_above || (is_equal && own_equal < threshold.equals)) kept[own_above + equal_kept] = t;
    __syncthreads();
  }
}

}  // namespace

int mix_neighbours(const Neighbours& neighbours, void* stream) {
  const int64_t strips = (neighbours.tokens + kStrip - 1) / kStrip;
  const int64_t threads = neighbours.blocks * strips * neighbours.channels;
  if (threads == 0) return 0;
  const dim3 grid(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
  dispatch(neighbours.source.type, [&](auto element) {
    REMORY_LAUNCH((mix_neighbours_kernel<decltype(element)>), grid, dim3(kThreads), 0, stream, neighbours);
  });
  return launch_result();
}

int select(const Selection& selection, void* stream) {
  const int64_t tokens = selection.blocks * selection.tokens;
  if (tokens == 0) return 0;
  constexpr int kTokens = kThreads / 32;
  REMORY_LAUNCH(rank_kernel, dim3(static_cast<unsigned>((tokens + kTokens - 1) / kTokens)), dim3(kThreads), 0, stream,
                selection);
  if (const int error = launch_result()) return error;
  REMORY_LAUNCH(select_kernel, dim3(static_cast<unsigned>(selection.blocks)), dim3(kSelectThreads), 0, stream,
                selection);
  return launch_result();
}

}  // namespace remory::REMORY_DEVICE

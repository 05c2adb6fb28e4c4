#include "../simt/simt.h"
#include "element.cuh"
#include "packet.cuh"
#include "pointwise.h"
#include "warp.cuh"

namespace remory::REMORY_DEVICE {
namespace {

constexpr int kThreads = 256;  // of a block
constexpr int kRun = 8;        // elements that a thread takes at once where rows are aligned

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

// Over groups of `lanes` neighbours, a power of two.
__device__ __forceinline__ float group_sum(float value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

__device__ __forceinline__ float block_sum(float value) {
  REMORY_SHARED(float[kThreads / 32], sums);
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += sums[warp];
  return sum;
}

// Calls body(row, d) for every kN-th element d of every row. The lanes of a block lie along rows as far as these go.
template <int kN, class Body>
__global__ void __launch_bounds__(kThreads) for_runs_kernel(Body body, int64_t rows, int64_t width) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int64_t d = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kN;
  if (row < rows && d < width) body.template operator()<kN>(row, d);
}

template <int kN, class Body>
void for_runs(const Body& body, int64_t rows, int64_t width, void* stream) {
  if (rows == 0 || width == 0) return;
  const int64_t runs = (width + kN - 1) / kN;
  unsigned lanes = 1;
  while (lanes < kThreads && lanes < runs) lanes *= 2;
  const unsigned tall = kThreads / lanes;
  const dim3 grid(static_cast<unsigned>((rows + tall - 1) / tall), static_cast<unsigned>((runs + lanes - 1) / lanes));
  REMORY_LAUNCH((for_runs_kernel<kN, Body>), grid, dim3(lanes, tall), 0, stream, body, rows, width);
}

template <class Body>
void for_runs(const Body& body, int64_t rows, int64_t width, bool runs, void* stream) {
  runs ? for_runs<kRun>(body, rows, width, stream) : for_runs<1>(body, rows, width, stream);
}

template <class Data>
bool in_runs(const BasicMatrix<Data>& matrix, int64_t width) {
  return width % kRun == 0 && in_packets(matrix);
}

bool in_runs(const float* vector) { return all_aligned(vector, sizeof(float), {}); }

__global__ void check_allowed_kernel(Allowed first, Allowed second, Allowed third) {
  for (const Allowed& allowed : {first, second, third}) {
    if (!allowed.values) continue;
    for (int64_t i = threadIdx.x; i < allowed.count; i += blockDim.x) {
      if (allowed.values[i] < allowed.low || allowed.values[i] > allowed.high)
        REMORY_TRAP("encode: a length or a depth is out of range");
    }
  }
}

// A warp or a block takes a row; what a thread can hold of it is read once.
template <class In, class Out, int kN, int kRowThreads>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(RmsNorm norm) {
  constexpr int kHeld = 32 / kN, kStep = kRowThreads * kN;
  const int64_t r = static_cast<int64_t>(blockIdx.x) * (kThreads / kRowThreads) + threadIdx.x / kRowThreads;
  if (r >= norm.rows) return;
  const In* in = row<In>(norm.in, r);
  Out* out = row<Out>(norm.out, r);
  const int64_t own = threadIdx.x % kRowThreads * kN, beyond = own + kHeld * kStep;

  float held[kHeld][kN], squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (own + i * kStep >= norm.width) continue;
    load_run<In, kN>(in + own + i * kStep, held[i]);
#pragma unroll
    for (int j = 0; j < kN; ++j) squares = fmaf(held[i][j], held[i][j], squares);
  }
  for (int64_t d = beyond; d < norm.width; d += kStep) {
    float values[kN];
    load_run<In, kN>(in + d, values);
#pragma unroll
    for (int j = 0; j < kN; ++j) squares = fmaf(values[j], values[j], squares);
  }

  squares = kRowThreads == 32 ? warp_sum(squares) : block_sum(squares);
  const float factor = (norm.scale ? *norm.scale : 1.0f) / sqrtf(squares / static_cast<float>(norm.width) + norm.eps);
  const auto write = [&](int64_t d, float (&values)[kN]) {
    float weights[kN];
    if (norm.weight) load_run<float, kN>(norm.weight + d, weights);
#pragma unroll
    for (int j = 0; j < kN; ++j) values[j] *= norm.weight ? factor * weights[j] : factor;
    store_run<Out, kN>(out + d, values);
  };
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    if (own + i * kStep < norm.width) write(own + i * kStep, held[i]);
  }
  for (int64_t d = beyond; d < norm.width; d += kStep) {
    float values[kN];
    load_run<In, kN>(in + d, values);
    write(d, values);
  }
}

template <class In, class Out, int kN>
void launch_rms_norm(const RmsNorm& norm, void* stream) {
  const bool narrow = norm.width <= 1024;
  const int64_t tall = narrow ? kThreads / 32 : 1;
  const dim3 grid(static_cast<unsigned>((norm.rows + tall - 1) / tall));
  if (narrow) {
    REMORY_LAUNCH((rms_norm_kernel<In, Out, kN, 32>), grid, dim3(kThreads), 0, stream, norm);
  } else {
    REMORY_LAUNCH((rms_norm_kernel<In, Out, kN, kThreads>), grid, dim3(kThreads), 0, stream, norm);
  }
}

struct SineCosine {
  double sine, cosine;
};

// Of an angle in radians, to 1e-12: the rest to the next quarter turn, at most pi / 4, by its series. CUDA's own go a
// slow way through local memory for angles that no position reaches.
__device__ __forceinline__ SineCosine sine_and_cosine(double angle) {
  constexpr double kQuarter = 1.57079632679489661923;
  const double quarters = rint(angle / kQuarter), x = fma(quarters, -kQuarter, angle), square = x * x;
  double sine = 1.0, cosine = 1.0;
#pragma unroll
  for (int n = 14; n > 0; n -= 2) {
    sine = 1.0 - sine * (square * (1.0 / (n * (n + 1))));
    cosine = 1.0 - cosine * (square * (1.0 / (n * (n - 1))));
  }
  sine *= x;
  switch (static_cast<int64_t>(quarters) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

// In double: a float32 angle at position 1000 is already off by 3e-5.
struct RotationsBody {
  Rotations rotations;

  template <int>
  __device__ void operator()(int64_t r, int64_t i) const {
    const int64_t slot = r - rotations.tokens;
    const int64_t position = slot < 0 ? r : rotations.kept ? rotations.kept[slot] : rotations.slots.position(slot);
    const double frequency = pow(rotations.theta, -2.0 * static_cast<double>(i) / rotations.head_dim);
    const SineCosine angle = sine_and_cosine(static_cast<double>(position) * frequency);
    float* out = rotations.out + r * rotations.head_dim + i;
    out[0] = static_cast<float>(angle.cosine);
    out[rotations.head_dim / 2] = static_cast<float>(angle.sine);
  }
};

// A group of `lanes` neighbours takes a head; lane by lane kN dimensions of its first half and, paired with them, of
// its second half.
template <class T, int kN>
__global__ void __launch_bounds__(kThreads) norm_heads_kernel(HeadNorm norm, int lanes) {
  constexpr int kSteps = kRun / kN;
  const int64_t index = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / lanes;
  const int64_t r = index / norm.heads, block = r / norm.per_block;
  const bool live = block < norm.blocks && (!norm.lengths || r - block * norm.per_block < norm.lengths[block]);
  const int half = static_cast<int>(norm.head_dim / 2), own = static_cast<int>(threadIdx.x % lanes) * kN;
  T* head = row<T>(norm.projected, live ? r : 0) + index % norm.heads * norm.head_dim;

  float first[kSteps][kN], second[kSteps][kN], squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int d = own + i * lanes * kN;
    if (!live || d >= half) continue;
    load_run<T, kN>(head + d, first[i]);
    load_run<T, kN>(head + half + d, second[i]);
#pragma unroll
    for (int j = 0; j < kN; ++j) squares += first[i][j] * first[i][j] + second[i][j] * second[i][j];
  }
  squares = group_sum(squares, lanes);
  if (!live) return;

  const float factor = 1.0f / sqrtf(squares / static_cast<float>(norm.head_dim) + norm.eps);
  const float* rotation = norm.rotations ? norm.rotations + r % norm.rotated * norm.head_dim : nullptr;
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    const int d = own + i * lanes * kN;
    if (d >= half) continue;
    float left[kN], right[kN];
    load_run<float, kN>(norm.weight + d, left);
    load_run<float, kN>(norm.weight + half + d, right);
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      first[i][j] *= factor * left[j];
      second[i][j] *= factor * right[j];
    }
    if (rotation) {
      load_run<float, kN>(rotation + d, left);
      load_run<float, kN>(rotation + half + d, right);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        const float x = first[i][j], y = second[i][j];
        first[i][j] = x * left[j] - y * right[j];
        second[i][j] = y * left[j] + x * right[j];
      }
    }
    store_run<T, kN>(head + d, first[i]);
    store_run<T, kN>(head + half + d, second[i]);
  }
}

template <class T, int kN>
void launch_norm_heads(const HeadNorm& norm, void* stream) {
  int lanes = 1;
  while (lanes < 32 && lanes * kN < norm.head_dim / 2) lanes *= 2;
  const int64_t threads = norm.blocks * norm.per_block * norm.heads * lanes;
  const dim3 grid(static_cast<unsigned>((threads + kThreads - 1) / kThreads));
  REMORY_LAUNCH((norm_heads_kernel<T, kN>), grid, dim3(kThreads), 0, stream, norm, lanes);
}

template <class T>
struct SwigluBody {
  Matrix gate;
  ConstMatrix up;

  template <int kN>
  __device__ void operator()(int64_t r, int64_t d) const {
    float gates[kN], ups[kN];
    load_run<T, kN>(row<T>(gate, r) + d, gates);
    load_run<T, kN>(row<T>(up, r) + d, ups);
#pragma unroll
    for (int j = 0; j < kN; ++j) gates[j] = silu(gates[j]) * ups[j];
    store_run<T, kN>(row<T>(gate, r) + d, gates);
  }
};

template <class T>
struct AddBody {
  Matrix sums;
  ConstMatrix addends;
  const float* gate;

  template <int kN>
  __device__ void operator()(int64_t r, int64_t d) const {
    const float scale = gate ? tanhf(*gate) : 1.0f;
    float totals[kN], added[kN];
    load_run<float, kN>(row<float>(sums, r) + d, totals);
    load_run<T, kN>(row<T>(addends, r) + d, added);
#pragma unroll
    for (int j = 0; j < kN; ++j) totals[j] = fmaf(scale, added[j], totals[j]);
    store_run<float, kN>(row<float>(sums, r) + d, totals);
  }
};

struct StartBody {
  Start start;

  template <int kN>
  __device__ void operator()(int64_t r, int64_t d) const {
    float states[kN], depths[kN];
    load_run<float, kN>(start.mask + d, states);
    if (start.table) {
      load_run<float, kN>(start.table + start.depths[r / start.slots] * start.width + d, depths);
#pragma unroll
      for (int j = 0; j < kN; ++j) states[j] += depths[j];
    }
    store_run<float, kN>(start.states + r * start.width + d, states);
  }
};

struct KeepLastBody {
  const int64_t* lengths;
  int64_t slots;
  int64_t* kept;

  template <int>
  __device__ void operator()(int64_t block, int64_t i) const {
    const int64_t token = lengths[block] - slots + i;
    kept[block * slots + i] = token < 0 ? 0 : token;
  }
};

template <class T>
struct AddKeptBody {
  Kept kept;

  template <int kN>
  __device__ void operator()(int64_t r, int64_t d) const {
    const float gate = kept.gate ? *kept.gate : 1.0f;
    float tokens[kN], sums[kN];
    load_run<T, kN>(row<T>(kept.tokens, kept.indices[r]) + r / kept.slots * kept.block_stride + d, tokens);
    load_run<float, kN>(row<float>(kept.rows, r) + d, sums);
#pragma unroll
    for (int j = 0; j < kN; ++j) sums[j] = fmaf(gate, sums[j], tokens[j]);
    store_run<float, kN>(row<float>(kept.rows, r) + d, sums);
  }
};

}  // namespace

int check_allowed(const Allowed (&lists)[3], void* stream) {
  if (lists[0].count + lists[1].count + lists[2].count == 0) return 0;
  REMORY_LAUNCH(check_allowed_kernel, dim3(1), dim3(32), 0, stream, lists[0], lists[1], lists[2]);
  return launch_result();
}

int rms_norm(const RmsNorm& norm, void* stream) {
  if (norm.rows == 0 || norm.width == 0) return 0;
  const bool runs = in_runs(norm.in, norm.width) && in_runs(norm.out, norm.width) && in_runs(norm.weight);
  dispatch(norm.in.type, [&](auto read) {
    dispatch(norm.out.type, [&](auto written) {
      using In = decltype(read);
      using Out = decltype(written);
      runs ? launch_rms_norm<In, Out, kRun>(norm, stream) : launch_rms_norm<In, Out, 1>(norm, stream);
    });
  });
  return launch_result();
}

int rotations(const Rotations& rotations, void* stream) {
  for_runs<1>(RotationsBody{rotations}, rotations.rows, rotations.head_dim / 2, stream);
  return launch_result();
}

int norm_heads(const HeadNorm& norm, void* stream) {
  if (norm.blocks * norm.per_block * norm.heads == 0) return 0;
  const bool runs = in_runs(norm.projected, norm.head_dim / 2) && in_runs(norm.weight) && in_runs(norm.rotations);
  dispatch(norm.projected.type, [&](auto element) {
    using T = decltype(element);
    runs ? launch_norm_heads<T, kRun>(norm, stream) : launch_norm_heads<T, 1>(norm, stream);
  });
  return launch_result();
}

int swiglu(const Matrix& gate, const ConstMatrix& up, int64_t rows, int64_t width, void* stream) {
  const bool runs = in_runs(gate, width) && in_runs(up, width);
  dispatch(gate.type,
           [&](auto element) { for_runs(SwigluBody<decltype(element)>{gate, up}, rows, width, runs, stream); });
  return launch_result();
}

int add_gated(const Matrix& sums, const ConstMatrix& addends, const float* gate, int64_t rows, int64_t width,
              void* stream) {
  const bool runs = in_runs(sums, width) && in_runs(addends, width);
  dispatch(addends.type,
           [&](auto element) { for_runs(AddBody<decltype(element)>{sums, addends, gate}, rows, width, runs, stream); });
  return launch_result();
}

int start(const Start& start, void* stream) {
  const bool runs = start.width % kRun == 0 && in_runs(start.mask) && in_runs(start.table) && in_runs(start.states);
  for_runs(StartBody{start}, start.rows, start.width, runs, stream);
  return launch_result();
}

int keep_last(const int64_t* lengths, int64_t blocks, int64_t slots, int64_t* kept, void* stream) {
  for_runs<1>(KeepLastBody{lengths, slots, kept}, blocks, slots, stream);
  return launch_result();
}

int add_kept(const Kept& kept, void* stream) {
  const ConstMatrix blocks{kept.tokens.data, kept.tokens.type, kept.block_stride};
  const bool runs = in_runs(kept.tokens, kept.width) && in_runs(blocks, kept.width) && in_runs(kept.rows, kept.width);
  dispatch(kept.tokens.type, [&](auto element) {
    for_runs(AddKeptBody<decltype(element)>{kept}, kept.blocks * kept.slots, kept.width, runs, stream);
  });
  return launch_result();
}

}  // namespace remory::REMORY_DEVICE

// Small kernels that are right or, asked to be, have a fault that the emulation must find. Built into the emulation's
// library as ops of remory_simt.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include "../../csrc/simt/simt.h"

namespace remory::simt {
namespace {

using torch::stable::Tensor;

constexpr unsigned kAllLanes = 0xFFFFFFFF;

// out[i] = in[i - 1], around the block.
__global__ void rotate_block(const float* in, float* out, bool synchronised) {
  REMORY_DYNAMIC_SHARED(float, shared);
  const unsigned i = threadIdx.x, n = blockDim.x;
  shared[i] = in[i];
  if (synchronised) __syncthreads();
  out[i] = shared[(i + n - 1) % n];
}

// The same within every warp.
__global__ void rotate_warp(const float* in, float* out, bool synchronised) {
  REMORY_SHARED(float[4][32], shared);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  shared[warp][lane] = in[threadIdx.x];
  if (synchronised) __syncwarp();
  out[threadIdx.x] = shared[warp][(lane + 31) % 32];
}

__global__ void diverge(const float* in, float* out, int64_t kind) {
  const unsigned i = threadIdx.x;
  out[i] = in[i];
  if (kind == 1 && i < 32) __syncthreads();                // the other warps end
  if (kind == 2) i < 32 ? __syncthreads() : __syncwarp();  // the other warps end after a meeting of their own
  if (kind == 3 && i % 32 < 16) __syncwarp();              // half of each warp ends
  if (kind == 4 && i == 5) return;                         // one thread ends before the barrier
  if (kind == 5) {
    if (i < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  }
  if (kind == 6) i % 2 ? static_cast<void>(__ballot_sync(kAllLanes, 1)) : __syncwarp();
  __syncthreads();
}

// Lanes of the lower half add up among themselves; `reach` says how far each looks for its addend.
__global__ void add_neighbour(const float* in, float* out, int reach) {
  const unsigned i = threadIdx.x;
  if (i % 32 < 16) out[i] = in[i] + __shfl_xor_sync(0x0000FFFF, in[i], reach);
}

__global__ void shuffle_without_itself(const float* in, float* out) {
  out[threadIdx.x] = __shfl_sync(0x0000FFFF, in[threadIdx.x], 0);
}

// Reads `past` elements beyond its shared memory.
__global__ void read_past(const float* in, float* out, int64_t past, bool dynamic) {
  REMORY_DYNAMIC_SHARED(float, launched);
  REMORY_SHARED(float[128], declared);
  float* const shared = dynamic ? launched : declared;
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x + past];
}

// Declares shared memory, and tells what it holds before anyone has written to it.
__global__ void read_fresh(float* out) {
  REMORY_DYNAMIC_SHARED(float, launched);
  REMORY_SHARED(float[128], declared);
  out[threadIdx.x] = threadIdx.x % 2 ? launched[threadIdx.x] : declared[threadIdx.x];
}

// What every intrinsic gives: a row of out for each, in the order of the test.
__global__ void meet(const int* in, int64_t* out) {
  const unsigned n = blockDim.x, i = threadIdx.x;
  const int value = in[i];
  int64_t* to = out + i;
  const auto put = [&](int64_t result) {
    *to = result;
    to += n;
  };
  put(__shfl_sync(kAllLanes, value, 3));
  put(__shfl_sync(kAllLanes, value, 9, 8));
  put(__shfl_xor_sync(kAllLanes, value, 5));
  put(__shfl_up_sync(kAllLanes, value, 2, 16));
  put(__shfl_down_sync(kAllLanes, value, 2, 16));
  put(__ballot_sync(kAllLanes, value > 0));
  put(__any_sync(kAllLanes, value > 90));
  put(__all_sync(kAllLanes, value > -90));
  put(__match_any_sync(kAllLanes, value % 3));
  put(__reduce_add_sync(kAllLanes, value));
  put(__reduce_min_sync(kAllLanes, value));
  put(__reduce_max_sync(kAllLanes, value));
  put(__syncthreads_count(value > 0));
  put(__syncthreads_or(value > 90));
  put(__syncthreads_and(value > -90));
  REMORY_SHARED(int[4], totals);
  if (i < 4) totals[i] = 0;
  __syncthreads();
  atomicAdd(&totals[0], value);
  atomicMax(&totals[1], value);
  atomicMin(&totals[2], value);
  atomicOr(&totals[3], 1 << (i % 32));
  __syncthreads();
  for (int t = 0; t < 4; ++t) put(totals[t]);
}

// Blocks in the order in which they ran.
__global__ void record_order(int* next, int* order) {
  if (threadIdx.x == 0) order[atomicAdd(next, 1)] = static_cast<int>(blockIdx.x);
}

// As many barriers and shuffles as a busy kernel has.
__global__ void work(float* out, int64_t rounds) {
  REMORY_DYNAMIC_SHARED(float, shared);
  float sum = static_cast<float>(threadIdx.x);
  for (int64_t r = 0; r < rounds; ++r) {
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    shared[threadIdx.x] = sum;
    __syncthreads();
    sum = shared[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
  }
  out[static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x] = sum;
}

struct Vectors {
  const float* in;
  float* out;
  unsigned count;
  size_t bytes;

  Vectors(const Tensor& in, const Tensor& out)
      : in(in.const_data_ptr<float>()),
        out(out.mutable_data_ptr<float>()),
        count(static_cast<unsigned>(in.numel())),
        bytes(count * sizeof(float)) {}
};

void rotate(const Tensor& in, const Tensor& out, bool in_warps, bool synchronised) {
  const Vectors v(in, out);
  REMORY_LAUNCH(in_warps ? rotate_warp : rotate_block, 1, v.count, v.bytes, nullptr, v.in, v.out, synchronised);
}

void run_diverge(const Tensor& in, const Tensor& out, int64_t kind) {
  const Vectors v(in, out);
  REMORY_LAUNCH(diverge, 1, v.count, 0, nullptr, v.in, v.out, kind);
}

void run_add_neighbour(const Tensor& in, const Tensor& out, int64_t reach) {
  const Vectors v(in, out);
  REMORY_LAUNCH(add_neighbour, 1, v.count, 0, nullptr, v.in, v.out, static_cast<int>(reach));
}

void run_shuffle_without_itself(const Tensor& in, const Tensor& out) {
  const Vectors v(in, out);
  REMORY_LAUNCH(shuffle_without_itself, 1, v.count, 0, nullptr, v.in, v.out);
}

void run_read_past(const Tensor& in, const Tensor& out, int64_t past, bool dynamic) {
  const Vectors v(in, out);
  REMORY_LAUNCH(read_past, 1, v.count, v.bytes, nullptr, v.in, v.out, past, dynamic);
}

void run_read_fresh(const Tensor& out) {
  const Vectors v(out, out);
  REMORY_LAUNCH(read_fresh, 1, v.count, v.bytes, nullptr, v.out);
}

void run_meet(const Tensor& in, const Tensor& out) {
  REMORY_LAUNCH(meet, 1, static_cast<unsigned>(in.numel()), 0, nullptr, in.const_data_ptr<int32_t>(),
                out.mutable_data_ptr<int64_t>());
}

void run_record_order(const Tensor& next, const Tensor& order) {
  REMORY_LAUNCH(record_order, static_cast<unsigned>(order.numel()), 32, 0, nullptr, next.mutable_data_ptr<int32_t>(),
                order.mutable_data_ptr<int32_t>());
}

void run_work(const Tensor& out, int64_t rounds) {
  REMORY_LAUNCH(work, static_cast<unsigned>(out.size(0)), static_cast<unsigned>(out.size(1)),
                out.size(1) * sizeof(float), nullptr, out.mutable_data_ptr<float>(), rounds);
}

void run_launch(const Tensor& out, int64_t blocks, int64_t threads, int64_t shared_bytes, bool allowed) {
  if (allowed) REMORY_ALLOW_SHARED(read_fresh, shared_bytes);
  REMORY_LAUNCH(read_fresh, static_cast<unsigned>(blocks), static_cast<unsigned>(threads),
                static_cast<size_t>(shared_bytes), nullptr, out.mutable_data_ptr<float>());
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(remory_simt, library) {
  library.def("rotate(Tensor values, Tensor(a!) out, bool in_warps, bool synchronised) -> ()");
  library.def("diverge(Tensor values, Tensor(a!) out, int kind) -> ()");
  library.def("add_neighbour(Tensor values, Tensor(a!) out, int reach) -> ()");
  library.def("shuffle_without_itself(Tensor values, Tensor(a!) out) -> ()");
  library.def("read_past(Tensor values, Tensor(a!) out, int past, bool dynamic) -> ()");
  library.def("read_fresh(Tensor(a!) out) -> ()");
  library.def("meet(Tensor values, Tensor(a!) out) -> ()");
  library.def("record_order(Tensor(a!) next, Tensor(b!) order) -> ()");
  library.def("work(Tensor(a!) out, int rounds) -> ()");
  library.def("launch(Tensor(a!) out, int blocks, int threads, int shared_bytes, bool allowed) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(remory_simt, CPU, library) {
  library.impl("rotate", TORCH_BOX(&rotate));
  library.impl("diverge", TORCH_BOX(&run_diverge));
  library.impl("add_neighbour", TORCH_BOX(&run_add_neighbour));
  library.impl("shuffle_without_itself", TORCH_BOX(&run_shuffle_without_itself));
  library.impl("read_past", TORCH_BOX(&run_read_past));
  library.impl("read_fresh", TORCH_BOX(&run_read_fresh));
  library.impl("meet", TORCH_BOX(&run_meet));
  library.impl("record_order", TORCH_BOX(&run_record_order));
  library.impl("work", TORCH_BOX(&run_work));
  library.impl("launch", TORCH_BOX(&run_launch));
}

}  // namespace remory::simt

// What `make check-sass` must find: a kernel that spills, and a row mover that moves an element at a time.
#include <cstdint>

namespace remory::cuda {
namespace {

constexpr int kValues = 256;

// More values alive at once than 64 registers hold, each known only when the kernel runs.
__global__ void __launch_bounds__(1024) spilling(const float* in, float* out, int distance) {
  float values[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) values[i] = in[threadIdx.x + i * distance];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kValues; ++i) out[threadIdx.x + i * distance] = values[kValues - 1 - i] * values[i / 2];
}

template <int Count>
__global__ void capture_rows(const float* in, const int64_t* rows, float* out, int64_t width) {
  for (int64_t d = threadIdx.x; d < width; d += blockDim.x)
    out[blockIdx.x * width + d] = in[rows[blockIdx.x] * width + d];
}

}  // namespace

void launch(const float* in, const int64_t* rows, float* out, cudaStream_t stream) {
  spilling<<<1, 1024, 0, stream>>>(in, out, 1024);
  capture_rows<1><<<1, 256, 0, stream>>>(in, rows, out, 576);
  capture_rows<4><<<1, 256, 0, stream>>>(in, rows, out, 576);
}

}  // namespace remory::cuda

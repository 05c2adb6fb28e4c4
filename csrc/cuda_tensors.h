// How the CUDA launchers see tensors, and where they run.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>

#include "checks.h"
#include "cuda/launch.h"

#if !defined(REMORY_SIMT)
// Only in torch's CUDA library, which this extension must not need in order to load.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** stream);
#endif

namespace remory::REMORY_DEVICE {

inline ElementType element_type(const Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float:
      return ElementType::float32;
    case ScalarType::Half:
      return ElementType::float16;
    default:
      return ElementType::bfloat16;
  }
}

// All dimensions but the last are rows; one stride must serve them, as in a matrix or a contiguous tensor.
inline int64_t row_stride(const Tensor& tensor) { return tensor.dim() > 1 ? tensor.stride(tensor.dim() - 2) : 0; }

inline Matrix matrix(const Tensor& tensor) {
  return {tensor.mutable_data_ptr(), element_type(tensor), row_stride(tensor)};
}

inline ConstMatrix const_matrix(const Tensor& tensor) {
  return {tensor.const_data_ptr(), element_type(tensor), row_stride(tensor)};
}

// Uninitialised, on the device of `beside`, from torch's own allocator.
inline Tensor empty(torch::headeronly::IntHeaderOnlyArrayRef sizes, ScalarType type, const Tensor& beside) {
  return torch::stable::empty(sizes, type, std::nullopt, beside.device());
}

// While it lives, the device of a tensor is the current one. In the emulation the tensors are the CPU's.
class DeviceScope {
 public:
#if defined(REMORY_SIMT)
  DeviceScope(const Arguments&, const Tensor&) {}
#else
  DeviceScope(const Arguments& arguments, const Tensor& tensor) : guard_(tensor.get_device_index()) {
    if (aoti_torch_get_current_cuda_stream == nullptr ||
        aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream_) != 0)
      arguments.fail("torch names no current stream of CUDA device ", tensor.get_device_index());
  }
#endif

  // On which torch would run now.
  void* stream() const { return stream_; }

 private:
#if !defined(REMORY_SIMT)
  torch::stable::accelerator::DeviceGuard guard_;
#endif
  void* stream_ = nullptr;
};

// `result` is what a launcher answered.
inline void check_launch(const Arguments& arguments, int result) {
  if (result != 0) arguments.fail("CUDA refused the launch: ", error_words(result), " (cudaError ", result, ")");
}

}  // namespace remory::REMORY_DEVICE

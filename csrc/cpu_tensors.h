// How the torch-free CPU kernels see tensors.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>

#include "cpu/attention.h"
#include "cpu/element.h"

namespace remory::cpu {

using torch::stable::Tensor;

inline ElementType element_type(const Tensor& tensor) {
  using torch::headeronly::ScalarType;
  const ScalarType type = tensor.scalar_type();
  if (type == ScalarType::Half) return ElementType::float16;
  return type == ScalarType::Float ? ElementType::float32 : ElementType::bfloat16;
}

// All dimensions but the last are rows; one stride must serve them, as in a matrix or a contiguous tensor.
inline int64_t row_stride(const Tensor& tensor) { return tensor.dim() > 1 ? tensor.stride(tensor.dim() - 2) : 0; }

inline Matrix matrix(const Tensor& tensor) {
  return {tensor.mutable_data_ptr(), element_type(tensor), row_stride(tensor)};
}

inline ConstMatrix const_matrix(const Tensor& tensor) {
  return {tensor.const_data_ptr(), element_type(tensor), row_stride(tensor)};
}

// [blocks, rows, heads, head_dim], any strides but the last.
inline ConstHeads const_heads(const Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

inline Heads heads(const Tensor& tensor) {
  return {tensor.mutable_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// Runs kernel(begin, end) over `rows` rows of `width` elements on torch's threads; so many elements are worth one.
template <class Kernel>
void for_rows(int64_t rows, int64_t width, const Kernel& kernel, int64_t elements_per_task = 32768) {
  torch::stable::parallel_for(0, rows, std::max<int64_t>(1, elements_per_task / std::max<int64_t>(1, width)), kernel);
}

}  // namespace remory::cpu

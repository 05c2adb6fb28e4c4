// One way to check an op's arguments and one way to complain, for every device.
#pragma once

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace remory {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline std::string name_of(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    default:
      return "torch dtype number " + std::to_string(static_cast<int>(type));
  }
}

template <class Sizes>
std::string in_brackets(const Sizes& sizes) {
  std::string text = "[";
  for (const auto& size : sizes) {
    if (text.size() > 1) text += ", ";
    if constexpr (std::is_integral_v<std::decay_t<decltype(size)>>) {
      text += std::to_string(size);
    } else {
      text += size;
    }
  }
  return text + "]";
}

// The sizes of one op's tensors by name. The first tensor that has a dimension binds its name; all later ones must
// agree. All tensors must lie on the device of the first. Names of sizes, and of the first tensor, are literals: they
// are kept as pointers, so that a call that fits makes no strings.
class Arguments {
 public:
  using Pattern = std::initializer_list<const char*>;

  explicit Arguments(const char* op) : op_(op) { sizes_.reserve(8); }

  // Python sees a RuntimeError: the op's name, then the parts.
  template <class... Parts>
  [[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) const {
    std::ostringstream message;
    message << op_ << ": ";
    (message << ... << parts);
    throw std::runtime_error(message.str());
  }

  // Binds a name ahead of the tensors: to an integer argument, or to a product such as "H*d".
  void set(const char* name, int64_t size) { sizes_.push_back({name, size}); }

  int64_t operator[](const char* name) const {
    const std::optional<int64_t> size = find(name);
    if (!size) fail("no tensor has bound the size ", name);
    return *size;
  }

  void shape(const char* name, const Tensor& tensor, Pattern pattern) {
    check_device(name, tensor);
    const auto sizes = tensor.sizes();
    if (sizes.size() != pattern.size())
      fail(name, " must be ", expected(pattern), ", got ", in_brackets(sizes), ": ", sizes.size(),
           " dimensions, expected ", pattern.size());
    size_t dimension = 0;
    for (const char* size_name : pattern) {
      const int64_t got = sizes[dimension];
      const std::optional<int64_t> bound = find(size_name);
      if (bound && got != *bound)
        fail(name, " must be ", expected(pattern), ", got ", in_brackets(sizes), ": dimension ", dimension, " (",
             size_name, ") is ", got, ", expected ", *bound);
      if (!bound) set(size_name, got);
      ++dimension;
    }
  }

  // The kernels walk along the last dimension: its elements must be neighbours, the other strides are free. Where there
  // is no element strides mean nothing, and torch gives an empty tensor from numpy only zeros.
  void rows(const char* name, const Tensor& tensor, Pattern pattern) {
    shape(name, tensor, pattern);
    const int64_t last = static_cast<int64_t>(pattern.size()) - 1;
    if (tensor.stride(last) != 1 && tensor.size(last) > 1 && tensor.numel() > 0)
      fail(name, " must be contiguous in its last dimension, got strides ", in_brackets(tensor.strides()));
  }

  void contiguous(const char* name, const Tensor& tensor, Pattern pattern) {
    shape(name, tensor, pattern);
    if (!tensor.is_contiguous())
      fail(name, " must be contiguous, got sizes ", in_brackets(tensor.sizes()), " with strides ",
           in_brackets(tensor.strides()));
  }

  void floating(const char* name, const Tensor& tensor) const {
    const ScalarType type = tensor.scalar_type();
    if (type != ScalarType::Float && type != ScalarType::BFloat16)
      fail(name, " must be float32 or bfloat16, got ", name_of(type));
  }

  void dtype(const char* name, const Tensor& tensor, ScalarType type, const char* why = "") const {
    if (tensor.scalar_type() != type)
      fail(name, " must be ", name_of(type), why, ", got ", name_of(tensor.scalar_type()));
  }

  // A vector of indices or lengths.
  void indices(const char* name, const Tensor& tensor, Pattern pattern) {
    dtype(name, tensor, ScalarType::Long);
    contiguous(name, tensor, pattern);
  }

  void in_range(const char* name, int64_t value, int64_t low, int64_t high) const {
    if (value < low || value > high) fail(name, " is ", value, ", expected ", low, " to ", high);
  }

  void at_least(const char* name, int64_t value, int64_t low) const {
    if (value < low) fail(name, " is ", value, ", expected at least ", low);
  }

  // Every value of a vector on the CPU lies in [low, high].
  void values(const char* name, const int64_t* values, int64_t count, int64_t low, int64_t high) const {
    for (int64_t i = 0; i < count; ++i) {
      if (values[i] < low || values[i] > high) fail(name, "[", i, "] is ", values[i], ", expected ", low, " to ", high);
    }
  }

 private:
  std::optional<int64_t> find(const char* name) const {
    for (const auto& [bound, size] : sizes_) {
      if (std::strcmp(bound, name) == 0) return size;
    }
    return std::nullopt;
  }

  // "[T, D] = [5, 64]"; a name not bound yet stands for itself.
  std::string expected(Pattern pattern) const {
    std::vector<std::string> sizes;
    for (const char* name : pattern) {
      const std::optional<int64_t> bound = find(name);
      sizes.push_back(bound ? std::to_string(*bound) : name);
    }
    const std::string names = in_brackets(pattern), numbers = in_brackets(sizes);
    return names == numbers ? names : names + " = " + numbers;
  }

  void check_device(const char* name, const Tensor& tensor) {
    const torch::stable::Device device = tensor.device();
    if (!device_) {
      device_ = device;
      device_of_ = name;
    }
    if (!(device == *device_)) fail(name, " must lie on the device of ", device_of_);
  }

  const char* op_;
  std::vector<std::pair<const char*, int64_t>> sizes_;
  std::optional<torch::stable::Device> device_;
  const char* device_of_ = nullptr;
};

}  // namespace remory

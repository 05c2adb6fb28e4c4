#include "project_cuda.h"

#include "cuda/project.h"
#include "cuda_tensors.h"

namespace remory {

namespace device = REMORY_DEVICE;

std::optional<Tensor> project_cuda(const Arguments& arguments, const Tensor& features, const Tensor& fc,
                                   const Tensor& norm, double eps, void* stream) {
  if (features.scalar_type() != ScalarType::BFloat16) return std::nullopt;
  device::Projection projection{
      features.const_data_ptr(), features.stride(0), fc.const_data_ptr(), fc.stride(0), norm.const_data_ptr<float>(),
      features.size(0),          fc.size(0),         fc.size(1),          nullptr,      nullptr};
  if (!device::projects(projection)) return std::nullopt;

  const Tensor out = device::empty({projection.rows, projection.width}, ScalarType::BFloat16, features);
  const Tensor squares = device::empty({projection.tiles(), projection.padded_rows()}, ScalarType::Float, features);
  projection.out = out.mutable_data_ptr();
  projection.squares = squares.mutable_data_ptr<float>();
  device::check_launch(arguments, device::project(projection, stream));
  device::check_launch(arguments, device::scale_rows(projection, static_cast<float>(eps), stream));
  return out;
}

}  // namespace remory

// The projection alone, which the ops only reach through `encode`.
#include <torch/csrc/stable/library.h>

#include "../project_cuda.h"

namespace remory {
namespace {

std::optional<Tensor> project(const Tensor& features, const Tensor& fc, const Tensor& norm, double eps) {
  return project_cuda(Arguments("project"), features, fc, norm, eps, nullptr);
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(remory_simt, library) {
  library.def("project(Tensor features, Tensor fc, Tensor norm, float eps) -> Tensor?");
}

STABLE_TORCH_LIBRARY_IMPL(remory_simt, CPU, library) { library.impl("project", TORCH_BOX(&project)); }

}  // namespace remory

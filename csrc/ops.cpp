// The ops of Remory: one schema block, and for every device the functions that check, allocate and launch.
#include "ops.h"

#include <torch/csrc/stable/library.h>

namespace remory {
namespace {

bool has_cuda_kernels() {
#ifdef REMORY_CUDA
  return true;
#else
  return false;
#endif
}

}  // namespace

STABLE_TORCH_LIBRARY(remory, library) {
  library.def("capture(Tensor hidden, Tensor? residual, Tensor rows, Tensor(a!) out, int layer) -> ()");
  library.def("inject(Tensor(a!) embeddings, Tensor rows, Tensor positions) -> ()");
  library.def(
      "slot_attention(Tensor q, Tensor k, Tensor v, Tensor lengths, int block, int ratio, int window) -> Tensor");
  library.def(
      "encode(Tensor features, Tensor lengths, Tensor? summary, Tensor[] weights, Tensor input_depths, int heads, "
      "int kv_heads, int head_dim, int layers, int block, int ratio, int window, float eps, float theta, "
      "bool summary_conditioned, bool tail, bool salient, int pointer_heads, int pointer_head_dim, "
      "Tensor? embeddings=None, Tensor? idf=None, Tensor? summary_lengths=None) -> Tensor");
  library.def("has_cuda_kernels() -> bool");
}

STABLE_TORCH_LIBRARY_IMPL(remory, CompositeExplicitAutograd, library) {
  library.impl("has_cuda_kernels", TORCH_BOX(&has_cuda_kernels));
}

STABLE_TORCH_LIBRARY_IMPL(remory, CPU, library) {
  library.impl("capture", TORCH_BOX(&capture_cpu));
  library.impl("inject", TORCH_BOX(&inject_cpu));
  library.impl("slot_attention", TORCH_BOX(&slot_attention_cpu));
  library.impl("encode", TORCH_BOX(&encode_cpu));
}

}  // namespace remory

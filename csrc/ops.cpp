// The ops of Remory: one schema block, and for every device the functions that check, allocate and launch.
#include "ops.h"

#include <torch/csrc/stable/library.h>

// The emulation (csrc/simt) has the same ops under a name of its own, and serves the CPU with the functions for CUDA.
#if defined(REMORY_SIMT)
#define REMORY_LIBRARY remory_simt
#define REMORY_CUDA_KEY CPU
#else
#define REMORY_LIBRARY remory
#define REMORY_CUDA_KEY CUDA
#endif

namespace remory {
namespace {

bool has_cuda_kernels() {
#if defined(REMORY_CUDA) || defined(REMORY_SIMT)
  return true;
#else
  return false;
#endif
}

}  // namespace

STABLE_TORCH_LIBRARY(REMORY_LIBRARY, library) {
  library.def("capture(Tensor hidden, Tensor? residual, Tensor rows, Tensor(a!) out, int layer) -> ()");
  library.def("inject(Tensor(a!) embeddings, Tensor rows, Tensor positions) -> ()");
  library.def(
      "slot_attention(Tensor q, Tensor k, Tensor v, Tensor lengths, int block, int ratio, int window) -> Tensor");
  library.def(
      "encode(Tensor features, Tensor lengths, Tensor? summary, Tensor[] weights, Tensor input_depths, int heads, "
      "int kv_heads, int head_dim, int layers, int block, int ratio, int window, float eps, float theta, "
      "bool summary_conditioned, bool tail, bool salient, int pointer_heads, int pointer_head_dim, "
      "Tensor? embeddings=None, Tensor? idf=None, Tensor? summary_lengths=None) -> Tensor");
  library.def("cosine_topk(Tensor queries, Tensor vectors, int k, Tensor? mask=None) -> (Tensor scores, Tensor ids)");
  library.def("has_cuda_kernels() -> bool");
}

STABLE_TORCH_LIBRARY_IMPL(REMORY_LIBRARY, CompositeExplicitAutograd, library) {
  library.impl("has_cuda_kernels", TORCH_BOX(&has_cuda_kernels));
}

#if !defined(REMORY_SIMT)
STABLE_TORCH_LIBRARY_IMPL(remory, CPU, library) {
  library.impl("capture", TORCH_BOX(&capture_cpu));
  library.impl("inject", TORCH_BOX(&inject_cpu));
  library.impl("slot_attention", TORCH_BOX(&slot_attention_cpu));
  library.impl("encode", TORCH_BOX(&encode_cpu));
  library.impl("cosine_topk", TORCH_BOX(&cosine_topk_cpu));
}
#endif

#if defined(REMORY_CUDA) || defined(REMORY_SIMT)
STABLE_TORCH_LIBRARY_IMPL(REMORY_LIBRARY, REMORY_CUDA_KEY, library) {
  library.impl("capture", TORCH_BOX(&capture_cuda));
  library.impl("inject", TORCH_BOX(&inject_cuda));
  library.impl("cosine_topk", TORCH_BOX(&cosine_topk_cuda));
  library.impl("slot_attention", TORCH_BOX(&slot_attention_cuda));
  library.impl("encode", TORCH_BOX(&encode_cuda));
}
#endif

}  // namespace remory

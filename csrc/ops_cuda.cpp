// The ops on CUDA: check, allocate, and launch on torch's current stream. The emulation (csrc/simt) compiles this too,
// for tensors of the CPU. Values inside tensors are the kernels' to check: reading them here would wait for the device.
#include <optional>
#include <tuple>
#include <vector>

#include "cuda/attention.h"
#include "cuda/capture.h"
#include "cuda/inject.h"
#include "cuda/topk.h"
#include "cuda_tensors.h"
#include "encode_cuda.h"
#include "op_checks.h"
#include "ops.h"

namespace remory {

namespace device = REMORY_DEVICE;

namespace {

Tensor narrow(Tensor tensor, int64_t start, int64_t length) { return torch::stable::narrow(tensor, 1, start, length); }

void check_head_dim(const Arguments& arguments, int64_t head_dim) {
  if (head_dim > device::kMostHeadDim)
    arguments.fail("heads have ", head_dim, " dimensions, expected at most ", device::kMostHeadDim, " on CUDA");
}

}  // namespace

void capture_cuda(const Tensor& hidden, const std::optional<Tensor>& residual, const Tensor& rows, const Tensor& out,
                  int64_t layer) {
  Arguments arguments("capture");
  check_capture(arguments, hidden, residual, rows, out, layer);
  const device::DeviceScope scope(arguments, hidden);
  const int64_t width = arguments["D"];
  const device::ConstMatrix source = device::const_matrix(hidden);
  const device::ConstMatrix added =
      residual ? device::const_matrix(*residual) : device::ConstMatrix{nullptr, source.type, 0};
  const Tensor columns = narrow(out, layer * width, width);
  device::check_launch(
      arguments, device::capture(source, added, rows.const_data_ptr<int64_t>(), device::matrix(columns), arguments["T"],
                                 width, arguments["N"], scope.stream()));
}

void inject_cuda(const Tensor& embeddings, const Tensor& rows, const Tensor& positions) {
  Arguments arguments("inject");
  check_inject(arguments, embeddings, rows, positions);
  const device::DeviceScope scope(arguments, embeddings);
  device::check_launch(arguments, device::inject(device::matrix(embeddings), device::const_matrix(rows),
                                                 positions.const_data_ptr<int64_t>(), arguments["T"], arguments["D"],
                                                 arguments["R"], scope.stream()));
}

std::tuple<Tensor, Tensor> cosine_topk_cuda(const Tensor& queries, const Tensor& vectors, int64_t k,
                                            const std::optional<Tensor>& mask) {
  Arguments arguments("cosine_topk");
  check_cosine_topk(arguments, queries, vectors, k, device::kMostTopk, mask);
  const device::DeviceScope scope(arguments, queries);
  const Tensor scores = device::empty({arguments["Q"], k}, ScalarType::Float, queries);
  const Tensor ids = device::empty({arguments["Q"], k}, ScalarType::Long, queries);

  device::CosineTopk search{
      device::const_matrix(queries), device::const_matrix(vectors), arguments["Q"], arguments["N"], arguments["D"], k};
  if (mask) {
    search.mask = static_cast<const uint8_t*>(mask->const_data_ptr());
    search.mask_kind = mask->scalar_type() == ScalarType::Bool ? device::MaskKind::bytes : device::MaskKind::bits;
    search.mask_stride = mask->stride(0);
  }
  search.scores = scores.mutable_data_ptr<float>();
  search.ids = ids.mutable_data_ptr<int64_t>();
  const device::TopkPlan plan = device::plan_cosine_topk(search);
  const Tensor scratch = device::empty({device::scratch_bytes(search, plan)}, ScalarType::Byte, queries);
  device::check_launch(arguments, device::cosine_topk(search, plan, scratch.mutable_data_ptr(), scope.stream()));
  return {scores, ids};
}

Tensor slot_attention_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lengths, int64_t block,
                           int64_t ratio, int64_t window) {
  Arguments arguments("slot_attention");
  const Slots slots{block, ratio, window};
  check_slot_attention(arguments, q, k, v, lengths, slots);
  check_head_dim(arguments, arguments["d"]);
  const device::DeviceScope scope(arguments, q);
  const int64_t tokens = arguments["T+n"] - arguments["n"];

  SlotAttention attention;
  attention.queries = q;
  attention.source_keys = narrow(k, 0, tokens);
  attention.source_values = narrow(v, 0, tokens);
  attention.slot_keys = narrow(k, tokens, slots.count());
  attention.slot_values = narrow(v, tokens, slots.count());
  attention.lengths = lengths;
  attention.slots = slots;
  attention.out = device::empty(q.sizes(), q.scalar_type(), q);
  CudaEncodeKernels(arguments, scope.stream()).attend(attention);
  return attention.out;
}

Tensor encode_cuda(const Tensor& features, const Tensor& lengths, const std::optional<Tensor>& summary,
                   const std::vector<Tensor>& weights, const Tensor& input_depths, int64_t heads, int64_t kv_heads,
                   int64_t head_dim, int64_t layers, int64_t block, int64_t ratio, int64_t window, double eps,
                   double theta, bool summary_conditioned, bool tail, bool salient, int64_t pointer_heads,
                   int64_t pointer_head_dim, const std::optional<Tensor>& embeddings, const std::optional<Tensor>& idf,
                   const std::optional<Tensor>& summary_lengths) {
  Arguments arguments("encode");
  const EncodeInputs inputs{features, lengths, summary, input_depths, embeddings, idf, summary_lengths};
  const Geometry geometry{
      heads, kv_heads, head_dim,      layers,          {block, ratio, window}, eps, theta, summary_conditioned,
      tail,  salient,  pointer_heads, pointer_head_dim};
  const EncodeWeights named = check_encode(arguments, inputs, weights, geometry);
  check_head_dim(arguments, head_dim);
  const device::DeviceScope scope(arguments, features);
  const CudaEncodeKernels kernels(arguments, scope.stream());
  kernels.check_values(inputs, named);
  return encode(inputs, named, geometry, kernels);
}

}  // namespace remory

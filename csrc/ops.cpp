// The ops of Remory: one schema block, and for every device the functions that check, allocate and launch.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "checks.h"
#include "cpu/capture.h"
#include "cpu/inject.h"
#include "cpu_tensors.h"
#include "encode_cpu.h"

namespace remory {
namespace {

Tensor narrow(Tensor tensor, int64_t start, int64_t length) { return torch::stable::narrow(tensor, 1, start, length); }

void check_capture(Arguments& arguments, const Tensor& hidden, const std::optional<Tensor>& residual,
                   const Tensor& rows, const Tensor& out, int64_t layer) {
  arguments.floating("hidden", hidden);
  arguments.rows("hidden", hidden, {"T", "D"});
  if (residual) {
    arguments.dtype("residual", *residual, hidden.scalar_type(), " as hidden is");
    arguments.rows("residual", *residual, {"T", "D"});
  }
  arguments.indices("rows", rows, {"N"});
  arguments.floating("out", out);
  arguments.rows("out", out, {"N", "L*D"});
  const int64_t width = arguments["D"], out_width = arguments["L*D"];
  if (width < 1 || out_width % width != 0)
    arguments.fail("out [N, L*D] is ", out_width, " wide, expected a multiple of D = ", width);
  arguments.in_range("layer", layer, 0, out_width / width - 1);
}

void capture_cpu(const Tensor& hidden, const std::optional<Tensor>& residual, const Tensor& rows, const Tensor& out,
                 int64_t layer) {
  Arguments arguments("capture");
  check_capture(arguments, hidden, residual, rows, out, layer);
  const int64_t width = arguments["D"], count = arguments["N"];
  const int64_t* indices = rows.const_data_ptr<int64_t>();
  arguments.values("rows", indices, count, 0, arguments["T"] - 1);

  const Tensor columns = narrow(out, layer * width, width);
  const cpu::ConstMatrix source = cpu::const_matrix(hidden);
  const cpu::ConstMatrix added = residual ? cpu::const_matrix(*residual) : cpu::ConstMatrix{nullptr, source.type, 0};
  const cpu::Matrix target = cpu::matrix(columns);
  cpu::for_rows(count, width,
                [&](int64_t begin, int64_t end) { cpu::capture(source, added, indices, target, width, begin, end); });
}

void check_inject(Arguments& arguments, const Tensor& embeddings, const Tensor& rows, const Tensor& positions) {
  arguments.floating("embeddings", embeddings);
  arguments.rows("embeddings", embeddings, {"T", "D"});
  arguments.floating("rows", rows);
  arguments.rows("rows", rows, {"R", "D"});
  arguments.indices("positions", positions, {"R"});
}

// Two rows at one position would leave the winner to the threads.
void check_distinct(const Arguments& arguments, const int64_t* positions, int64_t count) {
  std::vector<int64_t> sorted(positions, positions + count);
  std::sort(sorted.begin(), sorted.end());
  const auto inside = std::lower_bound(sorted.begin(), sorted.end(), 0);
  const auto twice = std::adjacent_find(inside, sorted.end());
  if (twice != sorted.end()) arguments.fail("positions holds ", *twice, " more than once");
}

void inject_cpu(const Tensor& embeddings, const Tensor& rows, const Tensor& positions) {
  Arguments arguments("inject");
  check_inject(arguments, embeddings, rows, positions);
  const int64_t width = arguments["D"], count = arguments["R"];
  const int64_t* indices = positions.const_data_ptr<int64_t>();
  arguments.values("positions", indices, count, -1, arguments["T"] - 1);
  check_distinct(arguments, indices, count);

  const cpu::Matrix target = cpu::matrix(embeddings);
  const cpu::ConstMatrix source = cpu::const_matrix(rows);
  cpu::for_rows(count, width,
                [&](int64_t begin, int64_t end) { cpu::inject(target, source, indices, width, begin, end); });
}

void check_slot_attention(Arguments& arguments, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& lengths, const Slots& slots) {
  check_slots(arguments, slots);
  arguments.floating("q", q);
  arguments.dtype("k", k, q.scalar_type(), " as q is");
  arguments.dtype("v", v, q.scalar_type(), " as q is");
  arguments.rows("q", q, {"B", "n", "H", "d"});
  arguments.rows("k", k, {"B", "T+n", "KV", "d"});
  arguments.rows("v", v, {"B", "T+n", "KV", "d"});
  arguments.indices("lengths", lengths, {"B"});
  if (arguments["T+n"] < arguments["n"])
    arguments.fail("k [B, T+n, KV, d] holds ", arguments["T+n"], " keys, expected at least the n = ", arguments["n"],
                   " of the slots");
  if (arguments["KV"] < 1 || arguments["H"] % arguments["KV"] != 0)
    arguments.fail("q has H = ", arguments["H"], " heads, expected a multiple of KV = ", arguments["KV"]);
  arguments.at_least("d", arguments["d"], 1);
}

Tensor slot_attention_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lengths, int64_t block,
                          int64_t ratio, int64_t window) {
  Arguments arguments("slot_attention");
  const Slots slots{block, ratio, window};
  check_slot_attention(arguments, q, k, v, lengths, slots);
  const int64_t tokens = arguments["T+n"] - arguments["n"];
  arguments.values("lengths", lengths.const_data_ptr<int64_t>(), arguments["B"], 0, tokens);

  SlotAttention attention;
  attention.queries = q;
  attention.source_keys = narrow(k, 0, tokens);
  attention.source_values = narrow(v, 0, tokens);
  attention.slot_keys = narrow(k, tokens, slots.count());
  attention.slot_values = narrow(v, tokens, slots.count());
  attention.lengths = lengths;
  attention.slots = slots;
  attention.out = torch::stable::empty(q.sizes(), q.scalar_type());
  CpuEncodeKernels().attend(attention);
  return attention.out;
}

Tensor encode_cpu(const Tensor& features, const Tensor& lengths, const std::optional<Tensor>& summary,
                  const std::vector<Tensor>& weights, const Tensor& input_depths, int64_t heads, int64_t kv_heads,
                  int64_t head_dim, int64_t layers, int64_t block, int64_t ratio, int64_t window, double eps,
                  double theta, bool summary_conditioned, bool tail, bool salient, int64_t pointer_heads,
                  int64_t pointer_head_dim, const std::optional<Tensor>& embeddings,
                  const std::optional<Tensor>& idf, const std::optional<Tensor>& summary_lengths) {
  Arguments arguments("encode");
  const EncodeInputs inputs{features, lengths, summary, input_depths, embeddings, idf, summary_lengths};
  const Geometry geometry{heads,
                          kv_heads,
                          head_dim,
                          layers,
                          {block, ratio, window},
                          eps,
                          theta,
                          summary_conditioned,
                          tail,
                          salient,
                          pointer_heads,
                          pointer_head_dim};
  const EncodeWeights named = check_encode(arguments, inputs, weights, geometry);
  arguments.values("lengths", lengths.const_data_ptr<int64_t>(), arguments["B"], 1, arguments["T"]);
  if (summary_conditioned) {
    arguments.values("input_depths", input_depths.const_data_ptr<int64_t>(), arguments["B"], 0,
                     arguments["depths"] - 1);
  }
  if (summary_lengths) {
    arguments.values("summary_lengths", summary_lengths->const_data_ptr<int64_t>(), arguments["B"], 1, arguments["S"]);
  }
  return encode(inputs, named, geometry, CpuEncodeKernels());
}

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

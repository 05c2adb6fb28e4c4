// The ops on the CPU: check, allocate, and run the kernels on torch's threads.
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "cpu/capture.h"
#include "cpu/inject.h"
#include "cpu/topk.h"
#include "cpu_tensors.h"
#include "encode_cpu.h"
#include "op_checks.h"
#include "ops.h"

namespace remory {
namespace {

Tensor narrow(Tensor tensor, int64_t start, int64_t length, int64_t dimension = 1) {
  return torch::stable::narrow(tensor, dimension, start, length);
}

// Two rows at one position would leave the winner to the threads.
void check_distinct(const Arguments& arguments, const int64_t* positions, int64_t count, int64_t tokens) {
  std::vector<bool> taken(tokens);
  for (int64_t i = 0; i < count; ++i) {
    if (positions[i] < 0) continue;
    if (taken[positions[i]]) arguments.fail("positions holds ", positions[i], " more than once");
    taken[positions[i]] = true;
  }
}

}  // namespace

void capture_cpu(const Tensor& hidden, const std::optional<Tensor>& residual, const Tensor& rows, const Tensor& out,
                 int64_t layer) {
  Arguments arguments("capture");
  check_capture(arguments, hidden, residual, rows, out, layer);
  const int64_t width = arguments["D"], count = arguments["N"];
  const int64_t* indices = rows.const_data_ptr<int64_t>();
  arguments.values("rows", indices, count, 0, arguments["T"] - 1);

  cpu::Matrix columns = cpu::matrix(out);
  columns.data = static_cast<char*>(columns.data) + layer * width * cpu::element_size(columns.type);
  const cpu::ConstMatrix source = cpu::const_matrix(hidden);
  const cpu::ConstMatrix added = residual ? cpu::const_matrix(*residual) : cpu::ConstMatrix{nullptr, source.type, 0};
  const cpu::Capture kernel{source, added, indices, columns, count, width};
  cpu::for_rows(count, width, [&](int64_t begin, int64_t end) { cpu::capture(kernel, begin, end); });
}

void inject_cpu(const Tensor& embeddings, const Tensor& rows, const Tensor& positions) {
  Arguments arguments("inject");
  check_inject(arguments, embeddings, rows, positions);
  const int64_t width = arguments["D"], count = arguments["R"];
  const int64_t* indices = positions.const_data_ptr<int64_t>();
  arguments.values("positions", indices, count, -1, arguments["T"] - 1);
  check_distinct(arguments, indices, count, arguments["T"]);

  const cpu::Inject kernel{cpu::matrix(embeddings), cpu::const_matrix(rows), indices, count, width};
  cpu::for_rows(count, width, [&](int64_t begin, int64_t end) { cpu::inject(kernel, begin, end); });
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
                  int64_t pointer_head_dim, const std::optional<Tensor>& embeddings, const std::optional<Tensor>& idf,
                  const std::optional<Tensor>& summary_lengths) {
  Arguments arguments("encode");
  const EncodeInputs inputs{features, lengths, summary, input_depths, embeddings, idf, summary_lengths};
  const Geometry geometry{
      heads, kv_heads, head_dim,      layers,          {block, ratio, window}, eps, theta, summary_conditioned,
      tail,  salient,  pointer_heads, pointer_head_dim};
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

std::tuple<Tensor, Tensor> cosine_topk_cpu(const Tensor& queries, const Tensor& vectors, int64_t k,
                                           const std::optional<Tensor>& mask) {
  constexpr int64_t kMostK = 1000;
  constexpr int64_t kProductsPerTask = 1 << 18;
  Arguments arguments("cosine_topk");
  check_cosine_topk(arguments, queries, vectors, k, kMostK, mask);
  const int64_t count = arguments["Q"], width = arguments["D"], rows = arguments["N"];

  std::optional<Tensor> taken;
  if (mask) taken = torch::stable::contiguous(*mask);
  const cpu::RowMask row_mask{taken ? static_cast<const uint8_t*>(taken->const_data_ptr()) : nullptr,
                              taken && taken->scalar_type() == ScalarType::Byte};
  const Tensor scores = torch::stable::empty({count, k}, ScalarType::Float);
  const Tensor ids = torch::stable::empty({count, k}, ScalarType::Long);
  for (int64_t first = 0; first < count; first += cpu::Topk::kMostQueries) {
    const int64_t some = std::min(count - first, cpu::Topk::kMostQueries);
    const cpu::ConstMatrix chosen = cpu::const_matrix(narrow(queries, first, some, 0));
    cpu::Topk topk(chosen, some, cpu::const_matrix(vectors), width, row_mask, k);
    cpu::for_rows(rows, width * some, [&](int64_t begin, int64_t end) { topk.scan(begin, end); }, kProductsPerTask);
    cpu::for_rows(some, k * width, [&](int64_t begin, int64_t end) {
      for (int64_t q = begin; q < end; ++q) {
        const int64_t place = (first + q) * k;
        topk.rank(q, scores.mutable_data_ptr<float>() + place, ids.mutable_data_ptr<int64_t>() + place);
      }
    });
  }
  return {scores, ids};
}

}  // namespace remory

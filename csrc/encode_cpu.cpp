#include "encode_cpu.h"

#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "cpu/attention.h"
#include "cpu/pointer.h"
#include "cpu/pointwise.h"
#include "cpu/salience.h"
#include "cpu_tensors.h"

namespace remory {
namespace {

const float* floats(const Tensor& tensor) { return tensor.const_data_ptr<float>(); }

const int64_t* integers(const Tensor& tensor) { return tensor.const_data_ptr<int64_t>(); }

const int64_t* lengths_of(const std::optional<Tensor>& lengths) { return lengths ? integers(*lengths) : nullptr; }

cpu::ConstHeads shared_heads(const std::optional<Tensor>& tensor) {
  if (!tensor) return {nullptr, 0, 0, 0};
  cpu::ConstHeads heads = cpu::const_heads(*tensor);
  if (tensor->size(0) == 1) heads.block_stride = 0;
  return heads;
}

Tensor project_onednn(const Tensor& rows, const Tensor& weight) {
  using torch::stable::detail::from;
  std::array<StableIValue, 6> stack{from(rows),
                                    from(weight),
                                    from(std::nullopt),
                                    from(std::string("none")),
                                    from(std::vector<double>()),
                                    from(std::optional<std::string>(""))};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("mkldnn::_linear_pointwise", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// Whether this torch was built with oneDNN and lets it be called.
bool has_onednn() {
  static const bool has = [] {
    const Tensor one = torch::stable::full({1, 1}, 1.0, ScalarType::Float);
    try {
      return *floats(project_onednn(one, one)) == 1.0f;
    } catch (const std::exception&) {
      return false;
    }
  }();
  return has;
}

}  // namespace

// For float32 torch's matmul takes MKL, which holds back from AVX-512 on processors of other makers: there oneDNN is
// twice as fast, elsewhere no slower. For bfloat16 torch takes oneDNN itself.
Tensor CpuEncodeKernels::project(const Tensor& rows, const Tensor& weight) const {
  const bool takes = rows.scalar_type() == ScalarType::Float && rows.is_contiguous() && weight.is_contiguous();
  return takes && rows.size(0) > 0 && has_onednn() ? project_onednn(rows, weight)
                                                   : EncodeKernels::project(rows, weight);
}

void CpuEncodeKernels::start(const EncodeWeights& weights, const Tensor& input_depths, int64_t slots,
                             const Tensor& h) const {
  const int64_t width = h.size(1);
  const float* mask = floats(weights.mask_embedding);
  const float* depth_table = weights.depth_embedding ? floats(*weights.depth_embedding) : nullptr;
  const int64_t* depths = integers(input_depths);
  float* states = h.mutable_data_ptr<float>();
  cpu::for_rows(h.size(0), width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* depth = depth_table ? depth_table + depths[r / slots] * width : nullptr;
      for (int64_t d = 0; d < width; ++d) states[r * width + d] = depth ? mask[d] + depth[d] : mask[d];
    }
  });
}

void CpuEncodeKernels::rms_norm(const Tensor& in, const Tensor* weight, const Tensor* scale, double eps,
                                const Tensor& out) const {
  const cpu::RmsNorm norm{cpu::const_matrix(in),          cpu::matrix(out),        weight ? floats(*weight) : nullptr,
                          scale ? *floats(*scale) : 1.0f, static_cast<float>(eps), in.size(1)};
  cpu::for_rows(in.size(0), in.size(1), [&](int64_t begin, int64_t end) { cpu::rms_norm(norm, begin, end); });
}

void CpuEncodeKernels::rotations(const Slots& slots, const Tensor* kept, double theta, const Tensor& out) const {
  const int64_t head_dim = out.size(1), tokens = out.size(0) - (kept ? kept->numel() : slots.count());
  const int64_t* places = kept ? integers(*kept) : nullptr;
  float* table = out.mutable_data_ptr<float>();
  cpu::for_rows(out.size(0), head_dim, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t slot = r - tokens;
      const int64_t position = slot < 0 ? r : places ? places[slot] : slots.position(slot);
      cpu::rotation(position, theta, head_dim, table + r * head_dim);
    }
  });
}

void CpuEncodeKernels::norm_heads(const Tensor& projected, const Tensor& weight, double eps, const Tensor* rotations,
                                  const Tensor* lengths) const {
  const int64_t per_block = projected.size(1), heads = projected.size(2), head_dim = projected.size(3);
  const cpu::HeadNorm norm{{projected.mutable_data_ptr(), cpu::element_type(projected), heads * head_dim},
                           floats(weight),
                           rotations ? floats(*rotations) : nullptr,
                           lengths ? integers(*lengths) : nullptr,
                           rotations ? rotations->size(0) : per_block,
                           per_block,
                           heads,
                           head_dim,
                           static_cast<float>(eps)};
  cpu::for_rows(projected.size(0) * per_block, heads * head_dim,
                [&](int64_t begin, int64_t end) { cpu::norm_heads(norm, begin, end); });
}

void CpuEncodeKernels::attend(const SlotAttention& attention) const {
  const Tensor& q = attention.queries;
  const Tensor& some_keys = attention.source_keys ? *attention.source_keys : *attention.slot_keys;
  const int64_t head_dim = q.size(3);
  const cpu::Attention kernel{cpu::element_type(q),
                              cpu::const_heads(q),
                              shared_heads(attention.source_keys),
                              shared_heads(attention.source_values),
                              shared_heads(attention.slot_keys),
                              shared_heads(attention.slot_values),
                              cpu::heads(attention.out),
                              lengths_of(attention.lengths),
                              attention.source_keys ? attention.source_keys->size(1) : 0,
                              attention.slots,
                              q.size(0),
                              q.size(2),
                              some_keys.size(2),
                              head_dim,
                              1.0f / std::sqrt(static_cast<float>(head_dim))};
  torch::stable::parallel_for(0, kernel.tiles(), 1,
                              [&](int64_t begin, int64_t end) { cpu::attend(kernel, begin, end); });
}

void CpuEncodeKernels::swiglu(const Tensor& gate, const Tensor& up) const {
  const cpu::Matrix gates = cpu::matrix(gate);
  const cpu::ConstMatrix ups = cpu::const_matrix(up);
  const int64_t width = gate.size(1);
  cpu::for_rows(gate.size(0), width, [&](int64_t begin, int64_t end) { cpu::swiglu(gates, ups, width, begin, end); });
}

void CpuEncodeKernels::add(const Tensor& h, const Tensor& addends, const Tensor* gate) const {
  const float scale = gate ? std::tanh(*floats(*gate)) : 1.0f;
  const cpu::Matrix sums = cpu::matrix(h);
  const cpu::ConstMatrix added = cpu::const_matrix(addends);
  const int64_t width = h.size(1);
  cpu::for_rows(h.size(0), width,
                [&](int64_t begin, int64_t end) { cpu::add_scaled(sums, added, scale, width, begin, end); });
}

void CpuEncodeKernels::keep_last(const Tensor& lengths, const Tensor& kept) const {
  cpu::keep_last(integers(lengths), kept.size(1), kept.mutable_data_ptr<int64_t>(), 0, kept.numel());
}

void CpuEncodeKernels::mix_neighbours(const Tensor& source, const Tensor& lexical, const Tensor& output_rms,
                                      const Tensor& taps, const Tensor& lengths, const Tensor& out) const {
  const int64_t rows = out.size(0), channels = out.size(1);
  if (rows == 0) return;
  const cpu::Neighbours neighbours{
      cpu::const_matrix(source), cpu::const_matrix(lexical), 1.0f / *floats(output_rms), floats(taps),
      integers(lengths),         rows / lengths.numel(),     taps.size(0) / 2,           channels,
      cpu::matrix(out)};
  cpu::for_rows(rows, channels, [&](int64_t begin, int64_t end) { cpu::mix_neighbours(neighbours, begin, end); });
}

void CpuEncodeKernels::keep_best(const Tensor& mixed, const Tensor& score, const Tensor& lengths,
                                 const Tensor& kept) const {
  const int64_t rows = mixed.size(0), channels = mixed.size(1), blocks = kept.size(0);
  if (blocks == 0) return;
  std::vector<float> scores(rows);
  cpu::for_rows(rows, channels, [&](int64_t begin, int64_t end) {
    cpu::score(cpu::const_matrix(mixed), floats(score), scores.data(), channels, begin, end);
  });
  const cpu::Selection selection{scores.data(), integers(lengths), rows / blocks, kept.size(1),
                                 kept.mutable_data_ptr<int64_t>()};
  torch::stable::parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) { cpu::select(selection, begin, end); });
}

void CpuEncodeKernels::add_kept(const Tensor& tokens, const Tensor& kept, const Tensor* gate,
                                const Tensor& rows) const {
  const int64_t slots = rows.size(1), width = rows.size(2);
  const cpu::Kept kernel{{tokens.const_data_ptr(), cpu::element_type(tokens), tokens.stride(1)},
                         tokens.stride(0),
                         integers(kept),
                         slots,
                         gate ? *floats(*gate) : 1.0f,
                         cpu::matrix(rows),
                         width};
  cpu::for_rows(rows.size(0) * slots, width, [&](int64_t begin, int64_t end) { cpu::add_kept(kernel, begin, end); });
}

void CpuEncodeKernels::point(const Tensor& queries, const Tensor& keys, const EncodeInputs& inputs,
                             const PointerWeights& weights, const Slots& slots, const Tensor* kept,
                             const Tensor& out) const {
  const Tensor& embeddings = *inputs.embeddings;
  const Tensor idf = torch::stable::contiguous(torch::stable::to(*inputs.idf, ScalarType::Float));
  const cpu::Pointer kernel{cpu::element_type(queries),
                            cpu::const_heads(queries),
                            cpu::const_heads(keys),
                            {embeddings.const_data_ptr(), embeddings.stride(0), embeddings.stride(1), 0},
                            floats(idf),
                            floats(weights.idf_scale),
                            floats(weights.group_bonus),
                            floats(weights.mean),
                            cpu::heads(out),
                            integers(inputs.lengths),
                            slots,
                            kept ? integers(*kept) : nullptr,
                            queries.size(0),
                            keys.size(1),
                            queries.size(2),
                            queries.size(3),
                            out.size(3)};
  torch::stable::parallel_for(0, kernel.tiles(), 1,
                              [&](int64_t begin, int64_t end) { cpu::point(kernel, begin, end); });
}

}  // namespace remory

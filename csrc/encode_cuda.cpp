#include "encode_cuda.h"

#include <cmath>

#include "cuda/attention.h"
#include "cuda/pointer.h"
#include "cuda/pointwise.h"
#include "cuda/salience.h"
#include "cuda_tensors.h"
#include "project_cuda.h"

namespace remory {

namespace device = REMORY_DEVICE;

namespace {

const float* floats(const Tensor& tensor) { return tensor.const_data_ptr<float>(); }

const float* floats(const Tensor* tensor) { return tensor ? floats(*tensor) : nullptr; }

const int64_t* integers(const Tensor& tensor) { return tensor.const_data_ptr<int64_t>(); }

const int64_t* integers(const Tensor* tensor) { return tensor ? integers(*tensor) : nullptr; }

const int64_t* integers(const std::optional<Tensor>& tensor) { return tensor ? integers(*tensor) : nullptr; }

// [blocks, rows, heads, head_dim], any strides but the last.
device::ConstHeads const_heads(const Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

device::Heads heads(const Tensor& tensor) {
  return {tensor.mutable_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

device::ConstHeads shared_heads(const std::optional<Tensor>& tensor) {
  if (!tensor) return {nullptr, 0, 0, 0};
  device::ConstHeads heads = const_heads(*tensor);
  if (tensor->size(0) == 1) heads.block_stride = 0;
  return heads;
}

}  // namespace

void CudaEncodeKernels::check(int launched) const { device::check_launch(arguments_, launched); }

void CudaEncodeKernels::check_values(const EncodeInputs& inputs, const EncodeWeights& weights) const {
  const int64_t blocks = inputs.lengths.size(0);
  const int64_t depths = weights.depth_embedding ? weights.depth_embedding->size(0) : 0;
  const int64_t summary_rows = inputs.summary_lengths ? inputs.summary->size(1) : 0;
  check(device::check_allowed({{integers(inputs.lengths), blocks, 1, inputs.features.size(1)},
                               {depths > 0 ? integers(inputs.input_depths) : nullptr, blocks, 0, depths - 1},
                               {integers(inputs.summary_lengths), blocks, 1, summary_rows}},
                              stream_));
}

void CudaEncodeKernels::start(const EncodeWeights& weights, const Tensor& input_depths, int64_t slots,
                              const Tensor& h) const {
  const float* depths = weights.depth_embedding ? floats(*weights.depth_embedding) : nullptr;
  check(device::start({floats(weights.mask_embedding), depths, integers(input_depths), h.mutable_data_ptr<float>(),
                       slots, h.size(0), h.size(1)},
                      stream_));
}

void CudaEncodeKernels::rms_norm(const Tensor& in, const Tensor* weight, const Tensor* scale, double eps,
                                 const Tensor& out) const {
  check(device::rms_norm({device::const_matrix(in), device::matrix(out), floats(weight), floats(scale),
                          static_cast<float>(eps), in.size(0), in.size(1)},
                         stream_));
}

Tensor CudaEncodeKernels::project_source(const Tensor& features, const Tensor& fc, const Tensor& norm,
                                         double eps) const {
  const std::optional<Tensor> source = project_cuda(arguments_, features, fc, norm, eps, stream_);
  return source ? *source : EncodeKernels::project_source(features, fc, norm, eps);
}

void CudaEncodeKernels::rotations(const Slots& slots, const Tensor* kept, double theta, const Tensor& out) const {
  const int64_t tokens = out.size(0) - (kept ? kept->numel() : slots.count());
  check(device::rotations(
      {slots, integers(kept), tokens, theta, out.mutable_data_ptr<float>(), out.size(0), out.size(1)}, stream_));
}

void CudaEncodeKernels::norm_heads(const Tensor& projected, const Tensor& weight, double eps, const Tensor* rotations,
                                   const Tensor* lengths) const {
  const int64_t per_block = projected.size(1), heads = projected.size(2), head_dim = projected.size(3);
  check(device::norm_heads({{projected.mutable_data_ptr(), device::element_type(projected), heads * head_dim},
                            floats(weight),
                            floats(rotations),
                            integers(lengths),
                            rotations ? rotations->size(0) : per_block,
                            projected.size(0),
                            per_block,
                            heads,
                            head_dim,
                            static_cast<float>(eps)},
                           stream_));
}

void CudaEncodeKernels::attend(const SlotAttention& attention) const {
  const Tensor& q = attention.queries;
  const Tensor& some_keys = attention.source_keys ? *attention.source_keys : *attention.slot_keys;
  check(device::attend({device::element_type(q), const_heads(q), shared_heads(attention.source_keys),
                        shared_heads(attention.source_values), shared_heads(attention.slot_keys),
                        shared_heads(attention.slot_values), heads(attention.out), integers(attention.lengths),
                        attention.source_keys ? attention.source_keys->size(1) : 0, attention.slots, q.size(0),
                        q.size(2), some_keys.size(2), q.size(3), 1.0f / std::sqrt(static_cast<float>(q.size(3)))},
                       stream_));
}

void CudaEncodeKernels::swiglu(const Tensor& gate, const Tensor& up) const {
  check(device::swiglu(device::matrix(gate), device::const_matrix(up), gate.size(0), gate.size(1), stream_));
}

void CudaEncodeKernels::add(const Tensor& h, const Tensor& addends, const Tensor* gate) const {
  check(
      device::add_gated(device::matrix(h), device::const_matrix(addends), floats(gate), h.size(0), h.size(1), stream_));
}

void CudaEncodeKernels::keep_last(const Tensor& lengths, const Tensor& kept) const {
  check(device::keep_last(integers(lengths), kept.size(0), kept.size(1), kept.mutable_data_ptr<int64_t>(), stream_));
}

void CudaEncodeKernels::mix_neighbours(const Tensor& source, const Tensor& lexical, const Tensor& output_rms,
                                       const Tensor& taps, const Tensor& lengths, const Tensor& out) const {
  const int64_t blocks = lengths.numel();
  check(device::mix_neighbours(
      {device::const_matrix(source), device::const_matrix(lexical), floats(output_rms), floats(taps), integers(lengths),
       blocks, blocks ? out.size(0) / blocks : 0, taps.size(0) / 2, out.size(1), out.mutable_data_ptr<float>()},
      stream_));
}

void CudaEncodeKernels::keep_best(const Tensor& mixed, const Tensor& score, const Tensor& lengths,
                                  const Tensor& kept) const {
  const int64_t blocks = kept.size(0), tokens = blocks ? mixed.size(0) / blocks : 0;
  const Tensor ranks = device::empty({blocks, tokens}, ScalarType::Int, mixed);
  check(
      device::select({device::const_matrix(mixed), floats(score), integers(lengths), blocks, tokens, mixed.size(1),
                      kept.size(1), static_cast<unsigned*>(ranks.mutable_data_ptr()), kept.mutable_data_ptr<int64_t>()},
                     stream_));
}

void CudaEncodeKernels::add_kept(const Tensor& tokens, const Tensor& kept, const Tensor* gate,
                                 const Tensor& rows) const {
  check(device::add_kept({{tokens.const_data_ptr(), device::element_type(tokens), tokens.stride(1)},
                          tokens.stride(0),
                          integers(kept),
                          floats(gate),
                          device::matrix(rows),
                          rows.size(0),
                          rows.size(1),
                          rows.size(2)},
                         stream_));
}

void CudaEncodeKernels::point(const Tensor& queries, const Tensor& keys, const EncodeInputs& inputs,
                              const PointerWeights& weights, const Slots& slots, const Tensor* kept,
                              const Tensor& out) const {
  const Tensor &embeddings = *inputs.embeddings, &idf = *inputs.idf;
  check(device::point({device::element_type(queries),
                       const_heads(queries),
                       const_heads(keys),
                       {embeddings.const_data_ptr(), embeddings.stride(0), embeddings.stride(1), 0},
                       idf.const_data_ptr(),
                       device::element_type(idf),
                       idf.stride(0),
                       idf.stride(1),
                       floats(weights.idf_scale),
                       floats(weights.group_bonus),
                       floats(weights.mean),
                       heads(out),
                       integers(inputs.lengths),
                       slots,
                       integers(kept),
                       queries.size(0),
                       keys.size(1),
                       queries.size(2),
                       queries.size(3),
                       out.size(3)},
                      stream_));
}

}  // namespace remory

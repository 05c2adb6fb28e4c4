#pragma once

#include "encode.h"

namespace remory {

// On one stream, without waiting for the device; all it allocates is torch's. Values inside lengths and kept tokens are
// taken as they are: `check_values` has seen the former.
class CudaEncodeKernels : public EncodeKernels {
 public:
  // `arguments` name the op in errors; both they and the stream outlive the kernels.
  CudaEncodeKernels(const Arguments& arguments, void* stream) : arguments_(arguments), stream_(stream) {}

  // Traps on the device where a length, a summary's length or an input depth is out of range.
  void check_values(const EncodeInputs& inputs, const EncodeWeights& weights) const;

  void start(const EncodeWeights& weights, const Tensor& input_depths, int64_t slots, const Tensor& h) const override;
  void rms_norm(const Tensor& in, const Tensor* weight, const Tensor* scale, double eps,
                const Tensor& out) const override;
  Tensor project_source(const Tensor& features, const Tensor& fc, const Tensor& norm, double eps) const override;
  void rotations(const Slots& slots, const Tensor* kept, double theta, const Tensor& out) const override;
  void norm_heads(const Tensor& projected, const Tensor& weight, double eps, const Tensor* rotations,
                  const Tensor* lengths) const override;
  void attend(const SlotAttention& attention) const override;
  void swiglu(const Tensor& gate, const Tensor& up) const override;
  void add(const Tensor& h, const Tensor& addends, const Tensor* gate) const override;
  void keep_last(const Tensor& lengths, const Tensor& kept) const override;
  void mix_neighbours(const Tensor& source, const Tensor& lexical, const Tensor& output_rms, const Tensor& taps,
                      const Tensor& lengths, const Tensor& out) const override;
  void keep_best(const Tensor& mixed, const Tensor& score, const Tensor& lengths, const Tensor& kept) const override;
  void add_kept(const Tensor& tokens, const Tensor& kept, const Tensor* gate, const Tensor& rows) const override;
  void point(const Tensor& queries, const Tensor& keys, const EncodeInputs& inputs, const PointerWeights& weights,
             const Slots& slots, const Tensor* kept, const Tensor& out) const override;

 private:
  void check(int launched) const;

  const Arguments& arguments_;
  void* const stream_;
};

}  // namespace remory

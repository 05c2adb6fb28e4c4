#pragma once

#include "encode.h"

namespace remory {

class CpuEncodeKernels : public EncodeKernels {
 public:
  void start(const EncodeWeights& weights, const Tensor& input_depths, int64_t slots, const Tensor& h) const override;
  void rms_norm(const Tensor& in, const Tensor* weight, const Tensor* scale, double eps,
                const Tensor& out) const override;
  void rotations(const Slots& slots, double theta, const Tensor& out) const override;
  void norm_heads(const Tensor& projected, const Tensor& weight, double eps, const Tensor* rotations,
                  const Tensor* lengths) const override;
  void attend(const SlotAttention& attention) const override;
  void swiglu(const Tensor& gate, const Tensor& up) const override;
  void add(const Tensor& h, const Tensor& addends, const Tensor* gate) const override;
  void add_tail(const Tensor& embeddings, const Tensor& lengths, const Tensor& gate, const Tensor& rows) const override;
  void point(const Tensor& queries, const Tensor& keys, const EncodeInputs& inputs, const PointerWeights& weights,
             const Slots& slots, const Tensor& out) const override;
};

}  // namespace remory

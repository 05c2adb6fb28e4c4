// What an op asks of its arguments on every device: shapes, dtypes and numbers. Values inside tensors are the device's
// to check: only the CPU can read them without waiting.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>

#include "checks.h"
#include "slots.h"

namespace remory {

// Binds T, D, N and L*D.
void check_capture(Arguments& arguments, const Tensor& hidden, const std::optional<Tensor>& residual,
                   const Tensor& rows, const Tensor& out, int64_t layer);

// Binds T, D and R.
void check_inject(Arguments& arguments, const Tensor& embeddings, const Tensor& rows, const Tensor& positions);

// Binds n, B, H, d, T+n and KV.
void check_slot_attention(Arguments& arguments, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& lengths, const Slots& slots);

// Binds Q, D and N. mask: a bool, or a bit of a uint8, for each vector.
void check_cosine_topk(Arguments& arguments, const Tensor& queries, const Tensor& vectors, int64_t k, int64_t most_k,
                       const std::optional<Tensor>& mask);

}  // namespace remory

// The ops as functions, a twin for every device. What they compute is said where Python calls them: python/remory/ops.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace remory {

using torch::stable::Tensor;

// ops_cpu.cpp
void capture_cpu(const Tensor& hidden, const std::optional<Tensor>& residual, const Tensor& rows, const Tensor& out,
                 int64_t layer);
void inject_cpu(const Tensor& embeddings, const Tensor& rows, const Tensor& positions);
Tensor slot_attention_cpu(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lengths, int64_t block,
                          int64_t ratio, int64_t window);
Tensor encode_cpu(const Tensor& features, const Tensor& lengths, const std::optional<Tensor>& summary,
                  const std::vector<Tensor>& weights, const Tensor& input_depths, int64_t heads, int64_t kv_heads,
                  int64_t head_dim, int64_t layers, int64_t block, int64_t ratio, int64_t window, double eps,
                  double theta, bool summary_conditioned, bool tail, bool salient, int64_t pointer_heads,
                  int64_t pointer_head_dim, const std::optional<Tensor>& embeddings, const std::optional<Tensor>& idf,
                  const std::optional<Tensor>& summary_lengths);
std::tuple<Tensor, Tensor> cosine_topk_cpu(const Tensor& queries, const Tensor& vectors, int64_t k,
                                           const std::optional<Tensor>& mask);

// ops_cuda.cpp
void capture_cuda(const Tensor& hidden, const std::optional<Tensor>& residual, const Tensor& rows, const Tensor& out,
                  int64_t layer);
void inject_cuda(const Tensor& embeddings, const Tensor& rows, const Tensor& positions);
std::tuple<Tensor, Tensor> cosine_topk_cuda(const Tensor& queries, const Tensor& vectors, int64_t k,
                                            const std::optional<Tensor>& mask);
Tensor slot_attention_cuda(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lengths, int64_t block,
                           int64_t ratio, int64_t window);
Tensor encode_cuda(const Tensor& features, const Tensor& lengths, const std::optional<Tensor>& summary,
                   const std::vector<Tensor>& weights, const Tensor& input_depths, int64_t heads, int64_t kv_heads,
                   int64_t head_dim, int64_t layers, int64_t block, int64_t ratio, int64_t window, double eps,
                   double theta, bool summary_conditioned, bool tail, bool salient, int64_t pointer_heads,
                   int64_t pointer_head_dim, const std::optional<Tensor>& embeddings, const std::optional<Tensor>& idf,
                   const std::optional<Tensor>& summary_lengths);

}  // namespace remory

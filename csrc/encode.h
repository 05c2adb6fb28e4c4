// The memory network over a batch of blocks: what it takes, what a device must provide, and the forward pass itself,
// which is the same on every device.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <optional>
#include <vector>

#include "checks.h"
#include "slots.h"

namespace remory {

struct Geometry {
  int64_t heads, kv_heads, head_dim, layers;
  Slots slots;
  double eps, theta;
  bool summary_conditioned, tail, salient;
  int64_t pointer_heads, pointer_head_dim;
};

struct EncodeInputs {
  Tensor features;                        // [B, T, L*D]
  Tensor lengths;                         // [B] int64
  std::optional<Tensor> summary;          // [S, D] for all blocks alike, or [B, S, D]
  Tensor input_depths;                    // [B] int64
  std::optional<Tensor> embeddings;       // [B, T, D]
  std::optional<Tensor> idf;              // [B, T]
  std::optional<Tensor> summary_lengths;  // [B] int64, of a summary [B, S, D]
};

// Matrices are in the dtype of the features, as given; vectors and scalars are float32 copies.
struct AttentionWeights {
  Tensor q, k, v, o, q_norm, k_norm;
};
struct LayerWeights {
  Tensor input_norm, post_attention_norm;
  AttentionWeights attention;
  Tensor gate, up, down;
};
struct SummaryWeights {
  Tensor query_norm, summary_norm;
  AttentionWeights attention;
  Tensor gate;
};
struct PointerWeights {
  Tensor q, k, value, idf_scale, group_bonus, mean;
};
struct SalienceWeights {
  Tensor source, lexical, taps, mix, score;  // mix is a float32 copy too: scores are float32 from the taps on
};
struct EncodeWeights {
  Tensor fc, hidden_norm, mask_embedding;
  std::optional<Tensor> depth_embedding;
  Tensor norm, output_rms;
  std::vector<LayerWeights> layers;
  std::vector<SummaryWeights> summary;
  std::optional<Tensor> base_gate;
  std::optional<SalienceWeights> salience;
  std::optional<PointerWeights> pointer;
};

// One attention of the slots. Queries and out [B, n, H, d]; source keys and values [B or 1, T, KV, d], 1 when all
// blocks share them; slot keys and values [B, n, KV, d]. Either kind may be absent, not both. Without lengths every
// source row counts.
struct SlotAttention {
  Tensor queries;
  std::optional<Tensor> source_keys, source_values, slot_keys, slot_values;
  std::optional<Tensor> lengths;
  Slots slots;
  Tensor out;
};

// What a device provides. h stands for slot states [B*n, D] in float32.
class EncodeKernels {
 public:
  virtual ~EncodeKernels() = default;

  // rows [R, K] · weight [N, K]ᵀ: torch's product, unless a device knows a faster one.
  virtual Tensor project(const Tensor& rows, const Tensor& weight) const;

  // h = mask_embedding + depth_embedding[input_depths[b]]
  virtual void start(const EncodeWeights& weights, const Tensor& input_depths, int64_t slots,
                     const Tensor& h) const = 0;

  // out = in / rms(in) [* weight] [* scale]; may be in place.
  virtual void rms_norm(const Tensor& in, const Tensor* weight, const Tensor* scale, double eps,
                        const Tensor& out) const = 0;

  // [B*T, D] in the dtype of the features: RMSNorm(features [B*T, L*D] · fcᵀ) * norm. A product and a norm, for devices
  // that know no better.
  virtual Tensor project_source(const Tensor& features, const Tensor& fc, const Tensor& norm, double eps) const;

  // Row p of out [positions, head_dim] float32: cosines and sines of source token p, behind them those of the slots,
  // n that all blocks share, or B*n at the kept tokens [B, n].
  virtual void rotations(const Slots& slots, const Tensor* kept, double theta, const Tensor& out) const = 0;

  // Normalises projected [B, K, heads, d] per head and rotates, in place: row k by rotations[k], or row k of block b
  // by rotations[b*K + k] where there are B*K.
  virtual void norm_heads(const Tensor& projected, const Tensor& weight, double eps, const Tensor* rotations,
                          const Tensor* lengths) const = 0;

  virtual void attend(const SlotAttention& attention) const = 0;

  // gate = silu(gate) * up
  virtual void swiglu(const Tensor& gate, const Tensor& up) const = 0;

  // h += [tanh(gate) *] addends
  virtual void add(const Tensor& h, const Tensor& addends, const Tensor* gate) const = 0;

  // kept [B, n] int64: each block's last n tokens, the first one repeated in front where there are fewer.
  virtual void keep_last(const Tensor& lengths, const Tensor& kept) const = 0;

  // out [B*T, C] float32 = silu of the taps over x = source + lexical / output_rms, both [B*T, C]; tokens outside a
  // block or behind its length count as zeros.
  virtual void mix_neighbours(const Tensor& source, const Tensor& lexical, const Tensor& output_rms, const Tensor& taps,
                              const Tensor& lengths, const Tensor& out) const = 0;

  // kept [B, n] int64, ascending: the tokens with the highest score · silu(mixed [B*T, C] float32), of equal ones the
  // earlier, and NaN above all; the first token repeated in front where there are fewer than n.
  virtual void keep_best(const Tensor& mixed, const Tensor& score, const Tensor& lengths, const Tensor& kept) const = 0;

  // rows [B, n, D] float32 = tokens [B, T, D] at kept [B, n] + [gate *] rows
  virtual void add_kept(const Tensor& tokens, const Tensor& kept, const Tensor* gate, const Tensor& rows) const = 0;

  // out [B, n, Hp, D]: what each slot and head copies from the embeddings; queries and keys [B, n or T, Hp, dp]. A
  // slot's own group are the slots' tokens, or with kept [B, n] the kept token and what follows it up to the next one.
  virtual void point(const Tensor& queries, const Tensor& keys, const EncodeInputs& inputs,
                     const PointerWeights& weights, const Slots& slots, const Tensor* kept,
                     const Tensor& out) const = 0;
};

// Slots of at least one token each; binds n.
void check_slots(Arguments& arguments, const Slots& slots);

// Checks everything but the values of lengths, summary lengths and input depths, and gives the list of weights its
// names.
EncodeWeights check_encode(Arguments& arguments, const EncodeInputs& inputs, const std::vector<Tensor>& weights,
                           const Geometry& geometry);

// Rows [B, n, D] in the dtype of the features.
Tensor encode(const EncodeInputs& inputs, const EncodeWeights& weights, const Geometry& geometry,
              const EncodeKernels& kernels);

}  // namespace remory

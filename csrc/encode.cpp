#include "encode.h"

#include <torch/csrc/stable/ops.h>

#include <string>

namespace remory {
namespace {

using torch::stable::empty;
using torch::stable::view;

// Larger than any distance inside a block.
constexpr int64_t kWholeBlock = int64_t{1} << 40;

// Takes the weights off the list one by one, in the order of a checkpoint, and names the one that does not fit.
class WeightReader {
 public:
  WeightReader(Arguments& arguments, const std::vector<Tensor>& weights, ScalarType type)
      : arguments_(arguments), weights_(weights), type_(type) {}

  Tensor matrix(const std::string& name, Arguments::Pattern pattern) {
    const std::string label = next(name);
    const Tensor& weight = weights_[taken_++];
    arguments_.dtype(label.c_str(), weight, type_, " as features is");
    arguments_.rows(label.c_str(), weight, pattern);
    return weight;
  }

  Tensor vector(const std::string& name, Arguments::Pattern pattern) {
    const std::string label = next(name);
    const Tensor& weight = weights_[taken_++];
    arguments_.dtype(label.c_str(), weight, type_, " as features is");
    arguments_.contiguous(label.c_str(), weight, pattern);
    return torch::stable::to(weight, ScalarType::Float);
  }

  AttentionWeights projections(const std::string& prefix) {
    AttentionWeights weights;
    weights.q = matrix(prefix + "q_proj.weight", {"H*d", "D"});
    weights.k = matrix(prefix + "k_proj.weight", {"KV*d", "D"});
    weights.v = matrix(prefix + "v_proj.weight", {"KV*d", "D"});
    weights.o = matrix(prefix + "o_proj.weight", {"D", "H*d"});
    return weights;
  }

  // A pointer's table of document frequencies closes the list; the caller has looked it up.
  void skip() { ++taken_; }

  void finish() const {
    if (taken_ != weights_.size())
      arguments_.fail("weights holds ", weights_.size(), " tensors, expected ", taken_, " for this geometry");
  }

 private:
  std::string next(const std::string& name) const {
    if (taken_ >= weights_.size())
      arguments_.fail("weights holds ", weights_.size(), " tensors, and this geometry also needs ", name);
    return "weights[" + std::to_string(taken_) + "] (" + name + ")";
  }

  Arguments& arguments_;
  const std::vector<Tensor>& weights_;
  const ScalarType type_;
  size_t taken_ = 0;
};

LayerWeights read_layer(WeightReader& reader, const std::string& prefix) {
  LayerWeights layer;
  layer.input_norm = reader.vector(prefix + "input_layernorm.weight", {"D"});
  layer.post_attention_norm = reader.vector(prefix + "post_attention_layernorm.weight", {"D"});
  layer.attention = reader.projections(prefix + "self_attn.");
  layer.attention.q_norm = reader.vector(prefix + "self_attn.q_norm.weight", {"d"});
  layer.attention.k_norm = reader.vector(prefix + "self_attn.k_norm.weight", {"d"});
  layer.gate = reader.matrix(prefix + "mlp.gate_proj.weight", {"M", "D"});
  layer.up = reader.matrix(prefix + "mlp.up_proj.weight", {"M", "D"});
  layer.down = reader.matrix(prefix + "mlp.down_proj.weight", {"D", "M"});
  return layer;
}

SummaryWeights read_summary(WeightReader& reader, const std::string& prefix) {
  SummaryWeights summary;
  summary.query_norm = reader.vector(prefix + "query_norm.weight", {"D"});
  summary.summary_norm = reader.vector(prefix + "summary_norm.weight", {"D"});
  Tensor q_norm = reader.vector(prefix + "q_norm.weight", {"d"});
  Tensor k_norm = reader.vector(prefix + "k_norm.weight", {"d"});
  summary.attention = reader.projections(prefix);
  summary.attention.q_norm = q_norm;
  summary.attention.k_norm = k_norm;
  summary.gate = reader.vector(prefix + "gate", {"1"});
  return summary;
}

SalienceWeights read_salience(Arguments& arguments, WeightReader& reader) {
  SalienceWeights salience;
  salience.source = reader.matrix("salience.source.weight", {"C", "D"});
  salience.lexical = reader.matrix("salience.lexical.weight", {"C", "D"});
  salience.taps = reader.vector("salience.taps", {"taps", "C"});
  if (arguments["taps"] % 2 == 0)
    arguments.fail("salience.taps [taps, C] holds ", arguments["taps"], " taps, expected an odd number");
  salience.mix = torch::stable::to(reader.matrix("salience.mix.weight", {"C", "C"}), ScalarType::Float);
  salience.score = reader.vector("salience.score", {"C"});
  return salience;
}

PointerWeights read_pointer(WeightReader& reader) {
  PointerWeights pointer;
  pointer.q = reader.matrix("pointer.q_proj.weight", {"Hp*dp", "D"});
  pointer.k = reader.matrix("pointer.k_proj.weight", {"Hp*dp", "D"});
  pointer.value = reader.matrix("pointer.value", {"Hp", "D", "D"});
  pointer.idf_scale = reader.vector("pointer.idf_scale", {"Hp"});
  pointer.group_bonus = reader.vector("pointer.group_bonus", {"Hp"});
  pointer.mean = reader.vector("pointer.mean", {"D"});
  reader.skip();
  return pointer;
}

EncodeWeights read_weights(Arguments& arguments, WeightReader& reader, const Geometry& geometry) {
  EncodeWeights weights;
  weights.fc = reader.matrix("fc.weight", {"D", "L*D"});
  weights.hidden_norm = reader.vector("hidden_norm.weight", {"D"});
  weights.mask_embedding = reader.vector("mask_embedding", {"1", "1", "D"});
  if (geometry.summary_conditioned) {
    weights.depth_embedding = reader.vector("depth_embedding.weight", {"depths", "D"});
  }
  weights.norm = reader.vector("norm.weight", {"D"});
  weights.output_rms = reader.vector("output_embedding_rms", {});
  for (int64_t layer = 0; layer < geometry.layers; ++layer) {
    weights.layers.push_back(read_layer(reader, "layers." + std::to_string(layer) + "."));
  }
  for (int64_t layer = 0; geometry.summary_conditioned && layer + 1 < geometry.layers; ++layer) {
    weights.summary.push_back(read_summary(reader, "summary_attention." + std::to_string(layer) + "."));
  }
  if (geometry.tail || geometry.salient) weights.base_gate = reader.vector("base_gate", {"1"});
  if (geometry.salient) weights.salience = read_salience(arguments, reader);
  if (geometry.pointer_heads > 0) weights.pointer = read_pointer(reader);
  reader.finish();
  return weights;
}

void check_geometry(Arguments& arguments, const Geometry& geometry) {
  arguments.at_least("layers", geometry.layers, 1);
  arguments.at_least("kv_heads", geometry.kv_heads, 1);
  arguments.at_least("heads", geometry.heads, 1);
  if (geometry.heads % geometry.kv_heads != 0)
    arguments.fail("heads is ", geometry.heads, ", expected a multiple of kv_heads = ", geometry.kv_heads);
  if (geometry.head_dim < 1 || geometry.head_dim % 2 != 0)
    arguments.fail("head_dim is ", geometry.head_dim, ", expected a positive even number");
  if (!(geometry.theta > 0)) arguments.fail("theta is ", geometry.theta, ", expected a positive number");
  if (!(geometry.eps >= 0)) arguments.fail("eps is ", geometry.eps, ", expected at least 0");
  if (geometry.tail && geometry.salient) arguments.fail("tail and salient exclude each other");
  arguments.at_least("pointer_heads", geometry.pointer_heads, 0);
  if (geometry.pointer_heads > 0) arguments.at_least("pointer_head_dim", geometry.pointer_head_dim, 1);
  check_slots(arguments, geometry.slots);
  arguments.set("1", 1);
  arguments.set("d", geometry.head_dim);
  arguments.set("H*d", geometry.heads * geometry.head_dim);
  arguments.set("KV*d", geometry.kv_heads * geometry.head_dim);
  arguments.set("Hp", geometry.pointer_heads);
  arguments.set("Hp*dp", geometry.pointer_heads * geometry.pointer_head_dim);
}

void check_presence(const Arguments& arguments, const char* name, bool given, bool needed, const char* when) {
  if (needed && !given) arguments.fail(name, " is missing; it is needed ", when);
}

void check_summary(Arguments& arguments, const EncodeInputs& inputs, const Geometry& geometry) {
  check_presence(arguments, "summary", inputs.summary.has_value(), geometry.summary_conditioned,
                 "when summary_conditioned");
  if (inputs.summary && !geometry.summary_conditioned)
    arguments.fail("a summary is given, but the geometry is not summary_conditioned");
  const bool by_block = inputs.summary && inputs.summary->dim() == 3;
  check_presence(arguments, "summary_lengths", inputs.summary_lengths.has_value(), by_block,
                 "with a summary [B, S, D]");
  if (inputs.summary_lengths && !by_block)
    arguments.fail("summary_lengths is given, expected only with a summary [B, S, D]");
  if (!inputs.summary) return;

  arguments.dtype("summary", *inputs.summary, inputs.features.scalar_type(), " as features is");
  if (by_block) {
    arguments.rows("summary", *inputs.summary, {"B", "S", "D"});
    arguments.indices("summary_lengths", *inputs.summary_lengths, {"B"});
  } else {
    arguments.rows("summary", *inputs.summary, {"S", "D"});
  }
  arguments.at_least("S, the rows of summary,", arguments["S"], 1);
}

void check_optional_inputs(Arguments& arguments, const EncodeInputs& inputs, const Geometry& geometry) {
  const bool points = geometry.pointer_heads > 0;
  check_presence(arguments, "embeddings", inputs.embeddings.has_value(), geometry.tail || geometry.salient || points,
                 "with tail, with salient or with a pointer");
  check_presence(arguments, "idf", inputs.idf.has_value(), points, "with a pointer");

  const ScalarType type = inputs.features.scalar_type();
  if (inputs.embeddings) {
    arguments.dtype("embeddings", *inputs.embeddings, type, " as features is");
    arguments.rows("embeddings", *inputs.embeddings, {"B", "T", "D"});
  }
  if (inputs.idf) {
    arguments.floating("idf", *inputs.idf);
    arguments.shape("idf", *inputs.idf, {"B", "T"});
  }
}

// The forward pass, in the order in which the network is defined: source, slots, layers, rows.
class Forward {
 public:
  Forward(const EncodeInputs& inputs, const EncodeWeights& weights, const Geometry& geometry,
          const EncodeKernels& kernels)
      : inputs_(inputs),
        weights_(weights),
        geometry_(geometry),
        kernels_(kernels),
        type_(inputs.features.scalar_type()),
        blocks_(inputs.features.size(0)),
        tokens_(inputs.features.size(1)),
        width_(weights.fc.size(0)),
        h_(make({blocks_ * geometry.slots.count(), width_}, ScalarType::Float)) {}

  Tensor run() {
    read_source();
    keep_tokens();
    make_rotations();
    start();
    for (int64_t layer = 0; layer < geometry_.layers; ++layer) {
      const bool last = layer + 1 == geometry_.layers;
      attend(weights_.layers[layer], last);
      if (geometry_.summary_conditioned && !last) attend_summary(weights_.summary[layer]);
      feed_forward(weights_.layers[layer]);
    }
    return make_rows();
  }

 private:
  int64_t slots() const { return geometry_.slots.count(); }

  Tensor make(std::vector<int64_t> sizes, ScalarType type) const {
    return empty(sizes, type, std::nullopt, inputs_.features.device());
  }

  Tensor project(const Tensor& rows, const Tensor& weight) const { return kernels_.project(rows, weight); }

  // [blocks * K, heads * head_dim] seen as [blocks, K, heads, head_dim]
  static Tensor split_heads(const Tensor& projected, int64_t blocks, int64_t heads) {
    return view(projected, {blocks, blocks ? projected.size(0) / blocks : 0, heads, projected.size(1) / heads});
  }

  Tensor normed(const Tensor& rows, const Tensor& weight) const {
    Tensor out = make({rows.size(0), rows.size(1)}, type_);
    kernels_.rms_norm(rows, &weight, nullptr, geometry_.eps, out);
    return out;
  }

  void read_source() {
    const Tensor features = torch::stable::reshape(inputs_.features, {blocks_ * tokens_, inputs_.features.size(2)});
    source_ = kernels_.project_source(features, weights_.fc, weights_.hidden_norm, geometry_.eps);
  }

  // The tokens that rows start from, where there is a base.
  void keep_tokens() {
    if (!weights_.base_gate) return;
    kept_ = make({blocks_, slots()}, ScalarType::Long);
    if (weights_.salience) {
      kernels_.keep_best(mix_channels(*weights_.salience), weights_.salience->score, inputs_.lengths, *kept_);
    } else {
      kernels_.keep_last(inputs_.lengths, *kept_);
    }
  }

  // [B*T, C] float32: the channels of each token and its neighbours, mixed with each other.
  Tensor mix_channels(const SalienceWeights& weights) const {
    const Tensor embeddings = torch::stable::reshape(*inputs_.embeddings, {blocks_ * tokens_, width_});
    const Tensor near = make({blocks_ * tokens_, weights.source.size(0)}, ScalarType::Float);
    kernels_.mix_neighbours(project(source_, weights.source), project(embeddings, weights.lexical), weights_.output_rms,
                            weights.taps, inputs_.lengths, near);
    return project(near, weights.mix);
  }

  // The kept tokens where the slots sit at them; null where each has its own place.
  const Tensor* places() const { return weights_.salience ? &*kept_ : nullptr; }

  void make_rotations() {
    const int64_t rotated = places() ? blocks_ * slots() : slots();
    Tensor rotations = make({tokens_ + rotated, geometry_.head_dim}, ScalarType::Float);
    kernels_.rotations(geometry_.slots, places(), geometry_.theta, rotations);
    token_rotations_ = torch::stable::narrow(rotations, 0, 0, tokens_);
    slot_rotations_ = torch::stable::narrow(rotations, 0, tokens_, rotated);
  }

  void start() {
    kernels_.start(weights_, inputs_.input_depths, slots(), h_);
    if (!places()) return;
    const Tensor source = view(source_, {blocks_, tokens_, width_});
    kernels_.add_kept(source, *kept_, nullptr, view(h_, {blocks_, slots(), width_}));
  }

  Tensor queries(const Tensor& x, const AttentionWeights& weights, const Tensor* rotations) const {
    Tensor heads = split_heads(project(x, weights.q), blocks_, geometry_.heads);
    kernels_.norm_heads(heads, weights.q_norm, geometry_.eps, rotations, nullptr);
    return heads;
  }

  Tensor keys(const Tensor& x, const AttentionWeights& weights, int64_t blocks, const Tensor* rotations,
              const Tensor* lengths) const {
    Tensor heads = split_heads(project(x, weights.k), blocks, geometry_.kv_heads);
    kernels_.norm_heads(heads, weights.k_norm, geometry_.eps, rotations, lengths);
    return heads;
  }

  Tensor values(const Tensor& x, const AttentionWeights& weights, int64_t blocks) const {
    return split_heads(project(x, weights.v), blocks, geometry_.kv_heads);
  }

  // h += [tanh(gate) *] o_proj(attention)
  void add_attention(SlotAttention& attention, const AttentionWeights& weights, const Tensor* gate) {
    const Tensor attended = make({h_.size(0), geometry_.heads * geometry_.head_dim}, type_);
    attention.out = split_heads(attended, blocks_, geometry_.heads);
    kernels_.attend(attention);
    kernels_.add(h_, project(attended, weights.o), gate);
  }

  void attend(const LayerWeights& layer, bool last) {
    const AttentionWeights& weights = layer.attention;
    const Tensor x = normed(h_, layer.input_norm);
    SlotAttention attention;
    attention.queries = queries(x, weights, &slot_rotations_);
    attention.slot_keys = keys(x, weights, blocks_, &slot_rotations_, nullptr);
    attention.slot_values = values(x, weights, blocks_);
    attention.slots = geometry_.slots;
    if (last) {
      attention.slots.window = kWholeBlock;
    } else {
      attention.source_keys = keys(source_, weights, blocks_, &token_rotations_, &inputs_.lengths);
      attention.source_values = values(source_, weights, blocks_);
      attention.lengths = inputs_.lengths;
    }
    add_attention(attention, weights, nullptr);
  }

  void attend_summary(const SummaryWeights& summary) {
    const AttentionWeights& weights = summary.attention;
    const Tensor& states = *inputs_.summary;
    const int64_t summaries = states.dim() == 3 ? blocks_ : 1, rows = states.size(states.dim() - 2);
    const Tensor x = normed(h_, summary.query_norm);
    const Tensor given = normed(torch::stable::reshape(states, {summaries * rows, width_}), summary.summary_norm);
    SlotAttention attention;
    attention.queries = queries(x, weights, nullptr);
    attention.source_keys = keys(given, weights, summaries, nullptr, nullptr);
    attention.source_values = values(given, weights, summaries);
    attention.lengths = inputs_.summary_lengths;
    attention.slots = geometry_.slots;
    attention.slots.window = kWholeBlock;
    add_attention(attention, weights, &summary.gate);
  }

  void feed_forward(const LayerWeights& layer) {
    const Tensor y = normed(h_, layer.post_attention_norm);
    const Tensor gate = project(y, layer.gate);
    kernels_.swiglu(gate, project(y, layer.up));
    kernels_.add(h_, project(gate, layer.down), nullptr);
  }

  Tensor make_rows() {
    const bool plain = !weights_.base_gate && !weights_.pointer;
    const Tensor rows = make({blocks_, slots(), width_}, plain ? type_ : ScalarType::Float);
    const Tensor flat = view(rows, {h_.size(0), width_});
    kernels_.rms_norm(h_, &weights_.norm, &weights_.output_rms, geometry_.eps, flat);
    if (plain) return rows;

    if (weights_.base_gate) kernels_.add_kept(*inputs_.embeddings, *kept_, &*weights_.base_gate, rows);
    if (weights_.pointer) add_pointer(*weights_.pointer, flat);
    const Tensor out = make({blocks_, slots(), width_}, type_);
    kernels_.rms_norm(flat, nullptr, &weights_.output_rms, geometry_.eps, view(out, {h_.size(0), width_}));
    return out;
  }

  void add_pointer(const PointerWeights& weights, const Tensor& rows) {
    const int64_t heads = geometry_.pointer_heads;
    const Tensor queries = split_heads(project(normed(h_, weights_.norm), weights.q), blocks_, heads);
    const Tensor keys = split_heads(project(source_, weights.k), blocks_, heads);
    Tensor copied = make({blocks_, slots(), heads, width_}, type_);
    kernels_.point(queries, keys, inputs_, weights, geometry_.slots, places(), copied);
    Tensor by_head = view(copied, {h_.size(0), heads, width_});
    Tensor value = weights.value;
    for (int64_t head = 0; head < heads; ++head) {
      const Tensor addends = project(torch::stable::select(by_head, 1, head), torch::stable::select(value, 0, head));
      kernels_.add(rows, addends, nullptr);
    }
  }

  const EncodeInputs& inputs_;
  const EncodeWeights& weights_;
  const Geometry& geometry_;
  const EncodeKernels& kernels_;
  const ScalarType type_;
  const int64_t blocks_, tokens_, width_;
  Tensor h_;  // [B*n, D] float32
  Tensor source_, token_rotations_, slot_rotations_;
  std::optional<Tensor> kept_;  // [B, n] int64
};

}  // namespace

Tensor EncodeKernels::project_source(const Tensor& features, const Tensor& fc, const Tensor& norm, double eps) const {
  const Tensor source = project(features, fc);
  rms_norm(source, &norm, nullptr, eps, source);
  return source;
}

Tensor EncodeKernels::project(const Tensor& rows, const Tensor& weight) const {
  Tensor columns = weight;
  return torch::stable::matmul(rows, torch::stable::transpose(columns, 0, 1));
}

void check_slots(Arguments& arguments, const Slots& slots) {
  arguments.at_least("block", slots.block, 1);
  arguments.at_least("ratio", slots.ratio, 1);
  arguments.in_range("window", slots.window, 1, kWholeBlock);
  arguments.set("n", slots.count());
}

EncodeWeights check_encode(Arguments& arguments, const EncodeInputs& inputs, const std::vector<Tensor>& weights,
                           const Geometry& geometry) {
  check_geometry(arguments, geometry);
  arguments.floating("features", inputs.features);
  arguments.rows("features", inputs.features, {"B", "T", "L*D"});
  if (arguments["T"] > geometry.slots.block)
    arguments.fail("features [B, T, L*D] holds T = ", arguments["T"],
                   " source tokens, expected at most block = ", geometry.slots.block);
  arguments.indices("lengths", inputs.lengths, {"B"});
  arguments.indices("input_depths", inputs.input_depths, {"B"});
  WeightReader reader(arguments, weights, inputs.features.scalar_type());
  EncodeWeights named = read_weights(arguments, reader, geometry);
  check_summary(arguments, inputs, geometry);
  check_optional_inputs(arguments, inputs, geometry);
  return named;
}

Tensor encode(const EncodeInputs& inputs, const EncodeWeights& weights, const Geometry& geometry,
              const EncodeKernels& kernels) {
  return Forward(inputs, weights, geometry, kernels).run();
}

}  // namespace remory

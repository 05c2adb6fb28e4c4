#include "op_checks.h"

#include "encode.h"

namespace remory {

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

void check_inject(Arguments& arguments, const Tensor& embeddings, const Tensor& rows, const Tensor& positions) {
  arguments.floating("embeddings", embeddings);
  arguments.rows("embeddings", embeddings, {"T", "D"});
  arguments.floating("rows", rows);
  arguments.rows("rows", rows, {"R", "D"});
  arguments.indices("positions", positions, {"R"});
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

void check_cosine_topk(Arguments& arguments, const Tensor& queries, const Tensor& vectors, int64_t k, int64_t most_k,
                       const std::optional<Tensor>& mask) {
  const auto check_rows = [&](const char* name, const Tensor& tensor, Arguments::Pattern pattern) {
    const ScalarType type = tensor.scalar_type();
    if (type != ScalarType::Float && type != ScalarType::BFloat16 && type != ScalarType::Half)
      arguments.fail(name, " must be float32, bfloat16 or float16, got ", name_of(type));
    arguments.rows(name, tensor, pattern);
  };
  check_rows("queries", queries, {"Q", "D"});
  const int64_t width = arguments["D"];
  // Said before N is bound: it is right, whatever it is.
  if (vectors.dim() == 2 && vectors.size(1) != width)
    arguments.fail("vectors must be [N, D] = [N, ", width, "], got ", in_brackets(vectors.sizes()),
                   ": dimension 1 (D) is ", vectors.size(1), ", expected ", width);
  check_rows("vectors", vectors, {"N", "D"});
  if (mask) {
    const ScalarType type = mask->scalar_type();
    if (type != ScalarType::Bool && type != ScalarType::Byte)
      arguments.fail("mask must be bool, got ", name_of(type), "; bits are uint8");
    const bool bits = type == ScalarType::Byte;
    if (bits) arguments.set("ceil(N/8)", (arguments["N"] + 7) / 8);
    arguments.shape("mask", *mask, {bits ? "ceil(N/8)" : "N"});
  }
  arguments.at_least("k", k, 1);
  arguments.in_range("k", k, 1, most_k);
}

}  // namespace remory

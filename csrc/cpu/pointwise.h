// The loops between the matrix products of the memory network. All compute in float32 on rows [begin, end).
#pragma once

#include "../slots.h"
#include "element.h"

namespace remory::cpu {

// out[r] = in[r] / sqrt(mean(in[r]^2) + eps) * weight * scale; a weight that is null counts as ones. May be in place.
struct RmsNorm {
  ConstMatrix in;
  Matrix out;
  const float* weight;  // [width] or null
  float scale, eps;
  int64_t width;
};
void rms_norm(const RmsNorm& norm, int64_t begin, int64_t end);

// Cosines, then sines [head_dim / 2 each] of one RoPE position: the angles position * theta^(-2 i / head_dim).
void rotation(int64_t position, double theta, int64_t head_dim, float* cosines_and_sines);

// Projected queries or keys [blocks * per_block, heads * head_dim], normalised per head and rotated in place.
struct HeadNorm {
  Matrix projected;
  const float* weight;     // [head_dim]
  const float* rotations;  // [per_block, head_dim] as `rotation` writes them, or null: not rotated
  const int64_t* lengths;  // rows that count in each block, or null: all
  int64_t per_block, heads, head_dim;
  float eps;
};
void norm_heads(const HeadNorm& norm, int64_t begin, int64_t end);

// gate = silu(gate) * up
void swiglu(const Matrix& gate, const ConstMatrix& up, int64_t width, int64_t begin, int64_t end);

// sums += scale * addends; `sums` hold float32
void add_scaled(const Matrix& sums, const ConstMatrix& addends, float scale, int64_t width, int64_t begin, int64_t end);

// rows[b, i] = embeddings[b, max(lengths[b] - slots + i, 0)] + gate * rows[b, i]; `rows` hold float32.
struct Tail {
  ConstMatrix embeddings;  // the rows of one block
  int64_t block_stride;    // elements from one block's embeddings to the next's
  const int64_t* lengths;
  int64_t slots;
  float gate;
  Matrix rows;  // [blocks * slots, width]
  int64_t width;
};
void add_tail(const Tail& tail, int64_t begin, int64_t end);

}  // namespace remory::cpu

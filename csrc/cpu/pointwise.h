// The loops between the matrix products of the memory network. All compute in float32 on rows [begin, end).
#pragma once

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
  const float* rotations;  // [rotated, head_dim] as `rotation` writes them, or null: not rotated
  const int64_t* lengths;  // rows that count in each block, or null: all
  int64_t rotated;         // per_block when all blocks share the rotations, else blocks * per_block
  int64_t per_block, heads, head_dim;
  float eps;
};
void norm_heads(const HeadNorm& norm, int64_t begin, int64_t end);

// gate = silu(gate) * up
void swiglu(const Matrix& gate, const ConstMatrix& up, int64_t width, int64_t begin, int64_t end);

// sums += scale * addends; `sums` hold float32
void add_scaled(const Matrix& sums, const ConstMatrix& addends, float scale, int64_t width, int64_t begin, int64_t end);

// kept[b, i] = max(lengths[b] - slots + i, 0): the last tokens of each block, the first one repeated in front.
void keep_last(const int64_t* lengths, int64_t slots, int64_t* kept, int64_t begin, int64_t end);

// rows[b, i] = tokens[b, indices[b, i]] + gate * rows[b, i]; `rows` hold float32.
struct Kept {
  ConstMatrix tokens;      // the rows of one block
  int64_t block_stride;    // elements from one block's tokens to the next's
  const int64_t* indices;  // [blocks, slots]
  int64_t slots;
  float gate;
  Matrix rows;  // [blocks * slots, width]
  int64_t width;
};
void add_kept(const Kept& kept, int64_t begin, int64_t end);

}  // namespace remory::cpu

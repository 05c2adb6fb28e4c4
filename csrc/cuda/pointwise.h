// The loops between the matrix products of the memory network. All compute in float32. What is null counts as ones.
// Launchers return a cudaError_t; nothing is launched for no rows.
#pragma once

#include "../slots.h"
#include "launch.h"

namespace remory::REMORY_DEVICE {

// Every value of `values` [count] must lie in [low, high]; the kernel traps on any other, and so does what follows it.
struct Allowed {
  const int64_t* values;  // or null: nothing to check
  int64_t count, low, high;
};
int check_allowed(const Allowed (&lists)[3], void* stream);

// out[r] = in[r] / sqrt(mean(in[r]^2) + eps) * weight * scale. May be in place.
struct RmsNorm {
  ConstMatrix in;
  Matrix out;
  const float* weight;  // [width] or null
  const float* scale;   // one number, or null
  float eps;
  int64_t rows, width;
};
int rms_norm(const RmsNorm& norm, void* stream);

// out[p] = cosines, then sines [head_dim / 2 each] of the angles position * theta^(-2 i / head_dim): of source token p,
// behind the `tokens` of them of the slots' positions, or of `kept` where it is not null.
struct Rotations {
  Slots slots;
  const int64_t* kept;
  int64_t tokens;
  double theta;
  float* out;  // [rows, head_dim]
  int64_t rows, head_dim;
};
int rotations(const Rotations& rotations, void* stream);

// Projected queries or keys [blocks * per_block, heads * head_dim], normalised per head and rotated in place; head_dim
// is even and at most 512.
struct HeadNorm {
  Matrix projected;
  const float* weight;     // [head_dim]
  const float* rotations;  // [rotated, head_dim], or null: not rotated
  const int64_t* lengths;  // rows that count in each block, or null: all; the others are left alone
  int64_t rotated;         // per_block when all blocks share the rotations, else blocks * per_block
  int64_t blocks, per_block, heads, head_dim;
  float eps;
};
int norm_heads(const HeadNorm& norm, void* stream);

// gate = silu(gate) * up
int swiglu(const Matrix& gate, const ConstMatrix& up, int64_t rows, int64_t width, void* stream);

// sums += tanh(gate) * addends; `sums` hold float32.
int add_gated(const Matrix& sums, const ConstMatrix& addends, const float* gate, int64_t rows, int64_t width,
              void* stream);

// states[r] = mask + table[depths[r / slots]]; a table that is null adds nothing.
struct Start {
  const float *mask, *table;
  const int64_t* depths;
  float* states;  // [rows, width]
  int64_t slots, rows, width;
};
int start(const Start& start, void* stream);

// kept[b, i] = max(lengths[b] - slots + i, 0): the last tokens of each block, the first one repeated in front.
int keep_last(const int64_t* lengths, int64_t blocks, int64_t slots, int64_t* kept, void* stream);

// rows[b, i] = tokens[b, indices[b, i]] + gate * rows[b, i]; `rows` hold float32.
struct Kept {
  ConstMatrix tokens;      // the rows of one block
  int64_t block_stride;    // elements from one block's tokens to the next's
  const int64_t* indices;  // [blocks, slots]
  const float* gate;       // one number, or null
  Matrix rows;             // [blocks * slots, width]
  int64_t blocks, slots, width;
};
int add_kept(const Kept& kept, void* stream);

}  // namespace remory::REMORY_DEVICE

#pragma once

#include "launch.h"

namespace remory::REMORY_DEVICE {

// embeddings[positions[i]] = rows[i] for i in [0, count), `width` columns of float32 or bfloat16, cast. positions int64
// on the device: -1 is skipped, another one outside [0, tokens) traps. If a position occurs twice, which of its rows
// stays is left to chance: finding out would take another pass over all positions.
int inject(const Matrix& embeddings, const ConstMatrix& rows, const int64_t* positions, int64_t tokens, int64_t width,
           int64_t count, void* stream);

}  // namespace remory::REMORY_DEVICE

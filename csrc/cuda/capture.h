#pragma once

#include "launch.h"

namespace remory::REMORY_DEVICE {

// out[i] = hidden[rows[i]] + residual[rows[i]] for i in [0, count), `width` columns, summed in float32. rows int64 on
// the device; one outside [0, tokens) traps. `hidden` and `residual` are of one element type, float32 or bfloat16 as
// out is; a residual without data is left out.
int capture(const ConstMatrix& hidden, const ConstMatrix& residual, const int64_t* rows, const Matrix& out,
            int64_t tokens, int64_t width, int64_t count, void* stream);

}  // namespace remory::REMORY_DEVICE

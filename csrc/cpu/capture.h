#pragma once

#include "element.h"

namespace remory::cpu {

// out[i] = hidden[rows[i]] + residual[rows[i]] for i in [begin, end), `width` columns, summed in float32.
// `hidden` and `residual` are of one element type; a residual without data is left out.
void capture(const ConstMatrix& hidden, const ConstMatrix& residual, const int64_t* rows, const Matrix& out,
             int64_t width, int64_t begin, int64_t end);

}  // namespace remory::cpu

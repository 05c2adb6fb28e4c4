#pragma once

#include "element.h"

namespace remory::cpu {

// out[i] = hidden[rows[i]] + residual[rows[i]], `width` columns, summed in float32. `hidden` and `residual` are of one
// element type; a residual without data is left out.
struct Capture {
  ConstMatrix hidden, residual;
  const int64_t* rows;
  Matrix out;
  int64_t count, width;
};
// Captures the rows [begin, end).
void capture(const Capture& capture, int64_t begin, int64_t end);

}  // namespace remory::cpu

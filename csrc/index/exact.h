// What decides: lengths and dot products in float64, where neither a square nor a sum of float32 elements overflows.
#pragma once

#include <cstdint>

namespace remory::index {

// sqrt(Σ x²). Not finite exactly where an element is not, and zero exactly for a row of zeros.
double norm(const float* row, int64_t width);

// products[q] = row · queries[q], for queries [count, width] float64. The rounding depends on the row's and the query's
// elements and on the query's number, never on where the row lies: equal rows have equal products.
void dots(const float* row, const double* queries, int64_t count, int64_t width, double* products);

}  // namespace remory::index

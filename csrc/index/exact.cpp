#include "exact.h"

#include <cmath>
#include <cstring>

#include "../cpu/element.h"

namespace remory::index {
namespace {

constexpr int kLanes = 8, kChains = 4;
constexpr int64_t kStep = kLanes * kChains;

typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef double Doubles __attribute__((vector_size(kLanes * sizeof(double))));

template <class Vector, class Element>
REMORY_INLINE void load(const Element* data, Vector& vector) {
  std::memcpy(&vector, data, sizeof(vector));
}

REMORY_INLINE void load_widened(const float* data, Doubles& vector) {
  Floats narrow;
  load(data, narrow);
  vector = __builtin_convertvector(narrow, Doubles);
}

REMORY_INLINE double sum(const Doubles* chains) {
  const Doubles all = (chains[0] + chains[1]) + (chains[2] + chains[3]);
  return ((all[0] + all[4]) + (all[1] + all[5])) + ((all[2] + all[6]) + (all[3] + all[7]));
}

template <int Queries>
REMORY_INLINE void dot_block(const float* row, const double* queries, int64_t width, double* products) {
  Doubles sums[Queries][kChains] = {};
  int64_t d = 0;
  for (; d + kStep <= width; d += kStep) {
    for (int c = 0; c < kChains; ++c) {
      Doubles elements;
      load_widened(row + d + c * kLanes, elements);
      for (int q = 0; q < Queries; ++q) {
        Doubles query;
        load(queries + q * width + d + c * kLanes, query);
        sums[q][c] += elements * query;
      }
    }
  }
  for (int q = 0; q < Queries; ++q) {
    double rest = 0;
    for (int64_t r = d; r < width; ++r) rest += row[r] * queries[q * width + r];
    products[q] = sum(sums[q]) + rest;
  }
}

}  // namespace

REMORY_CLONES
double norm(const float* row, int64_t width) {
  Doubles sums[kChains] = {};
  int64_t d = 0;
  for (; d + kStep <= width; d += kStep) {
    for (int c = 0; c < kChains; ++c) {
      Doubles elements;
      load_widened(row + d + c * kLanes, elements);
      sums[c] += elements * elements;
    }
  }
  double rest = 0;
  for (; d < width; ++d) rest += static_cast<double>(row[d]) * row[d];
  return std::sqrt(sum(sums) + rest);
}

REMORY_CLONES
void dots(const float* row, const double* queries, int64_t count, int64_t width, double* products) {
  int64_t q = 0;
  for (; q + 4 <= count; q += 4) dot_block<4>(row, queries + q * width, width, products + q);
  for (; q < count; ++q) dot_block<1>(row, queries + q * width, width, products + q);
}

}  // namespace remory::index

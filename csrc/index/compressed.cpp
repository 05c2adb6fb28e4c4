#include "compressed.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "../cpu/element.h"
#include "multiply.h"

namespace remory::index {
namespace {

constexpr double kLargestCode = 127;
constexpr double kPartRatio = 2 * kLargestCode;

// To the nearest integer, for values far below 2^51: the sum's last bit is worth 1.
REMORY_INLINE double nearest(double value) {
  constexpr double shift = 0x1.8p52;
  return (value + shift) - shift;
}

float rounded_up(double value) {
  return std::nextafter(static_cast<float>(value), std::numeric_limits<float>::infinity());
}

template <class Element>
REMORY_INLINE Element largest_magnitude(const Element* values, int64_t width) {
  Element largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t d = 0; d < width; ++d) {
    const Element magnitude = std::fabs(values[d]);
    largest = largest < magnitude ? magnitude : largest;
  }
  return largest;
}

// value(d) = scale * codes[d] + a residual, for values of at most kLargestCode * scale. Returns the residual's length.
template <class Value>
REMORY_INLINE double encode(const Value& value, int64_t width, double scale, int32_t* codes) {
  const double inverse = 1 / scale;
  double squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t d = 0; d < width; ++d) {
    const double code = nearest(value(d) * inverse), residual = value(d) - scale * code;
    squares += residual * residual;
    codes[d] = static_cast<int32_t>(code);
  }
  return std::sqrt(squares);
}

// Codes are found as wide as float64 has them, and narrowed after: compilers make neither step fast together with the
// other.
REMORY_INLINE void narrow(const int32_t* codes, int64_t width, int8_t* narrowed) {
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) narrowed[d] = static_cast<int8_t>(codes[d]);
}

Multiply best_instructions() {
#ifdef REMORY_X86
  if (can_run(multiply_avx512_vnni)) return multiply_avx512_vnni;
  if (can_run(multiply_avx2)) return multiply_avx2;
#endif
  return multiply_portable;
}

std::atomic<Multiply>& chosen() {
  static std::atomic<Multiply> multiply{best_instructions()};
  return multiply;
}

struct Named {
  const char* name;
  Multiply multiply;
};

constexpr Named kInstructions[] = {
#ifdef REMORY_X86
    {"avx512_vnni", multiply_avx512_vnni},
    {"avx2", multiply_avx2},
#endif
    {"portable", multiply_portable},
};

}  // namespace

REMORY_CLONES
void compress(const float* rows, const double* norms, int64_t width, uint8_t* codes, float* scales, float* errors) {
  std::vector<int32_t> wide(width);
  std::vector<int8_t> row_codes(quads(width) * kQuad);
  for (int64_t lane = 0; lane < kGroup; ++lane) {
    const float* row = rows + lane * width;
    const double inverse = 1 / norms[lane];
    const auto unit = [=](int64_t d) __attribute__((always_inline)) { return row[d] * inverse; };
    scales[lane] = rounded_up(largest_magnitude(row, width) * inverse / kLargestCode);
    errors[lane] = rounded_up(encode(unit, width, scales[lane], wide.data()));
    narrow(wide.data(), width, row_codes.data());
    for (int64_t quad = 0; quad < quads(width); ++quad) {
      uint32_t four;
      std::memcpy(&four, row_codes.data() + quad * kQuad, sizeof(four));
      four ^= 0x80808080;  // adds 128 to each
      std::memcpy(codes + (quad * kGroup + lane) * kQuad, &four, sizeof(four));
    }
  }
}

CompressedQueries::CompressedQueries(const double* directions, int64_t count, int64_t width)
    : width_(width), parts_(2 * count * quads(width) * kQuad), constants_(count) {
  const int64_t stride = quads(width) * kQuad;
  std::vector<int32_t> wide(width);
  for (int64_t q = 0; q < count; ++q) {
    const double* direction = directions + q * width;
    int8_t* high = parts_.data() + 2 * q * stride;
    int8_t* low = high + stride;
    const float unit = rounded_up(largest_magnitude(direction, width) / (kLargestCode * kPartRatio));
    const double high_unit = unit * kPartRatio;
    const auto rest = [=](int64_t d) { return direction[d] - high_unit * high[d]; };
    const double high_rest = encode([=](int64_t d) { return direction[d]; }, width, high_unit, wide.data());
    narrow(wide.data(), width, high);
    const double low_rest = encode(rest, width, unit, wide.data());
    narrow(wide.data(), width, low);

    // |t 254 h| <= 1 + high_rest, and |t l| <= high_rest + low_rest. The estimate is rounded six times at most.
    const double lengths = 1 + 2 * high_rest + low_rest;
    const double error = low_rest + 8 * 0x1p-24 * lengths;
    Constants& constants = constants_[q];
    constants.unit = unit;
    constants.relative = rounded_up((1 + error) * (1 + 0x1p-20));
    constants.absolute = rounded_up(error * (1 + 0x1p-20)) + kScoreRounding;
    constants.high_sum = constants.low_sum = 0;
    for (int64_t d = 0; d < width; ++d) {
      constants.high_sum += 128 * high[d];
      constants.low_sum += 128 * low[d];
    }
  }
}

void CompressedQueries::multiply(const uint8_t* codes, int64_t groups, int32_t* products) const {
  chosen().load(std::memory_order_relaxed)(codes, groups, quads(width_), parts_.data(), 2 * count(), products);
}

REMORY_CLONES
uint32_t CompressedQueries::bound(int64_t query, const int32_t* products, const float* scales, const float* errors,
                                  float floor, float* lower, float* upper) const {
  const Constants constants = constants_[query];
  const int32_t *high = products + 2 * query * kGroup, *low = high + kGroup;
  uint32_t reaching = 0;
  for (int64_t lane = 0; lane < kGroup; ++lane) {
    const float product = static_cast<float>(kPartRatio) * static_cast<float>(high[lane] - constants.high_sum) +
                          static_cast<float>(low[lane] - constants.low_sum);
    const float estimate = product * scales[lane] * constants.unit;
    const float error = errors[lane] * constants.relative + constants.absolute;
    lower[lane] = estimate - error;
    upper[lane] = estimate + error;
  }
  for (int64_t lane = 0; lane < kGroup; ++lane) reaching |= static_cast<uint32_t>(upper[lane] >= floor) << lane;
  return reaching;
}

std::string instructions() {
  const Multiply multiply = chosen();
  for (const Named& named : kInstructions) {
    if (named.multiply == multiply) return named.name;
  }
  return "";
}

bool choose_instructions(const std::string& name) {
  for (const Named& named : kInstructions) {
    if (named.name != name || !can_run(named.multiply)) continue;
    chosen() = named.multiply;
    return true;
  }
  return false;
}

}  // namespace remory::index

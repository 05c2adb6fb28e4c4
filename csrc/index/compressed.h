// A quarter of the bytes of float32 rows, with a bound on what that costs: int8 codes of unit vectors.
//
// A row's unit vector is u = s c + e with codes c of -127 to 127, a scale s, and a residual e of known length. A
// query's is q = t (254 h + l) + d likewise, in two int8 parts, so that its own residual hardly matters. Then by
// Cauchy-Schwarz
//   |u·q - s t (254 c·h + c·l)| <= |e| + (1 + |e|) |d|,
// and the integer dot products are exact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace remory::index {

// Rows are compressed sixteen at a time and interleaved in fours of elements, [width / 4][16 rows][4]: an instruction
// that multiplies and adds fours of bytes then leaves the sums of sixteen rows in sixteen lanes. Codes are stored
// with 128 added, because such instructions want one side unsigned.
constexpr int64_t kGroup = 16;
constexpr int64_t kQuad = 4;

// Up to this width no sum of products leaves int32.
constexpr int64_t kLargestCompressedWidth = 32768;

inline int64_t quads(int64_t width) { return (width + kQuad - 1) / kQuad; }
inline int64_t group_bytes(int64_t width) { return quads(width) * kQuad * kGroup; }

// Compresses rows [16, width] of the lengths `norms`: codes, scales s and lengths of residuals |e|, rounded up.
void compress(const float* rows, const double* norms, int64_t width, uint8_t* codes, float* scales, float* errors);

// Queries [count, width], of length 1 in float64, as parts: high, low, high, low…
class CompressedQueries {
 public:
  CompressedQueries(const double* directions, int64_t count, int64_t width);

  int64_t count() const { return static_cast<int64_t>(constants_.size()); }

  // Integer dot products of `groups` groups with all parts, for `bound`: [groups, 2 * count, 16].
  void multiply(const uint8_t* codes, int64_t groups, int32_t* products) const;

  // Bounds on the scores of a group's rows with one query, after rounding to float32 too: lower[16], upper[16].
  // Returns a bit for each row whose upper bound reaches `floor`.
  uint32_t bound(int64_t query, const int32_t* products, const float* scales, const float* errors, float floor,
                 float* lower, float* upper) const;

 private:
  struct Constants {
    float unit;                 // t
    int32_t high_sum, low_sum;  // what 128 added to every code adds to the products
    float relative, absolute;   // the error is at most relative * |e| + absolute
  };

  int64_t width_;
  std::vector<int8_t> parts_;
  std::vector<Constants> constants_;
};

// What float32 rounding and float64 arithmetic can add to any score: two scores nearer than this may tie.
constexpr float kScoreRounding = 0x1p-21f;

// The instructions that `multiply` uses: "avx512_vnni", "avx2" or "portable", the best that the processor has until
// another is chosen. Choosing one that it lacks returns false and changes nothing.
std::string instructions();
bool choose_instructions(const std::string& name);

}  // namespace remory::index

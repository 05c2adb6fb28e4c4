#include "multiply.h"

#include <cstring>

#ifdef REMORY_X86
#include <immintrin.h>
#endif

#include "compressed.h"

namespace remory::index {

void multiply_portable(const uint8_t* codes, int64_t groups, int64_t quads, const int8_t* parts, int64_t count,
                       int32_t* products) {
  for (int64_t group = 0; group < groups; ++group, codes += quads * kQuad * kGroup) {
    for (int64_t part = 0; part < count; ++part, products += kGroup) {
      int32_t sums[kGroup] = {};
      for (int64_t quad = 0; quad < quads; ++quad) {
        const uint8_t* rows = codes + quad * kQuad * kGroup;
        const int8_t* query = parts + (part * quads + quad) * kQuad;
        for (int64_t lane = 0; lane < kGroup; ++lane) {
          for (int64_t d = 0; d < kQuad; ++d) sums[lane] += rows[lane * kQuad + d] * query[d];
        }
      }
      std::memcpy(products, sums, sizeof(sums));
    }
  }
}

#ifdef REMORY_X86

namespace {

#define REMORY_AVX2 __attribute__((target("avx2")))
#define REMORY_VNNI __attribute__((target("avx512f,avx512bw,avx512vnni")))

int32_t four_bytes(const int8_t* data) {
  int32_t four;
  std::memcpy(&four, data, sizeof(four));
  return four;
}

// Two parts with one group. Bytes become 16-bit numbers, whose products are added in pairs into 32 bits: the
// instruction that multiplies bytes would cut the sums off at 16.
REMORY_AVX2 void multiply_pair(const uint8_t* codes, int64_t quads, const int8_t* parts, int32_t* products) {
  __m256i sums[2][4];
  for (auto& part : sums) {
    for (__m256i& rows : part) rows = _mm256_setzero_si256();
  }
  for (int64_t quad = 0; quad < quads; ++quad) {
    const int8_t* query = parts + quad * kQuad;
    const __m256i high = _mm256_cvtepi8_epi16(_mm_set1_epi32(four_bytes(query)));
    const __m256i low = _mm256_cvtepi8_epi16(_mm_set1_epi32(four_bytes(query + quads * kQuad)));
    for (int i = 0; i < 4; ++i) {
      const auto* four_rows = reinterpret_cast<const __m128i*>(codes + quad * kQuad * kGroup) + i;
      const __m256i rows = _mm256_cvtepu8_epi16(_mm_loadu_si128(four_rows));
      sums[0][i] = _mm256_add_epi32(sums[0][i], _mm256_madd_epi16(rows, high));
      sums[1][i] = _mm256_add_epi32(sums[1][i], _mm256_madd_epi16(rows, low));
    }
  }
  auto* out = reinterpret_cast<__m256i*>(products);
  for (const auto& part : sums) {
    for (int i = 0; i < 4; i += 2) {
      const __m256i mixed = _mm256_hadd_epi32(part[i], part[i + 1]);  // of rows 0 1 4 5 2 3 6 7
      _mm256_storeu_si256(out++, _mm256_permute4x64_epi64(mixed, _MM_SHUFFLE(3, 1, 2, 0)));
    }
  }
}

template <int Groups, int Parts>
REMORY_VNNI inline void multiply_tile(const uint8_t* codes, int64_t quads, const int8_t* parts, int64_t count,
                                      int32_t* products) {
  const int64_t group_bytes = quads * kQuad * kGroup;
  __m512i sums[Groups][Parts];
  for (auto& group : sums) {
    for (__m512i& part : group) part = _mm512_setzero_si512();
  }
  for (int64_t quad = 0; quad < quads; ++quad) {
    __m512i rows[Groups];
    for (int g = 0; g < Groups; ++g) rows[g] = _mm512_loadu_si512(codes + g * group_bytes + quad * kQuad * kGroup);
    for (int p = 0; p < Parts; ++p) {
      const __m512i query = _mm512_set1_epi32(four_bytes(parts + (p * quads + quad) * kQuad));
      for (int g = 0; g < Groups; ++g) sums[g][p] = _mm512_dpbusd_epi32(sums[g][p], rows[g], query);
    }
  }
  for (int g = 0; g < Groups; ++g) {
    for (int p = 0; p < Parts; ++p) _mm512_storeu_si512(products + (g * count + p) * kGroup, sums[g][p]);
  }
}

// Eight parts at a time keep the multipliers busy from one load of the rows; then two at a time.
template <int Groups>
REMORY_VNNI inline void multiply_groups(const uint8_t* codes, int64_t quads, const int8_t* parts, int64_t count,
                                        int32_t* products) {
  int64_t part = 0;
  for (; part + 8 <= count; part += 8) {
    multiply_tile<Groups, 8>(codes, quads, parts + part * quads * kQuad, count, products + part * kGroup);
  }
  for (; part < count; part += 2) {
    multiply_tile<Groups, 2>(codes, quads, parts + part * quads * kQuad, count, products + part * kGroup);
  }
}

}  // namespace

REMORY_AVX2 void multiply_avx2(const uint8_t* codes, int64_t groups, int64_t quads, const int8_t* parts, int64_t count,
                               int32_t* products) {
  for (int64_t group = 0; group < groups; ++group, codes += quads * kQuad * kGroup) {
    for (int64_t part = 0; part < count; part += 2, products += 2 * kGroup) {
      multiply_pair(codes, quads, parts + part * quads * kQuad, products);
    }
  }
}

REMORY_VNNI void multiply_avx512_vnni(const uint8_t* codes, int64_t groups, int64_t quads, const int8_t* parts,
                                      int64_t count, int32_t* products) {
  const int64_t group_bytes = quads * kQuad * kGroup;
  int64_t group = 0;
  // One query is done as fast as memory is read, and memory is read fastest in one stream.
  for (; count > 2 && group + 2 <= groups; group += 2) {
    multiply_groups<2>(codes + group * group_bytes, quads, parts, count, products + group * count * kGroup);
  }
  for (; group < groups; ++group) {
    multiply_groups<1>(codes + group * group_bytes, quads, parts, count, products + group * count * kGroup);
  }
}

#endif

bool can_run(Multiply multiply) {
#ifdef REMORY_X86
  if (multiply == multiply_avx2) return __builtin_cpu_supports("avx2");
  if (multiply == multiply_avx512_vnni)
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni");
#endif
  return multiply == multiply_portable;
}

}  // namespace remory::index

// The integer dot products of compressed rows, once for each set of instructions.
#pragma once

#include <cstdint>

#if defined(__x86_64__) && defined(__GNUC__)
#define REMORY_X86
#endif

namespace remory::index {

// products [groups, parts, 16] = the groups' codes, [groups][quads][16][4] unsigned, times `parts` rows [parts][quads *
// 4]; the number of parts is even.
using Multiply = void (*)(const uint8_t* codes, int64_t groups, int64_t quads, const int8_t* parts, int64_t count,
                          int32_t* products);

void multiply_portable(const uint8_t* codes, int64_t groups, int64_t quads, const int8_t* parts, int64_t count,
                       int32_t* products);
#ifdef REMORY_X86
void multiply_avx2(const uint8_t* codes, int64_t groups, int64_t quads, const int8_t* parts, int64_t count,
                   int32_t* products);
void multiply_avx512_vnni(const uint8_t* codes, int64_t groups, int64_t quads, const int8_t* parts, int64_t count,
                          int32_t* products);
#endif

// Whether this processor has the instructions.
bool can_run(Multiply multiply);

}  // namespace remory::index

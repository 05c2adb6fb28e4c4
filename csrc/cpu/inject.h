#pragma once

#include "element.h"

namespace remory::cpu {

// embeddings[positions[i]] = rows[i], cast, `width` columns; a negative position is skipped.
struct Inject {
  Matrix embeddings;
  ConstMatrix rows;
  const int64_t* positions;
  int64_t count, width;
};
// Injects the rows [begin, end).
void inject(const Inject& inject, int64_t begin, int64_t end);

}  // namespace remory::cpu

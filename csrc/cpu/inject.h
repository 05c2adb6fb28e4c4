#pragma once

#include "element.h"

namespace remory::cpu {

// embeddings[positions[i]] = rows[i] for i in [begin, end), `width` columns; a negative position is skipped.
void inject(const Matrix& embeddings, const ConstMatrix& rows, const int64_t* positions, int64_t width, int64_t begin,
            int64_t end);

}  // namespace remory::cpu

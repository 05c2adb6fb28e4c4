// What hosts hand to launchers, and what launchers answer. Torch-free and free of CUDA's headers.
#pragma once

#include <cstdint>

// Kernels and launchers live in remory::REMORY_DEVICE, so that those of the emulation have names of their own.
#if defined(REMORY_SIMT)
#define REMORY_DEVICE simt
#else
#define REMORY_DEVICE cuda
#endif

namespace remory::REMORY_DEVICE {

enum class ElementType { float32, bfloat16, float16 };

// Rows of elements, each contiguous, `stride` elements apart: a matrix or a slice out of a wider one.
template <class Pointer>
struct BasicMatrix {
  Pointer data;
  ElementType type;
  int64_t stride;
};
using Matrix = BasicMatrix<void*>;
using ConstMatrix = BasicMatrix<const void*>;

// Launchers answer a cudaError_t: 0, or a number that has words.
const char* error_words(int error);

// Of the current device.
int multiprocessors();

}  // namespace remory::REMORY_DEVICE

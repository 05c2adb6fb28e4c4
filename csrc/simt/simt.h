// The face that kernels see. nvcc compiles them for a GPU; any other compiler, with REMORY_SIMT, compiles the very same
// source into code that runs on the CPU, for tests.
//
// The emulation (emulator.h) runs every CUDA thread as a fiber of its own. Each warp runs alone to its next
// __syncthreads before another one gets a turn, each lane alone to its next shuffle, vote or __syncwarp; blocks run one
// after another, or shared among a few OS threads. A seed orders blocks, warps and lanes. Seeds 2i and 2i+1 give
// reverse orders, so that running both shows any two accesses, that no barrier keeps apart, both ways round.
// It reports, as an exception with words and the source line:
//   a barrier or meeting that not all threads reach, or at different lines; threads that ended before it;
//   a shuffle that reads a lane outside its mask; a mask without the caller, or with lanes that do not exist;
//   launches that a GPU refuses: too many threads, blocks, or bytes of shared memory that nobody asked for;
//   REMORY_TRAP.
// Fresh shared memory holds poison, and is exactly as large as declared, so that with AddressSanitizer (`make
// test-asan`) an access beyond its end stops the program.
//
// Not to be seen here: inline PTX, waiting for another block, time, and races of blocks over global memory except by
// their order.
//
// Kernels and launchers live in namespace remory::REMORY_DEVICE and use, besides CUDA's own names:
//   REMORY_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...)   kernel in brackets if it has a comma
//   REMORY_SHARED(float[8][4], tile);                in place of `__shared__ float tile[8][4];`
//   REMORY_DYNAMIC_SHARED(float, scores);            float* scores: the launch's shared_bytes, 16-byte aligned
//   REMORY_ALLOW_SHARED(kernel, bytes)               before launches with more than 48 KiB of it
//   REMORY_TRAP("words")                             ends the launch
// A launcher ends with `return launch_result();`.
#pragma once

#include "../cuda/launch.h"

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#define REMORY_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  kernel<<<(grid), (block), (shared_bytes), static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__)
#define REMORY_SHARED(type, name) __shared__::remory::cuda::Itself<type> name
#define REMORY_DYNAMIC_SHARED(type, name)                 \
  extern __shared__ uint4 remory_dynamic_shared_memory[]; \
  type* const name = reinterpret_cast<type*>(remory_dynamic_shared_memory)
#define REMORY_ALLOW_SHARED(kernel, bytes) \
  static_cast<void>(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)))
#define REMORY_TRAP(words) __trap()

namespace remory::cuda {

template <class T>
using Itself = T;

inline int launch_result() { return static_cast<int>(cudaGetLastError()); }

}  // namespace remory::cuda

#elif defined(REMORY_SIMT)

#include "builtins.h"

#define REMORY_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  (static_cast<void>(stream), ::remory::emulation::launch(kernel, (grid), (block), (shared_bytes), __VA_ARGS__))
#define REMORY_SHARED(type, name)                           \
  static char remory_declaration_of_##name;                 \
  auto& name = *static_cast<::remory::simt::Itself<type>*>( \
      ::remory::emulation::current->block->static_memory(&remory_declaration_of_##name, sizeof(type)))
#define REMORY_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::remory::emulation::current->block->dynamic_memory())
#define REMORY_ALLOW_SHARED(kernel, bytes) \
  ::remory::emulation::allow_dynamic_bytes(reinterpret_cast<const void*>(kernel), bytes)
#define REMORY_TRAP(words) throw ::remory::emulation::Fault(words)

namespace remory::simt {

template <class T>
using Itself = T;

inline int launch_result() { return 0; }

}  // namespace remory::simt

#else
#error "Kernels are compiled by nvcc, or for the emulation with REMORY_SIMT"
#endif

#include "../simt/simt.h"
#include "launch.h"

namespace remory::REMORY_DEVICE {

#if defined(__CUDACC__)

const char* error_words(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }

int multiprocessors() {
  int device = 0, count = 1;
  if (cudaGetDevice(&device) == cudaSuccess)
    static_cast<void>(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
}

#else

const char* error_words(int) { return "no error of the emulation, which throws"; }

// Few, so that grids that stride over their work do so in small tests.
int multiprocessors() { return 2; }

#endif

}  // namespace remory::REMORY_DEVICE

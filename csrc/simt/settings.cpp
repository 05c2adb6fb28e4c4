// How the tests steer the emulation.
#include <torch/csrc/stable/library.h>

#include "emulator.h"

namespace remory::emulation {
namespace {

void configure(int64_t seed, int64_t os_threads) {
  settings().seed = static_cast<uint64_t>(seed);
  settings().os_threads = os_threads;
}

}  // namespace

STABLE_TORCH_LIBRARY_FRAGMENT(remory_simt, library) { library.def("configure(int seed, int os_threads=1) -> ()"); }

STABLE_TORCH_LIBRARY_IMPL(remory_simt, CompositeExplicitAutograd, library) {
  library.impl("configure", TORCH_BOX(&configure));
}

}  // namespace remory::emulation

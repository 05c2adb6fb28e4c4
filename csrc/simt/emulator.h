// Runs kernels on the CPU: blocks, warps and their meetings. What kernels see of it is in builtins.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fiber.h"
#include "types.h"

namespace remory::emulation {

constexpr unsigned kWarpSize = 32;

// How launches run from now on, in the whole process.
struct Settings {
  uint64_t seed = 0;  // of the order in which blocks, warps and lanes run; an odd seed reverses the order of seed - 1
  int64_t os_threads = 1;  // that share a launch's blocks
};
Settings& settings();

// What a kernel did that CUDA forbids or leaves undefined.
class Fault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The place in a kernel where a thread waits. `what` and `file` live as long as the program.
struct Site {
  const char* what;
  const char* file;
  int line;

  bool operator==(const Site& other) const { return what == other.what && file == other.file && line == other.line; }
  std::string text() const;
};

// What the lanes of a warp bring to a meeting, gathered when the last one has come.
struct Meeting {
  uint32_t mask;
  uint64_t values[kWarpSize];
};

// A warp's meeting: what each lane takes away, from what all brought and from what it alone asked for.
using Exchange = uint64_t (*)(const Meeting& meeting, unsigned asked);

// What the threads of a block bring to a barrier, in sum.
struct BarrierVotes {
  int64_t threads = 0, in_favour = 0;
};

class Block;

struct Thread {
  enum class State : uint8_t { ready, at_barrier, at_meeting, finished };

  uint3 index;
  unsigned number, lane, warp;  // lane within the warp, warp within the block
  State state;
  Site site;
  Block* block;

  bool vote;  // at a barrier
  BarrierVotes votes;

  uint32_t mask;  // at a meeting
  Exchange exchange;
  uint64_t value;
  unsigned asked;

  Fiber fiber;
};

// One launch, as its blocks see it.
struct Launch {
  dim3 grid, block;
  size_t dynamic_bytes;
  uint64_t seed;
  void (*kernel)(const void* arguments);
  const void* arguments;
};

class Block {
 public:
  // Runs one block to its end; throws what a thread threw, or a Fault.
  void run(const Launch& launch, uint64_t number);

  const Launch& launch() const { return *launch_; }
  uint3 index() const { return index_; }

  // Called by threads.
  BarrierVotes barrier(Site site, bool vote);
  uint64_t meet(Site site, uint32_t mask, Exchange exchange, uint64_t value, unsigned asked);
  void* dynamic_memory() { return dynamic_.get(); }
  void* static_memory(const void* declaration, size_t bytes);

 private:
  using Memory = std::unique_ptr<unsigned char[]>;

  static void enter();
  void start_threads();
  void run_warp(unsigned warp, uint64_t round);
  void resume(Thread& thread);
  void pause(Thread& thread, bool last = false);
  bool complete_meeting(unsigned warp, uint32_t mask);
  bool complete_barrier();
  bool finished() const;
  [[noreturn]] void report_standstill() const;
  std::string where_threads_are() const;
  Memory fresh_memory(size_t bytes) const;

  struct StaticMemory {
    const void* declaration;
    size_t bytes;
    Memory memory;
  };

  const Launch* launch_ = nullptr;
  uint64_t number_ = 0;
  uint3 index_{};
  unsigned count_ = 0, warps_ = 0;
  std::vector<Thread> threads_;
  Stacks stacks_;
  Fiber scheduler_;
  std::exception_ptr error_;
  Memory dynamic_;
  std::vector<StaticMemory> static_;
};

// The thread that runs; null outside kernels. Never changes under a thread's feet: a fiber stays on its OS thread.
extern thread_local Thread* current;

void run_blocks(const Launch& launch);

// Lets a kernel have more dynamic shared memory than every kernel may.
void allow_dynamic_bytes(const void* kernel, size_t bytes);
void check_launch(const Launch& launch, const void* kernel);

template <class... Parameters>
struct BoundKernel {
  void (*kernel)(Parameters...);
  std::tuple<Parameters...> arguments;
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_bytes, Arguments&&... arguments) {
  const BoundKernel<Parameters...> bound{kernel, {std::forward<Arguments>(arguments)...}};
  const auto run = [](const void* data) {
    const auto& call = *static_cast<const BoundKernel<Parameters...>*>(data);
    std::apply(call.kernel, call.arguments);
  };
  const Launch launched{grid, block, dynamic_bytes, settings().seed, run, &bound};
  check_launch(launched, reinterpret_cast<const void*>(kernel));
  run_blocks(launched);
}

}  // namespace remory::emulation

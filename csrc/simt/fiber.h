// Stacks that one OS thread runs by turns.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace remory::emulation {

// A point of execution that another one can be left for. Never moves from one OS thread to another.
class Fiber {
 public:
  // The OS thread's own execution, from which the first switch goes out.
  Fiber() = default;

  // Prepares a run of `entry`, which must not return but switch away for the last time.
  void prepare(char* stack, size_t stack_bytes, void (*entry)());

  // Leaves this fiber for `other`; returns when something switches back. `last` says that nothing will.
  void switch_to(Fiber& other, bool last = false);

  // What `entry` must call first: it was reached from `from`.
  static void arrived_from(Fiber& from);

 private:
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t context_;
#endif
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
};

// Stacks of one size, each with a guard page below, so that a kernel that needs more ends in a fault at once.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  static constexpr size_t kBytes = 128 << 10;

  // Room for `count` stacks. Pointers given before are void if it grows.
  void reserve(size_t count);
  char* operator[](size_t index) const;

 private:
  void release();

  char* memory_ = nullptr;
  size_t count_ = 0;
};

}  // namespace remory::emulation

#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace remory::emulation {
namespace {

// AddressSanitizer must know which stack runs.
#if defined(__SANITIZE_ADDRESS__)
void before_switch(void** fake_stack, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
void after_switch(void* fake_stack, const void** old_stack, size_t* old_bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, old_stack, old_bytes);
}
// A fiber that was given up amid its run leaves marks of its frames.
void forget_frames(const char* stack, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(stack, bytes); }
#else
void before_switch(void**, const void*, size_t) {}
void after_switch(void*, const void**, size_t*) {}
void forget_frames(const char*, size_t) {}
#endif

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

#if defined(__x86_64__)

// Saves what a callee must preserve on the stack it leaves, and takes it from the stack it enters. The control words of
// floating-point arithmetic are left alone: kernels do not change them.
extern "C" __attribute__((visibility("hidden"))) void remory_switch_stack(void** left, void* entered);
asm(R"(
.text
.hidden remory_switch_stack
.globl remory_switch_stack
.type remory_switch_stack, @function
remory_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size remory_switch_stack, .-remory_switch_stack
)");

void Fiber::prepare(char* stack, size_t stack_bytes, void (*entry)()) {
  constexpr size_t kPreserved = 6;
  forget_frames(stack, stack_bytes);
  auto* top = reinterpret_cast<uint64_t*>(stack + stack_bytes);
  *--top = 0;  // no caller: an unwinder stops here; also the alignment that a called function expects
  *--top = reinterpret_cast<uint64_t>(entry);
  top -= kPreserved;
  std::memset(top, 0, kPreserved * sizeof(*top));
  stack_pointer_ = top;
  stack_ = stack;
  stack_bytes_ = stack_bytes;
}

void Fiber::switch_to(Fiber& other, bool last) {
  void* fake_stack = nullptr;
  before_switch(last ? nullptr : &fake_stack, other.stack_, other.stack_bytes_);
  remory_switch_stack(&stack_pointer_, other.stack_pointer_);
  after_switch(fake_stack, nullptr, nullptr);
}

#else

void Fiber::prepare(char* stack, size_t stack_bytes, void (*entry)()) {
  forget_frames(stack, stack_bytes);
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = stack_bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
  stack_ = stack;
  stack_bytes_ = stack_bytes;
}

void Fiber::switch_to(Fiber& other, bool last) {
  void* fake_stack = nullptr;
  before_switch(last ? nullptr : &fake_stack, other.stack_, other.stack_bytes_);
  swapcontext(&context_, &other.context_);
  after_switch(fake_stack, nullptr, nullptr);
}

#endif

void Fiber::arrived_from(Fiber& from) { after_switch(nullptr, &from.stack_, &from.stack_bytes_); }

void Stacks::reserve(size_t count) {
  if (count <= count_) return;
  release();
  const size_t page = page_bytes(), stride = kBytes + page;
  void* memory =
      mmap(nullptr, count * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  count_ = count;
  for (size_t i = 0; i < count; ++i) mprotect(memory_ + i * stride, page, PROT_NONE);
}

char* Stacks::operator[](size_t index) const { return memory_ + index * (kBytes + page_bytes()) + page_bytes(); }

void Stacks::release() {
  if (memory_ != nullptr) munmap(memory_, count_ * (kBytes + page_bytes()));
  memory_ = nullptr;
  count_ = 0;
}

Stacks::~Stacks() { release(); }

}  // namespace remory::emulation

#include "emulator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace remory::emulation {

__attribute__((tls_model("initial-exec"))) thread_local Thread* current = nullptr;

namespace {

constexpr size_t kDynamicBytesOfAll = 48 << 10;
constexpr size_t kMostDynamicBytes = 227 << 10;  // of sm_90
constexpr unsigned kMostThreads = 1024;

// SplitMix64's finalizer: a different number for every combination of places.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t mix(uint64_t seed, uint64_t a, uint64_t b = 0) { return mix(mix(mix(seed) ^ a) ^ b); }

// An order of 0 … count-1. Seeds 2i and 2i+1 give reverse orders, so that any two steps are run both ways round.
class Order {
 public:
  Order(uint64_t count, uint64_t seed, uint64_t place, uint64_t detail = 0) : count_(count), reversed_(seed & 1) {
    if (seed < 2) return;
    const uint64_t random = mix(seed / 2, place, detail);
    step_ = 1 + (random >> 32) % count;
    while (std::gcd(step_, count) != 1) step_ = step_ % count + 1;
    offset_ = (random & 0xFFFFFFFF) % count;
  }

  uint64_t operator[](uint64_t i) const { return ((reversed_ ? count_ - 1 - i : i) * step_ + offset_) % count_; }

 private:
  uint64_t count_, step_ = 1, offset_ = 0;
  bool reversed_;
};

// Fresh shared memory holds NaN and -1, or numbers that win every maximum, or that win every minimum.
unsigned char poison(uint64_t seed) {
  constexpr unsigned char kBytes[] = {0xFF, 0x7F, 0xFE};
  return kBytes[seed % 3];
}

std::map<const void*, size_t>& allowed_bytes() {
  static std::map<const void*, size_t> allowed;
  return allowed;
}

std::mutex& allowed_mutex() {
  static std::mutex mutex;
  return mutex;
}

size_t dynamic_limit(const void* kernel) {
  const std::lock_guard<std::mutex> lock(allowed_mutex());
  const auto found = allowed_bytes().find(kernel);
  return found == allowed_bytes().end() ? kDynamicBytesOfAll : std::max(kDynamicBytesOfAll, found->second);
}

// Blocks with their stacks, for launches to come.
class IdleBlocks {
 public:
  std::unique_ptr<Block> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (blocks_.empty()) return std::make_unique<Block>();
    std::unique_ptr<Block> block = std::move(blocks_.back());
    blocks_.pop_back();
    return block;
  }

  void put_back(std::unique_ptr<Block> block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks_.push_back(std::move(block));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

IdleBlocks& idle_blocks() {
  static IdleBlocks blocks;
  return blocks;
}

}  // namespace

Settings& settings() {
  static Settings settings;
  return settings;
}

std::string Site::text() const { return std::string(what) + " (" + file + ":" + std::to_string(line) + ")"; }

void Block::run(const Launch& launch, uint64_t number) {
  launch_ = &launch;
  number_ = number;
  const uint64_t x = launch.grid.x, y = launch.grid.y;
  index_ = {static_cast<unsigned>(number % x), static_cast<unsigned>(number / x % y),
            static_cast<unsigned>(number / (x * y))};
  error_ = nullptr;
  static_.clear();
  dynamic_ = fresh_memory(launch.dynamic_bytes);
  start_threads();
  for (uint64_t round = 0; !finished(); ++round) {
    const Order order(warps_, launch.seed, number, round);
    for (unsigned i = 0; i < warps_; ++i) run_warp(static_cast<unsigned>(order[i]), round);
    if (!finished() && !complete_barrier()) report_standstill();
  }
}

void Block::start_threads() {
  const dim3 size = launch_->block;
  count_ = size.x * size.y * size.z;
  warps_ = (count_ + kWarpSize - 1) / kWarpSize;
  if (threads_.size() < count_) threads_.resize(count_);
  stacks_.reserve(count_);
  for (unsigned i = 0; i < count_; ++i) {
    Thread& thread = threads_[i];
    thread.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    thread.number = i;
    thread.lane = i % kWarpSize;
    thread.warp = i / kWarpSize;
    thread.state = Thread::State::ready;
    thread.block = this;
    // Stacks that began at the same place of a page would share one set of the cache.
    const size_t shift = i % 32 * 128;
    thread.fiber.prepare(stacks_[i], Stacks::kBytes - shift, &Block::enter);
  }
}

void Block::enter() {
  Thread& thread = *current;
  Block& block = *thread.block;
  Fiber::arrived_from(block.scheduler_);
  try {
    block.launch_->kernel(block.launch_->arguments);
  } catch (...) {
    block.error_ = std::current_exception();
  }
  thread.state = Thread::State::finished;
  block.pause(thread, true);
  std::terminate();
}

void Block::resume(Thread& thread) {
  current = &thread;
  scheduler_.switch_to(thread.fiber);
  current = nullptr;
  if (error_) std::rethrow_exception(error_);
}

void Block::pause(Thread& thread, bool last) { thread.fiber.switch_to(scheduler_, last); }

// To the warp's next barrier or end: while meetings make lanes ready again, no other warp gets a turn.
void Block::run_warp(unsigned warp, uint64_t round) {
  const unsigned first = warp * kWarpSize, lanes = std::min(kWarpSize, count_ - first);
  const Order order(lanes, launch_->seed, number_ * warps_ + warp, round);
  for (bool ran = true; ran;) {
    ran = false;
    for (unsigned i = 0; i < lanes; ++i) {
      Thread& thread = threads_[first + order[i]];
      if (thread.state != Thread::State::ready) continue;
      resume(thread);
      ran = true;
    }
  }
}

BarrierVotes Block::barrier(Site site, bool vote) {
  Thread& thread = *current;
  thread.site = site;
  thread.vote = vote;
  thread.state = Thread::State::at_barrier;
  pause(thread);
  return thread.votes;
}

bool Block::complete_barrier() {
  BarrierVotes votes;
  for (unsigned i = 0; i < count_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state != Thread::State::at_barrier || !(thread.site == threads_[0].site)) return false;
    ++votes.threads;
    votes.in_favour += thread.vote;
  }
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i].votes = votes;
    threads_[i].state = Thread::State::ready;
  }
  return true;
}

uint64_t Block::meet(Site site, uint32_t mask, Exchange exchange, uint64_t value, unsigned asked) {
  Thread& thread = *current;
  const unsigned lanes = std::min(kWarpSize, count_ - thread.warp * kWarpSize);
  if ((mask >> thread.lane & 1) == 0) throw Fault(site.text() + ": the calling lane is not in the mask");
  if (lanes < kWarpSize && mask >> lanes != 0)
    throw Fault(site.text() + ": the mask names lanes that the block does not have");
  thread.site = site;
  thread.mask = mask;
  thread.exchange = exchange;
  thread.value = value;
  thread.asked = asked;
  thread.state = Thread::State::at_meeting;
  if (!complete_meeting(thread.warp, mask)) pause(thread);
  return thread.value;
}

bool Block::complete_meeting(unsigned warp, uint32_t mask) {
  Thread* lanes = &threads_[warp * kWarpSize];
  Meeting meeting{mask, {}};
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    if (lanes[lane].state != Thread::State::at_meeting || lanes[lane].mask != mask) return false;
    if (lanes[lane].exchange != current->exchange)
      throw Fault("lanes of one warp meet at different places: " + current->site.text() + " and " +
                  lanes[lane].site.text());
    meeting.values[lane] = lanes[lane].value;
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    Thread& lane = lanes[__builtin_ctz(rest)];
    lane.value = lane.exchange(meeting, lane.asked);
    lane.state = Thread::State::ready;
  }
  return true;
}

bool Block::finished() const {
  return std::all_of(threads_.begin(), threads_.begin() + count_,
                     [](const Thread& thread) { return thread.state == Thread::State::finished; });
}

void Block::report_standstill() const {
  throw Fault("a barrier or a warp's meeting that not all threads reach alike: " + where_threads_are());
}

// "threads 0-31 at __syncthreads() (a.cu:7); threads 32-63 have ended"
std::string Block::where_threads_are() const {
  const auto place = [](const Thread& thread) {
    return thread.state == Thread::State::finished ? std::string("have ended") : "at " + thread.site.text();
  };
  constexpr size_t kMostCharacters = 600;
  std::string text;
  for (unsigned first = 0; first < count_ && text.size() < kMostCharacters;) {
    unsigned last = first;
    while (last + 1 < count_ && place(threads_[last + 1]) == place(threads_[first])) ++last;
    if (!text.empty()) text += "; ";
    text += "threads " + std::to_string(first) + "-" + std::to_string(last) + " " + place(threads_[first]);
    first = last + 1;
  }
  return text;
}

// Of exactly this size, so that AddressSanitizer sees who reads beyond it.
Block::Memory Block::fresh_memory(size_t bytes) const {
  Memory memory(new unsigned char[bytes]);
  std::memset(memory.get(), poison(launch_->seed), bytes);
  return memory;
}

void* Block::static_memory(const void* declaration, size_t bytes) {
  for (const StaticMemory& known : static_) {
    if (known.declaration == declaration) return known.memory.get();
  }
  static_.push_back({declaration, bytes, fresh_memory(bytes)});
  return static_.back().memory.get();
}

void allow_dynamic_bytes(const void* kernel, size_t bytes) {
  if (bytes > kMostDynamicBytes)
    throw Fault("a kernel asks for " + std::to_string(bytes) + " bytes of shared memory, a block has " +
                std::to_string(kMostDynamicBytes));
  const std::lock_guard<std::mutex> lock(allowed_mutex());
  allowed_bytes()[kernel] = bytes;
}

void check_launch(const Launch& launch, const void* kernel) {
  const dim3 grid = launch.grid, block = launch.block;
  const uint64_t threads = static_cast<uint64_t>(block.x) * block.y * block.z;
  if (threads == 0 || threads > kMostThreads || block.z > 64)
    throw Fault("a block of " + std::to_string(threads) + " threads, expected 1 to " + std::to_string(kMostThreads));
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > std::numeric_limits<int32_t>::max() || grid.y > 65535 ||
      grid.z > 65535)
    throw Fault("a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " +
                std::to_string(grid.z) + " blocks, expected at least 1 and at most 2147483647 x 65535 x 65535");
  if (launch.dynamic_bytes > dynamic_limit(kernel))
    throw Fault("a launch with " + std::to_string(launch.dynamic_bytes) +
                " bytes of dynamic shared memory, more than the kernel was allowed");
  if (current != nullptr) throw Fault("a launch out of a kernel");
}

void run_blocks(const Launch& launch) {
  const uint64_t count = static_cast<uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
  const Order order(count, launch.seed, count);
  std::atomic<uint64_t> next{0};
  std::exception_ptr error;
  std::mutex error_mutex;
  const auto work = [&] {
    std::unique_ptr<Block> block = idle_blocks().take();
    try {
      for (uint64_t i = next++; i < count; i = next++) block->run(launch, order[i]);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(error_mutex);
      error = std::current_exception();
      next = count;
    }
    idle_blocks().put_back(std::move(block));
  };
  std::vector<std::thread> helpers;
  const uint64_t workers = std::min<uint64_t>(count, std::max<int64_t>(1, settings().os_threads));
  for (uint64_t i = 1; i < workers; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace remory::emulation

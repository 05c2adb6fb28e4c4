// Threads for the index's loops. They are the module's own, so that it needs no torch and starts none at a fork or a
// search that one thread does sooner.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace remory::index {

// Calls body(worker), with numbers from 0 to threads - 1, each once at most, on as many threads, the caller's among
// them; returns when all that began have ended. Body 0 must be able to do all the work: the others help if they are
// free. The first exception is thrown again.
void run_on_workers(int threads, const std::function<void(int)>& body);

// Calls body(worker, begin, end) for pieces of [0, count).
template <class Body>
void for_pieces(int threads, int64_t count, int64_t piece, const Body& body) {
  std::atomic<int64_t> next{0};
  const int64_t pieces = (count + piece - 1) / piece;
  run_on_workers(static_cast<int>(std::min<int64_t>(threads, pieces)), [&](int worker) {
    for (int64_t begin; (begin = next.fetch_add(piece, std::memory_order_relaxed)) < count;) {
      body(worker, begin, std::min(begin + piece, count));
    }
  });
}

}  // namespace remory::index

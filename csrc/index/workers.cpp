#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace remory::index {
namespace {

struct Job {
  const std::function<void(int)>& body;
  int threads;
  int joined = 1;  // the caller is the first
  int active = 0;
  std::exception_ptr failure;
  std::condition_variable done;
};

class Workers {
 public:
  void run(int threads, const std::function<void(int)>& body) {
    Job job{body, threads, 1, 0, nullptr, {}};
    std::unique_lock lock(mutex_);
    start(threads - 1);
    keep_off_this_processor();
    jobs_.push_back(&job);
    lock.unlock();
    threads == 2 ? wake_.notify_one() : wake_.notify_all();

    work(job, 0, lock);
    jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &job), jobs_.end());
    job.done.wait(lock, [&] { return job.active == 0; });
    if (job.failure) std::rethrow_exception(job.failure);
  }

 private:
  // Returns with the lock held.
  static void work(Job& job, int worker, std::unique_lock<std::mutex>& lock) {
    std::exception_ptr failure;
    try {
      job.body(worker);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !job.failure) job.failure = failure;
  }

  // Fewer than asked for do, if the system gives no more.
  void start(size_t count) {
    // Signals are for the threads of the program.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      while (threads_.size() < count) {
        std::thread thread([this] { serve(); });
        threads_.push_back(thread.native_handle());
        thread.detach();
        processor_ = -1;
      }
    } catch (const std::system_error&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // When every processor has something to do, be it of the lowest priority, Linux wakes a thread on that of its waker,
  // behind it; there it would sleep until the work is done.
  void keep_off_this_processor() {
#ifdef __linux__
    const int processor = sched_getcpu();
    cpu_set_t others;
    if (processor < 0 || processor == processor_ || busy_ > 0) return;
    if (sched_getaffinity(0, sizeof(others), &others) != 0 || CPU_COUNT(&others) < 2) return;
    CPU_CLR(processor, &others);
    for (const pthread_t thread : threads_) pthread_setaffinity_np(thread, sizeof(others), &others);
    processor_ = processor;
#endif
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !jobs_.empty(); });
      Job& job = *jobs_.front();
      const int worker = job.joined++;
      ++job.active;
      ++busy_;
      if (job.joined == job.threads) jobs_.pop_front();
      lock.unlock();
      work(job, worker, lock);
      --busy_;
      if (--job.active == 0) job.done.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job*> jobs_;
  std::vector<pthread_t> threads_;
  int busy_ = 0;
  int processor_ = -1;  // the one that the threads keep off
};

// Never destroyed, because its threads outlive everything. A forked child has none of them, and a mutex in it may be
// held by one that is not there: it gets workers of its own.
Workers* workers = nullptr;

void make_workers() { workers = new Workers; }

}  // namespace

void run_on_workers(int threads, const std::function<void(int)>& body) {
  if (threads <= 1) return body(0);
  static std::once_flag once;
  std::call_once(once, [] {
    make_workers();
    pthread_atfork(nullptr, nullptr, make_workers);
  });
  workers->run(threads, body);
}

}  // namespace remory::index

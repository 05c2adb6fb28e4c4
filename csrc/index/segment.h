// A run of rows in memory that is never moved: rows are appended, and die, but are not changed.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "compressed.h"

namespace remory::index {

// Memory for `count` elements, aligned for any vector register, not touched: what is never written costs nothing. Large
// blocks are the system's own pages, which it has back at once when they are freed.
template <class Element>
class Block {
 public:
  explicit Block(int64_t count) : nbytes_(static_cast<size_t>(count) * sizeof(Element)), data_(take(nbytes_)) {}

  Element* get() const { return data_.get(); }
  Element& operator[](int64_t i) const { return data_.get()[i]; }
  int64_t nbytes() const { return static_cast<int64_t>(nbytes_); }

 private:
  static constexpr size_t kHugePage = size_t{1} << 21, kCacheLine = 64;

  struct Free {
    size_t mapped;  // bytes, or 0 for what is the heap's
    void operator()(Element* data) const {
      if (mapped != 0) {
        munmap(data, mapped);
      } else {
        std::free(data);
      }
    }
  };
  using Memory = std::unique_ptr<Element, Free>;

  static Memory take(size_t nbytes) {
    if (nbytes >= kHugePage) return map(nbytes);
    void* memory = nullptr;
    if (nbytes != 0 && posix_memalign(&memory, kCacheLine, nbytes) != 0) throw std::bad_alloc();
    return Memory(static_cast<Element*>(memory), Free{0});
  }

  // Huge pages: a scan misses the table of pages less, and so does what fills it. They begin at multiples of their
  // size.
  static Memory map(size_t nbytes) {
    const size_t length = (nbytes + kHugePage - 1) / kHugePage * kHugePage;
    void* memory = mmap(nullptr, length + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    char* begin = static_cast<char*>(memory);
    const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    if (before != 0) munmap(begin, before);
    begin += before;
    munmap(begin + length, kHugePage - before);
    madvise(begin, length, MADV_HUGEPAGE);
    return Memory(reinterpret_cast<Element*>(begin), Free{length});
  }

  size_t nbytes_;
  Memory data_;
};

class Segment {
 public:
  using Version = uint64_t;
  static constexpr Version kAlive = ~Version{0};

  // `number` is the segment's among all that the index ever had; `capacity` is a multiple of kGroup.
  Segment(uint64_t number, int64_t capacity, int64_t width, bool compressed)
      : number(number),
        capacity(capacity),
        width(width),
        compressed(compressed),
        rows(capacity * width),
        norms(capacity),
        ids(capacity),
        died(capacity),
        codes(compressed ? capacity / kGroup * group_bytes(width) : 0),
        scales(compressed ? capacity : 0),
        errors(compressed ? capacity : 0) {
    for (int64_t row = 0; row < capacity; ++row) new (&died[row]) std::atomic<Version>(kAlive);
  }

  const float* row(int64_t number) const { return rows.get() + number * width; }
  const uint8_t* group_codes(int64_t group) const { return codes.get() + group * group_bytes(width); }

  int64_t nbytes() const {
    return rows.nbytes() + norms.nbytes() + ids.nbytes() + died.nbytes() + codes.nbytes() + scales.nbytes() +
           errors.nbytes();
  }

  const uint64_t number;
  const int64_t capacity, width;
  const bool compressed;
  const Block<float> rows;
  const Block<double> norms;
  const Block<int64_t> ids;
  // The version from which on a row is no more. A reader of an earlier version may meet it or kAlive: both are later.
  const Block<std::atomic<Version>> died;
  std::atomic<int64_t> dead{0};
  // Of whole groups only: they are written once, when the sixteenth row has come.
  const Block<uint8_t> codes;
  const Block<float> scales, errors;
};

}  // namespace remory::index

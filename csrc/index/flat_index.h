// An exact index by cosine that is written while it is searched.
//
// Rows lie in segments that are never moved. A write appends rows and marks others dead, and then publishes a new state
// with the next version; a search works on the state it began with. So a search and a writer never wait for each
// other, and an answer is that of one state that existed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "id_map.h"
#include "segment.h"

namespace remory::index {

// What the caller gave cannot be used; nothing was changed.
struct InvalidInput : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

struct State {
  Segment::Version version = 0;
  std::shared_ptr<const std::vector<std::shared_ptr<Segment>>> segments =
      std::make_shared<const std::vector<std::shared_ptr<Segment>>>();
  int64_t last_count = 0;  // rows of the last segment; the others are full
  int64_t live = 0;

  int64_t rows_of(size_t segment) const {
    return segment + 1 == segments->size() ? last_count : (*segments)[segment]->capacity;
  }
};

// Which ids take part: all, or those below `count` whose byte is not 0.
struct Mask {
  const uint8_t* bytes = nullptr;
  int64_t count = 0;

  bool takes(int64_t id) const { return bytes == nullptr || (id < count && bytes[id] != 0); }
};

// One row that the first pass of a search could not rule out, with bounds on its score.
struct Bounded {
  int64_t id;
  float lower, upper;
};

// An index in a state that existed. Cheap to copy; keeps the memory of its rows.
class FlatView {
 public:
  FlatView(State state, int64_t dimension) : state_(std::move(state)), dimension_(dimension) {}

  int64_t size() const { return state_.live; }
  int64_t dimension() const { return dimension_; }
  const State& state() const { return state_; }

  // The k rows of highest cosine for each of the queries [count, D]: scores and ids [count, k], best first, equal
  // scores by id, padded with -inf and -1. Throws InvalidInput with the number of a query without a direction.
  void search(const float* queries, int64_t count, int64_t k, const Mask& mask, int threads, float* scores,
              int64_t* ids) const;

  // What the first pass leaves to be scored exactly for one query.
  std::vector<Bounded> bounds(const float* query, int64_t k, const Mask& mask, int threads) const;

 private:
  State state_;
  int64_t dimension_;
};

constexpr int64_t kLargestDimension = int64_t{1} << 20;

// Thread-safe. Writers wait for each other.
class FlatIndex {
 public:
  // `certified`: int8 copies of the rows are kept too, and decide which rows must be looked at; not beyond
  // kLargestCompressedWidth dimensions. Throws InvalidInput for a dimension below 1 or above kLargestDimension.
  FlatIndex(int64_t dimension, bool certified);

  int64_t dimension() const { return dimension_; }
  bool certified() const { return certified_; }
  int64_t nbytes() const;
  FlatView view() const;

  // `count` ids and vectors [count, D]. Throws InvalidInput with the id when one is negative, occurs twice, is there
  // already (add) or is not (replace), or when its vector is not finite or is zero.
  void add(const int64_t* ids, const float* vectors, int64_t count, int threads);
  void replace(const int64_t* ids, const float* vectors, int64_t count, int threads);
  // Returns how many were there.
  int64_t remove(const int64_t* ids, int64_t count);

 private:
  class Batch;

  void write(const std::vector<int64_t>& ids, const float* vectors, bool replacing, int threads);
  void place(const Batch& batch, const std::vector<int64_t>& ids, bool replacing, std::vector<uint64_t>& before);
  void unplace(const std::vector<int64_t>& ids, const std::vector<uint64_t>& before);
  void kill(uint64_t place, Segment::Version version);
  void try_to_give_back();
  void give_back();
  void publish(State state);

  const int64_t dimension_;
  const bool certified_;

  std::mutex writer_;               // guards what follows
  IdMap places_;                    // segment number << 32 | row
  std::vector<Segment*> segments_;  // by number; null when given back

  mutable std::mutex published_;  // guards what follows, for moments
  State state_;
  int64_t map_bytes_ = 0;
};

}  // namespace remory::index

#include "flat_index.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "exact.h"
#include "workers.h"

namespace remory::index {
namespace {

constexpr int64_t kSegmentBytes = int64_t{64} << 20;
constexpr int64_t kLeastRows = 256, kMostRows = 65536;
// Rows worth a thread have about this many elements.
constexpr int64_t kElementsPerThread = int64_t{1} << 18;
// A segment is given back when this many of its rows are dead and they are more than half, or when all are.
constexpr int64_t kLeastDead = 128;

// As many as there are already, so that growth is amortised, but some megabytes at most.
int64_t capacity_for(int64_t rows, int64_t width) {
  const int64_t most = std::clamp(kSegmentBytes / (4 * width) / kGroup * kGroup, kGroup, kMostRows);
  const int64_t wanted = (rows + kGroup - 1) / kGroup * kGroup;
  return std::clamp(wanted, std::min(kLeastRows, most), most);
}

std::string name_of(int64_t id) { return "the vector of id " + std::to_string(id); }

void check_direction(double norm, int64_t id) {
  if (!std::isfinite(norm)) throw InvalidInput(name_of(id) + " has a NaN or an infinity");
  if (norm == 0) throw InvalidInput(name_of(id) + " is zero: it has no direction");
}

uint64_t place_of(const Segment& segment, int64_t row) { return segment.number << 32 | static_cast<uint64_t>(row); }

}  // namespace

// Rows on their way into the index, behind those of the state before: no reader looks there until the state after is
// published.
class FlatIndex::Batch {
 public:
  Batch(const FlatIndex& index, const State& before, int64_t count) : after_(before) {
    auto segments = std::make_shared<std::vector<std::shared_ptr<Segment>>>(*before.segments);
    uint64_t number = index.segments_.size();
    for (int64_t done = 0; done < count;) {
      if (segments->empty() || after_.last_count == segments->back()->capacity) {
        const int64_t capacity = capacity_for(std::max(before.live, count - done), index.dimension_);
        segments->push_back(std::make_shared<Segment>(number++, capacity, index.dimension_, index.certified_));
        new_segments_.push_back(segments->back().get());
        after_.last_count = 0;
      }
      const int64_t rows = std::min(count - done, segments->back()->capacity - after_.last_count);
      spans_.push_back({segments->back().get(), after_.last_count, done, rows});
      after_.last_count += rows;
      done += rows;
    }
    after_.version = before.version + 1;
    after_.live = before.live + count;
    after_.segments = std::move(segments);
  }

  const State& after() const { return after_; }
  const std::vector<Segment*>& new_segments() const { return new_segments_; }

  // Places ascend over the rows that the index ever had, so those from here on are the batch's.
  uint64_t first_place() const { return place_of(*spans_.front().segment, spans_.front().first); }

  // Calls body(number of the row in the batch, its place).
  template <class Body>
  void for_places(const Body& body) const {
    for (const Span& span : spans_) {
      for (int64_t i = 0; i < span.rows; ++i) body(span.source + i, place_of(*span.segment, span.first + i));
    }
  }

  // `source(i)` is the i-th vector.
  template <class Source>
  void fill(const int64_t* ids, const Source& source, int threads) const {
    for (const Span& span : spans_) {
      const int64_t first = span.first / kGroup, last = (span.first + span.rows - 1) / kGroup;
      const int64_t piece = std::max<int64_t>(1, kElementsPerThread / 4 / (kGroup * span.segment->width));
      const int64_t wanted = 1 + span.rows * span.segment->width / kElementsPerThread;
      for_pieces(static_cast<int>(std::min<int64_t>(threads, wanted)), last - first + 1, piece,
                 [&](int, int64_t begin, int64_t end) {
                   for (int64_t group = begin; group < end; ++group) fill_group(span, first + group, ids, source);
                 });
    }
  }

 private:
  struct Span {
    Segment* segment;
    int64_t first, source, rows;  // the first row in the segment and in the batch
  };

  template <class Source>
  static void fill_group(const Span& span, int64_t group, const int64_t* ids, const Source& source) {
    const Segment& segment = *span.segment;
    const int64_t whole = (group + 1) * kGroup, end = std::min(span.first + span.rows, whole);
    for (int64_t row = std::max(span.first, group * kGroup); row < end; ++row) {
      const int64_t i = span.source + row - span.first;
      float* target = segment.rows.get() + row * segment.width;
      std::copy_n(source(i), segment.width, target);
      segment.ids[row] = ids[i];
      segment.norms[row] = norm(target, segment.width);
      check_direction(segment.norms[row], ids[i]);
    }
    if (!segment.compressed || end < whole) return;
    const int64_t first = group * kGroup;
    compress(segment.row(first), segment.norms.get() + first, segment.width,
             segment.codes.get() + group * group_bytes(segment.width), segment.scales.get() + first,
             segment.errors.get() + first);
  }

  State after_;
  std::vector<Span> spans_;
  std::vector<Segment*> new_segments_;
};

FlatIndex::FlatIndex(int64_t dimension, bool certified)
    : dimension_(dimension), certified_(certified && dimension <= kLargestCompressedWidth) {
  if (dimension < 1 || dimension > kLargestDimension) {
    throw InvalidInput("dimension is " + std::to_string(dimension) + ", expected 1 to " +
                       std::to_string(kLargestDimension));
  }
}

FlatView FlatIndex::view() const {
  const std::lock_guard lock(published_);
  return FlatView(state_, dimension_);
}

int64_t FlatIndex::nbytes() const {
  const std::lock_guard lock(published_);
  int64_t total = map_bytes_;
  for (const auto& segment : *state_.segments) total += segment->nbytes();
  return total;
}

void FlatIndex::publish(State state) {
  const std::lock_guard lock(published_);
  // What the state before alone held is freed after the lock.
  std::swap(state_, state);
  map_bytes_ = places_.nbytes();
}

void FlatIndex::add(const int64_t* ids, const float* vectors, int64_t count, int threads) {
  write({ids, ids + count}, vectors, false, threads);
}

void FlatIndex::replace(const int64_t* ids, const float* vectors, int64_t count, int threads) {
  write({ids, ids + count}, vectors, true, threads);
}

void FlatIndex::write(const std::vector<int64_t>& ids, const float* vectors, bool replacing, int threads) {
  const std::lock_guard lock(writer_);
  const auto count = static_cast<int64_t>(ids.size());
  if (count == 0) return;
  places_.reserve(places_.size() + (replacing ? 0 : count));
  const Batch batch(*this, state_, count);
  segments_.reserve(segments_.size() + batch.new_segments().size());

  std::vector<uint64_t> before;
  before.reserve(count);
  try {
    place(batch, ids, replacing, before);
    batch.fill(ids.data(), [&](int64_t i) { return vectors + i * dimension_; }, threads);
  } catch (...) {
    unplace(ids, before);
    throw;
  }

  State after = batch.after();
  segments_.insert(segments_.end(), batch.new_segments().begin(), batch.new_segments().end());
  if (replacing) {
    for (const uint64_t place : before) kill(place, after.version);
    after.live -= count;
  }
  publish(std::move(after));
  if (replacing) try_to_give_back();
}

// Makes the ids stand for the batch's rows; `before` gets their places of before.
void FlatIndex::place(const Batch& batch, const std::vector<int64_t>& ids, bool replacing,
                      std::vector<uint64_t>& before) {
  const auto fail = [](int64_t id, const char* what) { throw InvalidInput("id " + std::to_string(id) + what); };
  constexpr size_t kAhead = 16;
  batch.for_places([&](int64_t i, uint64_t place) {
    const int64_t id = ids[i];
    if (i + kAhead < ids.size()) places_.prefetch(ids[i + kAhead]);
    if (id < 0) fail(id, " is negative");
    if (replacing && places_.find(id) == IdMap::kNowhere) fail(id, " is not in the index");
    before.push_back(places_.set(id, place));
    if (before.back() == IdMap::kNowhere) return;
    if (before.back() >= batch.first_place()) fail(id, " is given more than once");
    if (!replacing) fail(id, " is in the index already");
  });
}

void FlatIndex::unplace(const std::vector<int64_t>& ids, const std::vector<uint64_t>& before) {
  for (size_t i = before.size(); i-- > 0;) {
    if (before[i] == IdMap::kNowhere) {
      places_.erase(ids[i]);
    } else {
      places_.set(ids[i], before[i]);
    }
  }
}

int64_t FlatIndex::remove(const int64_t* ids, int64_t count) {
  const std::lock_guard lock(writer_);
  State after = state_;
  ++after.version;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = ids[i];  // read once: the caller's other threads may be writing there
    const uint64_t place = places_.find(id);
    if (place == IdMap::kNowhere) continue;
    places_.erase(id);
    kill(place, after.version);
    --after.live;
  }
  const int64_t removed = state_.live - after.live;
  if (removed > 0) {
    publish(std::move(after));
    try_to_give_back();
  }
  return removed;
}

void FlatIndex::kill(uint64_t place, Segment::Version version) {
  Segment& segment = *segments_[place >> 32];
  segment.died[static_cast<uint32_t>(place)].store(version, std::memory_order_relaxed);
  segment.dead.fetch_add(1, std::memory_order_relaxed);
}

// Moving rows takes memory. Where there is none the write is done nevertheless, and a later one tries again.
void FlatIndex::try_to_give_back() {
  try {
    give_back();
  } catch (const std::bad_alloc&) {
  }
}

// Lets go of segments that hold mostly dead rows, after appending their live rows again. Views keep the old ones.
void FlatIndex::give_back() {
  std::vector<Segment*> old;
  std::vector<int64_t> ids;
  std::vector<const float*> rows;
  std::vector<std::shared_ptr<Segment>> kept;
  State before = state_;
  before.last_count = 0;
  for (size_t i = 0; i < state_.segments->size(); ++i) {
    const std::shared_ptr<Segment>& segment = (*state_.segments)[i];
    const int64_t count = state_.rows_of(i), dead = segment->dead.load(std::memory_order_relaxed);
    if (dead < count && (dead < kLeastDead || 2 * dead <= count)) {
      kept.push_back(segment);
      before.last_count = count;
      continue;
    }
    old.push_back(segment.get());
    for (int64_t row = 0; row < count; ++row) {
      if (segment->died[row].load(std::memory_order_relaxed) != Segment::kAlive) continue;
      ids.push_back(segment->ids[row]);
      rows.push_back(segment->row(row));
    }
  }
  if (old.empty()) return;
  const auto moved = static_cast<int64_t>(ids.size());
  before.segments = std::make_shared<const std::vector<std::shared_ptr<Segment>>>(std::move(kept));
  before.live -= moved;
  const Batch batch(*this, before, moved);
  batch.fill(ids.data(), [&](int64_t i) { return rows[i]; }, 1);
  segments_.insert(segments_.end(), batch.new_segments().begin(), batch.new_segments().end());
  batch.for_places([&](int64_t i, uint64_t place) { places_.set(ids[i], place); });
  for (const Segment* segment : old) segments_[segment->number] = nullptr;
  publish(batch.after());
}

}  // namespace remory::index

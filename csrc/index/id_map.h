// Where each id's live row lies. Used by the writer alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace remory::index {

// Open addressing with linear probing; ids are not negative. No operation but `reserve` allocates.
class IdMap {
 public:
  static constexpr uint64_t kNowhere = ~uint64_t{0};

  int64_t size() const { return size_; }
  int64_t nbytes() const { return static_cast<int64_t>(slots_.size() * sizeof(Slot)); }

  // Makes room for `count` ids in all.
  void reserve(int64_t count) {
    uint64_t slots = 16;
    while (slots < 2 * static_cast<uint64_t>(count)) slots *= 2;
    if (slots <= slots_.size()) return;
    std::vector<Slot> old(slots);
    old.swap(slots_);
    shift_ = 64 - __builtin_ctzll(slots);
    for (const Slot& slot : old) {
      if (slot.id >= 0) slots_[find_slot(slot.id)] = slot;
    }
  }

  void prefetch(int64_t id) const { __builtin_prefetch(&slots_[home(id)], 1); }

  uint64_t find(int64_t id) const {
    if (slots_.empty() || id < 0) return kNowhere;
    const Slot& slot = slots_[find_slot(id)];
    return slot.id == id ? slot.place : kNowhere;
  }

  // Sets the place of an id and returns the one before. There must be room.
  uint64_t set(int64_t id, uint64_t place) {
    Slot& slot = slots_[find_slot(id)];
    if (slot.id == id) return std::exchange(slot.place, place);
    slot = {id, place};
    ++size_;
    return kNowhere;
  }

  // Takes an id out and closes the gap, so that there are no graves to step over.
  void erase(int64_t id) {
    if (slots_.empty()) return;
    uint64_t gap = find_slot(id);
    if (slots_[gap].id != id) return;
    const uint64_t last = slots_.size() - 1;
    for (uint64_t next = (gap + 1) & last; slots_[next].id >= 0; next = (next + 1) & last) {
      const uint64_t wanted = home(slots_[next].id);
      if (((next - wanted) & last) < ((next - gap) & last)) continue;
      slots_[gap] = slots_[next];
      gap = next;
    }
    slots_[gap] = {};
    --size_;
  }

 private:
  struct Slot {
    int64_t id = -1;
    uint64_t place = kNowhere;
  };

  // Multiplied by 2^64 divided by the golden ratio, neighbouring ids lie far apart.
  uint64_t home(int64_t id) const { return (static_cast<uint64_t>(id) * 0x9E3779B97F4A7C15u) >> shift_; }

  uint64_t find_slot(int64_t id) const {
    uint64_t slot = home(id);
    while (slots_[slot].id >= 0 && slots_[slot].id != id) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;
  int shift_ = 64;
  int64_t size_ = 0;
};

}  // namespace remory::index

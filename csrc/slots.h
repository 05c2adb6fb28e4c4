// Where a block's slots lie and what they see, from positions alone. Torch-free; usable in device code.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define REMORY_HOST_DEVICE __host__ __device__
#else
#define REMORY_HOST_DEVICE
#endif

namespace remory {

struct Range {
  int64_t begin, end;  // empty when end <= begin

  REMORY_HOST_DEVICE bool operator==(const Range& other) const { return begin == other.begin && end == other.end; }
};

// Slot i stands for the tokens [first(i), stop(i)) of its block; its anchor is their middle. Anchors are doubled
// throughout, so that a half-integer stays an integer: a slot sees token t iff |2t - 2a| < window.
struct Slots {
  int64_t block, ratio, window;

  REMORY_HOST_DEVICE int64_t count() const { return (block + ratio - 1) / ratio; }
  REMORY_HOST_DEVICE int64_t first(int64_t slot) const { return slot * ratio; }
  REMORY_HOST_DEVICE int64_t stop(int64_t slot) const {
    const int64_t stop = (slot + 1) * ratio;
    return stop < block ? stop : block;
  }
  REMORY_HOST_DEVICE int64_t doubled_anchor(int64_t slot) const { return first(slot) + stop(slot) - 1; }
  REMORY_HOST_DEVICE int64_t position(int64_t slot) const { return (doubled_anchor(slot) + 1) / 2; }

  // The source tokens, out of `length`, that a slot sees.
  REMORY_HOST_DEVICE Range tokens_seen(int64_t slot, int64_t length) const {
    const int64_t before = doubled_anchor(slot) - window, after = doubled_anchor(slot) + window;
    const int64_t end = (after + 1) / 2;
    return {before < 0 ? 0 : before / 2 + 1, end < length ? end : length};
  }

  // The slots that a slot sees, itself among them. All but the last one stand 2 * ratio apart, the last one not beyond.
  REMORY_HOST_DEVICE Range slots_seen(int64_t slot) const {
    const int64_t last = count() - 1, anchor = doubled_anchor(slot);
    const int64_t before = anchor - window - (ratio - 1);
    const int64_t next = slot + (window - 1) / (2 * ratio) + 1;
    const bool sees_last = doubled_anchor(last) - anchor < window;
    return {before < 0 ? 0 : before / (2 * ratio) + 1, sees_last ? last + 1 : next < last ? next : last};
  }
};

}  // namespace remory

// What the row movers have in common: a group of threads a row, grids that stride over any number of rows.
#pragma once

#include "element.cuh"

namespace remory::REMORY_DEVICE {

constexpr int kMoverThreads = 256;

// A group has a power of two of threads, at most a block.
struct RowGroups {
  int threads, per_block;
  unsigned blocks;

  // About four steps a thread where rows are wide, so that several loads are on their way; a warp at least, if the row
  // has work for one.
  RowGroups(int64_t rows, int64_t steps) {
    threads = 1;
    while (threads < kMoverThreads && (threads < 32 ? threads : 4 * threads) < steps) threads *= 2;
    per_block = kMoverThreads / threads;
    const int64_t needed = (rows + per_block - 1) / per_block, resident = int64_t{8} * multiprocessors();
    blocks = static_cast<unsigned>(needed < resident ? needed : resident);
  }
};

// The rows of the calling thread's group, and its place in the group.
struct GroupRows {
  int64_t first, stride;
  int thread;

  __device__ __forceinline__ explicit GroupRows(int threads) {
    const int per_block = kMoverThreads / threads, group = static_cast<int>(threadIdx.x) / threads;
    first = static_cast<int64_t>(blockIdx.x) * per_block + group;
    stride = static_cast<int64_t>(gridDim.x) * per_block;
    thread = static_cast<int>(threadIdx.x) % threads;
  }
};

// Elements of the smaller type that fill a packet: what a thread moves in one step. 1 asks for no alignment.
template <class In, class Out>
constexpr int kStep = static_cast<int>(kPacketBytes / (sizeof(In) < sizeof(Out) ? sizeof(In) : sizeof(Out)));

// What one step reads, as it lies in memory.
template <int Step, class T>
struct Piece {
  static constexpr int kPackets = Step * static_cast<int>(sizeof(T)) / static_cast<int>(kPacketBytes);
  uint4 packets[kPackets];

  __device__ __forceinline__ void read(const T* from) {
#pragma unroll
    for (int p = 0; p < kPackets; ++p) packets[p] = reinterpret_cast<const uint4*>(from)[p];
  }
  __device__ __forceinline__ void get(float (&values)[Step]) const {
#pragma unroll
    for (int p = 0; p < kPackets; ++p) unpack<T>(packets[p], values + p * (Step / kPackets));
  }
};

template <class T>
struct Piece<1, T> {
  T element;

  __device__ __forceinline__ void read(const T* from) { element = *from; }
  __device__ __forceinline__ void get(float (&values)[1]) const { values[0] = load(element); }
};

template <int Step, class T>
__device__ __forceinline__ void write(const float (&values)[Step], T* to) {
  if constexpr (Step == 1) {
    *to = store<T>(values[0]);
  } else {
    store_packets(values, to);
  }
}

// to = from [+ added], elements [thread * Step, width) in strides of the group. The loads of a batch go out before its
// first store: the compiler, which cannot know that rows do not overlap, would not do that by itself.
template <int Step, class In, class Out>
__device__ __forceinline__ void move_steps(const In* from, const In* added, Out* to, int64_t width, int thread,
                                           int threads) {
  constexpr int kBatch = Step * sizeof(In) > kPacketBytes ? 2 : 4;
  const int64_t stride = int64_t{threads} * Step;
  for (int64_t begin = int64_t{thread} * Step; begin < width; begin += kBatch * stride) {
    Piece<Step, In> own[kBatch], other[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int64_t d = begin + b * stride;
      if (d < width) own[b].read(from + d);
      if (d < width && added != nullptr) other[b].read(added + d);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int64_t d = begin + b * stride;
      if (d >= width) break;
      float values[Step], addends[Step];
      own[b].get(values);
      if (added != nullptr) {
        other[b].get(addends);
#pragma unroll
        for (int i = 0; i < Step; ++i) values[i] += addends[i];
      }
      write(values, to + d);
    }
  }
}
// A whole row; what does not fill a step at its end goes one by one.
template <int Step, class In, class Out>
__device__ __forceinline__ void move_row(const In* from, const In* added, Out* to, int64_t width, int thread,
                                         int threads) {
  const int64_t whole = width / Step * Step;
  move_steps<Step>(from, added, to, whole, thread, threads);
  if constexpr (Step > 1) {
    for (int64_t d = whole + thread; d < width; d += threads)
      to[d] = store<Out>(added != nullptr ? load(from[d]) + load(added[d]) : load(from[d]));
  }
}

}  // namespace remory::REMORY_DEVICE

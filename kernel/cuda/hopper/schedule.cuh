// schedule.cuh: which block of queries a thread block works on, and when.
//
// One thread block stays on each multiprocessor. Places in the order of work are handed out by a counter in device
// memory where blocks differ in length (causal, window, lengths), otherwise in turn. The order goes through sections
// of heads whose K and V fit L2 together; within a section, where blocks differ, the longest come first. Which thread
// block computes a row has no influence on its bits.
// The producer draws places and passes them to the consumers through a queue in shared memory.
#pragma once

#include "kernel/cuda/hopper/arguments.cuh"
#include "kernel/cuda/hopper/barrier.cuh"

namespace attest::hopper {

struct Work {
  int block, head, batch;  // block of queries, query head
};

__host__ __device__ inline int places(const Arguments& a) { return a.blocks * a.query_heads * a.batches; }

// The place after `place` for this thread block.
__device__ inline int next_place(const Arguments& a, int place) {
  return a.next_place && a.pass == Pass::main ? gridDim.x + atomicAdd(a.next_place, 1) : place + gridDim.x;
}

__device__ inline Work work_at(const Arguments& a, int place) {
  int block, head;
  if (a.next_place) {
    const int section_places = a.section_heads * a.blocks, section = place / section_places, within = place % section_places;
    const int first_head = section * a.section_heads;
    const int heads = min(a.section_heads, a.query_heads * a.batches - first_head);
    block = a.blocks - 1 - within / heads;
    head = first_head + within % heads;
  } else {
    block = place % a.blocks;
    head = place / a.blocks;
  }
  return {block, head % a.query_heads, head / a.query_heads};
}

// Two places under way from the producer to the consumers.
class WorkQueue {
 public:
  static constexpr int kEnd = -1;
  __device__ void init(int consumer_warps) {
    for (int i = 0; i < kSlots; ++i) full_[i].init(1), free_[i].init(consumer_warps);
  }
  // The number-th push, by one thread; the number-th pop, by every thread of every consumer warp.
  __device__ void push(int number, int place) {
    const int slot = number % kSlots;
    free_[slot].wait((number / kSlots + 1) & 1);
    place_[slot] = place;
    full_[slot].arrive();
  }
  __device__ int pop(int number, int lane) {
    const int slot = number % kSlots;
    full_[slot].wait(number / kSlots & 1);
    const int place = place_[slot];
    __syncwarp();
    if (lane == 0) free_[slot].arrive();
    return place;
  }

 private:
  static constexpr int kSlots = 2;
  int place_[kSlots];
  TransferBarrier full_[kSlots], free_[kSlots];
};

}  // namespace attest::hopper

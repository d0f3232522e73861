// schedule.cuh: which piece of work a thread block does, and when.
//
// A piece of work is a block of queries of one head and one split of its keys. One thread block stays on each
// multiprocessor. Places in the order of work are handed out by a counter in device memory where pieces differ in
// length (causal, window, lengths) or wait for memory (splits), otherwise in turn. The order goes through sections of
// heads whose K and V fit L2 together; within a section, where pieces differ, the longest come first. Which thread
// block computes a row has no influence on its bits.
// The producer draws places and passes the work to the consumers through a queue in shared memory.
#pragma once

#include "kernel/cuda/hopper/arguments.cuh"
#include "kernel/cuda/hopper/barrier.cuh"
#include "kernel/cuda/hopper/visible_keys.cuh"

namespace attest::hopper {

struct Work {
  int block, split, head, batch;  // block of queries, query head
  int keys;                       // the batch's key length
  Purpose purpose;
};

__host__ __device__ inline int places(const Arguments& a) { return a.blocks * a.splits * a.query_heads * a.batches; }

// The place after `place` for this thread block.
__device__ inline int next_place(const Arguments& a, int place) {
  return a.next_place ? gridDim.x + atomicAdd(a.next_place, 1) : place + gridDim.x;
}

__device__ inline Work work_at(const Arguments& a, int place, Purpose purpose = Purpose::main) {
  int part, head;  // a block of queries and a split
  const int parts = a.blocks * a.splits;
  if (a.next_place) {
    const int section_places = a.section_heads * parts, section = place / section_places,
              within = place % section_places;
    const int first_head = section * a.section_heads;
    const int heads = min(a.section_heads, a.query_heads * a.batches - first_head);
    part = parts - 1 - within / heads;
    head = first_head + within % heads;
  } else {
    part = place % parts;
    head = place / parts;
  }
  const int batch = head / a.query_heads;
  return {part % a.blocks, part / a.blocks, head % a.query_heads, batch, key_length(a, batch), purpose};
}

// Two pieces of work under way from the producer to the consumers.
class WorkQueue {
 public:
  __device__ void init(int consumer_warps) {
    for (int i = 0; i < kSlots; ++i) full_[i].init(1), free_[i].init(consumer_warps);
  }
  // The number-th push, by one thread. `there_is` false: the end.
  __device__ void push(int number, bool there_is, const Work& work) {
    const int slot = number % kSlots;
    free_[slot].wait((number / kSlots + 1) & 1);
    work_[slot] = work;
    if (!there_is) work_[slot].block = kEnd;
    full_[slot].arrive();
  }
  // The number-th pop, by every thread of every consumer warp; false at the end. The broadcasts tell the compiler that
  // the warp agrees: what follows from the work, the loops and the matrix descriptors, then lives in uniform registers.
  __device__ bool pop(int number, int lane, Work& work) {
    const int slot = number % kSlots;
    full_[slot].wait(number / kSlots & 1);
    const Work entry = work_[slot];
    work = {__shfl_sync(~0u, entry.block, 0), __shfl_sync(~0u, entry.split, 0), __shfl_sync(~0u, entry.head, 0),
            __shfl_sync(~0u, entry.batch, 0), __shfl_sync(~0u, entry.keys, 0),
            static_cast<Purpose>(__shfl_sync(~0u, static_cast<int>(entry.purpose), 0))};
    if (lane == 0) free_[slot].arrive();
    return work.block != kEnd;
  }

 private:
  static constexpr int kSlots = 2, kEnd = -1;
  Work work_[kSlots];
  TransferBarrier full_[kSlots], free_[kSlots];
};

}  // namespace attest::hopper

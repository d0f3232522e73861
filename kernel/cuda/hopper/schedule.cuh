// schedule.cuh: which block of queries a thread block works on, and when.
//
// One thread block stays on each multiprocessor and walks through its share of the work. Work is ordered in sections of heads
// whose K and V fit L2 together. Where blocks differ in length (causal, window) the longest come first within a
// section, and rounds alternate in direction, so that every thread block gets about the same sum.
#pragma once

#include "kernel/cuda/hopper/arguments.cuh"

namespace attest::hopper {

struct Work {
  int block, head, batch;  // block of queries, query head
};

class Schedule {
 public:
  __device__ explicit Schedule(const Arguments& a) : a_(a), total_(a.blocks * a.query_heads * a.batches) {}

  // This thread block's work number `round`; false where there is none left.
  __device__ bool find(int round, Work& work) const {
    const int grid = gridDim.x, turn = round & 1 ? grid - 1 - static_cast<int>(blockIdx.x) : blockIdx.x;
    const int place = round * grid + turn;
    if (place >= total_) {
      work = {};
      return false;
    }
    int head;
    if (a_.longest_first) {
      const int section = place / (a_.section_heads * a_.blocks), within = place % (a_.section_heads * a_.blocks);
      const int first_head = section * a_.section_heads;
      const int heads = min(a_.section_heads, a_.query_heads * a_.batches - first_head);
      work.block = a_.blocks - 1 - within / heads;
      head = first_head + within % heads;
    } else {
      work.block = place % a_.blocks;
      head = place / a_.blocks;
    }
    work.head = head % a_.query_heads;
    work.batch = head / a_.query_heads;
    return true;
  }
  // Rounds in which any thread block has work; a thread block may have none in the last.
  __device__ int rounds() const { return (total_ + gridDim.x - 1) / gridDim.x; }

 private:
  const Arguments& a_;
  int total_;
};

}  // namespace attest::hopper

// arguments.cuh: what one launch computes, as the device sees it.
//
// A row passes through at most three launches. `main` computes every row. A row whose result is not finite although
// its scores were ordinary met a non-finite value at some key, often a masked one (0 * NaN is NaN): `clean_values`
// repeats the same arithmetic on values with their non-finite entries read as 0, so that the row has the very bits
// it would have had if a masked key had held anything else. What is left (scores so large that the rounding of m*c
// matters, NaN or +inf scores, sums of values beyond f32, non-finite values at visible keys) exact_rows.cuh does in
// double. The choice depends on the row's own scores and values alone.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace attest::hopper {

// A dense operand [batch, head, row, column]; strides in elements, unit stride along columns.
struct Operand {
  void* data;
  int64_t batch, head, row;
};

enum class Pass : int { main, clean_values };

// What became of a row; bit 0 and bit 1 of the state of a strip of 16 rows say which kinds it holds.
enum RowState : uint8_t { kDone = 0, kValuesNotFinite = 1, kNeedsExact = 2 };
constexpr int kStripRows = 16;      // of a warp
constexpr int kWarpgroupRows = 64;  // of a consumer warpgroup

struct Arguments {
  CUtensorMap q_map, k_map, v_map;
  Operand q, k, v, o;
  float* lse;  // or null
  int64_t lse_batch, lse_head, lse_row;
  const int32_t* key_lengths;  // or null
  int64_t key_lengths_stride;
  int batches, query_heads, heads_per_key_head, queries, keys, width, value_width;
  // 1, or 0 where a broadcast dimension has extent 1 in the maps.
  int q_head_step, q_batch_step, k_head_step, k_batch_step, v_head_step, v_batch_step;
  float scale;                    // |scale|
  float scale_log2e;              // |scale| * log2(e), rounded once
  int negative_scale;             // 1: Q is negated, which negates every score exactly
  int window_left, window_right;  // kUnlimited, or how far a query sees
  Pass pass;
  uint8_t* row_state;    // [batch, head, query]
  uint8_t* strip_state;  // [batch, head, strips]
  int strips;            // per head
  uint8_t* warp_state;   // [main_warps]: the kinds of rows that each consumer warp of the main pass left behind
  int main_warps;
  // Order of work (schedule.cuh): blocks of queries per head, heads per section, and the counter of places handed out,
  // null where they go in turn.
  int blocks, section_heads;
  int* next_place;
};

// Whether the main pass left rows of one of these kinds anywhere. For all threads of a block together.
__device__ inline bool anything_left(const Arguments& a, int kinds) {
  bool any = false;
  for (int i = threadIdx.x; i < a.main_warps; i += blockDim.x) any |= a.warp_state[i] & kinds;
  return __syncthreads_or(any);
}

}  // namespace attest::hopper

// arguments.cuh: what one launch computes, as the device sees it.
//
// Every row is computed by the main pass, and its block once more, carefully, where that was not good enough:
//   - A result that is not finite although the scores were ordinary: a non-finite value at some key, often a masked one
//     (0 * NaN is NaN). The careful pass reads non-finite entries of V as 0; everything else is the same, so that the
//     row has the very bits it would have had if a masked key had held anything else.
//   - Scores so large that the rounding of m*c would show in P: the careful pass subtracts before it scales.
// What is left (NaN or +inf scores, sums of values beyond f32, non-finite values at visible keys) exact_rows.cuh does
// in double. The choice depends on the row's own scores and values alone.
//
// With few queries the keys are split into parts of a fixed number of tiles: each part of a row is a piece of work of
// its own and leaves a partial state, which merge_splits.cuh joins.
// A traced call ends with one more launch, which walks the same tiles again by the same arithmetic and only records.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernel/abi/attest_kernel.h"

namespace attest::hopper {

// A dense operand [batch, head, row, column]; strides in elements, unit stride along columns.
struct Operand {
  void* data;
  int64_t batch, head, row;
};

// What a piece of work is for.
enum class Purpose : int { main, again, trace };

// What the main pass, and the careful one after it, left of a row: any of these bits.
enum RowState : uint8_t { kDone = 0, kValuesNotFinite = 1, kNeedsExact = 2, kLargeScores = 4 };
constexpr int kWarpRows = 16;       // of a consumer warp
constexpr int kWarpgroupRows = 64;  // of a consumer warpgroup

// The state of a row after one split: m in raw dot products, l and O relative to round(m * scale_log2e), or to
// m * scale_log2e itself where the row's state has kLargeScores.
struct PartialState {
  float m, l;
};

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
  int copy_engine;                // 0: strides, alignment or widths that the copy engine does not take
  float scale;                    // |scale|
  float scale_log2e;              // |scale| * log2(e), rounded once
  int negative_scale;             // 1: Q is negated, which negates every score exactly
  int window_left, window_right;  // kUnlimited, or how far a query sees
  int blocks;                     // of queries, per head
  int splits, split_tiles;        // parts that the keys are split into, and tiles of a part
  int tracing;                    // this launch is the one that records
  attest_trace_record* trace_records;
  unsigned long long* trace_count;
  uint64_t trace_capacity;
  // In the workspace.
  uint8_t* row_state;       // [batch, head, split, query]
  int* previous_place;      // [place]: what the same thread block worked on before
  PartialState* partial;    // [batch, head, split, query], where splits > 1
  float* partial_o;         // the same, x value_columns
  int value_columns;        // value_width, rounded up to a multiple of 8
  // Order of work (schedule.cuh): heads per section, and the counter of places handed out, null where they go in turn.
  int section_heads;
  int* next_place;
};

// A row's index among the states of its split.
__device__ inline int64_t state_index(const Arguments& a, int batch, int head, int split, int row) {
  return ((int64_t{batch} * a.query_heads + head) * a.splits + split) * a.queries + row;
}

}  // namespace attest::hopper

// merge_splits.cuh: the partial states of a row's splits become its O and LSE, in the order of the splits.
//
// The rule of the recurrence, with the rounded reference points that the states were taken at:
//     M = max M_s;  w_s = exp2(M_s - M);  l = sum w_s l_s;  O = sum w_s O_s / l
// Where a state of large scores is among them, m*c itself is the reference point, and maxima are subtracted before they
// are scaled.
// One thread block a row; rows that tensor cores could not do it does in double.
#pragma once

#include "kernel/cuda/hopper/exact_rows.cuh"
#include "kernel/cuda/hopper/softmax.cuh"

namespace attest::hopper {

constexpr int kMergeThreads = 128;

struct BlockTeam {
  static constexpr int size = kMergeThreads;
  int thread;
  __device__ void meet() const { __syncthreads(); }
};

template <class T>
__global__ void __launch_bounds__(kMergeThreads) merge_splits(const __grid_constant__ Arguments a) {
  __shared__ double scratch[kMergeThreads];
  wait_for_previous_launch();
  let_next_launch_prepare();
  const int thread = threadIdx.x;
  const int64_t rows = int64_t{a.batches} * a.query_heads * a.queries;
  for (int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const int row = i % a.queries, head = i / a.queries % a.query_heads, batch = i / a.queries / a.query_heads;
    const int64_t first = state_index(a, batch, head, 0, row);  // and a.queries apart
    unsigned kinds = 0;
    float most = -INFINITY;
    for (int split = thread; split < a.splits; split += kMergeThreads) {
      kinds |= a.row_state[first + int64_t{split} * a.queries];
      most = fmaxf(most, a.partial[first + int64_t{split} * a.queries].m);
    }
    const bool needs_exact = __syncthreads_or(kinds & kNeedsExact), large = __syncthreads_or(kinds & kLargeScores),
               not_finite = __syncthreads_or(kinds & kValuesNotFinite);
    scratch[thread] = most;
    __syncthreads();
    for (int other = 0; other < min(a.splits, kMergeThreads); ++other)
      most = fmaxf(most, static_cast<float>(scratch[other]));

    bool finite = true;
    if (!needs_exact) {
      const float reference = reference_point(most, a.scale_log2e);
      float l = 0, o[2] = {0, 0};
#pragma unroll 4
      for (int split = 0; split < a.splits; ++split) {
        const int64_t at = first + int64_t{split} * a.queries;
        const PartialState state = a.partial[at];
        float weight;
        if (!large) {
          weight = exp2_approximate(__fmul_rn(state.m, a.scale_log2e) - reference);
        } else {
          const bool rounded = !(a.row_state[at] & kLargeScores);
          const float error = rounded ? reference_error(state.m, a.scale_log2e) : 0.0f;
          weight = state.m == -INFINITY ? 0.0f : exp2_approximate(__fmaf_rn(state.m - most, a.scale_log2e, -error));
        }
        l = __fmaf_rn(state.l, weight, l);
#pragma unroll
        for (int c = 0; c < 2; ++c)
          if (thread + c * kMergeThreads < a.value_width)
            o[c] = __fmaf_rn(a.partial_o[at * a.value_columns + thread + c * kMergeThreads], weight, o[c]);
      }
      const float reciprocal = reciprocal_sum(l);
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        finite &= fabsf(o[c]) < INFINITY;
        const int column = thread + c * kMergeThreads;
        const auto rounded = static_cast<uint16_t>(pack_finite<T>(o[c] * reciprocal, 0));
        if (column < a.value_width)
          static_cast<uint16_t*>(a.o.data)[batch * a.o.batch + head * a.o.head + row * a.o.row + column] = rounded;
      }
      if (thread == 0 && a.lse)
        a.lse[batch * a.lse_batch + head * a.lse_head + row * a.lse_row] =
            log_sum_exp(most, l, a.scale, large ? 0.0f : reference_error(most, a.scale_log2e));
    }
    const bool exact = needs_exact || __syncthreads_or(!finite);
    if (exact) {
      a.row_state[first] = kNeedsExact;  // which a trace reads
      ExactRow<T, BlockTeam>(a, {thread}, scratch, batch, head, row).compute(kNeedsExact);
    } else if (not_finite) {
      ExactRow<T, BlockTeam>(a, {thread}, scratch, batch, head, row).compute(kValuesNotFinite);
    }
    __syncthreads();
  }
}

}  // namespace attest::hopper

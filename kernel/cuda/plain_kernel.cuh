// plain_kernel.cuh: attention on the ordinary units of a GPU, one warp for each row and split; everything in the
// contract, any width up to 256, any alignment.
//
// The recurrence is kernel/recurrence.h, the same as the host's. Lanes share the keys of a tile while scores are
// formed, and the columns of O while values are added, so every sum has a fixed order and a row's bits depend on its
// own contents alone. Partial states of splits go through the workspace unnormalised and are merged in order.
#pragma once

#include "kernel/view.h"

namespace attest::plain {

inline constexpr int kWarp = 32;
inline constexpr int kWarpsPerBlock = 4;
inline constexpr int kLargestWidth = 256;
inline constexpr int kColumns = kLargestWidth / kWarp;  // columns of O per lane
inline constexpr int64_t kLargestTile = 1024;           // scores of a tile wait in shared memory

struct State {
  double m;
  float l;
};

// Shared memory of one warp: scores of a tile, then P in their place.
struct Tile {
  double* score;
  float* weight;
};

__device__ __forceinline__ double warp_maximum(double x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x = Recurrence::maximum(x, __shfl_xor_sync(~0u, x, step));
  return x;
}
__device__ __forceinline__ float warp_sum(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// One key's dot product. f16 in f32, where products are exact and the fused multiply-add rounds the addition alone.
// The others in double: the strict model leaves no room for a product of two 24-bit numbers rounded to f32, and the
// products of bf16 values may lie below f32's range while a large scale brings them back.
__device__ __forceinline__ double dot_product(const Call& c, int64_t q, int64_t k) {
  if (c.q.type != ATTEST_F16) {
    double sum = 0;
    for (int64_t d = 0; d < c.d; ++d) sum = fma(static_cast<double>(c.q.value(q + d)), static_cast<double>(c.k.value(k + d)), sum);
    return sum;
  }
  float sum = 0;
  for (int64_t d = 0; d < c.d; ++d) sum = fmaf(c.q.value(q + d), c.k.value(k + d), sum);
  return sum;
}

// Scores of keys [first, last) into shared memory; returns their maximum.
__device__ inline double score_tile(const Call& c, int64_t b, int64_t h, int64_t g, int64_t row, int64_t first, int64_t last,
                                    const Recurrence::KeyRange& range, const Tile& tile, int lane) {
  double maximum = Recurrence::kMinusInfinity;
  for (int64_t j = first + lane; j < last; j += kWarp) {
    double s = Recurrence::masked_score();
    const bool visible = j >= range.begin && j < range.end && (!c.has_mask || c.mask.data[c.mask.at(b, h, row, j)] != 0);
    if (visible) {
      const double bias = c.has_bias ? static_cast<double>(c.bias.value(c.bias.at(b, h, row, j))) : 0.0;
      if (bias != Recurrence::kMinusInfinity)
        s = Recurrence::score(dot_product(c, c.q.at(b, h, row, 0), c.k.at(b, g, j, 0)), c.scale, c.softcap, bias);
    }
    tile.score[j - first] = s;
    maximum = Recurrence::maximum(maximum, s);
  }
  return warp_maximum(maximum);
}

__device__ __forceinline__ float round_weight(float p, int32_t type) {
  if (type == ATTEST_BF16) return numbers::from_bf16(numbers::to_bf16(p));
  if (type == ATTEST_F16) return numbers::from_f16(numbers::to_f16(p));
  return p;
}

// One split of one row: the recurrence of section 2. O of this lane's columns in `o`.
template <class Sum, bool kTrace>
__device__ State attend_split(const Call& c, int64_t b, int64_t h, int64_t row, int32_t split, const Tile& tile, int lane, Sum (&o)[kColumns]) {
  const int64_t g = h / (c.heads / c.key_heads);
  for (Sum& x : o) x = 0;
  State state{Recurrence::kMinusInfinity, 0.0f};
  const int64_t length = c.key_lengths != nullptr ? c.key_lengths[b] : c.keys;
  const auto range = Recurrence::key_range(row, c.rows, length, c.causal, c.left, c.right);
  const int64_t begin = split_begin(c, split), end = split_begin(c, split + 1);
  const int64_t tiles = (end - begin + c.tile - 1) / c.tile;
  int64_t sequence = 0;
  for (int64_t n = 0; n < tiles; ++n) {
    const int64_t first = begin + (c.descending ? tiles - 1 - n : n) * c.tile;
    const int64_t last = first + c.tile < end ? first + c.tile : end;
    if (last <= range.begin || first >= range.end) continue;  // no visible key
    __syncwarp();
    const double tile_maximum = score_tile(c, b, h, g, row, first, last, range, tile, lane);
    if (tile_maximum == Recurrence::kMinusInfinity) continue;

    const double m_new = Recurrence::new_maximum(state.m, tile_maximum);
    const float factor = Recurrence::rescale(state.m, m_new);
    float sum = 0;
    for (int64_t j = lane; j < last - first; j += kWarp) {
      const float p = Recurrence::weight(tile.score[j], m_new);
      sum += p;
      tile.weight[j] = round_weight(p, c.p_type);
    }
    __syncwarp();
    state.l = state.l * factor + warp_sum(sum);
    for (Sum& x : o) x *= static_cast<Sum>(factor);
    for (int64_t j = 0; j < last - first; ++j) {
      if (Recurrence::is_masked(tile.score[j])) continue;
      const Sum p = static_cast<Sum>(tile.weight[j]);
      const int64_t at = c.v.at(b, g, first + j, 0);
#pragma unroll
      for (int n = 0; n < kColumns; ++n)
        if (n * kWarp + lane < c.dv) o[n] = fma(p, static_cast<Sum>(c.v.value(at + n * kWarp + lane)), o[n]);
    }
    state.m = m_new;
    if constexpr (kTrace) {
      if (lane == 0) {
        const unsigned long long at = atomicAdd(reinterpret_cast<unsigned long long*>(c.trace.count), 1ull);
        if (at < c.trace.capacity) {
          attest_trace_record r{};
          r.b = static_cast<int32_t>(b);
          r.h = static_cast<int32_t>(h);
          r.row = row;
          r.split = split;
          r.sequence = sequence++;
          r.key_begin = first;
          r.key_end = last;
          r.m = static_cast<float>(state.m);
          r.l = state.l;
          r.scale = factor;
          c.trace.records[at] = r;
        }
      }
    }
  }
  return state;
}

// (a, o) takes in (b, other) by the rule of the recurrence.
template <class Sum>
__device__ void merge_states(State& a, Sum (&o)[kColumns], const State& b, const Sum (&other)[kColumns]) {
  if (b.m == Recurrence::kMinusInfinity) return;
  const double m = Recurrence::new_maximum(a.m, b.m);
  const float wa = Recurrence::rescale(a.m, m), wb = Recurrence::rescale(b.m, m);
  a.l = a.l * wa + b.l * wb;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) o[n] = o[n] * static_cast<Sum>(wa) + other[n] * static_cast<Sum>(wb);
  a.m = m;
}

template <class Sum>
__device__ void merge_sink(const Call& c, int64_t h, State& state, Sum (&o)[kColumns]) {
  if (c.sink == nullptr) return;
  const Sum nothing[kColumns] = {};
  merge_states(state, o, {static_cast<double>(c.sink[h]), 1.0f}, nothing);
}

// Writes the row; where sum P v left f32 although O fits, such columns are summed again in double.
template <class Sum>
__device__ void finish_row(const Call& c, int64_t b, int64_t h, int64_t row, State state, Sum (&o)[kColumns], const Tile& tile, int lane) {
  merge_sink(c, h, state, o);
  const double largest = numbers::largest_finite(c.o.type);
  const auto store = [&](int n, double sum, float l) {
    c.o.store(c.o.at(b, h, row, n * kWarp + lane), Recurrence::within_type(Recurrence::normalise(sum, l), isfinite(sum), largest));
  };
  bool overflowed = false;
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    if (n * kWarp + lane >= c.dv) continue;
    overflowed = overflowed || !isfinite(o[n]);
    store(n, o[n], state.l);
  }
  if (sizeof(Sum) == 4 && isfinite(state.l) && __any_sync(~0u, overflowed)) {
    double wide[kColumns], part[kColumns];
    State again = attend_split<double, false>(c, b, h, row, 0, tile, lane, wide);
    for (int32_t split = 1; split < c.splits; ++split) {
      const State other = attend_split<double, false>(c, b, h, row, split, tile, lane, part);
      merge_states(again, wide, other, part);
    }
    merge_sink(c, h, again, wide);
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
      if (n * kWarp + lane < c.dv && !isfinite(o[n])) store(n, wide[n], again.l);
  }
  if (c.has_lse && lane == 0) c.lse.store(c.lse.at(b, h, row, 0), Recurrence::log_sum_exp(state.m, state.l));
}

// Bytes of one partial state in the workspace: m, l, O.
template <class Sum>
__host__ __device__ constexpr int64_t state_bytes(int64_t dv) {
  return 16 + (dv * static_cast<int64_t>(sizeof(Sum)) + 15) / 16 * 16;
}

template <class Sum, bool kTrace>
__global__ void __launch_bounds__(kWarp * kWarpsPerBlock) attend(const Call c, uint8_t* states) {
  extern __shared__ double shared[];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  double* mine = shared + static_cast<int64_t>(warp) * (c.tile + (c.tile + 1) / 2);
  const Tile tile{mine, reinterpret_cast<float*>(mine + c.tile)};
  const int64_t work = c.batches * c.heads * c.rows * c.splits;
  for (int64_t n = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + warp; n < work; n += static_cast<int64_t>(gridDim.x) * kWarpsPerBlock) {
    const auto split = static_cast<int32_t>(n % c.splits);
    const int64_t row_index = n / c.splits;
    const int64_t row = row_index % c.rows, h = row_index / c.rows % c.heads, b = row_index / c.rows / c.heads;
    Sum o[kColumns];
    const State state = attend_split<Sum, kTrace>(c, b, h, row, split, tile, lane, o);
    if (c.splits == 1) {
      finish_row(c, b, h, row, state, o, tile, lane);
      continue;
    }
    uint8_t* at = states + n * state_bytes<Sum>(c.dv);
    if (lane == 0) {
      *reinterpret_cast<double*>(at) = state.m;
      *reinterpret_cast<float*>(at + 8) = state.l;
    }
    Sum* values = reinterpret_cast<Sum*>(at + 16);
#pragma unroll
    for (int k = 0; k < kColumns; ++k)
      if (k * kWarp + lane < c.dv) values[k * kWarp + lane] = o[k];
  }
}

template <class Sum>
__global__ void __launch_bounds__(kWarp * kWarpsPerBlock) merge_splits(const Call c, const uint8_t* states) {
  extern __shared__ double shared[];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  double* mine = shared + static_cast<int64_t>(warp) * (c.tile + (c.tile + 1) / 2);
  const Tile tile{mine, reinterpret_cast<float*>(mine + c.tile)};
  const int64_t work = c.batches * c.heads * c.rows;
  for (int64_t n = static_cast<int64_t>(blockIdx.x) * kWarpsPerBlock + warp; n < work; n += static_cast<int64_t>(gridDim.x) * kWarpsPerBlock) {
    State total{Recurrence::kMinusInfinity, 0.0f};
    Sum o[kColumns] = {};
    for (int32_t split = 0; split < c.splits; ++split) {
      const uint8_t* at = states + (n * c.splits + split) * state_bytes<Sum>(c.dv);
      const State state{*reinterpret_cast<const double*>(at), *reinterpret_cast<const float*>(at + 8)};
      const Sum* values = reinterpret_cast<const Sum*>(at + 16);
      Sum part[kColumns] = {};
#pragma unroll
      for (int k = 0; k < kColumns; ++k)
        if (k * kWarp + lane < c.dv) part[k] = values[k * kWarp + lane];
      merge_states(total, o, state, part);
    }
    finish_row(c, n / c.rows / c.heads, n / c.rows % c.heads, n % c.rows, total, o, tile, lane);
  }
}

}  // namespace attest::plain

// exact_rows.cuh: the rows that the tensor-core kernel could not do, in double, one thread block a row.
//
// Direct and slow: the maximum, then the sum, then the weighted values, over the visible keys alone. The score's
// reference point is subtracted before the scale is applied, and no sum of values can overflow. A row whose scores
// hold NaN or +inf is NaN; a score of -inf is a masked key. For a row in state kValuesNotFinite only the columns with
// a non-finite value at a visible key are written, with NaN: the others were right already.
#pragma once

#include "kernel/cuda/hopper/barrier.cuh"
#include "kernel/cuda/hopper/softmax.cuh"
#include "kernel/cuda/hopper/visible_keys.cuh"

namespace attest::hopper {

constexpr int kExactThreads = 256;  // keys per chunk, and at least the widest value

__device__ inline double to_double(__half x) { return __half2float(x); }
__device__ inline double to_double(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void round_from_double(__half& to, double x) { to = __double2half(x); }
__device__ inline void round_from_double(__nv_bfloat16& to, double x) { to = __double2bfloat16(x); }

template <class T>
class ExactRow {
 public:
  __device__ ExactRow(const Arguments& a, double* scratch, int batch, int head, int row)
      : a_(a), scratch_(scratch), batch_(batch), head_(head), row_(row) {
    const VisibleKeys visible(a, key_length(a, batch));
    first_ = visible.first(row), end_ = visible.end(row);
    q_ = static_cast<const T*>(a.q.data) + batch * a.q.batch + head * a.q.head + row * a.q.row;
    const int key_head = head / a.heads_per_key_head;
    k_ = static_cast<const T*>(a.k.data) + batch * a.k.batch + key_head * a.k.head;
    v_ = static_cast<const T*>(a.v.data) + batch * a.v.batch + key_head * a.v.head;
  }

  __device__ void compute(RowState state) {
    const int column = threadIdx.x;
    const bool has_column = column < a_.value_width;
    T* const out = static_cast<T*>(a_.o.data) + batch_ * a_.o.batch + head_ * a_.o.head + row_ * a_.o.row + column;

    double most = -INFINITY, invalid = 0;
    for (int key = first_ + threadIdx.x; key < end_; key += kExactThreads) {
      const double x = score(key);
      invalid = fmax(invalid, isnan(x) || x == INFINITY ? 1.0 : 0.0);
      most = fmax(most, x);
    }
    most = reduce(most, [](double x, double y) { return fmax(x, y); });
    invalid = reduce(invalid, [](double x, double y) { return fmax(x, y); });
    if (invalid != 0) return write(out, has_column, NAN, NAN);
    if (most == -INFINITY) return write(out, has_column, 0, -INFINITY);

    double sum = 0;
    for (int key = first_ + threadIdx.x; key < end_; key += kExactThreads) sum += weight(score(key), most);
    sum = reduce(sum, [](double x, double y) { return x + y; });

    double o = 0;
    bool finite = true;
    for (int chunk = first_; chunk < end_; chunk += kExactThreads) {
      __syncthreads();
      const int key = chunk + threadIdx.x;
      const double x = key < end_ ? score(key) : -INFINITY;
      scratch_[threadIdx.x] = x == -INFINITY ? -1.0 : weight(x, most);  // -1: contributes nothing, whatever V holds
      __syncthreads();
      for (int j = 0; has_column && j < min(kExactThreads, end_ - chunk); ++j) {
        const double p = scratch_[j];
        if (p < 0) continue;
        const double value = to_double(v_[(chunk + j) * a_.v.row + column]);
        finite &= fabs(value) < INFINITY;
        o += p * value;
      }
    }
    if (state == kValuesNotFinite) {
      if (has_column && !finite) round_from_double(*out, NAN);
    } else {
      write(out, has_column, finite ? o / sum : NAN, a_.scale * most + log(sum));
    }
  }

 private:
  // The raw dot product, with the sign of the scale.
  __device__ double score(int key) const {
    double dot = 0;
    for (int d = 0; d < a_.width; ++d) dot += to_double(q_[d]) * to_double(k_[key * a_.k.row + d]);
    return a_.negative_scale ? -dot : dot;
  }
  __device__ double weight(double x, double most) const { return exp((x - most) * a_.scale); }

  template <class Join>
  __device__ double reduce(double x, Join join) {
    __syncthreads();
    scratch_[threadIdx.x] = x;
    for (int half = kExactThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.x < half) scratch_[threadIdx.x] = join(scratch_[threadIdx.x], scratch_[threadIdx.x + half]);
    }
    __syncthreads();
    return scratch_[0];
  }

  __device__ void write(T* out, bool has_column, double o, double lse) const {
    if (has_column) round_from_double(*out, o);
    if (threadIdx.x == 0 && a_.lse)
      a_.lse[batch_ * a_.lse_batch + head_ * a_.lse_head + row_ * a_.lse_row] = static_cast<float>(lse);
  }

  const Arguments& a_;
  double* scratch_;
  int batch_, head_, row_, first_, end_;
  const T *q_, *k_, *v_;
};

// Nearly always no warp left anything behind, and this is one short read.
template <class T>
__global__ void __launch_bounds__(kExactThreads) exact_rows(const __grid_constant__ Arguments a) {
  __shared__ double scratch[kExactThreads];
  wait_for_previous_launch();
  if (!anything_left(a, kValuesNotFinite | kNeedsExact)) return;
  const int64_t strips = int64_t{a.batches} * a.query_heads * a.strips;
  for (int64_t base = int64_t{blockIdx.x} * kExactThreads; base < strips; base += int64_t{gridDim.x} * kExactThreads) {
    const int64_t mine = base + threadIdx.x;
    if (!__syncthreads_or(mine < strips && a.strip_state[mine] != 0)) continue;
    for (int64_t strip = base; strip < min(base + kExactThreads, strips); ++strip) {
      if (a.strip_state[strip] == 0) continue;
      const int64_t head_index = strip / a.strips;
      const int begin = static_cast<int>(strip % a.strips) * kStripRows;
      for (int row = begin; row < min(begin + kStripRows, a.queries); ++row) {
        const auto state = static_cast<RowState>(a.row_state[head_index * a.queries + row]);
        if (state == kDone) continue;
        ExactRow<T>(a, scratch, head_index / a.query_heads, head_index % a.query_heads, row).compute(state);
      }
    }
  }
}

}  // namespace attest::hopper

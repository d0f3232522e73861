// exact_rows.cuh: a row that tensor cores could not do, in double, by a team of threads.
//
// Direct and slow: the maximum, then the sum, then the weighted values, over the visible keys alone. The score's
// reference point is subtracted before the scale is applied, and no sum of values can overflow. A row whose scores
// hold NaN or +inf is NaN; a score of -inf is a masked key. For a row in state kValuesNotFinite only the columns with
// a non-finite value at a visible key are written, with NaN: the others were right already.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel/cuda/hopper/barrier.cuh"
#include "kernel/cuda/hopper/visible_keys.cuh"

namespace attest::hopper {

__device__ inline void record(const Arguments& a, const attest_trace_record& visit) {
  const unsigned long long at = atomicAdd(a.trace_count, 1ull);
  if (at < a.trace_capacity) a.trace_records[at] = visit;
}

__device__ inline double to_double(__half x) { return __half2float(x); }
__device__ inline double to_double(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void round_from_double(__half& to, double x) { to = __double2half(x); }
__device__ inline void round_from_double(__nv_bfloat16& to, double x) { to = __double2bfloat16(x); }

// Team: `size` threads, this one's number `thread`, and meet(), where they wait for each other. `scratch`: a double
// for each, in shared memory.
template <class T, class Team>
class ExactRow {
 public:
  __device__ ExactRow(const Arguments& a, const Team& team, double* scratch, int batch, int head, int row)
      : a_(a), team_(team), scratch_(scratch), batch_(batch), head_(head), row_(row) {
    const VisibleKeys visible(a, key_length(a, batch));
    first_ = visible.first(row), end_ = visible.end(row);
    q_ = static_cast<const T*>(a.q.data) + batch * a.q.batch + head * a.q.head + row * a.q.row;
    const int key_head = head / a.heads_per_key_head;
    k_ = static_cast<const T*>(a.k.data) + batch * a.k.batch + key_head * a.k.head;
    v_ = static_cast<const T*>(a.v.data) + batch * a.v.batch + key_head * a.v.head;
    o_ = static_cast<T*>(a.o.data) + batch * a.o.batch + head * a.o.head + row * a.o.row;
  }

  // For all threads of the team together, with the same `state`: kNeedsExact, or kValuesNotFinite alone.
  __device__ void compute(RowState state) {
    double most = -INFINITY, invalid = 0;
    for (int key = first_ + team_.thread; key < end_; key += Team::size) {
      const double x = score(key);
      invalid = fmax(invalid, isnan(x) || x == INFINITY ? 1.0 : 0.0);
      most = fmax(most, x);
    }
    most = reduce(most, [](double x, double y) { return fmax(x, y); });
    invalid = reduce(invalid, [](double x, double y) { return fmax(x, y); });
    if (invalid != 0) return write_all(NAN, NAN);
    if (most == -INFINITY) return write_all(0, -INFINITY);

    double sum = 0;
    for (int key = first_ + team_.thread; key < end_; key += Team::size) sum += weight(score(key), most);
    sum = reduce(sum, [](double x, double y) { return x + y; });

    for (int base = 0; base < a_.value_width; base += Team::size) {
      const int column = base + team_.thread;
      const auto [o, finite] = weighted_values(column, most);
      if (column >= a_.value_width) continue;
      if (!finite) round_from_double(o_[column], NAN);
      else if (state == kNeedsExact) round_from_double(o_[column], o / sum);
    }
    if (state != kNeedsExact || team_.thread != 0) return;
    write_lse(a_.scale * most + log(sum));
    if (a_.trace_records) record_visit(most, sum);
  }

 private:
  struct Sum {
    double o;
    bool finite;
  };
  __device__ Sum weighted_values(int column, double most) {
    Sum sum{0, true};
    for (int chunk = first_; chunk < end_; chunk += Team::size) {
      team_.meet();
      const int key = chunk + team_.thread;
      const double x = key < end_ ? score(key) : -INFINITY;
      scratch_[team_.thread] = x == -INFINITY ? -1.0 : weight(x, most);  // -1: contributes nothing, whatever V holds
      team_.meet();
      if (column >= a_.value_width) continue;
      for (int j = 0; j < min(Team::size, end_ - chunk); ++j) {
        const double p = scratch_[j];
        if (p < 0) continue;
        const double value = to_double(v_[(chunk + j) * a_.v.row + column]);
        sum.finite &= fabs(value) < INFINITY;
        sum.o += p * value;
      }
    }
    return sum;
  }

  // The raw dot product, with the sign of the scale.
  __device__ double score(int key) const {
    double dot = 0;
    for (int d = 0; d < a_.width; ++d) dot += to_double(q_[d]) * to_double(k_[key * a_.k.row + d]);
    return a_.negative_scale ? -dot : dot;
  }
  __device__ double weight(double x, double most) const { return exp((x - most) * a_.scale); }

  template <class Join>
  __device__ double reduce(double x, Join join) {
    team_.meet();
    scratch_[team_.thread] = x;
    team_.meet();
    for (int i = 0; i < Team::size; ++i) x = i == 0 ? scratch_[0] : join(x, scratch_[i]);
    return x;
  }

  __device__ void write_all(double o, double lse) const {
    for (int column = team_.thread; column < a_.value_width; column += Team::size) round_from_double(o_[column], o);
    if (team_.thread == 0) write_lse(lse);
  }
  __device__ void write_lse(double lse) const {
    if (a_.lse) a_.lse[batch_ * a_.lse_batch + head_ * a_.lse_head + row_ * a_.lse_row] = static_cast<float>(lse);
  }
  // One visit of all keys: that is what this row got.
  __device__ void record_visit(double most, double sum) const {
    attest_trace_record visit = {};
    visit.b = batch_, visit.h = head_, visit.row = row_;
    visit.key_begin = first_, visit.key_end = end_;
    visit.m = static_cast<float>(a_.scale * most), visit.l = static_cast<float>(sum);
    record(a_, visit);
  }

  const Arguments& a_;
  const Team team_;
  double* scratch_;
  int batch_, head_, row_, first_, end_;
  const T *q_, *k_, *v_;
  T* o_;
};

}  // namespace attest::hopper

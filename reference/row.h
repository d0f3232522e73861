// row.h: one query row as the judge sees it, between the reference (exact.h, enclosure.h) and the bound.
//
// Both paths fill a Row: the exact one rounds its cpp_dec_float values to double, the other computes in double
// with an enclosure. The bound and the noise budget are computed from a Row in double, by the same code.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/numerics.h"
#include "reference/problem.h"

namespace attest {

// K and V of one (batch, key head), widened once to float, which is exact, rows packed.
struct HeadData {
  int64_t nk = 0, d = 0, dv = 0;
  std::vector<float> k, v;
  std::vector<float> v_low, v_high;  // of each column, over all keys
  bool v_nonfinite = false;  // some value of V is NaN or infinite
  bool k_has_zero = false, v_has_zero = false;
  bool k_has_subnormal = false;  // of the input type; not looked for in f32

  void load(const Problem& problem, int64_t b, int64_t key_head);
  const float* k_row(int64_t j) const { return k.data() + j * d; }
  const float* v_row(int64_t j) const { return v.data() + j * dv; }
};

enum class RowKind : uint8_t {
  normal,
  empty,         // no visible key, or every visible score is -inf: O = 0, LSE = -inf or the sink
  nan,           // NaN or +inf score at a visible key: O and LSE are NaN
  out_of_range,  // nothing is promised
};

// A visible key with a finite score. Doubles hold the exact values rounded once (exact path) or enclosed.
struct Row {
  RowKind kind = RowKind::normal;
  int64_t b = 0, h = 0, i = 0;

  // Per visible key, all of one length n.
  std::vector<int64_t> key;    // index of the key
  std::vector<double> x;       // scale * dot
  std::vector<double> bias;    // added after softcap
  std::vector<double> s;       // final score
  std::vector<double> s_low;   // s + s_low is the score where the enclosure keeps more digits
  std::vector<double> ds;      // s - m, <= 0
  std::vector<double> p;       // exp(s - m)
  std::vector<double> dot;     // sum q_d k_d, within dot_roundings(d) 2^-53 dot_abs (hot_loops.h); exact with one product
  std::vector<double> dot_abs; // sum |q_d k_d|
  std::vector<double> dot_field;  // the same with subnormal factors taken for the least normal one; empty: dot_abs
  std::vector<double> dot_terms;  // number of nonzero products q_d k_d
  bool dense = false;          // all D products of every key are taken for nonzero
  // What the cuts of a dot product are relative to: tensor cores align by the factors' exponent fields.
  const std::vector<double>& dot_sizes(bool aligned_blocks) const {
    return aligned_blocks && !dot_field.empty() ? dot_field : dot_abs;
  }

  double m = 0;                // maximum of the scores and the sink
  bool has_sink = false;       // a finite sink
  double sink = 0, sink_ds = 0, sink_p = 0, sink_ds_low = 0;
  double l = 0;                // sum of p, the sink included
  double lse = 0;

  // Per column.
  std::vector<double> o_hi, o_lo;        // O = o_hi + o_lo
  std::vector<double> o_abs;             // sum p |v|
  std::vector<uint8_t> column_nonfinite; // a non-finite V at a visible key: the element must be non-finite

  // Enclosure of the double path; all 0 in the exact path. The exact weights are p_j e^{+-kappa_j} up to a factor
  // that all of them share.
  bool enclosed = false;
  bool wide = false;                     // some kappa is too large for the enclosure to hold
  std::vector<double> kappa;             // per visible key
  double sink_kappa = 0;
  double lse_error = 0;                  // |lse - exact|, absolute
  std::vector<double> pair_hi, pair_lo;  // scratch: dot products, then scores without bias, in double-double
  std::vector<double> ds_low, p_low;     // scratch: what ds and p lack where the enclosure keeps more digits
  std::vector<double> o_sum_error;       // rounding of the sums over keys, absolute

  int64_t size() const { return static_cast<int64_t>(key.size()); }
  double v(const HeadData& head, int64_t index, int64_t column) const {
    return head.v[static_cast<size_t>(key[static_cast<size_t>(index)] * head.dv + column)];
  }
};

}  // namespace attest

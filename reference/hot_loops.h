// hot_loops.h: the loops that take the double path's time, compiled for AVX-512, AVX2 with FMA and the baseline; the
// best that the processor has is chosen at run time.
//
// The three differ in the order of their sums and in fused products; the enclosure (enclosure.h) covers all of them.
// Arrays are packed; `key` names the n rows of K or V that take part.
#pragma once

#include <cstdint>

#include "reference/numerics.h"

namespace attest {

// value[j] = q.k, abs[j] = sum |q_d k_d|, terms[j] = its nonzero products, for the keys key[0..n).
struct DotArguments {
  const double* q;
  const float* k;
  const int64_t* key;
  int64_t n, d;
  bool dense;  // neither q nor K holds a zero: every product counts as a term
  double *value, *abs, *terms;
};

// field[j] = sum q_d max(|k_d|, least) over the k_d that are not 0.
struct FieldArguments {
  const double* q;
  const float* k;
  const int64_t* key;
  int64_t n, d;
  double least;
  bool zeros;  // K holds zeros
  double* field;
};

// high[j] + low[j] = q.k within 8 (d 2^-53)^2 abs[j], for `abs` from `dots`.
struct DotPairArguments {
  const double* q;
  const float* k;
  const int64_t* key;
  int64_t n, d;
  const double* abs;
  double *high, *low;
};

// o[d] = sum p_j v_jd, abs[d] = sum p_j |v_jd|.
struct ValueArguments {
  const float* v;
  const int64_t* key;
  const double* p;
  int64_t n, dv;
  double *o, *abs;
};

// high[d] + low[d] = sum (p_j + p_low_j) v_jd within n 2^-79 abs[d], for `abs` from `weighted_sums`, |p_low_j| <= 2^-40 p_j
// and n below 2^20.
struct ValuePairArguments {
  const float* v;
  const int64_t* key;
  const double *p, *p_low;
  int64_t n, dv;
  const double* abs;
  double *high, *low;
};

// p_low[j] = e^(ds + ds_low) - p[j] within 2^-60 p[j], for p from exps(ds) and |ds_low| <= 2^-40; 0 where ds is below -700.
struct ExpLowArguments {
  const double *ds, *ds_low, *p;
  int64_t n;
  double* p_low;
};

// The bound's sums over the keys, per column.
struct BoundSums {
  double* spread;   // sum p (e^delta - 1) |v - O|
  double* near;     // sum r |v - O|        where P is rounded by r
  double* noise1;   // sum (p sigma)^2 (v - O)  where P is rounded
  double* noise2;   // sum (p sigma)^2 (v - O)^2
  double* nonzero;  // nonzero values, where `zeros`
  float* low;       // smallest value, of those that stand there before, where `extremes`
  float* high;      // largest
};
struct BoundArguments {
  const float* v;
  const int64_t* key;
  const double* o;
  int64_t n, dv;
  bool rounded, zeros;     // P is rounded; V holds zeros
  bool extremes;           // low and high are asked for
  const double* grow;      // p (e^delta - 1)
  const double* rounding;  // r
  const double* sigma2;    // (p sigma)^2; NULL: noise1 and noise2 stay 0
  BoundSums sums;
};

// Keys that are tied round alike: with w = sum v over a group, noise2 += sigma2 (w - count o)^2 and noise_abs += sigma2 w^2.
// A group whose v - o cancel to 2^-45 of their size counts as 0: it holds all the weight, and what is left is o's rounding.
// A key j with group[j] = j is the first of its group; next[j] is the one after j, -1 after the last.
struct TiedArguments {
  const float* v;
  const int64_t* key;
  const double* o;
  int64_t n, dv;
  const int64_t *group, *next;
  const double* sigma2;
  double *noise2, *noise_abs;
};

// Scores of one fused scale: x = s = scale dot, kappa the error of x.
struct ScoreArguments {
  const double *dot, *dot_abs, *dot_terms;
  int64_t n;
  double scale, dot_error;  // error of x for each unit of dot_abs where the dot product is a sum
  double *x, *s, *kappa;
};

// ds = (s - m) + (s_low - m_low).
struct ShiftArguments {
  const double *s, *s_low, *kappa;
  int64_t n;
  double m, m_low;
  double* ds;
  double least_ds, kappa_at_maximum;  // results: the smallest ds, the largest kappa where s = m
};

// The same in double-double. In: high + low = q.k, from dot_pairs of d products. Out: high + low = x = scale q.k, where nothing is
// lost with one product; kappa its error; s + s_low = x + bias.
struct ScorePairArguments {
  double *high, *low;
  const double *dot_abs, *dot_terms, *bias;
  int64_t n, d;
  double scale;
  double *kappa, *s, *s_low;
};

// ds + ds_low = (high + low + bias) - (top + top_low + top_bias), each difference by itself: a bias may be 2^127 larger than the rest.
struct ShiftPairArguments {
  const double *high, *low, *bias;
  int64_t n;
  double top, top_low, top_bias;
  double *ds, *ds_low;
};

// kappa += the error of exp where it acts; l = sum p, entropy = sum p kappa.
struct SumArguments {
  const double *ds, *p;
  int64_t n;
  double* kappa;
  double l, entropy, kappa_most;  // results
};

// delta_j = own_j + 2^-23 |ds_j| + shared: the bound of the error of key j's exponent.
struct DeltaArguments {
  const double *own, *ds, *kappa, *p;
  int64_t n;
  double shared, vanishes;  // a key has no weight where ds + 2 delta lies at `vanishes` or below
  double* delta;
  double own_most, delta_most, gain, p_kappa;  // results; gain: the largest kappa / delta
};

// What the errors of the exponents and the rounding of P make of each weight; bound.cpp says what each figure is.
struct WeightArguments {
  const double *p, *ds, *delta, *own, *s, *x, *dot_abs, *dot_terms;
  const double *more, *less;  // e^delta - 1 from above, e^-delta from below; NULL where every delta is below 2^-8
  int64_t n;
  bool one_weight, affine;
  double p_rel, p_abs;                 // rounding of P, relative and where it is subnormal
  double top_unit, own_most;           // rounding of P at the maximum: top_unit + 2 (own_most + own), p_rel at most
  double sub_below, flush_below, flush_margin;
  double scale, weight_noise, stagnates_below, stagnation_unit;
  double *grow, *rounding, *sub, *flush, *sigma2;
  double l_low, l_low_lse, l_high_lse, grow_sum, l_rounding, l_flush, stagnation, arguments_noise, sigma2_sum;  // results
  bool rare;                                                                                               // some sub or flush is not 0
};

// Constants of bound.cpp and of its loop over the columns.
inline constexpr double kF32Unit = 0x1p-24;      // half a unit in the last place of f32, relative
inline constexpr double kFlush = 0x1p-126;       // results below may become 0
inline constexpr double kEnlarge = 1 + 0x1p-36;  // covers the rounding of the bound's sums
inline constexpr double kBinade = 1 + 0x1p-30;   // units in the last place count as those a little further out: results at a
                                                 // power of two, which inputs make on purpose, read the same in both paths

// The bound of each column and the variance of its noise, from the sums over the keys; bound.md derives each term, bound.h says
// what each result is.
struct ColumnArguments {
  int64_t dv;
  // Of the row, per column.
  const double *o, *o_abs, *o_sum_error;
  const float *low, *high;
  const double *theta;        // growth of a sum of so many terms as the column has, less 1
  const double *steps;        // roundings of that sum, squared: those that may point one way count with all pairs
  const double *spread, *near, *near_abs, *sub_abs, *sub_spread, *flushed_abs, *noise_spread, *noise_abs;
  const double *nonzero;      // terms of the sum
  // Of the row.
  double l, l_low, l_low_rounded;     // l; from below; and where P's rounding, which l sums, makes it less still
  double inverse_flush, phi, grow_sum, sink_grow, p_rel;
  double rescales, gain, p_kappa, blocks;
  double common;  // deviation that all columns share, in units of 2^-24 sum p |v| / l
  bool may_round_l, may_keep_l, one_weight, aligned_blocks, truncates, enclosed, several_keys;
  // Of the output's type: its least subnormal exponent, bits of its significand, largest value. Whether below 2^-126 it may flush.
  int least_exponent, significand_bits;
  double largest;
  bool f32, flushes;
  double *bound, *score_part, *range, *enclosure, *variance, *drift, *common_part, *most_noise;  // results
  bool near_binade;                                                                            // result
};

struct HotLoops {
  const char* name;
  void (*widen_f16)(const uint8_t* from, int64_t n, float* to);   // unaligned
  void (*widen_bf16)(const uint8_t* from, int64_t n, float* to);
  bool (*has_zero)(const float* x, int64_t n);
  bool (*has_nonfinite)(const float* x, int64_t n);               // a NaN or an infinity
  bool (*has_below)(const float* x, int64_t n, float least);      // a value nearer to 0 than `least` that is not 0
  // The smallest and the largest value of each column, of n rows and of those that stand there before. NaN counts as nothing.
  void (*extremes)(const float* x, int64_t n, int64_t columns, float* low, float* high);
  double (*dots)(const DotArguments&);  // returns sum abs[j]: finite, and above each of them, if all are finite
  void (*field_sums)(const FieldArguments&);
  void (*dot_pairs)(const DotPairArguments&);
  void (*exps)(const double* x, int64_t n, double* y);  // e^x within two units in the last place; a subnormal one may be 0
  void (*tanhs)(const double* x, int64_t n, double* y);  // within two units in the last place
  void (*exp_lows)(const ExpLowArguments&);
  void (*scores)(const ScoreArguments&);
  double (*maximum)(const double* x, int64_t n);  // -inf of none
  void (*shift)(ShiftArguments&);
  void (*score_pairs)(const ScorePairArguments&);
  void (*shift_pairs)(const ShiftPairArguments&);
  void (*sums)(SumArguments&);
  void (*deltas)(DeltaArguments&);
  void (*weights)(WeightArguments&);
  void (*weighted_sums)(const ValueArguments&);
  void (*weighted_pairs)(const ValuePairArguments&);
  void (*bound_sums)(const BoundArguments&);
  void (*tied_sums)(const TiedArguments&);
  void (*columns)(ColumnArguments&);
};

// How many roundings a product passes in `dots` of d products, at most: the sum is within dot_roundings(d) 2^-53 sum |q_d k_d|.
double dot_roundings(int64_t d);

// The fastest set; ATTEST_INSTRUCTIONS=baseline|avx2|avx512 in the environment asks for another.
const HotLoops& hot_loops();

// Every set that this processor can run, the baseline first.
struct HotLoopSets {
  const HotLoops* set[3];
  int count;
};
HotLoopSets hot_loop_sets();

}  // namespace attest

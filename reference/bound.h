// bound.h: the worst-case bound and the predicted noise of one row, per output element.
//
// Guarantee: for a kernel within the Numerics, |O_kernel - O_exact| <= bound for every element and
// |LSE_kernel - LSE_exact| <= lse_bound, for errors of any size; reference/bound.md derives every term. The
// sums are taken in double and the result is enlarged by 2^-36, which covers their own rounding.
#pragma once

#include <vector>

#include "reference/row.h"

namespace attest {

struct RowBound {
  double lse = 0;                   // bound of LSE
  std::vector<double> o;            // [Dv] bound of O
  std::vector<double> score_part;   // [Dv] the part of it that errors of the weights cause
  std::vector<double> range;        // [Dv] largest minus smallest visible value, 0 among them with a sink
  std::vector<double> variance;     // [Dv] predicted variance of the rounding errors
  std::vector<double> drift;        // [Dv] how far truncating accumulators may pull O toward zero
  std::vector<double> enclosure;    // [Dv] what the double path's errors of p make of O, 0 in the exact path
  std::vector<double> common;       // [Dv] deviation that all columns share, part of the variance
  std::vector<double> most_noise;   // [Dv] what the weights' errors make of the variance, at most
  bool near_binade = false;         // a half-ulp term hangs on a comparison too close for the double path

  // Scratch, per key and per column.
  std::vector<double> delta, own, more, less, grow, rounding, flush, sub, sigma2;
  std::vector<int64_t> group, next_tied;
  std::vector<int32_t> table, last_tied;
  std::vector<double> spread, near, near_abs, scratch, theta, steps, noise1, noise_spread, noise_abs, flushed_abs, sub_abs, sub_spread, nonzero;
  std::vector<float> low, high;
};

// Fills `bound` for a normal row. `numerics` of the kernel, `type` of the output.
void bound_row(const Row& row, const HeadData& head, const Problem& problem, const Numerics& numerics, RowBound& bound);

// Upper bounds of sum lambda^2 and lambda_max for the eigenvalues lambda of C / tr C, where C is the covariance
// of the row's errors that `bound_row` predicts.
struct Spectrum {
  double sum_squares = 1, largest = 1;
  double trace = 0;  // tr C
};
// How a kernel may walk over the keys: in splits of so many keys each, and in those in tiles of so many. P is rounded
// relative to the maximum of the tiles so far, so only equal scores within a tile round alike; with `cell`, those that fall
// into one cell of that width, too (near_tie_cell). Scores that rise or fall evenly repeat their distances to that maximum
// from tile to tile, and so their roundings: with a walk up or down the keys, a cell is of these distances, over all tiles.
enum class Walk : uint8_t { unknown, up, down };
struct Tiling {
  int64_t split, tile;
  double cell = 0;
  Walk walk = Walk::unknown;
};
Spectrum noise_spectrum(const Row& row, const HeadData& head, DType output, Tiling tiling, RowBound& bound);

// Scores that differ by less than this have weights that differ by less than an eighth of a unit in the last place of P's
// type, so that P mostly rounds alike. 0 where P is not rounded.
double near_tie_cell(const Numerics& numerics);

// Whether keys that round alike make much of a row's weights: where the keys of each cell add up before they are squared,
// the sum of p^2 grows by more than a quarter. Such keys round alike in other rows, too: the rows are not independent.
bool rounds_alike(const Row& row, const Tiling& tiling);

// 1 + 2 sqrt(t sum lambda^2) + 2 t lambda_max with t = ln(1/rate), the rate of rows: the value that a
// weighted chi-square, or a sum of independent sub-Gaussian errors, exceeds with that rate at most.
// Source: D. Hsu, S. Kakade, T. Zhang, "A tail inequality for quadratic forms of subgaussian random vectors",
// Electronic Communications in Probability 17 (2012), theorem 2.1.
double noise_threshold(const Spectrum& spectrum, double rate);
double noise_threshold_equal_columns(double columns, double rate);

}  // namespace attest

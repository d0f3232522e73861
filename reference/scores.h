// scores.h: which visible keys take part in a row, and whether the row is in range.
//
// The classification of section 1: a key with score -inf is masked; a NaN or +inf score makes the row NaN; a
// finite score beyond the range makes the row out of range. It needs no precision beyond double: every test
// is on non-finite inputs or on magnitudes near 2^126, where double does not overflow.
#pragma once

#include "reference/row.h"
#include "reference/visible.h"

namespace attest {

// Bias of key j, 0 where the problem has none.
double bias_of(const Problem& problem, int64_t b, int64_t h, int64_t i, int64_t j);

// The largest slope that tanh has at t or further out; 1 below 0.
double tanh_slope(double t);
void tanh_slopes(int64_t n, double* t);  // in place

// Fills key, bias, dot, dot_abs, dot_terms and kind; keys with score -inf are left out. `q` has D values. dot_field is left empty.
void classify(const Problem& problem, const Conventions& conventions, const HeadData& head, const double* q,
              int64_t b, int64_t h, int64_t i, Row& row);

// Fills the dot_field of a classified row where subnormal factors make it another than dot_abs: what kernels with aligned blocks
// are judged by.
void sum_fields(const Problem& problem, const HeadData& head, const double* q, Row& row);

}  // namespace attest

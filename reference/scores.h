// scores.h: which visible keys take part in a row, and whether the row is in range.
//
// The classification of section 1: a key with score -inf is masked; a NaN or +inf score makes the row NaN; a
// finite score beyond the range makes the row out of range. It needs no precision beyond double: every test
// is on non-finite inputs or on magnitudes near 2^126, where double does not overflow.
#pragma once

#include "reference/row.h"
#include "reference/visible.h"

namespace attest {

// Dot product of q and one key. Products are exact, the sum runs in eight lanes: it is within
// (d / 8 + 4) 2^-53 abs of the exact value, and exact where at most one product is not zero.
struct Dot {
  double value = 0;  // sum q_d k_d
  double abs = 0;    // sum |q_d k_d|; infinite or NaN if a product is
  double terms = 0;  // nonzero products, at most
};
// `dense`: neither q nor k holds a zero, so that every product counts as a term.
Dot dot_product(const double* q, const float* k, int64_t d, bool dense);

// Bias of key j, 0 where the problem has none.
double bias_of(const Problem& problem, int64_t b, int64_t h, int64_t i, int64_t j);

// Fills key, bias, dot_abs, dot_terms and kind; keys with score -inf are left out. `q` has D values. For a row
// in range `dots` takes the product of each key kept.
void classify(const Problem& problem, const Conventions& conventions, const HeadData& head, const double* q,
              int64_t b, int64_t h, int64_t i, Row& row, std::vector<Dot>& dots);

}  // namespace attest

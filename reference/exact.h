// exact.h: the oracle. Section 1 of the contract, computed directly in cpp_dec_float: two passes, no tiles, no
// code shared with any kernel, from the exact values of the stored inputs.
//
// Real is boost::multiprecision::cpp_dec_float_50; tests repeat rows with 200 digits. Both are instantiated in
// exact.cpp.
#pragma once

#include <boost/multiprecision/cpp_dec_float.hpp>

#include "reference/row.h"
#include "reference/scores.h"

namespace attest {

using Dec50 = boost::multiprecision::cpp_dec_float_50;
using Dec200 = boost::multiprecision::number<boost::multiprecision::cpp_dec_float<200>>;

template <class Real>
struct ExactRow {
  std::vector<Real> s, p, o;  // per visible key, per visible key, per column
  Real m, l, lse;
};

// Fills `row` (scores, weights, l, lse, O, all rounded once to double) and `exact` for a row that classify()
// found normal. Columns with a non-finite V at a visible key are left 0 and flagged.
template <class Real>
void exact_row(const Problem& problem, const HeadData& head, const double* q, Row& row, ExactRow<Real>& exact);

}  // namespace attest

// enclosure.h: the double path. The same row as exact.h, in double with compensated sums, and with an enclosure
// of its own error that decides most rows; the others go to the exact path.
//
// Guarantees: the exact p_j lies within p_j e^{+-kappa (1 + |s_j - m|)} up to a factor that all weights share;
// O within o_hi + o_lo +- (o_sum_error + RowBound::enclosure); LSE within lse_error. What is assumed of the
// library: exp, log and tanh of <cmath> within 2 units in the last place.
// Source of the compensated sums: T. Ogita, S. Rump, S. Oishi, "Accurate sum and dot product", SIAM J. Sci.
// Comput. 26 (2005), proposition 4.5.
#pragma once

#include "reference/row.h"
#include "reference/scores.h"

namespace attest {

// Fills `row` for a row that classify() found normal, from the dot products that it took.
void enclose_row(const Problem& problem, const HeadData& head, const std::vector<Dot>& dots, Row& row);

}  // namespace attest

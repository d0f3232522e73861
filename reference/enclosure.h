// enclosure.h: the double path. The same row as exact.h, in double, with an enclosure of its own error that decides
// most rows; the others go to the exact path.
//
// Guarantees: the exact weights lie within p_j e^{+-kappa_j}, up to a factor that all of them share; O within
// o_hi + o_lo +- (o_sum_error + RowBound::enclosure); LSE within lse_error. Assumed of the library: exp, log and tanh of
// <cmath>, and the vectorised exp, within 2 units in the last place. The kernel's own sums have the same number of terms and lose 2^-23
// where these lose 2^-53, so plain sums will do for most rows; scores so large that their error shows in the weights
// are summed again in double-double. Rows of f32, whose predicted noise may be as small as 2^-25 of O, get about 60 bits of O
// where fewer would show in it: double-double scores, weights as pairs, compensated sums. The stated errors stay those of a double.
// Sources: N. Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2 (error of recursive summation); T. Ogita,
// S. Rump, S. Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 26 (2005) (errors of a sum summed beside it).
#pragma once

#include "reference/row.h"
#include "reference/scores.h"

namespace attest {

// Fills `row` for a row that classify() found normal. `q` has D values.
void enclose_row(const Problem& problem, const HeadData& head, const double* q, Row& row);

}  // namespace attest

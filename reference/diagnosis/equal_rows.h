// equal_rows.h: two rows of which the contract says that their bits are the same, and whose bits are not.
//
// For fixed Nq, Nk, D, Dv, types, head ratio, flags and alignment class, a row's bits depend only on its own q, mask and
// bias and on its K and V. So rows of such contents are held to each other, within one run and between runs, wherever
// they stand. Found: an answer that depends on other rows, heads, batches or their number. No model of a kernel is needed,
// and nothing is said of how it comes about.
// Rows out of range, of which nothing is promised, are left out; so are runs of more than `kMost` elements.
#pragma once

#include <optional>

#include "reference/diagnosis/diagnose.h"

namespace attest {

std::optional<UnequalRows> unequal_rows(const Evidence& evidence);

}  // namespace attest

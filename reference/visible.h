// visible.h: which keys a query row sees. The judge's own reading of section 1, shared with no kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/numerics.h"
#include "reference/problem.h"

namespace attest {

// Fills `keys` with the indices of the keys that every mask of the problem leaves visible to query row i of
// (b, h), ascending. Additive bias does not take part: a bias of -inf masks by its score.
void visible_keys(const Problem& problem, const Conventions& conventions, int64_t b, int64_t h, int64_t i,
                  std::vector<int64_t>& keys);

}  // namespace attest

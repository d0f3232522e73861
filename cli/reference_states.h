// reference_states.h: the true (m, l, O) of one query row after each block of keys, to hold a trace against.
//
// Computed from the scores in cpp_dec_float_50 as section 1 states them, over the keys seen so far; nothing is
// carried from block to block, so no rescale can go wrong. Exponentials in long double: good to 18 digits.
// The sink is left out, unless the kernel says that its trace holds it from the start.
// Example: reference_states(problem, {}, 0, 0, 0, {{0, 2}, {2, 4}}).states[1].l
#pragma once

#include <cstdint>
#include <vector>

#include "reference/row.h"

namespace attest::cli {

struct KeyBlock {
  int64_t begin, end;  // keys, half open
};

struct ReferenceState {
  long double m = 0;              // -inf before the first visible key
  long double l = 0;              // sum exp(s - m)
  long double scale = 0;          // exp(m_old - m), 0 where nothing was seen before, NaN where nothing has been seen yet
  std::vector<long double> o;     // sum exp(s - m) v, [Dv]
};

struct ReferenceStates {
  RowKind kind = RowKind::normal;      // states are given for normal and empty rows only
  std::vector<ReferenceState> states;  // one for each block
};

ReferenceStates reference_states(const Problem& problem, const Conventions& conventions, int64_t b, int64_t h, int64_t i,
                                 const std::vector<KeyBlock>& visits);

}  // namespace attest::cli

// shrink.h: makes a failing problem small while its failure stays the same.
//
// Steps, largest first: drop batches, heads, rows, whole tiles, single keys, columns; drop masks, bias, sink,
// softcap, strides, choices; values to simple numbers (0, 1, powers of two, short decimals). A candidate is
// kept if `still_fails` says so; it is asked with a valid Problem every time. Stops at a fixed point or when
// the budget is spent; deterministic where the budget is not reached.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reference/problem.h"

namespace attest {

struct ShrinkBudget {
  double seconds = 5;
  int64_t attempts = 100000;
};

struct Shrunk {
  Problem problem;
  int64_t attempts = 0, kept = 0;
  bool finished = false;  // a fixed point was reached within the budget
};

Shrunk shrink(const Problem& failing, const std::function<bool(const Problem&)>& still_fails,
              const ShrinkBudget& budget = {});

// Simpler variants of a problem, one step each, the boldest first; what shrink() tries and what the RapidCheck
// generator offers as its shrink tree.
std::vector<Problem> simpler(const Problem& problem);

// The problem in words, a few lines: shape, type, masks, and scores or values where they are few.
std::string in_words(const Problem& problem);

}  // namespace attest

// rules.h: how projects decide today whether an attention kernel is right: a tolerance, and the inputs that they
// test with.
//
// Each rule has the problems that suites of its kind run (sizes, types, masks, distribution of the inputs) and a
// comparison with attention computed directly from its definition. Few rows are asked for in three splits. Outputs are NaN before a run, so that what is not
// written shows to every rule.
// Example: for (const Rule& rule : rules()) if (rule.rejects(kernel)) ...
#pragma once

#include <string>
#include <vector>

#include "kernel/runner/kernel.h"
#include "kernel/testing/direct.h"

namespace attest::bench {

// One problem with what the comparison needs, computed once.
struct Trial {
  Problem problem;
  testing::Direct exact;
  double low_precision_error = 0;  // largest error of attention computed in the input type
};

struct Rule {
  std::string name;
  std::string inputs;  // in words
  std::vector<Trial> trials;
  bool (*accepts)(const Trial& trial, const Observation& seen) = nullptr;

  // Whether any of its problems fails.
  bool rejects(const Kernel& kernel) const;
};

const std::vector<Rule>& rules();

}  // namespace attest::bench

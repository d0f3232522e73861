// property.h: a named property of attention kernels, and the list of all of them.
//
// A property makes one case from Choices, runs the kernel on it as often as it needs, and returns a verdict.
// What the kernel cannot do is refused by `not_covered` with a reason, and reported so, never as passed.
// Names and statements live in properties/properties.def, which CMake reads too.
// Example:
//     for (const Property& p : all_properties())
//       if (p.not_covered(kernel).empty()) { CaseResult r = p.run(choices, context); ... }
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/runner/kernel.h"
#include "properties/generate/choices.h"
#include "reference/judge.h"

namespace attest {

// What a property may use while it runs; one per thread.
struct PropertyContext {
  const Kernel& kernel;
  Judge& judge;
  Contract contract = Contract::strict;
  bool exact = false;    // judge everything in cpp_dec_float
};

struct CaseResult {
  Problem problem;                   // the case, as the kernel got it first
  Verdict verdict;                   // of the whole property on it
  std::vector<std::string> regimes;  // every regime that the case counts for
  std::string relation;              // in words, what was changed between runs; "" where one run decides
};

struct Property {
  std::string_view name;       // "matches_reference"
  std::string_view statement;  // one sentence, what holds
  std::span<const std::string_view> regimes;  // the regimes it needs, each in enough cases
  int64_t enough = 100;                       // cases of each regime below which a run is inconclusive
  double weight = 1;                          // share of the cases of a run

  // "" if the kernel can be checked for this property, otherwise why not.
  std::string (*not_covered)(const Kernel& kernel);
  // Makes a case in the regime number `index` % regimes.size() and judges it.
  CaseResult (*run)(Choices& choices, uint64_t index, const PropertyContext& context);
  // Judges a given problem by this property, as replay and shrinking do. Draws only from `choices`.
  CaseResult (*check)(const Problem& problem, Choices& choices, const PropertyContext& context);
};

std::span<const Property> all_properties();
const Property* find_property(std::string_view name);

}  // namespace attest

// property.h: a named property of attention kernels, and the list of all of them.
//
// A property makes one case from Choices, runs the kernel on it as often as it needs, and returns a verdict.
// What the kernel cannot do is refused by `not_covered` with a reason, and reported so, never as passed.
// A case that the property says nothing about (keys_permuted under a causal mask, say) comes back with the
// disposition not_supported and the reason in `detail`; the loop then draws another.
// Names and statements live in properties/properties.def, which CMake reads too; each property is defined in
// plain.cpp, trace.cpp, relations.cpp, merge.cpp, streams.cpp or rounding.cpp.
// Errors: what a property throws is a fault of the harness, never of the kernel.
// Example:
//     for (const Property& p : all_properties())
//       if (p.not_covered(kernel).empty()) { CaseResult r = p.run(choices, index, context); ... }
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/runner/kernel.h"
#include "properties/generate/generate.h"
#include "reference/judge.h"

namespace attest {

// One run that a property made.
struct RunMade {
  Problem problem;
  Observation seen;
};

// What a property may use while it runs; one per thread.
struct PropertyContext {
  const Kernel& kernel;
  Judge& judge;
  Contract contract = Contract::strict;
  bool exact = false;    // judge everything in cpp_dec_float
  std::vector<RunMade>* runs = nullptr;  // takes every run in the order made, where someone asks (explain.h)
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
  std::span<const std::string_view> regimes;  // the regimes it needs, each in enough cases; may be empty
  int64_t enough = 100;                       // cases of each regime below which a run is inconclusive
  double weight = 1;                          // share of the cases of a run beyond those

  // "" if the kernel can be checked for this property, otherwise why not.
  std::string (*not_covered)(const Kernel& kernel) = nullptr;
  // What the property asks of a case beside a regime; nullptr: nothing.
  Recipe (*recipe)() = nullptr;
  // Gives a generated problem values that the property is about; nullptr: it keeps its own.
  void (*values)(Problem& problem, Choices& choices) = nullptr;
  // Judges a given problem by this property. Every choice of the relation (which keys, which row) is drawn
  // from `choices`.
  CaseResult (*judge)(const Problem& problem, Choices& choices, const PropertyContext& context) = nullptr;

  // The regimes of the list that this kernel can be given; the others ask nothing of a run.
  std::vector<Regime> needed(const Target& target) const;
  // Cases with the index 0, 1, ... that together hold `enough` of each needed regime.
  int64_t first_cases(const Target& target) const;
  // A case that is in one needed regime of each axis, cycling through them by `index`; where the list is long,
  // of the score axis and one other.
  Generated make(Choices& choices, uint64_t index, const Target& target) const;
  // Makes a case and checks it.
  CaseResult run(Choices& choices, uint64_t index, const PropertyContext& context) const;
  // Judges a given problem, as run, replay and shrinking do. The relation's choices are drawn from a seed
  // that the problem itself gives, so that a saved problem alone repeats the failure. `regimes` stays empty.
  CaseResult check(const Problem& problem, const PropertyContext& context) const;
  // The same; where it holds, the kernel also runs the problem once with every byte of memory checked. What it writes
  // where it must not is then the result: most properties leave that check to one of them, every_element_written_nothing_else.
  CaseResult check_and_memory(const Problem& problem, const PropertyContext& context) const;
};

std::span<const Property> all_properties();  // in the order of properties.def
const Property* find_property(std::string_view name);

// A seed made of everything that same() compares: equal problems, equal seeds, on every platform.
uint64_t content_seed(const Problem& problem);

}  // namespace attest

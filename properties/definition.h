// definition.h: what properties.def does not say about a property; internal to this room.
#pragma once

#include "properties/property.h"

namespace attest {

struct Definition {
  std::span<const std::string_view> regimes;
  double weight = 1;
  int64_t enough = 100;  // cases of each regime below which a run is inconclusive
  std::string (*not_covered)(const Kernel&) = [](const Kernel&) { return std::string(); };
  Recipe (*recipe)() = [] { return Recipe{.work = 4e5}; };  // most make several runs
  void (*values)(Problem&, Choices&) = nullptr;
  CaseResult (*judge)(const Problem&, Choices&, const PropertyContext&) = nullptr;
};

// definitions::matches_reference and so on, each in the file that properties.def names.
namespace definitions {
#define ATTEST_PROPERTY(name, statement) extern const Definition name;
#include "properties/properties.def"
#undef ATTEST_PROPERTY
}  // namespace definitions

inline CaseResult result(const Problem& problem, Verdict verdict, std::string relation = "") {
  return {problem, std::move(verdict), {}, std::move(relation)};
}
// The property says nothing about this case, for this reason.
CaseResult says_nothing(const Problem& problem, const std::string& why);

// "" if the kernel takes every feature asked for, otherwise the first that it lacks.
std::string lacks(const Kernel& kernel, std::initializer_list<attest_feature> features);

}  // namespace attest

// signature.h: what makes two failures the same failure.
//
// A signature names the property, the check, the place and the class of the special values: it serves
// shrinking (a smaller case counts only if it fails in the same way), finding duplicates, and the ledger. The
// place is told by what a row sees, not by its index, so that it survives shrinking.
// Example: "matches_reference/bound/O of a row over several tiles/finite for finite".
#pragma once

#include <string>
#include <string_view>

#include "properties/property.h"

namespace attest {

// "" for a verdict that did not fail.
std::string signature(std::string_view property, const Problem& problem, const Verdict& verdict);
inline std::string signature(std::string_view property, const CaseResult& result) {
  return signature(property, result.problem, result.verdict);
}

}  // namespace attest

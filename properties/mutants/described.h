// described.h: for the tests of mutants, the failures of a run, a line each.
#pragma once

#include <sstream>
#include <string>

#include "properties/verify.h"

namespace attest {

inline std::string described(const VerifyReport& report) {
  std::ostringstream text;
  for (const PropertyReport& p : report.properties)
    for (const Failure& f : p.failures)
      text << p.name << ", case " << f.index << " of seed " << report.seed << ": check " << name_of(f.result.verdict.check) << ", " << f.result.verdict.detail << "\n";
  return text.str();
}

}  // namespace attest

// explain.h: runs a kernel again until its failure on one problem is explained, or as well as it can be.
//
// The loop around reference/diagnosis: run the case, with a trace where the kernel gives one; ask which fault explains
// it; make the runs that the diagnosis asks for, while the kernel takes them and the time lasts.
// Example: Explanation e = explain(problem, context); puts(argument(e.evidence, e.diagnosis).c_str());
#pragma once

#include "properties/property.h"
#include "reference/diagnosis/diagnose.h"

namespace attest {

struct ExplainOptions {
  // The property that failed: where it ran the kernel on several problems, all of them are evidence, and the one that is
  // wrong by itself is the case. nullptr: the problem alone.
  const Property* property = nullptr;
  bool use_trace = true;
  double seconds = 10;            // no further run is made after that
  std::set<Family> without = {};  // models left out
};

struct Explanation {
  Evidence evidence;
  Diagnosis diagnosis;
};

Explanation explain(const Problem& problem, const PropertyContext& context, const ExplainOptions& options = {});

}  // namespace attest

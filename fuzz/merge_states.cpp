// Merging of partial states: the states of parts of the keys, merged in either order, with the empty state, and in
// either grouping.
#include <iterator>

#include "fuzz/feedback.h"
#include "fuzz/problem_target.h"
#include "properties/property.h"

namespace attest::fuzz {

namespace {

// Parts of the keys are cut at any place, which masks by position do not survive.
void adapt(Problem& p) {
  p.causal = false;
  p.window = {};
  p.key_lengths.reset();
  p.sink.reset();
}

Judged judge(const Kernel& kernel, const Problem& p) {
  static Judge exact;
  static const Property* const properties[] = {find_property("merge_associates"), find_property("merge_commutes"),
                                               find_property("merge_identity")};
  const PropertyContext context{kernel, exact};
  Judged all;
  for (size_t n = 0; n < std::size(properties); ++n) {
    Verdict v = properties[n]->check(p, context).verdict;
    record_class(static_cast<int>(n), ratio_bucket(v.worst_ratio));
    record_class(8 + static_cast<int>(n), static_cast<int>(v.disposition));
    if (!v.ok()) return {std::move(v), properties[n]->name};
    if (n == 0) all.verdict = std::move(v);
  }
  return all;
}

}  // namespace

const ProblemTarget problem_target{.kernel_variable = nullptr, .adapt = adapt, .judge = judge};

}  // namespace attest::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { return attest::fuzz::run_input(data, size); }

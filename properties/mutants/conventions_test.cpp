// Correct kernels are not caught, whatever of the contract's choices they declare.
#include "properties/mutants/conventions.h"

#include <gtest/gtest.h>

#include "properties/verify.h"

namespace attest {

class EveryConvention : public testing::TestWithParam<const attest_kernel*> {};

TEST_P(EveryConvention, is_not_caught) {
  constexpr int64_t kCases = 500;
  const VerifyReport report = verify(Kernel::from_table(GetParam()), {.seed = 1, .cases = kCases, .contract = Contract::declared});
  EXPECT_GE(report.cases(), kCases * 9 / 10);
  for (const PropertyReport& p : report.properties)
    for (const Failure& f : p.failures)
      ADD_FAILURE() << p.name << ", case " << f.index << " of seed " << report.seed << ": check " << name_of(f.result.verdict.check) << ", " << f.result.verdict.detail;
}

INSTANTIATE_TEST_SUITE_P(Correct, EveryConvention, testing::ValuesIn(mutants::correct_kernels()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace attest

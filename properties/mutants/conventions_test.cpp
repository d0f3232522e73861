// Correct kernels are not caught, whatever of the contract's choices they declare.
#include "properties/mutants/conventions.h"

#include <gtest/gtest.h>

#include "properties/verify.h"

namespace attest {

class EveryConvention : public testing::TestWithParam<const attest_kernel*> {};
class EveryCombination : public EveryConvention {};

static void expect_not_caught(const attest_kernel* kernel, int64_t cases) {
  const VerifyReport report = verify(Kernel::from_table(kernel), {.seed = 1, .cases = cases, .contract = Contract::declared});
  EXPECT_GE(report.cases(), cases * 9 / 10);
  for (const PropertyReport& p : report.properties)
    for (const Failure& f : p.failures)
      ADD_FAILURE() << p.name << ", case " << f.index << " of seed " << report.seed << ": check " << name_of(f.result.verdict.check) << ", " << f.result.verdict.detail;
}

TEST_P(EveryConvention, is_not_caught) { expect_not_caught(GetParam(), 500); }
TEST_P(EveryCombination, is_not_caught) { expect_not_caught(GetParam(), 100); }

INSTANTIATE_TEST_SUITE_P(Correct, EveryConvention, testing::ValuesIn(mutants::correct_kernels()),
                         [](const auto& info) { return std::string(info.param->name); });

INSTANTIATE_TEST_SUITE_P(Correct, EveryCombination, testing::ValuesIn(mutants::every_combination_of_conventions()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace attest

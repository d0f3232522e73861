#include "properties/mutants/broken_ten.h"

#include <gtest/gtest.h>

#include "properties/verify.h"

namespace attest {

namespace {

// The first cases of matches_reference are among those of any run of verify() over all properties: case i depends
// on seed, property and i alone.
constexpr int64_t kRun = 2000, kFirstCases = 40;

VerifyReport verified(const Kernel& kernel) {
  return verify(kernel, {.seed = 1, .cases = kFirstCases, .properties = "^matches_reference$", .threads = 1});
}

}  // namespace

class BrokenTen : public testing::TestWithParam<size_t> {};

TEST_P(BrokenTen, violates) {
  const VerifyReport report = verified(Kernel::from_table(mutants::broken_ten()[GetParam()]));
  EXPECT_GT(report.violations(), 0);
}

INSTANTIATE_TEST_SUITE_P(Every, BrokenTen, testing::Range(size_t{0}, size_t{10}),
                         [](const auto& info) { return std::string(mutants::broken_ten()[info.param]->name); });

TEST(BrokenTenBase, the_host_kernel_passes_the_same_cases) {
  const VerifyReport report = verified(std::get<Kernel>(Kernel::load("host")));
  EXPECT_EQ(report.cases(), kFirstCases);
  EXPECT_EQ(report.violations(), 0);
}

TEST(BrokenTenBase, these_cases_are_part_of_a_run_of_two_thousand) {
  const Target target = Target::from_table(std::get<Kernel>(Kernel::load("host")).table());
  int64_t all = 0;
  for (const Property& p : all_properties()) all += p.first_cases(target);
  const int64_t share = kRun * find_property("matches_reference")->first_cases(target) / all;
  EXPECT_GE(share, kFirstCases);
}

}  // namespace attest

// Every faulty CUDA kernel is caught within 2,000 cases; the plain kernel itself is not, by the same cases.
#include "properties/mutants/cuda/cuda_mutants.h"

#include <gtest/gtest.h>

#include <set>

#include "properties/mutants/described.h"

namespace attest {

namespace {

using mutants::CudaMutant;

constexpr int64_t kCases = 2000;

VerifyReport run(const Kernel& kernel) { return verify(kernel, {.seed = 1, .cases = kCases, .threads = 1, .until_violation = true}); }

bool no_gpu() { return std::holds_alternative<LoadError>(Kernel::load("cuda")); }

}  // namespace

namespace mutants {
void PrintTo(const CudaMutant& m, std::ostream* out) { *out << m.name << ": " << m.fault; }
}  // namespace mutants

class EveryCudaMutant : public testing::TestWithParam<CudaMutant> {};

TEST_P(EveryCudaMutant, is_caught) {
  if (no_gpu()) GTEST_SKIP() << "no GPU";
  const VerifyReport report = run(Kernel::from_table(GetParam().kernel));
  EXPECT_GT(report.violations(), 0) << GetParam().fault;
  std::printf("%s: %ld cases, %s", GetParam().name, long(report.cases()), described(report).c_str());
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryCudaMutant, testing::ValuesIn(mutants::cuda_mutants()), [](const auto& info) { return std::string(info.param.name); });

TEST(CudaMutants, the_kernel_that_they_are_made_from_is_not_caught) {
  auto loaded = Kernel::load("cuda");
  if (std::holds_alternative<LoadError>(loaded)) GTEST_SKIP() << "no GPU";
  const VerifyReport report = run(std::get<Kernel>(loaded));
  EXPECT_EQ(report.violations(), 0) << described(report);
}

TEST(CudaMutants, are_at_least_twenty_with_names_of_their_own) {
  std::set<std::string> names;
  for (const CudaMutant& m : mutants::cuda_mutants()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_STREQ(m.kernel->name, m.name);
  }
  EXPECT_GE(names.size(), 20u);
}

}  // namespace attest

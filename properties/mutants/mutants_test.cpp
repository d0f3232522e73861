// Every mutant is caught within 2,000 cases and 10 s of one core, or listed as equivalent with the proof.
#include "properties/mutants/mutants.h"

#include <gtest/gtest.h>

#include <ctime>
#include <set>

#include "properties/mutants/described.h"

namespace attest {

namespace {

using mutants::Family;
using mutants::Mutant;

constexpr int64_t kCases = 2000;
constexpr double kSeconds = 10;  // of one core

std::vector<Mutant> every_mutant() {
  std::vector<Mutant> list;
  for (const Family& family : mutants::all()) list.insert(list.end(), family.mutants.begin(), family.mutants.end());
  return list;
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string name_of_mutant(const testing::TestParamInfo<Mutant>& info) { return info.param.name; }

}  // namespace

namespace mutants {
void PrintTo(const Mutant& m, std::ostream* out) { *out << m.name << ": " << m.fault; }
}  // namespace mutants

class EveryMutant : public testing::TestWithParam<Mutant> {};

TEST_P(EveryMutant, is_caught_or_equivalent) {
  const Mutant& m = GetParam();
  const double start = processor_seconds();
  const VerifyReport report = verify(Kernel::from_table(m.kernel), {.seed = 1, .cases = kCases, .threads = 1, .until_violation = true});
  const double seconds = processor_seconds() - start;
  if (*m.equivalent != 0) {
    EXPECT_EQ(report.violations(), 0) << "caught, so the proof is wrong: " << described(report);
    return;
  }
  EXPECT_GT(report.violations(), 0) << m.fault;
  EXPECT_LT(seconds, kSeconds);
  std::printf("%s: %ld cases, %.2f s, %s", m.name, long(report.cases()), seconds, described(report).c_str());
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(every_mutant()), name_of_mutant);

TEST(Mutants, are_at_least_eighty_with_names_of_their_own) {
  std::set<std::string> names;
  for (const Mutant& m : every_mutant()) {
    EXPECT_TRUE(names.insert(m.name).second) << m.name;
    EXPECT_STREQ(m.kernel->name, m.name);
    EXPECT_EQ(mutants::find(m.name)->kernel, m.kernel);
  }
  EXPECT_GE(names.size(), 80u);
}

}  // namespace attest

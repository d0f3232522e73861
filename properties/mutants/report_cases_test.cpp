// The cases built from public reports: each fails on the mutant that map.tsv names for it, which stands for that report.
// corpus/reports_test.cpp holds the map itself, and that the host kernel is right on every case.
#include <gtest/gtest.h>

#include <sstream>

#include "corpus/case_file.h"
#include "corpus/report_map.h"
#include "properties/mutants/mutants.h"
#include "properties/property.h"

namespace attest {

namespace {

const std::string kReports = std::string(ATTEST_SOURCE_DIR) + "/corpus/reports/";

using Entry = ReportEntry;

std::vector<Entry> entries_with_case() {
  std::vector<Entry> entries = read_report_map(kReports + "map.tsv");
  std::erase_if(entries, [](const Entry& e) { return e.mutant.empty(); });
  return entries;
}

bool stands_for(const mutants::Mutant& m, const std::string& report) {
  std::istringstream words(m.reports);
  for (std::string word; words >> word;)
    if (word == report) return true;
  return false;
}

}  // namespace

class EveryReport : public testing::TestWithParam<Entry> {};

TEST_P(EveryReport, fails_on_its_mutant) {
  const Entry& e = GetParam();
  const mutants::Mutant* m = mutants::find(e.mutant.c_str());
  ASSERT_NE(m, nullptr) << e.mutant;
  EXPECT_TRUE(stands_for(*m, e.report)) << e.mutant << " names the reports " << m->reports;
  const Case c = read_case(kReports + e.place);
  Judge judge;
  const Kernel kernel = Kernel::from_table(m->kernel);
  const Property& property = *find_property(c.property.empty() ? "matches_reference" : c.property);
  const Verdict verdict = property.check(c.problem, {kernel, judge}).verdict;
  EXPECT_NE(verdict.disposition, Disposition::passed);
  EXPECT_NE(verdict.disposition, Disposition::not_supported) << verdict.detail;
}

INSTANTIATE_TEST_SUITE_P(Reports, EveryReport, testing::ValuesIn(entries_with_case()), [](const auto& info) { return info.param.report; });

}  // namespace attest

// The cases built from public reports: the map names every report once, every case is there, and the host kernel is
// right on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "corpus/case_file.h"
#include "corpus/report_map.h"
#include "kernel/runner/kernel.h"
#include "reference/judge.h"

using namespace attest;
namespace fs = std::filesystem;

namespace {

const fs::path kReports = fs::path(ATTEST_SOURCE_DIR) / "corpus/reports";

using Entry = ReportEntry;

std::vector<Entry> read_map() { return read_report_map((kReports / "map.tsv").string()); }

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Reports, TheMapNamesEveryReportOnce) {
  const std::vector<Entry> map = read_map();
  EXPECT_EQ(map.size(), 168u) << "reports of the collection";
  const std::regex id("[A-KT][0-9][0-9]"), reason("- [a-z0-9].{5,}"), file("[A-K][0-9][0-9]\\.json");
  std::set<std::string> seen;
  for (const Entry& e : map) {
    EXPECT_TRUE(std::regex_match(e.report, id)) << e.report;
    EXPECT_TRUE(seen.insert(e.report).second) << e.report << " stands there twice";
    EXPECT_TRUE(std::regex_match(e.place, e.has_case() ? file : reason)) << e.report << ": " << e.place;
    EXPECT_EQ(e.has_case(), !e.mutant.empty()) << e.report;
  }
}

TEST(Reports, EveryCaseIsMappedAndEveryMappedCaseIsThere) {
  std::set<std::string> mapped, present;
  for (const Entry& e : read_map())
    if (e.has_case()) mapped.insert(e.place);
  for (const std::string& path : find_cases({kReports})) present.insert(fs::path(path).filename());
  EXPECT_EQ(mapped, present);
  // A case bears the name of a report that it stands for.
  std::map<std::string, std::string> place;
  for (const Entry& e : read_map()) place[e.report] = e.place;
  for (const std::string& name : present) EXPECT_EQ(place[fs::path(name).stem()], name);
}

TEST(Reports, AreWrittenAsTheWriterWritesThem) {
  for (const std::string& path : find_cases({kReports})) EXPECT_EQ(to_json(read_case(path)), text_of(path)) << path;
}

TEST(Reports, TheHostKernelIsRightOnEveryOne) {
  const Kernel host = std::get<Kernel>(Kernel::load("host"));
  Judge judge;
  for (const std::string& path : find_cases({kReports})) {
    const Problem p = read_case(path).problem;
    const Verdict v = judge(p, host.run(p), {.numerics = host.numerics(p, Contract::strict), .conventions = host.conventions()});
    EXPECT_EQ(v.disposition, Disposition::passed) << path << ": " << v.detail;
    EXPECT_EQ(v.rows_out_of_range, 0) << path;
  }
}

}  // namespace

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
#include "kernel/runner/kernel.h"
#include "reference/judge.h"

using namespace attest;
namespace fs = std::filesystem;

namespace {

const fs::path kReports = fs::path(ATTEST_SOURCE_DIR) / "corpus/reports";

struct Entry {
  std::string report, place, mutant;  // place: a case file, or "- reason"; mutant: held to it in report_cases_test.cpp
  bool has_case() const { return !place.starts_with("-"); }
};

std::vector<Entry> read_map() {
  std::ifstream in(kReports / "map.tsv");
  std::vector<Entry> entries;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    Entry e;
    std::istringstream fields(line);
    std::getline(fields, e.report, '\t');
    std::getline(fields, e.place, '\t');
    std::getline(fields, e.mutant);
    entries.push_back(e);
  }
  return entries;
}

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

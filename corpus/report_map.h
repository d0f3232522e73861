// report_map.h: corpus/reports/map.tsv, which says of each public report where its case is, for the tests that hold it to that.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace attest {

struct ReportEntry {
  std::string report, place, mutant;  // place: a case file, or "- reason"; mutant: one that the case fails on, or ""
  bool has_case() const { return !place.starts_with("-"); }
};

// All rows of `path` but its heading.
inline std::vector<ReportEntry> read_report_map(const std::string& path) {
  std::ifstream in(path);
  std::vector<ReportEntry> entries;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    ReportEntry e;
    std::istringstream fields(line);
    std::getline(fields, e.report, '\t');
    std::getline(fields, e.place, '\t');
    std::getline(fields, e.mutant);
    entries.push_back(e);
  }
  return entries;
}

}  // namespace attest

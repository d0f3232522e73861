// report.h: a finished run as data, and the files that a report folder gets.
//
// There is one data file, report.json (report.schema.json says what it holds, docs/report.md in words); junit.xml and
// report.html are made from it and from nothing else, so that they cannot disagree with it. Numbers that are not finite
// are the strings "inf", "-inf" and "nan". Text of kernels and case files is data everywhere: bytes that are no UTF-8
// become U+FFFD, and both faces escape it.
// Capped, so that a page stays small: `failures` at kFailureLines lines a run, `details` at kDetails; the counts beside
// them are not.
// Example: write_report("report", report_data("verify", exit, {run_data(run, told)}));
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "cli/failure_report.h"
#include "cli/report/failure_detail.h"
#include "cli/run_summary.h"

namespace attest::cli {

using Data = nlohmann::ordered_json;

inline constexpr int kReportVersion = 1;
inline constexpr size_t kFailureLines = 10000, kDetails = 20;

// A failure that is shown with all that is known about it.
struct ToldFailure {
  Failure failure;
  KeptFailure kept;
  FailureDetail detail;
  std::string replay;   // the command that judges it again
  bool is_case = true;  // false: the file is another input of a fuzz target
};

// One kernel on its properties. `told` is in the order in which it is shown.
Data run_data(const RunSummary& run, const std::vector<ToldFailure>& told);

// `command`: the subcommand.
Data report_data(const std::string& command, Exit exit, std::vector<Data> runs);

// The runs of several reports in one. Details are capped at kDetails and failure lines at kFailureLines over all of them, each
// run keeping its part.
Data joined_reports(std::vector<Data> reports, Exit exit);

// Reads report.json, or a folder that holds one. Throws Stop (exit 2) in one line where it is none of this version.
Data read_report(const std::string& path);

// report.json, junit.xml and report.html into `folder`. Throws Stop (exit 2) where they cannot be written.
void write_report(const std::string& folder, const Data& report);

std::string junit_xml(const Data& report);
std::string report_page(const Data& report);

// Moves what an earlier run left in a report folder into `earlier-1`, `earlier-2`, ... of it, so that no run's failures
// mix with another's; a line on stderr says so. Throws Stop (exit 2) where that fails.
void set_aside(const std::string& folder);

}  // namespace attest::cli

// attest report: two reports compared, or several joined into one.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/report/diff.h"
#include "cli/report/report.h"

namespace attest::cli {

namespace {

struct Options {
  std::string a, b, html;
  std::vector<std::string> paths;
  std::string report;
};

Exit compare(const Options& o) {
  const Data a = read_report(o.a), b = read_report(o.b);
  const Diff d = diff(a, b);
  fmt::print("{}", diff_text(d));
  if (!o.html.empty()) write_file(o.html, diff_page(d, o.a, o.b));
  return d.newly_fails() ? Exit::violation : Exit::holds;
}

Exit join(const Options& o) {
  std::vector<Data> reports;
  for (const std::string& path : o.paths) reports.push_back(read_report(path));
  Exit exit = Exit::holds;
  for (const Data& report : reports) exit = graver(exit, static_cast<Exit>(report["exit"].get<int>()));
  const Data joined = joined_reports(std::move(reports), exit);
  probe_folder("--report", o.report);
  write_report(o.report, joined);
  fmt::print("{} runs in {}\n", joined["runs"].size(), o.report);
  return exit;
}

}  // namespace

Action add_report(CommandLine command) {
  const auto o = std::make_shared<Options>();
  CommandLine diff_command = command.subcommand("diff", "what changed from report A to report B; exit code 1 where something newly fails");
  diff_command.argument("A", o->a, "report.json, or the folder that holds it");
  diff_command.argument("B", o->b, "the later one");
  diff_command.option("--html", o->html, "FILE", "writes the comparison as a page, too");
  CommandLine join_command = command.subcommand("join", "one report of several runs: other kernels, other shards; exits as the gravest of them");
  join_command.arguments("PATH", o->paths, "report.json files, or folders that hold one");
  join_command.required("--report", o->report, "DIR", "folder for the joined report");
  return [o, diff_command] { return diff_command.chosen() ? compare(*o) : join(*o); };
}

}  // namespace attest::cli

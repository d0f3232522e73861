// attest replay: saved cases, each judged again.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/environment.h"
#include "cli/failure_report.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/judge_case.h"
#include "cli/known.h"
#include "cli/report/told_failures.h"
#include "cli/run_summary.h"
#include "cli/terminal.h"
#include "corpus/case_file.h"
#include "properties/signature.h"

namespace attest::cli {

namespace {

struct Options {
  std::vector<std::string> paths;
  std::string properties, ledger, json, report, contract = "strict";
  bool list = false, dry_run = false, exact = false;
  KernelChoice kernel;
};

// By which properties a case is judged; empty: plainly.
std::vector<const Property*> judges_of(const Case& c, const std::string& path, const std::vector<const Property*>& asked) {
  if (!asked.empty() || c.property.empty()) return asked;
  const Property* named = find_property(c.property);
  if (named == nullptr) throw Stop(Exit::usage, fmt::format("{}: property: '{}' is not the name of a property", path, c.property));
  return {named};
}

std::string outcome(const std::string& path, const std::string& property, const CaseResult& result) {
  const Verdict& v = result.verdict;
  std::string text = fmt::format("{}  {}, {}", path, name_of(v.disposition), property);
  if (v.disposition == Disposition::not_supported) return text + ": " + printable(v.detail) + "\n";
  text += fmt::format(", err/bound {}\n", figure(std::max(v.worst_ratio, v.worst_lse_ratio)));
  if (v.disposition == Disposition::unexpected_pass) return text + fmt::format("  {}\n", printable(v.detail));
  if (v.ok() && v.disposition != Disposition::known_failure) return text;
  if (!result.relation.empty()) text += fmt::format("  between runs: {}\n", result.relation);
  text += fmt::format("  seen: {}\n  signature: {}\n", printable(v.detail), signature(property, result));
  const std::string table = error_table(v);
  for (size_t at = 0; at < table.size();) {
    const size_t end = table.find('\n', at);
    text += "  " + table.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
}

// The number that the next case of a property gets.
int64_t index_of(const VerifyReport& report, const std::string& property) {
  for (const PropertyReport& p : report.properties)
    if (p.name == property) return p.cases;
  return 0;
}

Exit replay(const Options& o) {
  const Contract how = contract("--contract", o.contract);
  const std::vector<const Property*> asked = o.properties.empty() ? std::vector<const Property*>{} : select_properties("--properties", o.properties);
  const std::vector<std::string> files = find_cases(o.paths);
  if (files.empty()) throw Stop(Exit::inconclusive, fmt::format("no case file in {}", fmt::join(o.paths, ", ")));
  std::FILE* out = o.json == "-" ? stderr : stdout;
  if (o.list) {
    for (const std::string& file : files) fmt::print(out, "{}\n", file);
    return Exit::holds;
  }
  // A bad file is told before any kernel runs.
  std::string plan;
  for (const std::string& file : files) {
    std::vector<std::string_view> names;
    for (const Property* p : judges_of(read_case(file), file, asked)) names.push_back(p->name);
    plan += fmt::format("{}  {}\n", file, names.empty() ? std::string(kPlain) : fmt::format("{}", fmt::join(names, ", ")));
  }
  if (o.dry_run) {
    fmt::print(out, "{}", plan);
    return Exit::holds;
  }

  if (!o.report.empty()) probe_folder("--report", o.report);
  ReservedStdout json_alone(o.json == "-");  // before any code of a kernel runs
  const Kernel kernel = load_kernel(o.kernel);
  const Known known(o.ledger, kernel);
  const std::string judging = fmt::format("{}{}{}{}{}", kernel_words(o.kernel, kernel), o.properties.empty() ? "" : " --properties " + shell_word(o.properties),
                                          how == Contract::declared ? " --contract declared" : "", o.exact ? " --exact" : "", o.ledger.empty() ? "" : " --ledger " + shell_word(o.ledger));
  std::vector<ToldFailure> told;
  Judge judge;
  const PropertyContext context{kernel, judge, how, o.exact};
  VerifyReport report;
  report.kernel = kernel.name();
  report.device = kernel.device();
  fmt::print(out, "attest replay: kernel {}, contract {}\n", described(kernel), name_of(how));
  const auto start = std::chrono::steady_clock::now();
  const Interrupt interrupt;
  for (const std::string& file : files) {
    if (*interrupt.flag()) {
      report.stopped = true;
      break;
    }
    const Case c = read_case(file);
    running(again("replay", file, o.kernel, kernel));
    const auto judged = [&](const std::string& name, CaseResult result) {
      known.weigh(file, name, result, entry_of(report, name));
      fmt::print(out, "{}", outcome(file, name, result));
      std::fflush(out);
      if (!result.verdict.ok() && !o.report.empty()) {
        // The case is a file already; it is neither shrunk nor written again.
        ToldFailure& one = told.emplace_back();
        one.failure = {name, static_cast<uint64_t>(index_of(report, name)), result};
        one.kept.shrunk = c.problem;
        one.kept.verdict = result.verdict;
        one.kept.found_file = one.kept.shrunk_file = file;
        one.kept.signature = signature(name, result);
        one.replay = fmt::format("attest replay {} {}", shell_word(file), judging);
      }
      count_result(report, name, std::move(result));
    };
    const std::vector<const Property*> properties = judges_of(c, file, asked);
    if (properties.empty()) judged(kPlain, judge_plainly(c.problem, context));
    for (const Property* p : properties) {
      // A kernel that this property cannot be checked for is not an error of the case.
      if (const std::string why = p->not_covered(kernel); !why.empty()) {
        CaseResult refused;
        refused.problem = c.problem;
        refused.verdict.disposition = Disposition::not_supported;
        refused.verdict.detail = why;
        judged(std::string(p->name), std::move(refused));
        continue;
      }
      judged(std::string(p->name), p->check_and_memory(c.problem, context));
    }
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (!o.report.empty()) examine_some(told, {kernel, kernel_words(o.kernel, kernel), how, o.exact, o.report});

  std::vector<std::string> words;
  for (const std::string& path : o.paths) words.push_back(shell_word(path));
  const std::string command = fmt::format("attest replay {} {}", fmt::join(words, " "), judging);
  const RunSummary run{kernel, report, how, std::nullopt, command};
  const int64_t violations = report.violations();
  int64_t refused = 0;
  for (const PropertyReport& p : report.properties) refused += p.refused;
  fmt::print(out, "verdict: {} files, {} judgements, {} violation{}, {} not supported{}\n", files.size(), report.cases(), violations, violations == 1 ? "" : "s", refused,
             known_text(report));
  Exit exit = report.cases() == 0 || report.stopped ? Exit::inconclusive : Exit::holds;
  if (violations > 0) exit = graver(exit, Exit::violation);
  if (crashed(report)) exit = graver(exit, Exit::crash);
  if (!o.report.empty()) {
    set_aside(o.report);
    write_report(o.report, report_data("replay", exit, {run_data(run, told)}));
  }
  if (o.json == "-")
    json_alone.put(to_json(run));
  else if (!o.json.empty())
    write_file(o.json, to_json(run));
  return exit;
}

}  // namespace

Action add_replay(CommandLine command) {
  const auto o = std::make_shared<Options>();
  command.arguments("PATH", o->paths, "case files, or folders of them");
  command.kernel(o->kernel);
  command.option("--properties", o->properties, "RE", "judges every case by the properties whose name this regular expression is found in, whatever the file names");
  command.contract(o->contract);
  command.ledger(o->ledger);
  command.option("--report", o->report, "DIR", "folder for report.json, report.html and junit.xml");
  command.json(o->json);
  command.exact(o->exact);
  command.flag("--list", o->list, "lists the files that would be judged");
  command.flag("--dry-run", o->dry_run, "reads and checks the files, and runs no kernel");
  return [o] { return replay(*o); };
}

}  // namespace attest::cli

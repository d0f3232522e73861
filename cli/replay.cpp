// attest replay: saved cases, each judged again.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/failure_report.h"
#include "cli/files.h"
#include "cli/run_summary.h"
#include "corpus/case_file.h"
#include "properties/signature.h"

namespace attest::cli {

namespace {

constexpr const char* kPlain = "plain judging";

struct Options {
  std::vector<std::string> paths;
  std::string properties, json, contract = "strict";
  bool list = false, dry_run = false, exact = false;
  KernelChoice kernel;
};

// One run of the kernel, every byte of memory checked, judged against the reference.
CaseResult judge_plainly(const Problem& problem, const PropertyContext& context) {
  const JudgeOptions options{.numerics = context.kernel.numerics(problem, context.contract), .conventions = context.kernel.conventions(), .exact = context.exact};
  CaseResult result;
  result.problem = problem;
  result.verdict = context.judge(problem, context.kernel.run(problem), options);
  return result;
}

// The report's entry for a property, made where it is new.
PropertyReport& entry(VerifyReport& report, const std::string& name) {
  for (PropertyReport& p : report.properties)
    if (p.name == name) return p;
  report.properties.emplace_back().name = name;
  return report.properties.back();
}

void add(VerifyReport& report, const std::string& property, CaseResult result) {
  PropertyReport& p = entry(report, property);
  const Verdict& v = result.verdict;
  if (v.disposition == Disposition::not_supported) {
    ++p.refused;
    if (p.cases == 0) p.not_covered = v.detail;
    return;
  }
  p.not_covered.clear();
  count_case(p, report.mix, static_cast<uint64_t>(p.cases), std::move(result), std::numeric_limits<int64_t>::max());
}

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
  if (v.disposition == Disposition::not_supported) return text + ": " + v.detail + "\n";
  text += fmt::format(", err/bound {}\n", figure(std::max(v.worst_ratio, v.worst_lse_ratio)));
  if (v.ok()) return text;
  if (!result.relation.empty()) text += fmt::format("  between runs: {}\n", result.relation);
  text += fmt::format("  seen: {}\n  signature: {}\n", v.detail, signature(property, result));
  const std::string table = error_table(v);
  for (size_t at = 0; at < table.size();) {
    const size_t end = table.find('\n', at);
    text += "  " + table.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return text;
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

  const Kernel kernel = load_kernel(o.kernel);
  Judge judge;
  const PropertyContext context{kernel, judge, how, o.exact};
  VerifyReport report;
  report.kernel = kernel.name();
  report.device = kernel.device();
  fmt::print(out, "attest replay: kernel {} {} on {}, contract {}\n", kernel.name(), kernel.table().version, kernel.device(), name_of(how));
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& file : files) {
    const Case c = read_case(file);
    running(again("replay", file, o.kernel, kernel));
    const auto judged = [&](const std::string& name, CaseResult result) {
      fmt::print(out, "{}", outcome(file, name, result));
      std::fflush(out);
      add(report, name, std::move(result));
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

  std::vector<std::string> words;
  for (const std::string& path : o.paths) words.push_back(shell_word(path));
  const std::string command = fmt::format("attest replay {} {}{}{}{}", fmt::join(words, " "), kernel_words(o.kernel, kernel),
                                          o.properties.empty() ? "" : " --properties " + shell_word(o.properties),
                                          how == Contract::declared ? " --contract declared" : "", o.exact ? " --exact" : "");
  const RunSummary run{kernel, report, how, std::nullopt, command};
  const int64_t violations = report.violations();
  int64_t refused = 0;
  for (const PropertyReport& p : report.properties) refused += p.refused;
  fmt::print(out, "verdict: {} files, {} judgements, {} violation{}, {} not supported\n", files.size(), report.cases(), violations, violations == 1 ? "" : "s", refused);
  const std::string json = to_json(run);
  if (o.json == "-")
    fmt::print("{}", json);
  else if (!o.json.empty())
    write_file(o.json, json);

  Exit exit = report.cases() == 0 ? Exit::inconclusive : Exit::holds;
  if (violations > 0) exit = graver(exit, Exit::violation);
  if (crashed(report)) exit = graver(exit, Exit::crash);
  return exit;
}

}  // namespace

Action add_replay(CommandLine command) {
  const auto o = std::make_shared<Options>();
  command.arguments("PATH", o->paths, "case files, or folders of them");
  command.kernel(o->kernel);
  command.option("--properties", o->properties, "RE", "judges every case by the properties whose name this regular expression is found in, whatever the file names");
  command.contract(o->contract);
  command.json(o->json);
  command.exact(o->exact);
  command.flag("--list", o->list, "lists the files that would be judged");
  command.flag("--dry-run", o->dry_run, "reads and checks the files, and runs no kernel");
  return [o] { return replay(*o); };
}

}  // namespace attest::cli

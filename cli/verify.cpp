// attest verify: every property of a kernel, on many cases.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/environment.h"
#include "cli/failure_report.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/journal.h"
#include "cli/progress.h"
#include "cli/report/told_failures.h"
#include "cli/run_summary.h"
#include "cli/selftest.h"
#include "cli/terminal.h"
#include "corpus/case_file.h"

namespace attest::cli {

namespace {

struct Options {
  std::string properties, report, json;
  std::string cases = "10000", time, seed = "1", contract = "strict", shard = "1/1", threads;
  bool list = false, dry_run = false, exact = false;
  KernelChoice kernel;
};

// The command that repeats a run: every option that shapes its cases and their judging.
std::string command_line(const Options& o, const std::string& kernel) {
  std::string line = "attest verify " + kernel + " --seed " + o.seed;
  line += o.time.empty() ? " --cases " + o.cases : " --time " + o.time;
  if (!o.properties.empty()) line += " --properties " + shell_word(o.properties);
  if (o.contract != "strict") line += " --contract " + o.contract;
  if (o.shard != "1/1") line += " --shard " + o.shard;
  if (o.exact) line += " --exact";
  return line;
}

void list_properties(const std::vector<const Property*>& properties) {
  for (const Property* p : properties) fmt::print("{:<40}{}\n", p->name, p->statement);
}

// What a run would check, without checking it.
void print_plan(std::FILE* out, const Kernel& kernel, const std::vector<const Property*>& properties, const VerifyOptions& options) {
  const Target target = Target::from_table(kernel.table());
  const auto planned = planned_cases(kernel, options);
  int64_t all = 0;
  for (const Property* p : properties) {
    const auto at = std::find_if(planned.begin(), planned.end(), [&](const auto& one) { return one.first == p; });
    if (at == planned.end()) {
      fmt::print(out, "{:<40}not covered: {}\n", p->name, printable(p->not_covered(kernel)));
      continue;
    }
    all += at->second;
    fmt::print(out, "{:<40}{:>8} cases; conclusive from {} of each of {} regimes\n", p->name, at->second, p->enough, p->needed(target).size());
  }
  fmt::print(out, "{} cases{}\n", all, options.seconds ? " a round, until the time is over" : "");
}

Exit verify_kernel(const Options& o) {
  VerifyOptions options;
  options.cases = count("--cases", o.cases, 1);
  if (!o.time.empty()) options.seconds = duration("--time", o.time);
  options.seed = seed("--seed", o.seed);
  options.contract = contract("--contract", o.contract);
  options.exact = o.exact;
  options.properties = o.properties;
  const Shard part = shard("--shard", o.shard);
  options.shard = part.index;
  options.shards = part.of;
  if (!o.threads.empty()) options.threads = static_cast<int>(std::min<int64_t>(count("--threads", o.threads, 1), 1024));
  const std::vector<const Property*> properties = select_properties("--properties", o.properties);
  if (o.list) {
    list_properties(properties);
    return Exit::holds;
  }
  ReservedStdout json_alone(o.json == "-");  // before any code of a kernel runs
  const Kernel kernel = load_kernel(o.kernel);
  require_selftest();

  const std::string word = kernel_words(o.kernel, kernel);
  const std::string command = command_line(o, word);
  const std::string folder = o.report.empty() ? "report" : o.report;
  if (!o.report.empty() && !o.dry_run) probe_folder("--report", o.report);
  std::FILE* out = o.json == "-" ? stderr : stdout;
  const std::string header = fmt::format("attest verify: kernel {}, contract {}, seed {}\n", described(kernel), name_of(options.contract), options.seed);
  fmt::print(out, "{}", header);
  std::fflush(out);
  if (o.dry_run) {
    print_plan(out, kernel, properties, options);
    fmt::print(out, "to run it: {}\n", command);
    return Exit::holds;
  }

  // Nothing of an earlier run may be taken for this one's. Without --report the folder is touched by failures alone.
  std::once_flag once;
  const auto clear_folder = [&] { std::call_once(once, [&] { set_aside(folder); }); };
  if (!o.report.empty()) clear_folder();
  ProgressLine line;
  running(fmt::format("kernel {}; again: {}", kernel.name(), command));
  const FailureContext context{kernel, word, options.contract, options.exact, (std::filesystem::path(folder) / "failures").string()};
  Journal journal(o.report.empty() ? "" : (std::filesystem::path(folder) / "journal.jsonl").string(), command);
  const VerifyListener listener{
      .progress = [&](const Progress& p) { line(p); },
      .begins = [&](const Batch& batch) { journal.begins(batch); },
      .ends = [&](const Batch& batch, const PropertyReport& gave, const Mix& mix) { journal.ends(batch, gave, mix); },
      .lost = [&](const LostCall& call) {
        clear_folder();
        journal.lost(call, keep_lost(call, context));
      }};
  const auto interrupt = std::make_unique<Interrupt>();
  options.stop = interrupt->flag();
  const VerifyReport report = verify(kernel, options, listener);
  line.clear();
  const RunSummary run{kernel, report, options.contract, options.seed, command};

  Exit exit = Exit::holds;
  if (report.cases() == 0 || report.inconclusive() || report.stopped) exit = graver(exit, Exit::inconclusive);
  if (report.violations() > 0) exit = graver(exit, Exit::violation);
  if (crashed(report)) exit = graver(exit, Exit::crash);

  const std::string rest = report.cases() == 0 ? "" : "\n" + mix_text(run) + regime_text(run) + totals_text(run);
  const std::string again = fmt::format("again: {}\n", command);
  const bool colour = colours(out);
  fmt::print(out, "{}{}\n", property_table(run, colour), rest);
  std::fflush(out);
  Telling failures;
  try {
    if (report.violations() > 0) clear_folder();
    if (report.violations() > 0) failures = tell_failures(report, context, !o.report.empty());
  } catch (const std::filesystem::filesystem_error& e) {
    failures.text = fmt::format("the failures cannot be kept: {}; --report names another folder\n", e.what());
  } catch (const CaseError& e) {
    failures.text = fmt::format("the failures cannot be kept: {}; --report names another folder\n", e.what());
  }
  std::string verdict = verdict_line(run);
  verdict.pop_back();
  fmt::print(out, "{}{}{}\n", failures.text, again, painted(verdict, exit == Exit::holds ? Colour::green : exit == Exit::inconclusive ? Colour::yellow : Colour::red, colour));

  if (!o.report.empty()) {
    write_file((std::filesystem::path(folder) / "verify.txt").string(), header + property_table(run) + rest + "\n" + failures.text + again + verdict + "\n");
    write_report(folder, report_data("verify", exit, {run_data(run, failures.told)}));
  }
  if (o.json == "-")
    json_alone.put(to_json(run));
  else if (!o.json.empty())
    write_file(o.json, to_json(run));
  return exit;
}

}  // namespace

Action add_verify(CommandLine command) {
  const auto o = std::make_shared<Options>();
  command.kernel(o->kernel);
  command.option("--cases", o->cases, "N", "how many cases, over all properties");
  command.option("--time", o->time, "T", "runs this long instead: 30s, 10m, 2h");
  command.excludes("--time", "--cases");
  command.option("--seed", o->seed, "S", "the same seed makes the same cases, on every machine");
  command.option("--properties", o->properties, "RE", "only those whose name this regular expression is found in");
  command.contract(o->contract);
  command.option("--report", o->report, "DIR", "folder for the report and the failures (failures go to ./report if left out)");
  command.json(o->json);
  command.option("--shard", o->shard, "I/N", "the part I of N of all cases, I from 1 to N");
  command.option("--threads", o->threads, "N", "one per core if left out");
  command.exact(o->exact);
  command.flag("--list", o->list, "lists the properties and what each says");
  command.flag("--dry-run", o->dry_run, "says what would be checked, and checks nothing");
  return [o] { return verify_kernel(*o); };
}

}  // namespace attest::cli

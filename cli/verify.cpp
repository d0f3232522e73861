// attest verify: every property of a kernel, on many cases.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/environment.h"
#include "cli/failure_report.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/journal.h"
#include "cli/known.h"
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
  std::string baseline, ledger, resume;
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
  if (!o.baseline.empty()) line += " --baseline " + shell_word(o.baseline);
  if (!o.ledger.empty()) line += " --ledger " + shell_word(o.ledger);
  return line;
}

// What a journal has to say for a run to be continued; every option that shapes its cases and their judging.
RunRecord record_of(const Options& o, const Kernel& kernel, const std::string& command) {
  return {{"attest", ATTEST_VERSION}, {"command", command}, {"kernel", o.kernel.name.empty() ? kernel.name() : o.kernel.name},
          {"kernel_version", kernel.table().version}, {"isolate", o.kernel.isolate ? "1" : ""}, {"no_isolate", o.kernel.no_isolate ? "1" : ""},
          {"call_limit", o.kernel.call_limit}, {"memory_limit", o.kernel.memory_limit}, {"python", o.kernel.python}, {"properties", o.properties},
          {"cases", o.cases}, {"time", o.time}, {"seed", o.seed}, {"contract", o.contract}, {"shard", o.shard}, {"exact", o.exact ? "1" : ""},
          {"baseline", o.baseline}, {"ledger", o.ledger}};
}

// The options of the run whose journal `before` is; --threads and --json are this command's.
Options continued(const Options& o, const JournalRead& before) {
  const auto text = [&](const char* name) {
    const auto found = before.run.find(name);
    if (found == before.run.end()) throw Stop(Exit::usage, fmt::format("--resume: the journal in '{}' does not say '{}'", o.resume, name));
    return found->second;
  };
  const Options plain;
  const KernelChoice &k = o.kernel, &no_choice = plain.kernel;
  for (const auto& [option, typed] : {std::pair<const char*, bool>{"--kernel", !k.name.empty()}, {"--isolate", k.isolate}, {"--no-isolate", k.no_isolate},
                                      {"--call-limit", k.call_limit != no_choice.call_limit}, {"--memory-limit", k.memory_limit != no_choice.memory_limit},
                                      {"--python", k.python != no_choice.python}, {"--cases", o.cases != plain.cases}, {"--time", !o.time.empty()},
                                      {"--seed", o.seed != plain.seed}, {"--properties", !o.properties.empty()}, {"--contract", o.contract != plain.contract},
                                      {"--baseline", !o.baseline.empty()}, {"--ledger", !o.ledger.empty()}, {"--report", !o.report.empty()}, {"--shard", o.shard != plain.shard},
                                      {"--exact", o.exact}, {"--list", o.list}, {"--dry-run", o.dry_run}})
    if (typed) throw Stop(Exit::usage, fmt::format("--resume: {} may not be given, the journal says how the run goes on", option));
  if (text("attest") != ATTEST_VERSION) throw Stop(Exit::usage, fmt::format("--resume: '{}' is a run of attest {}, this is {}", o.resume, text("attest"), ATTEST_VERSION));
  Options all = o;
  all.kernel = {text("kernel"), !text("isolate").empty(), !text("no_isolate").empty(), text("call_limit"), text("memory_limit"), text("python")};
  all.properties = text("properties");
  all.cases = text("cases");
  all.time = text("time");
  all.seed = text("seed");
  all.contract = text("contract");
  all.shard = text("shard");
  all.exact = !text("exact").empty();
  all.baseline = text("baseline");
  all.ledger = text("ledger");
  all.report = o.resume;
  return all;
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

Exit verify_kernel(const Options& typed) {
  JournalRead before;
  if (!typed.resume.empty()) before = read_journal((std::filesystem::path(typed.resume) / "journal.jsonl").string());
  const Options o = typed.resume.empty() ? typed : continued(typed, before);
  VerifyOptions options;
  options.finished = before.finished;
  options.seconds_before = before.seconds;
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
  std::optional<Kernel> baseline;
  if (!o.baseline.empty()) {
    KernelChoice choice = o.kernel;
    choice.name = o.baseline;
    baseline = load_kernel(choice);
    options.baseline = &*baseline;
  }
  if (!typed.resume.empty() && kernel.table().version != before.run["kernel_version"])
    throw Stop(Exit::usage, fmt::format("--resume: '{}' is a run of version {} of this kernel, which is {} now", o.resume, before.run["kernel_version"], kernel.table().version));
  const Known known(o.ledger, kernel);
  options.known = known.failures();
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

  // Nothing of an earlier run may be taken for this one's. Without --report the folder is touched by failures alone;
  // a run that goes on stays in its own.
  std::once_flag once;
  const auto clear_folder = [&] {
    if (typed.resume.empty()) std::call_once(once, [&] { set_aside(folder); });
  };
  if (!o.report.empty() && typed.resume.empty()) clear_folder();
  ProgressLine line;
  running(fmt::format("kernel {}; again: {}", kernel.name(), command));
  const FailureContext context{kernel, word, options.contract, options.exact, (std::filesystem::path(folder) / "failures").string()};
  Journal journal(o.report.empty() ? "" : (std::filesystem::path(folder) / "journal.jsonl").string(), record_of(o, kernel, command), before.bytes);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return before.seconds + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const VerifyListener listener{
      .progress = [&](const Progress& p) { line(p); },
      .begins = [&](const Batch& batch) { journal.begins(batch); },
      .ends = [&](const Batch& batch, const PropertyReport& gave, const Mix& mix) { journal.ends(batch, gave, mix, seconds()); },
      .lost = [&](const LostCall& call) {
        clear_folder();
        journal.lost(call, keep_lost(call, context));
      }};
  const auto interrupt = std::make_unique<Interrupt>();
  options.stop = interrupt->flag();
  VerifyReport report = verify(kernel, options, listener);
  line.clear();
  Judge judge;
  const std::string unexpected = options.shard == 0 ? known.settle({kernel, judge, options.contract, options.exact}, report) : "";
  const RunSummary run{kernel, report, options.contract, options.seed, command, options.baseline};

  Exit exit = Exit::holds;
  if (report.cases() == 0 || report.inconclusive() || report.stopped) exit = graver(exit, Exit::inconclusive);
  if (report.violations() > 0) exit = graver(exit, Exit::violation);
  if (crashed(report)) exit = graver(exit, Exit::crash);

  const std::string rest = report.cases() == 0 ? "" : "\n" + mix_text(run) + regime_text(run) + totals_text(run) + baseline_text(run);
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
  fmt::print(out, "{}{}{}{}\n", failures.text, unexpected, again, painted(verdict, exit == Exit::holds ? Colour::green : exit == Exit::inconclusive ? Colour::yellow : Colour::red, colour));

  if (!o.report.empty()) {
    write_file((std::filesystem::path(folder) / "verify.txt").string(), header + property_table(run) + rest + "\n" + failures.text + unexpected + again + verdict + "\n");
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
  command.option("--baseline", o->baseline, "K", "another kernel that runs every case too; how their outputs differ is told, and decides nothing");
  command.ledger(o->ledger);
  command.option("--report", o->report, "DIR", "folder for the report and the failures (failures go to ./report if left out)");
  command.json(o->json);
  command.option("--shard", o->shard, "I/N", "the part I of N of all cases, I from 1 to N");
  command.option("--threads", o->threads, "N", "one per core if left out");
  command.exact(o->exact);
  command.flag("--list", o->list, "lists the properties and what each says");
  command.flag("--dry-run", o->dry_run, "says what would be checked, and checks nothing");
  command.option("--resume", o->resume, "DIR", "goes on with the run whose report folder this is, from where it was stopped or killed");
  return [o] { return verify_kernel(*o); };
}

}  // namespace attest::cli

// attest fuzz: runs the fuzz targets that lie beside the program, in turn, and keeps what they find.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/judge_case.h"
#include "cli/report/told_failures.h"
#include "properties/signature.h"

namespace attest::cli {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kPlugin = "fuzz_plugin";  // the target that takes any kernel
constexpr const char* kKernelVariable = "ATTEST_FUZZ_KERNEL";

struct Options {
  std::string kernel, time = "1m", corpus, findings = "findings", report;
  bool list = false, dry_run = false;
};

// What ended a target before its time.
struct Found {
  std::string target, file, replay;  // file: a case, or where none could be made the target's input
  std::string said;                  // by the target
  bool crash = false;
};

fs::path own_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::vector<fs::path> targets_beside(const fs::path& folder) {
  std::vector<fs::path> targets;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("fuzz_") && entry.path().extension().empty() && access(entry.path().c_str(), X_OK) == 0)
      targets.push_back(entry.path());
  std::sort(targets.begin(), targets.end());
  if (targets.empty())
    throw Stop(Exit::inconclusive, fmt::format("no fuzz targets in {}: install clang-19 and libclang-rt-19-dev, then build the preset 'fuzz' (cmake "
                                               "--preset fuzz && cmake --build --preset fuzz) and run the attest that it builds", folder.string()));
  return targets;
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> files_of(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_regular_file()) names.insert(entry.path().filename().string());
  return names;
}

// The last line of libFuzzer's that tells its progress.
std::string last_progress(const std::string& log) {
  const size_t at = log.rfind("\n#");
  return at == std::string::npos ? "" : log.substr(at + 1, log.find('\n', at + 1) - at - 1);
}

// Starts a program with stdout and stderr in `log`.
pid_t start(const std::vector<std::string>& words, const fs::path& log) {
  const pid_t child = fork();
  if (child != 0) return child;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(127);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

class Run {
 public:
  Run(const Options& o, fs::path target, double seconds, const std::atomic<bool>& stop)
      : o_(o), stop_(stop), target_(std::move(target)), name_(target_.filename().string()), seconds_(seconds), terminal_(isatty(STDERR_FILENO) != 0) {
    corpus_ = fs::path(o.corpus.empty() ? "fuzz-corpus" : o.corpus) / name_;
    artifacts_ = fs::path(o.findings) / "inputs";
    fs::create_directories(corpus_);
    fs::create_directories(artifacts_);
  }

  // Until the time is over; a violation ends the target, which then starts again. A crash would come again at once.
  Exit operator()() {
    const auto begin = Clock::now();
    Exit exit = Exit::holds;
    for (double left = seconds_; left >= 1 && !stop_;) {
      exit = graver(exit, once(left, seconds_ - left));
      left = seconds_ - std::chrono::duration<double>(Clock::now() - begin).count();
      if (exit == Exit::crash) break;
    }
    if (exit == Exit::holds) fmt::print("{}: no finding, {}\n", name_, progress_);
    return exit;
  }

  std::vector<Found> found;
  int64_t executions = 0;
  const std::string& name() const { return name_; }

 private:
  Exit once(double left, double before) {
    const fs::path log = fs::path(o_.findings) / (name_ + ".log");
    const std::set<std::string> cases = files_of(o_.findings);
    std::vector<std::string> words{target_.string(), fmt::format("-max_total_time={}", static_cast<int64_t>(left)), "-max_len=65536", "-len_control=0",
                                   "-malloc_limit_mb=1024", fmt::format("-artifact_prefix={}/", artifacts_.string()), corpus_.string()};
    const fs::path seeds = fs::path(ATTEST_FUZZ_CORPUS) / name_.substr(5);
    if (fs::is_directory(seeds)) words.push_back(seeds.string());
    const pid_t child = start(words, log);
    if (child < 0) throw Stop(Exit::self_check, fmt::format("{} cannot be started", target_.string()));
    const int status = wait_for(child, log, before);
    const std::string text = text_of(log);
    progress_ = last_progress(text);
    if (!progress_.empty()) executions += std::strtoll(progress_.c_str() + 1, nullptr, 10);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Exit::holds;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) throw Stop(Exit::usage, first_line(text));

    // A violation was saved by the target. Whatever else ended it left an input.
    for (const std::string& file : files_of(o_.findings))
      if (!cases.contains(file) && (file.ends_with(".json") || file.ends_with(".safetensors"))) {
        const std::string said = own_lines(text);
        fmt::print("{}: found {}\n{}\n", name_, file, said);
        found.push_back({name_, (fs::path(o_.findings) / file).string(), replay_in(said), said, false});
        return Exit::violation;
      }
    if (const std::string input = input_written(text); !input.empty()) {
      keep_crash(input);
      return Exit::crash;
    }
    if (stop_) return Exit::holds;  // libFuzzer ends with a code of its own where it is interrupted
    throw Stop(Exit::self_check, fmt::format("{} ended without a finding; {} says why", name_, log.string()));
  }

  int wait_for(pid_t child, const fs::path& log, double before) {
    const auto begin = Clock::now();
    double next_plain = 10;
    int status = 0;
    for (bool told = false; waitpid(child, &status, WNOHANG) == 0;) {
      if (stop_ && !told) told = kill(child, SIGINT) == 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (!terminal_ && seconds < next_plain) continue;
      next_plain = seconds + 10;
      fmt::print(stderr, "{}{}: {:.0f} of {:.0f} s, {:.90}{}", terminal_ ? "\r\033[K" : "", name_, before + seconds, seconds_, last_progress(text_of(log)),
                 terminal_ ? "" : "\n");
      std::fflush(stderr);
    }
    if (terminal_) fmt::print(stderr, "\r\033[K");
    return status;
  }

  void keep_crash(const fs::path& input) {
    const fs::path log = fs::path(o_.findings) / (name_ + ".crash.log");
    const pid_t child = start({target_.string(), "--keep-crash", input.string(), o_.findings}, log);
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    const std::string lines = own_lines(text_of(log));
    const std::string replay = replay_in(lines);
    const std::string again = fmt::format("{} {}", target_.string(), input.string());
    // "attest replay FILE --kernel K"
    const std::string file = replay.empty() ? input.string() : replay.substr(14, replay.find(" --kernel ") - 14);
    found.push_back({name_, file, replay.empty() ? again : replay, lines, true});
    fmt::print("{}: stopped on {}\n{}", name_, input.string(), lines.empty() ? fmt::format("  again: {}\n", again) : lines + "\n");
  }

  static std::string first_line(const std::string& text) {
    const size_t at = text.find("attest: ");
    return at == std::string::npos ? text.substr(0, text.find('\n')) : text.substr(at + 8, text.find('\n', at) - at - 8);
  }

  // Where libFuzzer put the input that ended it; "" if it says nothing of one.
  static std::string input_written(const std::string& text) {
    constexpr std::string_view kWords = "Test unit written to ";
    const size_t at = text.rfind(kWords);
    return at == std::string::npos ? "" : text.substr(at + kWords.size(), text.find('\n', at) - at - kWords.size());
  }

  // What the target said in attest's name, up to the line that replays.
  static std::string own_lines(const std::string& text) {
    const size_t begin = text.find("attest: ");
    if (begin == std::string::npos) return "";
    const size_t replay = text.find("  replay: ", begin);
    const size_t end = text.find('\n', replay == std::string::npos ? begin : replay);
    return text.substr(begin, end - begin);
  }

  // "attest replay FILE --kernel K" of what a target said; "" where it names none.
  static std::string replay_in(const std::string& said) {
    constexpr std::string_view kWords = "  replay: ";
    const size_t at = said.find(kWords);
    return at == std::string::npos ? "" : said.substr(at + kWords.size(), said.find('\n', at) - at - kWords.size());
  }

  const Options& o_;
  const std::atomic<bool>& stop_;
  fs::path target_;
  std::string name_;
  double seconds_;
  bool terminal_;
  fs::path corpus_, artifacts_;
  std::string progress_;
};

// A property for each target, a case for each execution.
Data report_of(const std::vector<Run>& runs, const Kernel& kernel, const std::string& kernel_words, const std::string& command, double seconds, bool stopped, Exit exit) {
  Judge judge;
  const PropertyContext context{kernel, judge, Contract::strict, false};
  VerifyReport report;
  report.kernel = kernel.name();
  report.device = kernel.device();
  report.seconds = seconds;
  report.stopped = stopped;
  std::vector<ToldFailure> told;
  int64_t executions = 0;
  for (const Run& run : runs) {
    PropertyReport& p = report.properties.emplace_back();
    p.name = run.name();
    for (const Found& f : run.found) {
      ToldFailure& one = told.emplace_back();
      one.is_case = f.file.ends_with(".json") || f.file.ends_with(".safetensors");
      CaseResult result;
      result.problem = Problem::make({}, DType::f32);
      result.verdict.disposition = Disposition::crashed;
      result.verdict.check = Check::status;
      result.verdict.detail = f.said.substr(0, f.said.find('\n'));
      std::string signature_text = run.name() + "/stopped";
      if (one.is_case) {
        try {
          const Case c = read_case(f.file);
          result.problem = c.problem;
          if (!c.signature.empty()) signature_text = c.signature;
          const Property* property = find_property(c.property);
          if (!f.crash) result = property != nullptr ? property->check(c.problem, context) : judge_plainly(c.problem, context);
        } catch (const CaseError& e) {
          one.is_case = false;
          result.verdict.detail += fmt::format(" (the file is no case: {})", e.what());
        }
      }
      one.failure = {run.name(), static_cast<uint64_t>(p.cases), result};
      one.kept.shrunk = result.problem;
      one.kept.verdict = result.verdict;
      one.kept.found_file = one.kept.shrunk_file = f.file;
      one.kept.signature = signature_text;
      one.kept.repeats = !result.verdict.ok();
      one.replay = f.replay;
      count_case(p, report.mix, static_cast<uint64_t>(p.cases), std::move(result), 0);
    }
    // What the target found has failed, whether or not it does so here.
    p.violations = static_cast<int64_t>(run.found.size());
    p.cases = std::max(p.cases, run.executions);
    executions += p.cases;
  }
  examine_some(told, {kernel, kernel_words, Contract::strict, false, ""});
  Data data = run_data({kernel, report, Contract::strict, std::nullopt, command}, told);
  const int64_t n = report.violations();
  data["verdict"] = fmt::format("{}{} finding{} of {} target{}, {} executions, {:.1f} s", stopped ? "stopped before its end; until then " : "", n, n == 1 ? "" : "s", runs.size(), runs.size() == 1 ? "" : "s", executions, seconds);
  return report_data("fuzz", exit, {data});
}

Exit fuzz(const Options& o) {
  const double seconds = duration("--time", o.time);
  std::vector<fs::path> targets = targets_beside(own_folder());
  if (!o.kernel.empty()) {
    load_kernel({.name = o.kernel});  // a bad name is told here
    std::erase_if(targets, [](const fs::path& t) { return t.filename() != kPlugin; });
    if (targets.empty()) throw Stop(Exit::inconclusive, fmt::format("{} is not beside the program; the preset 'fuzz' builds it", kPlugin));
    setenv(kKernelVariable, o.kernel.c_str(), 1);
  }
  if (o.list) {
    for (const fs::path& t : targets) fmt::print("{}\n", t.filename().string());
    return Exit::holds;
  }
  const double each = std::max(1.0, seconds / static_cast<double>(targets.size()));
  if (o.dry_run) {
    for (const fs::path& t : targets) fmt::print("{} for {:.0f} s, findings to {}\n", t.filename().string(), each, o.findings);
    return Exit::holds;
  }
  fs::create_directories(o.findings);
  setenv("ATTEST_FINDINGS", o.findings.c_str(), 1);
  if (!o.report.empty()) probe_folder("--report", o.report);
  const Interrupt interrupt;
  const auto begin = Clock::now();
  Exit exit = Exit::holds;
  std::vector<Run> runs;
  for (const fs::path& target : targets) {
    if (*interrupt.flag()) break;
    exit = graver(exit, runs.emplace_back(o, target, each, *interrupt.flag())());
  }
  if (o.report.empty()) return exit;
  const Kernel kernel = load_kernel({.name = o.kernel.empty() ? "host" : o.kernel});
  const std::string words = kernel_words({.name = o.kernel.empty() ? "host" : o.kernel}, kernel);
  const std::string command = fmt::format("attest fuzz {}--time {}", o.kernel.empty() ? "" : words + " ", o.time);
  set_aside(o.report);
  write_report(o.report, report_of(runs, kernel, words, command, std::chrono::duration<double>(Clock::now() - begin).count(), *interrupt.flag(), exit));
  return exit;
}

}  // namespace

Action add_fuzz(CommandLine command) {
  const auto o = std::make_shared<Options>();
  command.option("--kernel", o->kernel, "K", "fuzzes this kernel alone, a plug-in for instance; left out: every target, on the host kernel");
  command.option("--time", o->time, "T", "how long, over all targets: 30s, 10m, 2h");
  command.option("--corpus", o->corpus, "DIR", "where inputs that show something new are kept, fuzz-corpus if left out");
  command.option("--findings", o->findings, "DIR", "where the shrunk cases go");
  command.option("--report", o->report, "DIR", "folder for report.json, report.html and junit.xml");
  command.flag("--list", o->list, "lists the targets");
  command.flag("--dry-run", o->dry_run, "says what would run, and runs nothing");
  return [o] { return fuzz(*o); };
}

}  // namespace attest::cli

// detection.cpp: which mutants attest catches and which the rules of today catch, as Markdown.
//
//     detection [CASES] [REPORT.json]
//
// Every mutant runs under attest until its first violation, at most 2,000 cases; then CASES cases (default 100) of a
// seed of its own to the end, to see what each check, property and regime earns; and under the five rules (rules.h),
// each with its own inputs. REPORT.json gets the first violation of each mutant as `attest report join` takes it. Exit code 1 if attest misses a mutant or rejects an equivalent one.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include <time.h>

#include "bench/detection/rules.h"
#include "properties/mutants/mutants.h"
#include "properties/verify.h"

namespace {

using namespace attest;
using bench::rules;
using mutants::Family;
using mutants::Mutant;

constexpr int64_t kUntil = 2000;

struct Outcome {
  const Family* family = nullptr;
  const Mutant* mutant = nullptr;
  bool caught = false;
  int64_t cases = 0;      // until the first violation
  double seconds = 0;     // of one core, until then
  std::string property = "", check = "";
  std::set<std::string> properties = {}, checks = {};                 // that showed it in the run of CASES
  std::map<std::string, std::pair<int64_t, int64_t>> by_regime = {};  // violations, cases
  std::vector<bool> rejected = {};                                    // by each rule
};

double core_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void judge(Outcome& out, int64_t cases, uint64_t seed) {
  const Kernel kernel = Kernel::from_table(out.mutant->kernel);
  const double start = core_seconds();
  const VerifyReport first = verify(kernel, {.seed = 1, .cases = kUntil, .threads = 1, .until_violation = true});
  out.seconds = core_seconds() - start;
  out.caught = first.violations() > 0;
  out.cases = first.cases();
  for (const PropertyReport& p : first.properties)
    for (const Failure& f : p.failures) {
      out.property = p.name;
      out.check = name_of(f.result.verdict.check);
    }
  const VerifyReport whole = verify(kernel, {.seed = seed, .cases = cases, .threads = 1, .keep_failures = cases});
  for (const PropertyReport& p : whole.properties) {
    for (const auto& [regime, n] : p.regimes) out.by_regime[regime].second += n;
    for (const Failure& f : p.failures) {
      out.properties.insert(p.name);
      out.checks.emplace(name_of(f.result.verdict.check));
      for (const std::string& regime : f.result.regimes) ++out.by_regime[regime].first;
    }
  }
  for (const bench::Rule& rule : rules()) out.rejected.push_back(rule.rejects(kernel));
}

std::vector<Outcome> judge_all(int64_t cases) {
  std::vector<Outcome> all;
  for (const Family& family : mutants::all())
    for (const Mutant& m : family.mutants) all.push_back({.family = &family, .mutant = &m});
  rules();
  std::atomic<size_t> next{0}, done{0};
  const auto work = [&] {
    for (size_t n; (n = next++) < all.size();) {
      judge(all[n], cases, n + 1);
      if (++done % 20 == 0) fmt::print(stderr, "{} of {} mutants\n", done.load(), all.size());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned n = 1; n < std::thread::hardware_concurrency(); ++n) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  return all;
}

std::string share(int64_t part, int64_t whole) { return fmt::format("{} of {} ({:.0f} %)", part, whole, whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0); }

// A table of how many mutants each name in `of` showed, the most useful first, and how many no other name showed.
void print_earned(const char* what, const std::vector<Outcome>& all, std::set<std::string> Outcome::*of) {
  std::map<std::string, std::pair<int64_t, int64_t>> earned;
  int64_t caught = 0;
  for (const Outcome& o : all) {
    caught += !(o.*of).empty();
    for (const std::string& name : o.*of) {
      ++earned[name].first;
      if ((o.*of).size() == 1) ++earned[name].second;
    }
  }
  std::vector<std::pair<std::string, std::pair<int64_t, int64_t>>> sorted(earned.begin(), earned.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  fmt::print("| {} | mutants | by no other |\n| --- | --- | --- |\n", what);
  for (const auto& [name, n] : sorted) fmt::print("| {} | {} | {} |\n", name, share(n.first, caught), n.second);
  fmt::print("\n");
}

void write_report(const std::string& path, const std::vector<Outcome>& faults) {
  nlohmann::ordered_json report = {{"attest_report", 1}, {"command", "join"}, {"exit", 0}, {"buckets", nlohmann::json::array()}, {"runs", nlohmann::json::array()}, {"mutants", nlohmann::json::array()}};
  for (int n = 0; n < kBuckets; ++n) report["buckets"].push_back(bucket_name(n));
  for (const Outcome& o : faults) {
    nlohmann::ordered_json one = {{"name", o.mutant->name}, {"group", o.family->name}, {"check", nullptr}, {"property", nullptr}};
    if (o.caught) {
      one["check"] = o.check;
      one["property"] = o.property;
    }
    report["mutants"].push_back(one);
  }
  std::ofstream file(path);
  file << report.dump(2) << "\n";
  file.close();
  if (!file) fmt::print(stderr, "detection: cannot write '{}'\n", path);
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t cases = argc > 1 ? std::atoll(argv[1]) : 100;
  if (cases < 1 || argc > 3) {
    fmt::print(stderr, "usage: detection [CASES] [REPORT.json]\n");
    return 2;
  }
  const std::vector<Outcome> all = judge_all(cases);
  std::vector<Outcome> faults, equivalent;
  for (const Outcome& o : all) (*o.mutant->equivalent == 0 ? faults : equivalent).push_back(o);
  if (argc > 2) write_report(argv[2], faults);
  const auto count = [](const std::vector<Outcome>& list, auto f) { return std::count_if(list.begin(), list.end(), f); };
  const auto total = static_cast<int64_t>(faults.size());

  fmt::print("# What gets past which check\n\nMade by `build/release/bin/detection {}`: {} faulty host kernels and {} equivalent ones, under attest and under five rules\n"
             "that projects use today, each with its own inputs.\n\n",
             cases, total, equivalent.size());
  fmt::print("| | caught | equivalent ones rejected | inputs |\n| --- | --- | --- | --- |\n");
  const auto caught = [](const Outcome& o) { return o.caught; };
  fmt::print("| attest | {} | {} | `attest verify`, at most {} cases |\n", share(count(faults, caught), total), count(equivalent, caught), kUntil);
  for (size_t n = 0; n < rules().size(); ++n) {
    const auto rejected = [n](const Outcome& o) { return static_cast<bool>(o.rejected[n]); };
    fmt::print("| {} | {} | {} | {} |\n", rules()[n].name, share(count(faults, rejected), total), count(equivalent, rejected), rules()[n].inputs);
  }
  const auto any = [](const Outcome& o) { return std::count(o.rejected.begin(), o.rejected.end(), true) > 0; };
  fmt::print("| all five together | {} | {} | |\n\n", share(count(faults, any), total), count(equivalent, any));

  double seconds = 0, slowest = 0;
  int64_t most = 0;
  std::vector<int64_t> until;
  for (const Outcome& o : faults) {
    if (!o.caught) continue;
    until.push_back(o.cases);
    most = std::max(most, o.cases);
    seconds += o.seconds;
    slowest = std::max(slowest, o.seconds);
  }
  std::sort(until.begin(), until.end());
  if (!until.empty())
    fmt::print("Until the first violation attest takes {} cases in the median and {} at most, {:.2f} s of one core in the mean and {:.1f} s at most.\n\n", until[until.size() / 2], most,
               seconds / static_cast<double>(until.size()), slowest);

  const auto header = [](const char* first) {
    fmt::print("| {} | attest |", first);
    for (const bench::Rule& rule : rules()) fmt::print(" {} |", rule.name);
    fmt::print("\n| --- | --- |");
    for (size_t n = 0; n < rules().size(); ++n) fmt::print(" --- |");
    fmt::print("\n");
  };
  fmt::print("## By family\n\n");
  header("family");
  for (const Family& family : mutants::all()) {
    std::vector<Outcome> here;
    for (const Outcome& o : faults)
      if (o.family == &family) here.push_back(o);
    fmt::print("| {} ({}) | {} |", family.name, here.size(), count(here, caught));
    for (size_t n = 0; n < rules().size(); ++n) fmt::print(" {} |", count(here, [n](const Outcome& o) { return static_cast<bool>(o.rejected[n]); }));
    fmt::print("\n");
  }

  fmt::print("\n## What attest's parts earn\n\nIn a run of {} cases on each mutant: how many mutants each part shows, of those that the run shows.\n\n", cases);
  print_earned("check", faults, &Outcome::checks);
  print_earned("property", faults, &Outcome::properties);
  std::map<std::string, std::array<int64_t, 3>> regimes;  // mutants, violations, cases
  for (const Outcome& o : faults) {
    for (const auto& [name, n] : o.by_regime) {
      regimes[name][0] += n.first > 0;
      regimes[name][1] += n.first;
      regimes[name][2] += n.second;
    }
  }
  fmt::print("| regime | mutants that its cases show | violations of its cases |\n| --- | --- | --- |\n");
  for (const auto& [name, n] : regimes) fmt::print("| {} | {} | {} |\n", name, n[0], share(n[1], n[2]));

  fmt::print("\n## Every mutant\n\nUnder attest: cases until the first violation, its check and property.\n\n");
  header("mutant");
  for (const Outcome& o : faults) {
    fmt::print("| `{}`: {}{} | {} |", o.mutant->name, o.mutant->fault, *o.mutant->reports ? fmt::format(" ({})", o.mutant->reports) : "",
               o.caught ? fmt::format("{}: {}, {}", o.cases, o.check, o.property) : "**survives**");
    for (bool rejected : o.rejected) fmt::print(" {} |", rejected ? "caught" : "-");
    fmt::print("\n");
  }
  fmt::print("\n## Equivalent ones\n\n| mutant | proof |\n| --- | --- |\n");
  for (const Outcome& o : equivalent) fmt::print("| `{}`: {} | {} |\n", o.mutant->name, o.mutant->fault, o.mutant->equivalent);
  return count(faults, caught) == total && count(equivalent, caught) == 0 ? 0 : 1;
}

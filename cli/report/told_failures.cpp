#include "cli/report/told_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "properties/signature.h"

namespace attest::cli {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kShare = 0.03, kLeastSeconds = 0.2;

}  // namespace

Telling tell_failures(const VerifyReport& report, const FailureContext& context, bool examined) {
  Telling all;
  std::string others;
  size_t at_length = 0;
  double spent = 0;  // seconds on details alone
  const double most = std::max(kLeastSeconds, kShare * report.seconds);
  const auto add = [&](const Failure& failure, KeptFailure kept) {
    FailureDetail detail;
    if (examined && all.told.size() < kDetails) {
      const auto begin = Clock::now();
      if (spent < most) detail = examine(kept.shrunk, kept.verdict, context.kernel);
      else detail.nothing = "no time was left for them, a report may take 3 % of its run; attest show prints them";
      spent += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    std::string replay = replay_line(kept, context);
    all.told.push_back({failure, std::move(kept), std::move(detail), std::move(replay)});
  };
  for (const PropertyReport& p : report.properties) {
    if (p.failures.empty()) continue;
    const Failure& first = p.failures.front();
    if (at_length++ < kFullReports) {
      add(first, keep(first, context));
      all.text += failure_report(first, all.told.back().kept, context) + "\n";
    } else {
      add(first, keep_as_found(first, context));
      others += fmt::format("also {}: {} violation{}\n  replay: {}\n", p.name, p.violations, p.violations == 1 ? "" : "s", all.told.back().replay);
    }
  }
  if (!others.empty()) others += "attest verify --properties '^NAME$' tells one of these at length\n";
  all.text += others;
  if (!examined) return all;
  for (const PropertyReport& p : report.properties) {
    std::set<std::string> seen;
    for (const Failure& f : p.failures) {
      if (!seen.insert(signature(f.property, f.result)).second || seen.size() == 1) continue;
      if (all.told.size() >= kDetails || spent >= most) return all;
      add(f, keep_as_found(f, context));
    }
  }
  return all;
}

void examine_some(std::vector<ToldFailure>& told, const FailureContext& context) {
  std::set<std::string> seen;  // a signature names its property
  std::erase_if(told, [&](const ToldFailure& one) { return seen.size() >= kDetails || !seen.insert(one.kept.signature).second; });
  for (ToldFailure& one : told) {
    one.kept.diagnosis = diagnosis_of(one.failure, context);
    one.detail = examine(one.kept.shrunk, one.kept.verdict, context.kernel);
  }
}

}  // namespace attest::cli

#include "cli/known.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/terminal.h"

namespace attest::cli {

namespace {

namespace fs = std::filesystem;

// Turns a pass into what it is where the ledger says that the case fails.
void expect_failure(const LedgerEntry& entry, CaseResult& result) {
  if (result.verdict.disposition != Disposition::passed) return;
  result.verdict.disposition = Disposition::unexpected_pass;
  result.verdict.detail = fmt::format("the ledger says that this fails ({}); it passes: take the entry out", entry.where);
}

bool same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

}  // namespace

Known::Known(const std::string& path, const Kernel& kernel) {
  if (path.empty()) return;
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const std::string file = folder ? ledger_of(path, kernel.name()) : path;
  if (folder && !fs::exists(file, error)) return;
  try {
    for (LedgerEntry& e : read_ledger(file)) {
      if (!e.covers(kernel.table().version)) continue;
      if (find_property(e.property) == nullptr) throw Stop(Exit::usage, fmt::format("--ledger: {}: property: '{}' is not the name of a property", e.where, printable(e.property)));
      failures_.push_back({e.property, e.signature});
      std::optional<Problem> problem;
      if (!e.file.empty()) problem = read_case(e.file).problem;  // now: after the run it would be too late to tell
      entries_.push_back({std::move(e), std::move(problem)});
    }
  } catch (const CaseError& e) {
    throw Stop(Exit::usage, fmt::format("--ledger: {}", e.what()));
  }
}

std::string Known::settle(const PropertyContext& context, VerifyReport& report) const {
  std::string text;
  if (report.stopped) return text;
  for (const auto& [entry, problem] : entries_) {
    const auto at = std::find_if(report.properties.begin(), report.properties.end(), [&, &entry = entry](const PropertyReport& p) { return p.name == entry.property; });
    if (at == report.properties.end() || !at->not_covered.empty()) continue;
    CaseResult result;
    if (problem) {
      result = find_property(entry.property)->check_and_memory(*problem, context);
      excuse(failures_, result, *at);
      expect_failure(entry, result);
    } else if (at->known.contains(entry.signature) || at->inconclusive) {
      continue;
    } else {
      expect_failure(entry, result);
    }
    if (result.verdict.disposition == Disposition::not_supported) continue;
    const bool unexpected = result.verdict.disposition == Disposition::unexpected_pass;
    if (unexpected) text += fmt::format("unexpected pass: {} of {}\n  {}\n", entry.property, problem ? entry.file : entry.reason, printable(result.verdict.detail));
    count_case(*at, report.mix, static_cast<uint64_t>(at->cases), std::move(result), unexpected ? 0 : VerifyOptions{}.keep_failures);
  }
  return text;
}

void Known::weigh(const std::string& file, const std::string& property, CaseResult& result, PropertyReport& report) const {
  excuse(failures_, result, report);
  for (const auto& [entry, problem] : entries_)
    if (problem && entry.property == property && same_file(entry.file, file)) expect_failure(entry, result);
}

}  // namespace attest::cli

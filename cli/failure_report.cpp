#include "cli/failure_report.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/arguments.h"
#include "cli/environment.h"
#include "cli/terminal.h"
#include "cli/run_summary.h"
#include "corpus/case_file.h"
#include "properties/explain.h"
#include "properties/shrink.h"
#include "properties/signature.h"

namespace attest::cli {

namespace {

constexpr double kShrinkSeconds = 2, kDiagnoseSeconds = 2;
constexpr int64_t kReadable = 4096;  // elements of inputs up to which a case is written as JSON

int64_t elements(const Problem& p) {
  const auto of = [](const Tensor& t) { return static_cast<int64_t>(t.storage.size()) / size_of(t.type); };
  return of(p.q) + of(p.k) + of(p.v) + (p.bias ? of(*p.bias) : 0) + (p.mask ? static_cast<int64_t>(p.mask->storage.size()) : 0);
}

std::string indented(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    result += "  " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return result;
}

// A name as one part of a path: it cannot leave its folder.
std::string file_word(std::string name) {
  for (char& c : name)
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-') c = '_';
  return name;
}

std::string stem(const FailureContext& context, const std::string& property, uint64_t index) {
  std::filesystem::create_directories(context.folder);
  return (std::filesystem::path(context.folder) / fmt::format("{}-{}", file_word(property), index)).string();
}

// Returns the path, whose extension says how large the case is.
std::string write_to(const std::string& stem, const Case& c) {
  const std::string path = stem + (elements(c.problem) <= kReadable ? ".json" : ".safetensors");
  write_case(c, path);
  return path;
}

std::string write_failing(const Failure& failure, const KeptFailure& kept, const Problem& problem, const std::string& suffix, const FailureContext& context) {
  Case c;
  c.problem = problem;
  c.name = fmt::format("{} on {}", failure.property, context.kernel.name());
  c.property = failure.property;
  c.signature = kept.signature;
  return write_to(stem(context, failure.property, failure.index) + suffix, c);
}

std::string value(double x) { return std::isfinite(x) ? fmt::format("{:.9g}", x) : figure(x); }

}  // namespace

std::string diagnosis_of(const Failure& failure, const FailureContext& context) {
  // No fault of the arithmetic explains a process that is gone, and every further run may take as long as it may.
  const Disposition disposition = failure.result.verdict.disposition;
  if (disposition == Disposition::crashed || disposition == Disposition::timed_out) return "";
  Judge judge;
  const PropertyContext how{context.kernel, judge, context.contract, context.exact};
  const Explanation found = explain(failure.result.problem, how, {.property = find_property(failure.property), .seconds = kDiagnoseSeconds});
  return found.evidence.runs.empty() ? "" : argument(found.evidence, found.diagnosis);
}

KeptFailure keep(const Failure& failure, const FailureContext& context) {
  KeptFailure kept;
  kept.signature = signature(failure.property, failure.result);
  kept.shrunk = failure.result.problem;
  kept.verdict = failure.result.verdict;
  const Disposition disposition = failure.result.verdict.disposition;

  if (const Property* property = find_property(failure.property)) {
    Judge judge;
    const PropertyContext how{context.kernel, judge, context.contract, context.exact};
    const auto fails_alike = [&](const Problem& candidate) {
      const CaseResult result = property->check(candidate, how);
      return result.verdict.disposition == disposition && signature(failure.property, result) == kept.signature;
    };
    kept.repeats = fails_alike(failure.result.problem);
    if (kept.repeats) {
      Shrunk shrunk = shrink(failure.result.problem, fails_alike, {.seconds = kShrinkSeconds});
      kept.shrunk = std::move(shrunk.problem);
      kept.attempts = shrunk.attempts;
      kept.verdict = property->check(kept.shrunk, how).verdict;
    }
  }

  kept.diagnosis = diagnosis_of(failure, context);
  kept.shrunk_file = write_failing(failure, kept, kept.shrunk, "", context);
  kept.found_file = write_failing(failure, kept, failure.result.problem, "-as-found", context);
  return kept;
}

KeptFailure keep_as_found(const Failure& failure, const FailureContext& context) {
  KeptFailure kept;
  kept.signature = signature(failure.property, failure.result);
  kept.shrunk = failure.result.problem;
  kept.verdict = failure.result.verdict;
  kept.found_file = kept.shrunk_file = write_failing(failure, kept, kept.shrunk, "-as-found", context);
  return kept;
}

std::string keep_lost(const LostCall& call, const FailureContext& context) {
  Case c;
  c.problem = call.problem;
  c.name = fmt::format("lost {} at {}, case {} of seed {}", context.kernel.name(), call.property, call.index, call.seed);
  return write_to(stem(context, call.property, call.index) + "-lost", c);
}

std::string error_table(const Verdict& v) {
  std::string text = fmt::format("{} of {} elements over their bound, {} of {} rows over the noise budget\n", v.failures, v.elements, v.budget_failures, v.rows);
  bool any = false;
  for (int n = 0; n < kBuckets; ++n) any = any || v.buckets[static_cast<size_t>(n)] > 0;
  if (any) {
    text += "error / bound    elements\n";
    for (int n = 0; n < kBuckets; ++n)
      if (v.buckets[static_cast<size_t>(n)] > 0) text += fmt::format("{:<14}{:>11}\n", bucket_name(n), v.buckets[static_cast<size_t>(n)]);
  }
  if (v.worst.empty()) return text;
  text += fmt::format("{:<26}{:>18}{:>18}{:>12}{:>12}\n", "worst", "got", "exact", "err/bound", "ulp");
  for (const ElementError& e : v.worst) {
    const std::string place = e.col < 0 ? fmt::format("LSE[{},{},{}]", e.b, e.h, e.row) : fmt::format("O[{},{},{},{}]", e.b, e.h, e.row, e.col);
    text += fmt::format("{:<26}{:>18}{:>18}{:>12}{:>12}\n", place, value(e.got), value(e.exact), figure(e.ratio), figure(e.ulps));
  }
  return text;
}

std::string replay_line(const KeptFailure& kept, const FailureContext& context) {
  return fmt::format("attest replay {} {}{}", shell_word(kept.shrunk_file), context.kernel_words, context.contract == Contract::declared ? " --contract declared" : "");
}

std::string failure_report(const Failure& failure, const KeptFailure& kept, const FailureContext& context) {
  const Verdict& v = failure.result.verdict;
  std::string text = fmt::format("FAILURE: {}, property {}, check {}\n", name_of(v.disposition), failure.property, name_of(v.check));
  if (const Property* p = find_property(failure.property)) text += fmt::format("  must hold: {}\n", p->statement);
  if (!failure.result.relation.empty()) text += fmt::format("  between runs: {}\n", failure.result.relation);
  text += fmt::format("  seen: {}\n  signature: {}\n", printable(v.detail), kept.signature);
  if (!kept.diagnosis.empty()) text += "diagnosis:\n" + indented(kept.diagnosis);
  text += "errors of the case as found:\n" + indented(error_table(v));
  if (!kept.repeats)
    text += "the case passed when it was run again: the kernel does not repeat itself; it was not shrunk:\n";
  else
    text += fmt::format("shrunk case ({} cases tried):\n", kept.attempts);
  text += indented(in_words(kept.shrunk));
  text += fmt::format("replay: {}\n", replay_line(kept, context));
  text += fmt::format("as found: {}\n", kept.found_file);
  text += "environment:\n";
  for (const auto& [name, what] : environment(context.kernel)) text += fmt::format("  {:<10}{}\n", name, printable(what));
  return text;
}

}  // namespace attest::cli

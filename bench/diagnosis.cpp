// diagnosis_bench: how often the diagnosis names the fault of a faulty kernel, and how small its failure becomes.
//
//     diagnosis_bench FAMILIES PLUGIN... [--only RE] [--shrink SECONDS] [--shrink-only] [--leave-out] [--verbose]
//
// For every kernel of the plug-ins that fails within 2,000 cases or 10 s: the first failure is shrunk and diagnosed with
// and without a trace; with --leave-out once more each without the models of the families that are right for it. Seconds
// are of the processor, and no diagnosis is cut short, so that the answers are the same on any machine. FAMILIES
// maps kernels to the families that are a right answer: lines of `kernel family family ...`. The diagnosis sees the case,
// the kernel as a callable, its outputs and its trace, never a name.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "properties/explain.h"
#include "properties/shrink.h"
#include "properties/signature.h"
#include "properties/verify.h"
#include "reference/visible.h"

namespace {

using namespace attest;

// Seconds of this thread's processor: the figures do not hang on what else the machine does.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

constexpr double kNoLimit = 1e6;  // seconds; the time is taken from the processor instead

struct Options {
  std::string families;
  std::vector<std::string> plugins;
  std::string only;
  double shrink_seconds = 5;
  bool leave_out = false, verbose = false, diagnose = true;
};

struct Found {
  std::string property;
  CaseResult result;
  int64_t cases = 0;
};

std::optional<Found> first_failure(const PropertyContext& context) {
  constexpr int64_t kCases = 2000;
  constexpr double kSeconds = 10;
  const double start = processor_seconds();
  int64_t cases = 0;
  for (uint64_t index = 0; cases < kCases && (processor_seconds() - start) < kSeconds; ++index)
    for (const Property& p : all_properties()) {
      if (!p.not_covered(context.kernel).empty()) continue;
      // Plain judging has most of the cases of a run.
      const uint64_t repeats = p.name == "matches_reference" ? 8 : 1;
      for (uint64_t n = 0; n < repeats; ++n) {
        Choices choices = case_choices(1, p.name, index * repeats + n);
        CaseResult result = p.run(choices, index * repeats + n, context);
        ++cases;
        if (!result.verdict.ok()) return Found{std::string(p.name), std::move(result), cases};
      }
    }
  return std::nullopt;
}

int64_t visible_keys_of(const Problem& p) {
  int64_t most = 0;
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t h = 0; h < p.shape.hq; ++h)
      for (int64_t i = 0; i < p.shape.nq; ++i) {
        visible_keys(p, {}, b, h, i, keys);
        most = std::max(most, static_cast<int64_t>(keys.size()));
      }
  return most;
}

struct Share {
  int64_t yes = 0, all = 0;
  void count(bool is) { yes += is, ++all; }
  std::string text() const { return fmt::format("{} of {} ({:.0f} %)", yes, all, all > 0 ? 100.0 * double(yes) / double(all) : 0.0); }
};

std::map<std::string, std::set<Family>> read_families(const std::string& path) {
  std::map<std::string, std::set<Family>> table;
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kernel, name;
    if (!(words >> kernel) || kernel[0] == '#') continue;
    while (words >> name) {
      const auto family = family_from_name(name);
      if (!family) throw std::runtime_error(fmt::format("{}: '{}' is not the name of a family", path, name));
      table[kernel].insert(*family);
    }
  }
  return table;
}

std::string answer(const Diagnosis& d) {
  if (d.explaining.empty()) return d.outputs_right ? "(outputs right)" : "(none fits)";
  std::string text = d.certain ? "!" : "";
  for (size_t n = 0; n < std::min<size_t>(d.explaining.size(), 4); ++n) text += (n ? "/" : "") + std::string(name_of(d.explaining[n].fault.family));
  if (d.explaining.size() > 4) text += fmt::format("/+{}", d.explaining.size() - 4);
  return text;
}

struct Totals {
  int64_t kernels = 0, passed = 0;
  Share traced, black_box, in_class, left_out, small, in_time, certain;
  int64_t wrong_and_certain = 0;
  std::vector<std::string> wrong;
  double diagnose_seconds = 0, shrink_seconds = 0;
};

constexpr double kDiagnoseSeconds = 10;

// The smallest case that fails alike, found within `seconds`.
void measure_shrinking(const Found& found, const PropertyContext& context, double seconds, Totals& totals, std::string& line) {
  const Property* property = find_property(found.property);
  const std::string wanted = signature(found.property, found.result);
  const double start = processor_seconds();
  const auto fails_alike = [&](const Problem& p) {
    return processor_seconds() - start < seconds && signature(found.property, property->check(p, context)) == wanted;
  };
  const Shrunk small = shrink(found.result.problem, fails_alike, {.seconds = kNoLimit});
  const int64_t keys = visible_keys_of(small.problem);
  const double took = processor_seconds() - start;
  totals.shrink_seconds += took;
  const bool alike = signature(found.property, property->check(small.problem, context)) == wanted;
  totals.small.count(keys <= 4 && alike);
  if (!alike) totals.wrong.push_back(fmt::format("{}: the shrunk case does not fail alike", context.kernel.name()));
  if (keys > 4) totals.wrong.push_back(fmt::format("{}: shrunk to {} visible keys", context.kernel.name(), keys));
  line += fmt::format(" {:>4} keys {:>4.1f} s", keys, took);
}

void measure_diagnosis(const Found& found, const PropertyContext& context, const std::set<Family>& right, const Options& o, Totals& totals, std::string& line) {
  for (const bool trace : {true, false}) {
    const char* how = trace ? "traced" : "black box";
    const double start = processor_seconds();
    const ExplainOptions options{.property = find_property(found.property), .use_trace = trace, .seconds = kNoLimit};
    const Explanation e = explain(found.result.problem, context, options);
    const double took = processor_seconds() - start;
    totals.diagnose_seconds += took;
    totals.in_time.count(took < kDiagnoseSeconds);
    const Diagnosis& d = e.diagnosis;
    const bool is_right = right.contains(d.top());
    const auto one_is_right = [&] { return std::any_of(right.begin(), right.end(), [&](Family f) { return d.holds(f); }); };
    (trace ? totals.traced : totals.black_box).count(is_right);
    totals.in_class.count(is_right || one_is_right());
    totals.certain.count(is_right && d.certain);
    const bool misled = d.certain && !is_right;
    totals.wrong_and_certain += misled;
    line += fmt::format("  {} {}{} {:.1f} s", how, misled ? "WRONG AND CERTAIN " : is_right ? "" : "WRONG ", answer(d), took);
    if (!is_right) totals.wrong.push_back(fmt::format("{} ({}): {}", context.kernel.name(), how, answer(d)));
    if (o.verbose) line += "\n" + in_words(found.result.problem) + argument(e.evidence, d);
    if (!o.leave_out) continue;
    ExplainOptions without = options;
    without.without = right;
    const Diagnosis left = explain(found.result.problem, context, without).diagnosis;
    // A fact about bits that differ is no model of how they come about.
    const bool of_class = left.explaining.empty() || left.unequal || d.holds(left.top());
    totals.left_out.count(of_class);
    totals.wrong_and_certain += left.certain && !of_class;
    line += fmt::format("  left out: {}{}", of_class ? "" : left.certain ? "WRONG AND CERTAIN " : "WRONG ", answer(left));
    if (!of_class) totals.wrong.push_back(fmt::format("{} ({}, left out): {}", context.kernel.name(), how, answer(left)));
  }
}

void measure(const Kernel& kernel, const std::set<Family>& right, const Options& o, Totals& totals) {
  Judge judge;
  const PropertyContext context{kernel, judge};
  ++totals.kernels;
  const auto found = first_failure(context);
  if (!found) {
    ++totals.passed;
    fmt::print("{:<44} no failure\n", kernel.name());
    return;
  }
  std::string line = fmt::format("{:<44} {:<30} case {:<5}", kernel.name(), found->property, found->cases);
  if (o.shrink_seconds > 0) measure_shrinking(*found, context, o.shrink_seconds, totals, line);
  if (o.diagnose) measure_diagnosis(*found, context, right, o, totals, line);
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
  Options o;
  for (int n = 1; n < argc; ++n) {
    const std::string word = argv[n];
    const auto next = [&] { return n + 1 < argc ? std::string(argv[++n]) : throw std::runtime_error(word + ": needs a value"); };
    if (word == "--only") o.only = next();
    else if (word == "--shrink") o.shrink_seconds = std::stod(next());
    else if (word == "--leave-out") o.leave_out = true;
    else if (word == "--verbose") o.verbose = true;
    else if (word == "--shrink-only") o.diagnose = false;
    else if (o.families.empty()) o.families = word;
    else o.plugins.push_back(word);
  }
  if (o.plugins.empty()) throw std::runtime_error("usage: diagnosis_bench FAMILIES PLUGIN... [--only RE] [--shrink SECONDS] [--shrink-only] [--leave-out] [--verbose]");
  const auto families = read_families(o.families);
  const std::regex only(o.only);
  Totals totals;
  for (const auto& [name, right] : families) {
    if (!std::regex_search(name, only)) continue;
    std::string why = "in no plug-in";
    for (const std::string& plugin : o.plugins) {
      auto loaded = Kernel::load(plugin + ":" + name);
      if (auto* kernel = std::get_if<Kernel>(&loaded)) {
        measure(*kernel, right, o, totals);
        why.clear();
        break;
      }
    }
    if (!why.empty()) fmt::print("{:<44} {}\n", name, why);
  }
  fmt::print("\n{} kernels, {} without a failure\n", totals.kernels, totals.passed);
  if (o.shrink_seconds > 0) fmt::print("shrunk to at most 4 visible keys within {} s: {}, {:.1f} s in all\n", o.shrink_seconds, totals.small.text(), totals.shrink_seconds);
  if (o.diagnose) {
    fmt::print("top answer right: traced {}, black box {}; right and certain {}; right one in the class {}\n", totals.traced.text(), totals.black_box.text(),
               totals.certain.text(), totals.in_class.text());
    if (o.leave_out) fmt::print("left out: none fits, or one of the same class: {}\n", totals.left_out.text());
    fmt::print("wrong and certain: {}\n", totals.wrong_and_certain);
    fmt::print("diagnosed within {} s: {}, {:.1f} s in all\n", kDiagnoseSeconds, totals.in_time.text(), totals.diagnose_seconds);
  }
  for (const std::string& w : totals.wrong) fmt::print("wrong: {}\n", w);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "diagnosis_bench: {}\n", e.what());
  return 2;
}

// diagnosis_bench: how often the diagnosis names the fault of a faulty kernel, and how small its failure becomes.
//
//     diagnosis_bench FAMILIES PLUGIN... [--only RE] [--shrink SECONDS] [--leave-out] [--verbose]
//
// For every kernel of the plug-ins that fails within 2,000 cases or 10 s: the first failure is shrunk and diagnosed with
// and without a trace; with --leave-out once more without the models of the families that are right for it. FAMILIES
// maps kernels to the families that are a right answer: lines of `kernel family family ...`. The diagnosis sees the case,
// the kernel as a callable, its outputs and its trace, never a name.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
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
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Options {
  std::string families;
  std::vector<std::string> plugins;
  std::string only;
  double shrink_seconds = 5;
  bool leave_out = false, verbose = false;
};

struct Found {
  std::string property;
  CaseResult result;
  int64_t cases = 0;
};

std::optional<Found> first_failure(const PropertyContext& context) {
  constexpr int64_t kCases = 2000;
  constexpr double kSeconds = 10;
  const auto start = Clock::now();
  int64_t cases = 0;
  for (uint64_t index = 0; cases < kCases && since(start) < kSeconds; ++index)
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
  Share traced, black_box, in_class, left_out, small;
  std::vector<std::string> wrong;
  double diagnose_seconds = 0, shrink_seconds = 0;
};

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
  if (o.shrink_seconds > 0) {
    const Property* property = find_property(found->property);
    const std::string wanted = signature(found->property, found->result);
    const auto start = Clock::now();
    const Shrunk small = shrink(found->result.problem, [&](const Problem& p) { return signature(found->property, property->check(p, context)) == wanted; }, {.seconds = o.shrink_seconds});
    const int64_t keys = visible_keys_of(small.problem);
    totals.shrink_seconds += since(start);
    totals.small.count(keys <= 4);
    line += fmt::format(" {:>4} keys {:>4.1f} s", keys, since(start));
  }
  for (const bool trace : {true, false}) {
    const auto start = Clock::now();
    const Explanation e = explain(found->result.problem, context, {.use_trace = trace});
    totals.diagnose_seconds += since(start);
    const bool is_right = right.contains(e.diagnosis.top());
    (trace ? totals.traced : totals.black_box).count(is_right);
    if (!trace) totals.in_class.count(is_right || std::any_of(right.begin(), right.end(), [&](Family f) { return e.diagnosis.holds(f); }));
    line += fmt::format("  {} {} {:.1f} s", trace ? "traced" : "black box", (is_right ? "" : "WRONG ") + answer(e.diagnosis), since(start));
    if (!is_right) totals.wrong.push_back(fmt::format("{} ({}): {}", kernel.name(), trace ? "traced" : "black box", answer(e.diagnosis)));
    if (o.verbose) line += "\n" + in_words(found->result.problem) + argument(e.evidence, e.diagnosis);
    if (o.leave_out && trace) {
      const Explanation without = explain(found->result.problem, context, {.use_trace = trace, .without = right});
      const bool honest = without.diagnosis.explaining.empty() || !without.diagnosis.certain || e.diagnosis.holds(without.diagnosis.top());
      totals.left_out.count(without.diagnosis.explaining.empty() || e.diagnosis.holds(without.diagnosis.top()));
      line += fmt::format("  left out: {}{}", honest ? "" : "WRONG AND CERTAIN ", answer(without.diagnosis));
    }
  }
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
    else if (o.families.empty()) o.families = word;
    else o.plugins.push_back(word);
  }
  if (o.plugins.empty()) throw std::runtime_error("usage: diagnosis_bench FAMILIES PLUGIN... [--only RE] [--shrink SECONDS] [--leave-out] [--verbose]");
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
  fmt::print("top answer right: traced {}, black box {}; in its class {}\n", totals.traced.text(), totals.black_box.text(), totals.in_class.text());
  if (o.leave_out) fmt::print("left out: none fits, or one of the same class: {}\n", totals.left_out.text());
  if (o.shrink_seconds > 0) fmt::print("shrunk to at most 4 visible keys: {}, {:.1f} s in all\n", totals.small.text(), totals.shrink_seconds);
  fmt::print("diagnosis took {:.1f} s in all\n", totals.diagnose_seconds);
  for (const std::string& w : totals.wrong) fmt::print("wrong: {}\n", w);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "diagnosis_bench: {}\n", e.what());
  return 2;
}

#include "cli/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/environment.h"
#include "cli/terminal.h"

namespace attest::cli {

namespace {

constexpr size_t kColumns = 100;

// The least count of a regime that the property needs, and how many it needs; all that were seen where it needs none.
struct Least {
  size_t regimes = 0;
  int64_t cases = 0;
};
Least least_regime(const PropertyReport& r, const Target& target) {
  std::vector<std::string> names;
  if (const Property* p = find_property(r.name))
    for (Regime regime : p->needed(target)) names.emplace_back(name_of(regime));
  if (names.empty())
    for (const auto& [name, n] : r.regimes) names.push_back(name);
  Least least{names.size(), names.empty() ? 0 : std::numeric_limits<int64_t>::max()};
  for (const std::string& name : names) {
    const auto found = r.regimes.find(name);
    least.cases = std::min(least.cases, found == r.regimes.end() ? int64_t{0} : found->second);
  }
  return least;
}

std::string cut(const std::string& text, size_t width) { return text.size() <= width ? text : text.substr(0, width - 3) + "..."; }

std::string note_of(const PropertyReport& p) {
  if (p.inconclusive) return "too few";
  const int64_t known = p.dispositions[static_cast<size_t>(Disposition::known_failure)];
  return known == 0 ? "" : fmt::format("{} known", known);
}

// Words separated by two spaces, wrapped.
std::string wrapped(const std::string& indent, const std::vector<std::string>& words) {
  std::string text, line = indent;
  for (const std::string& word : words) {
    if (line.size() > indent.size() && line.size() + 2 + word.size() > kColumns) {
      text += line + "\n";
      line = indent;
    }
    line += (line.size() > indent.size() ? "  " : "") + word;
  }
  return text + line + "\n";
}

double share(int64_t part, int64_t whole) { return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole); }
std::string percent(int64_t part, int64_t whole) { return fmt::format("{:.1f} %", 100 * share(part, whole)); }

template <class F>
auto sum_of(const VerifyReport& report, F field) {
  int64_t n = 0;
  for (const PropertyReport& p : report.properties) n += p.*field;
  return n;
}
template <class F>
double largest(const VerifyReport& report, F field) {
  double x = 0;
  for (const PropertyReport& p : report.properties) x = p.*field > x || std::isnan(p.*field) ? p.*field : x;
  return x;
}
int64_t not_covered(const VerifyReport& report) {
  return std::count_if(report.properties.begin(), report.properties.end(), [](const PropertyReport& p) { return !p.not_covered.empty(); });
}

// The share of loose elements of each regime that has any, by type, the largest first.
std::string looseness_table(const std::map<std::string, Looseness>& looseness) {
  std::vector<std::pair<double, std::string>> lines;
  for (const auto& [name, l] : looseness) {
    double most = 0;
    std::string line = fmt::format("  {:<24}", name);
    for (DType type : kAllDTypes) {
      const auto n = static_cast<size_t>(type);
      most = std::max(most, l.share(type));
      line += fmt::format(" {:>9}", l.elements[n] == 0 ? "-" : percent(l.loose[n], l.elements[n]));
    }
    if (most > 0) lines.emplace_back(most, line);
  }
  if (lines.empty()) return "\n";
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = fmt::format(",\nby regime ({} of {} have any):\n  {:<24}", lines.size(), looseness.size(), "regime");
  for (DType type : kAllDTypes) text += fmt::format(" {:>9}", name_of(type));
  text += "\n";
  for (const auto& [most, line] : lines) text += line + "\n";
  return text;
}

nlohmann::ordered_json differences_of(const std::map<std::string, Difference>& differences) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const auto& [type, d] : differences) {
    nlohmann::ordered_json& one = all[type];
    one = {{"cases", d.cases}, {"without_baseline", d.without_baseline}, {"elements", d.elements}, {"equal", d.equal()}};
    for (int n = 0; n < kDistances; ++n) one["ulp"][distance_name(n)] = d.distances[static_cast<size_t>(n)];
    one["nearer"] = d.nearer;
    one["baseline_nearer"] = d.baseline_nearer;
    one["rows"] = d.rows;
    one["rows_nearer"] = d.rows_nearer;
    one["rows_baseline_nearer"] = d.rows_baseline_nearer;
  }
  return all;
}

nlohmann::ordered_json shares_of(const std::map<std::string, Looseness>& looseness) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  for (const auto& [name, l] : looseness)
    for (DType type : kAllDTypes)
      if (l.elements[static_cast<size_t>(type)] > 0) all[name][std::string(name_of(type))] = l.share(type);
  return all;
}

}  // namespace

std::string figure(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  // A figure next to 1 stays on its side of it: 1 is where a bound is exceeded.
  if (x < 1 && x >= 0.9995) return "0.999";
  if (x > 1 && x < 1.005) return fmt::format("{:.6g}", std::max(x, 1.00001));
  return fmt::format("{:.3g}", x);
}

std::string property_table(const RunSummary& run, bool colour) {
  const Target target = Target::from_table(run.kernel.table());
  std::string text = fmt::format("{:<39}{:>7}{:>7}{:>6}{:>8}{:>10}{:>9}  {}\n", "property", "cases", "viol.", "reg.", "least", "err/bound", "R/thr.", "");
  bool inconclusive = false;
  for (const PropertyReport& p : run.report.properties) {
    if (!p.not_covered.empty()) {
      text += fmt::format("{:<39} {}\n", cut(p.name, 38), cut("not covered: " + printable(p.not_covered), kColumns - 40));
      continue;
    }
    const Least least = least_regime(p, target);
    inconclusive = inconclusive || p.inconclusive;
    const std::string line = fmt::format("{:<39}{:>7}{:>7}{:>6}{:>8}{:>10}{:>9}  {}", cut(p.name, 38), p.cases, p.violations, least.regimes, least.cases,
                                         figure(std::max(p.worst_ratio, p.worst_lse_ratio)), figure(p.worst_budget_share), note_of(p));
    text += painted(line, p.violations > 0 ? Colour::red : Colour::yellow, colour && (p.violations > 0 || p.inconclusive)) + "\n";
  }
  text += "viol.: violations. reg.: regimes that the property needs; least: cases of the rarest of them.\n"
          "err/bound: largest error over its proven bound. R/thr.: largest noise ratio over its threshold.\n";
  if (inconclusive) text += "too few: cases of some regime are too few, so that the property is inconclusive.\n";
  // Trailing blanks of the last, mostly empty column.
  std::string trimmed;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    line.erase(line.find_last_not_of(' ') + 1);
    trimmed += line + "\n";
    at = end + 1;
  }
  return trimmed;
}

std::string mix_text(const RunSummary& run) {
  const Mix& m = run.report.mix;
  std::vector<std::string> types;
  for (const auto& [name, n] : m.types) types.push_back(fmt::format("{} {}", name, percent(n, m.cases)));
  return fmt::format("mix of cases: {} with 128 keys or more, {} with 512, {} with 2048;\n", percent(m.keys_128, m.cases), percent(m.keys_512, m.cases),
                     percent(m.keys_2048, m.cases)) +
         fmt::format("  widths D and Dv from {} to {}, {} with one of 32 or more; {:.1f} query rows in the mean;\n", m.min_width, m.max_width,
                     percent(m.width_32, m.cases), share(m.query_rows, m.cases)) +
         fmt::format("  {}\n", fmt::join(types, ", "));
}

std::string regime_text(const RunSummary& run) {
  std::vector<std::string> words;
  for (const auto& [name, n] : run.report.regimes()) words.push_back(fmt::format("{} {}", name, n));
  return "cases of each regime:\n" + wrapped("  ", words);
}

std::string totals_text(const RunSummary& run) {
  const VerifyReport& r = run.report;
  std::string text = fmt::format("{} rows judged, {} of them in cpp_dec_float; {} more out of range (counted, not judged)\n", r.rows(),
                                 sum_of(r, &PropertyReport::rows_exact), sum_of(r, &PropertyReport::rows_out_of_range));
  text += fmt::format("{} of {} elements loose (their bound cannot discriminate)", percent(sum_of(r, &PropertyReport::loose), sum_of(r, &PropertyReport::elements)),
                      sum_of(r, &PropertyReport::elements));
  text += looseness_table(r.looseness());
  const int64_t refused = sum_of(r, &PropertyReport::refused);
  if (refused > 0) text += fmt::format("{} drawn cases were refused by the kernel or outside the property; others were drawn\n", refused);
  return text;
}

std::string baseline_text(const RunSummary& run) {
  if (run.baseline == nullptr) return "";
  std::map<std::string, Difference> all;
  std::string lines;
  const auto line = [](const std::string& name, const std::string& type, const Difference& d) {
    std::string more = fmt::format("{:<31} {:<5}{:>10}{:>8}", cut(name, 31), type, d.elements, percent(d.equal(), d.elements));
    const auto part = [&](int from, int to) {
      int64_t n = 0;
      for (int k = from; k <= to; ++k) n += d.distances[static_cast<size_t>(k)];
      return percent(n, d.elements);
    };
    more += fmt::format("{:>8}{:>8}{:>8}", part(1, 1), part(2, 4), part(5, kDistances - 1));
    return more + fmt::format("  {:>8} : {}\n", d.rows_nearer, d.rows_baseline_nearer);
  };
  int64_t cases = 0, without = 0;
  for (const PropertyReport& p : run.report.properties)
    for (const auto& [type, d] : p.differences) {
      cases += d.cases;
      without += d.without_baseline;
      all[type].add(d);
      lines += line(p.name, type, d);
    }
  std::string text = fmt::format("against the baseline {} {} on {}: {} cases compared", run.baseline->name(), run.baseline->table().version, run.baseline->device(), cases);
  if (without > 0) text += fmt::format(", {} that it does not run", without);
  text += fmt::format("\n{:<31} {:<5}{:>10}{:>8}{:>8}{:>8}{:>8}   {}\n", "property", "type", "elements", "equal", "1 ulp", "2 to 16", "more", "rows nearer");
  for (const auto& [type, d] : all) lines += line("all of them", type, d);
  text += lines;
  for (const auto& [type, d] : all)
    text += fmt::format("nearer to exact, {}: {} of {} rows (the baseline {}), {} elements (the baseline {})\n", type, d.rows_nearer, d.rows, d.rows_baseline_nearer, d.nearer,
                        d.baseline_nearer);
  return text + "rows nearer: rows in which the kernel : the baseline has the smaller sum of squared errors. No verdict hangs on these figures.\n";
}

std::string verdict_line(const RunSummary& run) {
  const VerifyReport& r = run.report;
  const int64_t uncovered = not_covered(r), checked = static_cast<int64_t>(r.properties.size()) - uncovered;
  const auto failed = std::count_if(r.properties.begin(), r.properties.end(), [](const PropertyReport& p) { return p.violations > 0; });
  const auto few = std::count_if(r.properties.begin(), r.properties.end(), [](const PropertyReport& p) { return p.inconclusive; });
  std::string text = "verdict: ";
  if (r.stopped) text += "stopped before its end; until then ";
  if (r.violations() > 0)
    text += fmt::format("{} violation{} of {} of {} properties", r.violations(), r.violations() == 1 ? "" : "s", failed, checked);
  else if (checked == 0)
    return text + fmt::format("nothing was judged: the kernel offers nothing that {} can be checked on (above); attest kernels shows what it offers\n",
                              uncovered == 1 ? "the property" : fmt::format("any of the {} properties", uncovered));
  else if (r.cases() == 0)
    text += r.stopped ? "nothing was judged" : "nothing was judged: every case that was drawn was refused by the kernel or says nothing";
  else if (few > 0)
    text += fmt::format("no violation, but {} of {} properties inconclusive", few, checked);
  else
    text += fmt::format("all {} properties hold", checked);
  text += fmt::format(", {} cases, {:.1f} s", r.cases(), r.seconds);
  if (uncovered > 0) text += fmt::format("; {} not covered", uncovered);
  return text + known_text(r) + "\n";
}

std::string known_text(const VerifyReport& report) {
  int64_t n = 0;
  for (const PropertyReport& p : report.properties) n += p.dispositions[static_cast<size_t>(Disposition::known_failure)];
  return n == 0 ? "" : fmt::format("; {} known failure{}", n, n == 1 ? "" : "s");
}

bool crashed(const VerifyReport& report) {
  for (const PropertyReport& p : report.properties)
    for (const Failure& f : p.failures)
      if (f.result.verdict.disposition == Disposition::crashed || f.result.verdict.disposition == Disposition::timed_out) return true;
  return false;
}

nlohmann::ordered_json json_figure(double x) {
  if (!std::isfinite(x)) return figure(x);
  return x;
}

std::string json_text(const nlohmann::ordered_json& all) {
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string to_json(const RunSummary& run) { return json_text(figures(run)); }

nlohmann::ordered_json figures(const RunSummary& run) {
  using json = nlohmann::ordered_json;
  const VerifyReport& r = run.report;
  json all;
  all["kernel"] = r.kernel;
  all["device"] = r.device;
  all["version"] = version();
  all["contract"] = name_of(run.contract);
  all["seed"] = run.seed ? json(*run.seed) : json(nullptr);
  all["cases"] = r.cases();
  all["rows"] = r.rows();
  all["seconds"] = r.seconds;
  all["violations"] = r.violations();
  all["worst_ratio"] = json_figure(std::max(largest(r, &PropertyReport::worst_ratio), largest(r, &PropertyReport::worst_lse_ratio)));
  all["worst_budget_share"] = json_figure(largest(r, &PropertyReport::worst_budget_share));
  all["elements"] = sum_of(r, &PropertyReport::elements);
  all["loose"] = sum_of(r, &PropertyReport::loose);
  all["rows_out_of_range"] = sum_of(r, &PropertyReport::rows_out_of_range);
  all["rows_exact"] = sum_of(r, &PropertyReport::rows_exact);
  all["not_covered"] = not_covered(r);
  all["inconclusive"] = std::count_if(r.properties.begin(), r.properties.end(), [](const PropertyReport& p) { return p.inconclusive; });
  if (run.baseline != nullptr) {
    std::map<std::string, Difference> differences;
    for (const PropertyReport& p : r.properties)
      for (const auto& [type, d] : p.differences) differences[type].add(d);
    all["baseline"] = {{"kernel", run.baseline->name()}, {"version", run.baseline->table().version}, {"device", run.baseline->device()}, {"differences", differences_of(differences)}};
  }
  all["properties"] = json::array();
  for (const PropertyReport& p : r.properties) {
    json one;
    one["name"] = p.name;
    one["cases"] = p.cases;
    one["rows"] = p.rows;
    one["violations"] = p.violations;
    one["worst_ratio"] = json_figure(std::max(p.worst_ratio, p.worst_lse_ratio));
    one["worst_budget"] = json_figure(p.worst_budget);
    one["worst_budget_share"] = json_figure(p.worst_budget_share);
    one["elements"] = p.elements;
    one["loose"] = p.loose;
    one["refused"] = p.refused;
    one["known"] = json(p.known);
    one["inconclusive"] = p.inconclusive;
    one["not_covered"] = p.not_covered.empty() ? json(nullptr) : json(p.not_covered);
    one["regimes"] = json(p.regimes);
    one["loose_by_regime"] = shares_of(p.looseness);
    if (run.baseline != nullptr) one["differences"] = differences_of(p.differences);
    all["properties"].push_back(std::move(one));
  }
  all["regimes"] = json(r.regimes());
  all["loose_by_regime"] = shares_of(r.looseness());
  const Mix& m = r.mix;
  all["mix"] = {{"cases", m.cases},         {"keys_128", m.keys_128},   {"keys_512", m.keys_512},   {"keys_2048", m.keys_2048},
                {"width_32", m.width_32},   {"query_rows", m.query_rows}, {"least_width", m.min_width}, {"largest_width", m.max_width},
                {"types", m.types}};
  all["command"] = run.command;
  for (const auto& [name, text] : environment(run.kernel)) all["environment"][name] = text;
  return all;
}

}  // namespace attest::cli

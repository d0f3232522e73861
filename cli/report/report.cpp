#include "cli/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/arguments.h"
#include "cli/files.h"
#include "cli/report/schema.h"
#include "properties/shrink.h"

namespace attest::cli {

namespace {

namespace fs = std::filesystem;

// What stands in a report folder, a run's own files.
constexpr const char* kFiles[] = {"report.json", "report.html", "junit.xml", "verify.txt", "journal.jsonl", "failures"};

std::string status_of(const PropertyReport& p) {
  if (!p.not_covered.empty()) return "not covered";
  if (p.violations > 0) return "failed";
  if (p.inconclusive) return "inconclusive";
  if (!p.known.empty()) return "known";
  return "passed";
}

template <class Names, size_t N>
Data named_counts(const std::array<int64_t, N>& counts, Names name) {
  Data all = Data::object();
  for (size_t n = 0; n < N; ++n)
    if (counts[n] > 0) all[std::string(name(n))] = counts[n];
  return all;
}

Data errors_by_keys(const Distribution& d) {
  Data all = Data::object();
  for (DType type : kAllDTypes) {
    Data points = Data::array();
    const auto& errors = d.errors_by_keys[static_cast<size_t>(type)];
    for (size_t n = 0; n < errors.size(); ++n)
      if (errors[n].rows > 0)
        points.push_back({{"keys", int64_t{1} << n}, {"rows", errors[n].rows}, {"mean", json_figure(std::exp2(errors[n].sum / static_cast<double>(errors[n].rows)))},
                          {"largest", json_figure(errors[n].largest)}});
    if (!points.empty()) all[std::string(name_of(type))] = points;
  }
  return all;
}

void add_property(Data& one, const PropertyReport& p) {
  const Property* property = find_property(p.name);
  one["statement"] = property != nullptr ? std::string(property->statement) : "";
  one["status"] = status_of(p);
  one["seconds"] = p.seconds;
  one["dispositions"] = named_counts(p.dispositions, [](size_t n) { return name_of(static_cast<Disposition>(n)); });
  one["checks"] = named_counts(p.checks, [](size_t n) { return name_of(static_cast<Check>(n)); });
  one["signatures"] = p.signatures;
  one["histograms"] = {{"ratio", p.errors.ratio}, {"noise", p.errors.noise}, {"budget", p.errors.budget}};
  one["least_threshold"] = json_figure(p.errors.least_threshold);
  one["errors_by_keys"] = errors_by_keys(p.errors);
  one["worst_by_part"] = Data::array();
  for (double worst : p.errors.worst_by_part) one["worst_by_part"].push_back(json_figure(worst));
}

Data line_data(const std::string& property, const FailureLine& l) {
  return {{"property", property}, {"index", l.index}, {"disposition", name_of(l.disposition)}, {"check", name_of(l.check)}, {"signature", l.signature},
          {"worst_ratio", json_figure(l.worst_ratio)}, {"worst_budget_share", json_figure(l.worst_budget_share)}};
}

Data element_data(const ElementError& e) {
  return {{"b", e.b}, {"h", e.h}, {"row", e.row}, {"col", e.col}, {"got", json_figure(e.got)}, {"exact", json_figure(e.exact)}, {"bound", json_figure(e.bound)},
          {"ratio", json_figure(e.ratio)}, {"ulps", json_figure(e.ulps)}};
}

// As many digits as are worth looking at.
Data rounded(double x, int digits) { return std::isfinite(x) ? Data(std::strtod(fmt::format("{:.{}g}", x, digits).c_str(), nullptr)) : json_figure(x); }

Data state_data(const TileState& t) {
  const auto state = [](double m, double l, double scale) { return Data{{"m", rounded(m, 9)}, {"l", rounded(l, 9)}, {"scale", rounded(scale, 9)}}; };
  Data one = {{"split", t.split}, {"keys", {t.keys.begin, t.keys.end}}, {"exact", state(t.exact_m, t.exact_l, t.exact_scale)}};
  one["kernel"] = t.traced ? state(t.m, t.l, t.scale) : Data(nullptr);
  return one;
}

Data map_data(const MassMap& map) {
  Data one = {{"rows", map.rows}, {"tiles", Data::array()}, {"expected", Data::array()}, {"got", Data::array()}};
  for (const KeyBlock& t : map.tiles) one["tiles"].push_back({t.begin, t.end});
  for (double x : map.expected) one["expected"].push_back(rounded(x, 6));
  for (double x : map.got) one["got"].push_back(rounded(x, 6));
  return one;
}

Data detail_data(const ToldFailure& told) {
  const Verdict& found = told.failure.result.verdict;
  const Property* property = find_property(told.failure.property);
  Data one;
  one["property"] = told.failure.property;
  one["index"] = told.failure.index;
  one["disposition"] = name_of(found.disposition);
  one["check"] = name_of(found.check);
  one["signature"] = told.kept.signature;
  one["statement"] = property != nullptr ? std::string(property->statement) : "";
  one["relation"] = told.failure.result.relation;
  one["seen"] = found.detail;
  one["diagnosis"] = told.kept.diagnosis;
  one["elements_over_bound"] = found.failures;
  one["rows_over_budget"] = found.budget_failures;
  one["histogram"] = found.buckets;
  one["worst"] = Data::array();
  for (const ElementError& e : found.worst) one["worst"].push_back(element_data(e));
  one["repeats"] = told.kept.repeats;
  one["shrunk"] = told.kept.shrunk_file != told.kept.found_file;
  one["case"] = told.is_case ? in_words(told.kept.shrunk) : "";
  one["file"] = told.kept.shrunk_file;
  one["found_file"] = told.kept.found_file;
  one["replay"] = told.replay;
  const FailureDetail& d = told.detail;
  one["place"] = {{"b", d.place.b}, {"h", d.place.h}, {"row", d.place.i}};
  one["nothing"] = d.nothing;
  one["states"] = Data::array();
  for (const TileState& t : d.states) one["states"].push_back(state_data(t));
  one["masses"] = map_data(d.map);
  return one;
}

}  // namespace

Data run_data(const RunSummary& run, const std::vector<ToldFailure>& told) {
  Data all = figures(run);
  std::string verdict = verdict_line(run);
  verdict = verdict.substr(verdict.find(' ') + 1);
  while (!verdict.empty() && verdict.back() == '\n') verdict.pop_back();
  all["verdict"] = verdict;
  all["stopped"] = run.report.stopped;
  all["status"] = Data::object();
  for (const char* status : {"passed", "failed", "inconclusive", "known", "not covered"}) all["status"][status] = 0;
  for (size_t n = 0; n < run.report.properties.size(); ++n) {
    const PropertyReport& p = run.report.properties[n];
    add_property(all["properties"][n], p);
    auto& count = all["status"][status_of(p)];
    count = count.get<int64_t>() + 1;
  }
  // Of every property that failed an equal part of the lines, so that none is crowded out.
  const auto failing = std::count_if(run.report.properties.begin(), run.report.properties.end(), [](const PropertyReport& p) { return p.violations > 0; });
  const size_t part = kFailureLines / static_cast<size_t>(std::max<std::ptrdiff_t>(1, failing));
  all["failures"] = Data::array();
  for (const PropertyReport& p : run.report.properties)
    for (size_t n = 0; n < p.lines.size() && n < part; ++n) all["failures"].push_back(line_data(p.name, p.lines[n]));
  all["details"] = Data::array();
  for (size_t n = 0; n < told.size() && n < kDetails; ++n) all["details"].push_back(detail_data(told[n]));
  return all;
}

Data report_data(const std::string& command, Exit exit, std::vector<Data> runs) {
  Data all;
  all["attest_report"] = kReportVersion;
  all["command"] = command;
  all["exit"] = static_cast<int>(exit);
  all["buckets"] = Data::array();
  for (int n = 0; n < kBuckets; ++n) all["buckets"].push_back(bucket_name(n));
  all["runs"] = std::move(runs);
  // What other readers see is what stands in the file.
  return Data::parse(json_text(all));
}

Data joined_reports(std::vector<Data> reports, Exit exit) {
  std::vector<Data> runs;
  Data mutants = Data::array();
  for (Data& report : reports) {
    for (Data& run : report["runs"]) runs.push_back(std::move(run));
    if (report.contains("mutants"))
      for (Data& mutant : report["mutants"]) mutants.push_back(std::move(mutant));
  }
  for (const auto& [list, most] : {std::pair{"details", kDetails}, std::pair{"failures", kFailureLines}}) {
    size_t wanting = 0;
    for (const Data& run : runs) wanting += !run[list].empty();
    const size_t part = std::max<size_t>(1, most / std::max<size_t>(1, wanting));
    for (Data& run : runs)
      if (run[list].size() > part) run[list].erase(run[list].begin() + static_cast<std::ptrdiff_t>(part), run[list].end());
  }
  Data all = report_data("join", exit, std::move(runs));
  if (!mutants.empty()) all["mutants"] = std::move(mutants);
  return all;
}

Data read_report(const std::string& path) {
  const std::string file = fs::is_directory(path) ? (fs::path(path) / "report.json").string() : path;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw Stop(Exit::usage, fmt::format("cannot read '{}'", file));
  if (const std::string why = not_a_report(text.str()); !why.empty()) throw Stop(Exit::usage, fmt::format("'{}' is no report of attest: {}", file, why));
  return Data::parse(text.str());
}

void write_report(const std::string& folder, const Data& report) {
  const fs::path to(folder);
  write_file((to / "report.json").string(), json_text(report));
  write_file((to / "junit.xml").string(), junit_xml(report));
  write_file((to / "report.html").string(), report_page(report));
}

void set_aside(const std::string& folder) {
  const fs::path from(folder);
  std::error_code error;
  std::vector<const char*> there;
  for (const char* name : kFiles)
    if (fs::exists(from / name, error)) there.push_back(name);
  if (there.empty()) return;
  int n = 1;
  while (fs::exists(from / fmt::format("earlier-{}", n), error)) ++n;
  const fs::path to = from / fmt::format("earlier-{}", n);
  fs::create_directory(to, error);
  for (const char* name : there)
    if (!error) fs::rename(from / name, to / name, error);
  if (error) throw Stop(Exit::usage, fmt::format("what an earlier run left in '{}' cannot be moved to '{}': {}", folder, to.string(), error.message()));
  fmt::print(stderr, "attest: what an earlier run left in {} is now in {}\n", folder, to.string());
}

}  // namespace attest::cli

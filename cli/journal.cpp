#include "cli/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"

namespace attest::cli {

namespace {

using nlohmann::json;

json to_json(const Batch& b) { return {{"property", b.property}, {"first", b.first}, {"last", b.last}}; }

// JSON has no number for them.
json figure_to_json(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return x;
}
double figure_from_json(const json& j) {
  if (!j.is_string()) return j.get<double>();
  return j == "nan" ? std::numeric_limits<double>::quiet_NaN() : j == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

// One list of fields, read and written alike: f(name, field).
template <class Difference, class F>
void difference_fields(Difference& d, F f) {
  f("cases", d.cases);
  f("without_baseline", d.without_baseline);
  f("elements", d.elements);
  f("distances", d.distances);
  f("nearer", d.nearer);
  f("baseline_nearer", d.baseline_nearer);
  f("rows", d.rows);
  f("rows_nearer", d.rows_nearer);
  f("rows_baseline_nearer", d.rows_baseline_nearer);
}
template <class Report, class F>
void report_counts(Report& r, F f) {
  f("cases", r.cases);
  f("rows", r.rows);
  f("violations", r.violations);
  f("refused", r.refused);
  f("elements", r.elements);
  f("loose", r.loose);
  f("rows_out_of_range", r.rows_out_of_range);
  f("rows_exact", r.rows_exact);
  f("regimes", r.regimes);
  f("dispositions", r.dispositions);
  f("checks", r.checks);
  f("ratio", r.errors.ratio);
  f("noise", r.errors.noise);
  f("budget", r.errors.budget);
  f("signatures", r.signatures);
  f("known", r.known);
}
template <class Report, class F>
void report_figures(Report& r, F f) {
  f("worst_ratio", r.worst_ratio);
  f("worst_lse_ratio", r.worst_lse_ratio);
  f("worst_budget", r.worst_budget);
  f("worst_budget_share", r.worst_budget_share);
  f("seconds", r.seconds);
  f("least_threshold", r.errors.least_threshold);
}
template <class AnyMix, class F>
void mix_fields(AnyMix& m, F f) {
  f("cases", m.cases);
  f("keys_128", m.keys_128);
  f("keys_512", m.keys_512);
  f("keys_2048", m.keys_2048);
  f("width_32", m.width_32);
  f("query_rows", m.query_rows);
  f("max_width", m.max_width);
  f("min_width", m.min_width);
  f("types", m.types);
}

json to_json(const PropertyReport& r) {
  json all;
  report_counts(r, [&](const char* name, const auto& value) { all[name] = value; });
  report_figures(r, [&](const char* name, double value) { all[name] = figure_to_json(value); });
  for (double worst : r.errors.worst_by_part) all["worst_by_part"].push_back(figure_to_json(worst));
  for (const auto& of_type : r.errors.errors_by_keys) {
    json row = json::array();
    for (const RowErrors& e : of_type) row.push_back({e.rows, figure_to_json(e.largest), figure_to_json(e.sum)});
    all["errors_by_keys"].push_back(row);
  }
  for (const FailureLine& l : r.lines)
    all["lines"].push_back({l.index, static_cast<int>(l.disposition), static_cast<int>(l.check), figure_to_json(l.worst_ratio), figure_to_json(l.worst_budget_share), l.signature});
  for (const auto& [regime, l] : r.looseness) all["looseness"][regime] = {l.elements, l.loose};
  for (const auto& [type, d] : r.differences) difference_fields(d, [&](const char* name, const auto& value) { all["differences"][type][name] = value; });
  return all;
}

PropertyReport report_from_json(const json& j) {
  PropertyReport r;
  report_counts(r, [&](const char* name, auto& value) { j.at(name).get_to(value); });
  report_figures(r, [&](const char* name, double& value) { value = figure_from_json(j.at(name)); });
  for (size_t n = 0; n < r.errors.worst_by_part.size(); ++n) r.errors.worst_by_part[n] = figure_from_json(j.at("worst_by_part").at(n));
  for (size_t type = 0; type < r.errors.errors_by_keys.size(); ++type)
    for (size_t n = 0; n < r.errors.errors_by_keys[type].size(); ++n) {
      const json& e = j.at("errors_by_keys").at(type).at(n);
      r.errors.errors_by_keys[type][n] = {e.at(0).get<int64_t>(), figure_from_json(e.at(1)), figure_from_json(e.at(2))};
    }
  if (j.contains("lines"))
    for (const json& l : j["lines"])
      r.lines.push_back({l.at(0).get<uint64_t>(), static_cast<Disposition>(l.at(1).get<int>()), static_cast<Check>(l.at(2).get<int>()), figure_from_json(l.at(3)),
                         figure_from_json(l.at(4)), l.at(5).get<std::string>()});
  if (j.contains("looseness"))
    for (const auto& [regime, l] : j["looseness"].items()) {
      l.at(0).get_to(r.looseness[regime].elements);
      l.at(1).get_to(r.looseness[regime].loose);
    }
  if (j.contains("differences"))
    for (const auto& [type, d] : j["differences"].items()) difference_fields(r.differences[type], [&, &d = d](const char* name, auto& value) { d.at(name).get_to(value); });
  return r;
}

json to_json(const Mix& m) {
  json all;
  mix_fields(m, [&](const char* name, const auto& value) { all[name] = value; });
  return all;
}

Mix mix_from_json(const json& j) {
  Mix m;
  mix_fields(m, [&](const char* name, auto& value) { j.at(name).get_to(value); });
  return m;
}

FinishedBatch finished_from_json(const json& j) {
  FinishedBatch f;
  j.at("property").get_to(f.batch.property);
  j.at("first").get_to(f.batch.first);
  j.at("last").get_to(f.batch.last);
  f.report = report_from_json(j.at("report"));
  f.report.name = f.batch.property;
  f.mix = mix_from_json(j.at("mix"));
  return f;
}

}  // namespace

JournalRead read_journal(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Stop(Exit::usage, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  JournalRead all;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (file.eof()) break;  // no end of line: it was being written
    try {
      const json j = json::parse(line);
      if (number == 1) j.at("run").get_to(all.run);
      if (j.contains("ends")) {
        all.finished.push_back(finished_from_json(j["ends"]));
        all.seconds = j["ends"].at("seconds").get<double>();
      }
    } catch (const json::exception&) {
      throw Stop(Exit::usage, fmt::format("'{}': line {} is none of a journal of this attest", path, number));
    }
    all.bytes += line.size() + 1;
  }
  if (all.run.empty()) throw Stop(Exit::usage, fmt::format("'{}' holds no run", path));
  return all;
}

Journal::Journal(const std::string& path, const RunRecord& run, uint64_t continued) : path_(path) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(continued)) != 0) throw Stop(Exit::usage, fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  if (continued == 0) write(json{{"run", run}}.dump(-1, ' ', false, json::error_handler_t::replace));
}

Journal::~Journal() {
  if (file_ >= 0) close(file_);
}

void Journal::begins(const Batch& batch) {
  if (file_ >= 0) write(json{{"begins", to_json(batch)}}.dump());
}

void Journal::ends(const Batch& batch, const PropertyReport& report, const Mix& mix, double seconds) {
  if (file_ < 0) return;
  json all = to_json(batch);
  all["report"] = to_json(report);
  all["mix"] = to_json(mix);
  all["seconds"] = seconds;
  write(json{{"ends", all}}.dump());
}

void Journal::lost(const LostCall& call, const std::string& file) {
  if (file_ < 0) return;
  // What a kernel says may be no UTF-8.
  const json all = {{"seed", call.seed}, {"property", call.property}, {"index", call.index}, {"how", call.seen.message}, {"file", file}};
  write(json{{"lost", all}}.dump(-1, ' ', false, json::error_handler_t::replace));
}

void Journal::write(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw Stop(Exit::usage, fmt::format("cannot write '{}': {}", path_, std::strerror(errno)));
}

}  // namespace attest::cli

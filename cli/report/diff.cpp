#include "cli/report/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/report/assets.h"
#include "cli/report/html.h"
#include "cli/terminal.h"

namespace attest::cli {

namespace {

constexpr double kLeastMove = 0.05, kLeastSpeed = 0.1;

double number(const Data& x) {
  if (x.is_number()) return x.get<double>();
  return x == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
}

struct Moments {
  size_t n = 0;
  double mean = 0, variance = 0;  // of log2
};
// Of the parts that have an error at all.
Moments moments_of(const Data& parts) {
  std::vector<double> logs;
  for (const Data& part : parts)
    if (const double x = number(part); x > 0 && std::isfinite(x)) logs.push_back(std::log2(x));
  Moments m{logs.size()};
  for (double x : logs) m.mean += x / static_cast<double>(logs.size());
  for (double x : logs) m.variance += (x - m.mean) * (x - m.mean) / std::max(1.0, static_cast<double>(logs.size()) - 1);
  return m;
}

// Whether the errors differ by more than chance.
bool moved(const Data& a, const Data& b) {
  const double cases_a = number(a["cases"]), cases_b = number(b["cases"]);
  if (!(cases_a > 0 && cases_b > 0) || cases_a > 2 * cases_b || cases_b > 2 * cases_a) return false;
  const Moments x = moments_of(a["worst_by_part"]), y = moments_of(b["worst_by_part"]);
  if (x.n < 3 || y.n < 3) return false;
  const double by = std::fabs(x.mean - y.mean), error = std::sqrt(x.variance / static_cast<double>(x.n) + y.variance / static_cast<double>(y.n));
  return by > std::log2(1 + kLeastMove) && by > kSigmas * error;
}

std::string ratio_text(const Data& p) { return "error / bound " + figure(number(p["worst_ratio"])); }

void compare_property(const std::string& kernel, const Data& a, const Data& b, std::vector<Change>& changes) {
  const std::string was = a["status"], is = b["status"], name = b["name"];
  const auto say = [&](Change::Kind kind, const std::string& before, const std::string& after) { changes.push_back({kind, kernel, name, before, after}); };
  if (is == "failed" && was != "failed") {
    say(Change::Kind::newly_fails, was, fmt::format("{} of {} cases", b["violations"].get<int64_t>(), b["cases"].get<int64_t>()));
  } else if (is == "failed") {
    for (const auto& [signature, n] : b["signatures"].items())
      if (!a["signatures"].contains(signature)) say(Change::Kind::new_signature, "", signature);
  } else if (is == "not covered" && was != "not covered") {
    say(Change::Kind::not_judged, was, b["not_covered"].is_string() ? b["not_covered"].get<std::string>() : "");
  } else if (was == "failed") {
    say(is == "inconclusive" ? Change::Kind::newly_inconclusive : Change::Kind::newly_passes, fmt::format("{} of {} cases failed", a["violations"].get<int64_t>(), a["cases"].get<int64_t>()), is);
  } else if (was == "not covered" && is != "not covered") {
    say(Change::Kind::newly_judged, was, is);
  } else if (is == "inconclusive" && was != "inconclusive") {
    say(Change::Kind::newly_inconclusive, was, is);
  }
  if (is != "not covered" && was != "not covered" && moved(a, b)) say(Change::Kind::error_moved, ratio_text(a), ratio_text(b));
}

void compare_run(const Data& a, const Data& b, Diff& d) {
  const std::string kernel = a["kernel"] == b["kernel"] ? b["kernel"].get<std::string>() : fmt::format("{} -> {}", a["kernel"].get<std::string>(), b["kernel"].get<std::string>());
  for (const Data& p : b["properties"])
    for (const Data& q : a["properties"])
      if (p["name"] == q["name"]) {
        ++d.compared;
        compare_property(kernel, q, p, d.changes);
      }
  for (const Data& q : a["properties"])
    if (q["status"] != "not covered" && std::none_of(b["properties"].begin(), b["properties"].end(), [&](const Data& p) { return p["name"] == q["name"]; }))
      d.changes.push_back({Change::Kind::not_judged, kernel, q["name"], q["status"], "not in the second report"});
  for (const Data& p : b["properties"])
    if (std::none_of(a["properties"].begin(), a["properties"].end(), [&](const Data& q) { return p["name"] == q["name"]; }))
      d.changes.push_back({p["status"] == "failed" ? Change::Kind::newly_fails : Change::Kind::newly_judged, kernel, p["name"], "not in the first report", p["status"]});
  const double before = number(a["cases"]) / number(a["seconds"]), after = number(b["cases"]) / number(b["seconds"]);
  if (std::isfinite(before) && std::isfinite(after) && before > 0 && std::fabs(after / before - 1) > kLeastSpeed)
    d.changes.push_back({Change::Kind::speed, kernel, "", fmt::format("{:.4g} cases/s", before), fmt::format("{:.4g} cases/s", after)});
}

std::string summary(const Diff& d) {
  const auto count = [&](Change::Kind kind) { return std::count_if(d.changes.begin(), d.changes.end(), [&](const Change& c) { return c.kind == kind; }); };
  return fmt::format("{} properties compared: {} newly fail, {} new signatures, {} newly pass, {} moved", d.compared, count(Change::Kind::newly_fails), count(Change::Kind::new_signature),
                     count(Change::Kind::newly_passes), count(Change::Kind::error_moved));
}

}  // namespace

std::string_view name_of(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::newly_fails: return "newly fails";
    case Change::Kind::new_signature: return "fails in a new way";
    case Change::Kind::newly_inconclusive: return "newly inconclusive";
    case Change::Kind::not_judged: return "no longer judged";
    case Change::Kind::error_moved: return "error moved";
    case Change::Kind::newly_passes: return "newly passes";
    case Change::Kind::newly_judged: return "newly judged";
    case Change::Kind::speed: return "speed";
  }
  return "";
}

bool Diff::newly_fails() const {
  return std::any_of(changes.begin(), changes.end(), [](const Change& c) { return c.kind == Change::Kind::newly_fails || c.kind == Change::Kind::new_signature; });
}

Diff diff(const Data& a, const Data& b) {
  Diff d;
  const Data &runs_a = a["runs"], &runs_b = b["runs"];
  if (runs_a.size() == 1 && runs_b.size() == 1) {
    compare_run(runs_a[0], runs_b[0], d);
  } else {
    // The first run of a name to the first, the second to the second.
    std::vector<bool> taken(runs_a.size(), false);
    for (const Data& run : runs_b) {
      size_t n = 0;
      while (n < runs_a.size() && (taken[n] || runs_a[n]["kernel"] != run["kernel"])) ++n;
      if (n == runs_a.size()) {
        d.alone.push_back(run["kernel"]);
        continue;
      }
      taken[n] = true;
      compare_run(runs_a[n], run, d);
    }
    for (size_t n = 0; n < runs_a.size(); ++n)
      if (!taken[n]) d.alone.push_back(runs_a[n]["kernel"]);
  }
  std::stable_sort(d.changes.begin(), d.changes.end(), [](const Change& x, const Change& y) { return x.kind < y.kind; });
  return d;
}

std::string diff_text(const Diff& d) {
  std::string text;
  for (const Change& c : d.changes)
    text += fmt::format("{:<19} {}{}: {} -> {}\n", name_of(c.kind), printable(c.kernel), c.property.empty() ? "" : ", " + printable(c.property), c.was.empty() ? "new" : printable(c.was), printable(c.is));
  for (const std::string& kernel : d.alone) text += fmt::format("{:<19} {}\n", "in one report alone", printable(kernel));
  return text + summary(d) + "\n";
}

std::string diff_page(const Diff& d, const std::string& a, const std::string& b) {
  std::string rows;
  for (const Change& c : d.changes) {
    const bool bad = c.kind == Change::Kind::newly_fails || c.kind == Change::Kind::new_signature;
    rows += fmt::format("<tr><th scope=\"row\" class=\"{}\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", bad ? "failed" : c.kind == Change::Kind::newly_passes ? "passed" : "",
                        name_of(c.kind), html(c.kernel), html(c.property), html(c.was), html(c.is));
  }
  for (const std::string& kernel : d.alone) rows += fmt::format("<tr><th scope=\"row\">in one report alone</th><td>{}</td><td></td><td></td><td></td></tr>\n", html(kernel));
  constexpr std::string_view kPage = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>attest: two reports compared</title>
<style>
@STYLE@
</style>
</head>
<body>
<h1><span class="badge @BADGE@">@OUTCOME@</span> @SUMMARY@</h1>
<p class="quiet">From @A@ to @B@. An error has moved where it differs by more than parts of one run do.</p>
<div class="scroll" tabindex="0" role="region" aria-label="Changes"><table>
<thead><tr><th scope="col">Change</th><th scope="col">Kernel</th><th scope="col">Property</th><th scope="col">Was</th><th scope="col">Is</th></tr></thead>
<tbody>
@ROWS@</tbody>
</table></div>
</body>
</html>
)";
  return filled(kPage, {{"STYLE", std::string(page_style())}, {"BADGE", d.newly_fails() ? "failed" : "passed"}, {"OUTCOME", d.newly_fails() ? "newly fails" : "nothing newly fails"},
                        {"SUMMARY", html(summary(d))}, {"A", html(a)}, {"B", html(b)}, {"ROWS", rows}});
}

}  // namespace attest::cli

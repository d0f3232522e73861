// The data of a report and what is made from it, without running a kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "cli/report/diff.h"
#include "cli/report/html.h"
#include "cli/report/report.h"
#include "cli/report/schema.h"
#include "cli/terminal.h"

namespace attest::cli {
namespace {

const Kernel& host() {
  static const Kernel kernel = std::get<Kernel>(Kernel::load("host"));
  return kernel;
}

// A million cases of every property, with as many failures and details as a report takes, each as large as it gets.
VerifyReport large_report() {
  VerifyReport report;
  report.kernel = "host";
  report.device = "cpu";
  report.seconds = 1e4;
  for (const Property& property : all_properties()) {
    PropertyReport& p = report.properties.emplace_back();
    p.name = property.name;
    p.cases = p.rows = 1000000;
    p.elements = 1000000000;
    p.violations = 20000;
    p.dispositions[static_cast<size_t>(Disposition::incorrect)] = p.violations;
    p.dispositions[0] = p.cases - p.violations;
    p.checks[static_cast<size_t>(Check::bound)] = p.violations;
    p.worst_ratio = INFINITY;
    for (int64_t& n : p.errors.ratio) n = 123456789;
    for (int64_t& n : p.errors.noise) n = 123456789;
    for (int64_t& n : p.errors.budget) n = 123456789;
    for (auto& type : p.errors.errors_by_keys)
      for (RowErrors& e : type) e = {123456789, 12345.678901234567, 1234567.8901234567};
    for (int n = 0; n < 60; ++n) p.regimes["a_regime_with_a_long_name_" + std::to_string(n)] = 123456;
    for (int n = 0; n < 40; ++n) p.signatures[p.name + "/bound/O of a row over several tiles/finite for finite/" + std::to_string(n)] = 500;
    for (uint64_t n = 0; n < 10000; ++n)
      p.lines.push_back({n, Disposition::incorrect, Check::bound, 123.45678901234567, 1.2345678901234567, p.name + "/bound/O of a row over several tiles/finite for finite"});
  }
  return report;
}

std::vector<ToldFailure> large_failures() {
  std::vector<ToldFailure> told(kDetails + 5);
  for (ToldFailure& one : told) {
    one.failure.property = "matches_reference";
    one.failure.result.problem = Problem::make({1, 1, 1, 48, 48, 8, 8}, DType::f32);
    one.failure.result.verdict.disposition = Disposition::incorrect;
    one.failure.result.verdict.check = Check::bound;
    one.failure.result.verdict.worst.assign(10, {1, 2, 3, 4, 0.1234567890123, 0.1234567890123, 1e-9, 123.4567890123, 1e9});
    one.kept.shrunk = one.failure.result.problem;
    one.kept.diagnosis = std::string(4000, 'x');
    one.detail.states.assign(kStatesShown, {0, {0, 16}, true, 0.1234567890123, 0.1234567890123, 0.1234567890123, 0.1234567890123, 0.1234567890123, 0.1234567890123});
    for (int64_t n = 0; n < kMapRows; ++n) one.detail.map.rows.push_back(n);
    for (int64_t n = 0; n < kMapTiles; ++n) one.detail.map.tiles.push_back({16 * n, 16 * n + 16});
    one.detail.map.expected.assign(static_cast<size_t>(kMapRows * kMapTiles), 0.1234567890123);
    one.detail.map.got = one.detail.map.expected;
  }
  return told;
}

Data data_of(const VerifyReport& report, const std::vector<ToldFailure>& told) {
  return report_data("verify", Exit::violation, {run_data({host(), report, Contract::strict, 1, "attest verify"}, told)});
}

TEST(report_data, the_largest_page_is_under_5_MiB_and_says_what_is_capped) {
  const VerifyReport report = large_report();
  const Data data = data_of(report, large_failures());
  const Data& run = data["runs"][0];
  EXPECT_LE(run["failures"].size(), kFailureLines);
  EXPECT_EQ(run["details"].size(), kDetails);
  EXPECT_EQ(run["violations"], report.violations());
  // Every property that failed keeps some of its lines.
  std::map<std::string, int64_t> lines;
  for (const Data& f : run["failures"]) ++lines[f["property"]];
  EXPECT_EQ(lines.size(), all_properties().size());
  EXPECT_EQ(not_a_report(json_text(data)), "");
  const std::string page = report_page(data);
  RecordProperty("bytes", static_cast<int>(page.size()));
  std::printf("the largest page: %.2f MiB\n", static_cast<double>(page.size()) / (1 << 20));
  EXPECT_LT(page.size(), size_t{5} << 20);
}

TEST(report_data, the_schema_names_the_field_that_is_wrong) {
  VerifyReport report;
  report.kernel = "host";
  report.properties.emplace_back().name = "repeat_call";
  Data data = data_of(report, {});
  EXPECT_EQ(not_a_report(json_text(data)), "");
  Data wrong = data;
  wrong["runs"][0]["properties"][0]["status"] = "splendid";
  EXPECT_NE(not_a_report(json_text(wrong)).find("[status]"), std::string::npos) << not_a_report(json_text(wrong));
  wrong = data;
  wrong["runs"][0]["properties"][0]["histograms"]["ratio"].push_back(1);
  EXPECT_NE(not_a_report(json_text(wrong)).find("[histograms]"), std::string::npos) << not_a_report(json_text(wrong));
  wrong = data;
  wrong["runs"][0].erase("verdict");
  EXPECT_NE(not_a_report(json_text(wrong)), "");
  wrong = data;
  wrong["attest_report"] = 2;
  EXPECT_NE(not_a_report(json_text(wrong)).find("version 2"), std::string::npos);
  EXPECT_NE(not_a_report("{"), "");
  EXPECT_NE(not_a_report("[]"), "");
}

TEST(report_data, known_failures_have_a_status_of_their_own) {
  VerifyReport report;
  report.kernel = "host";
  PropertyReport& p = report.properties.emplace_back();
  p.name = "matches_reference";
  p.cases = 10;
  p.known["matches_reference/bound"] = 3;
  p.dispositions[static_cast<size_t>(Disposition::known_failure)] = 3;
  p.dispositions[static_cast<size_t>(Disposition::passed)] = 7;
  const Data data = report_data("verify", Exit::holds, {run_data({host(), report, Contract::strict, 1, "attest verify"}, {})});
  const Data& run = data["runs"][0];
  EXPECT_EQ(run["status"]["known"], 1);
  EXPECT_EQ(run["properties"][0]["status"], "known");
  EXPECT_NE(run["verdict"].get<std::string>().find("3 known failures"), std::string::npos) << run["verdict"];
  EXPECT_EQ(not_a_report(data.dump()), "");
  EXPECT_NE(junit_xml(data).find("<skipped message=\"3 known: matches_reference/bound\"/>"), std::string::npos) << junit_xml(data);
}

TEST(report_data, text_that_is_no_text_does_no_harm) {
  VerifyReport report;
  report.kernel = "</script><script>\xff\x01\x1b[31m ]]> \"'&@STYLE@";
  report.properties.emplace_back().name = "repeat_call";
  report.properties.back().not_covered = "because </script> \x02";
  const Data data = data_of(report, {});
  EXPECT_EQ(not_a_report(json_text(data)), "");
  const std::string page = report_page(data);
  size_t scripts = 0;
  for (size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 3u);
  EXPECT_EQ(page.find('\x01'), std::string::npos);
  const std::string junit = junit_xml(data);
  for (char c : junit) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << int(c);
  EXPECT_EQ(junit.find("<script"), std::string::npos);
}

TEST(report_data, what_is_put_into_a_page_is_not_filled_again) {
  EXPECT_EQ(filled("a @X@ b @Y@ mail@example @Z@", {{"X", "@Y@"}, {"Y", "y"}}), "a @Y@ b y mail@example @Z@");
  EXPECT_EQ(html("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
}

TEST(printable, one_line_without_control_characters) {
  EXPECT_EQ(printable("plain \u00e9 \u4e16"), "plain \u00e9 \u4e16");
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\nb\\tc\\x1b[31m\\x7f");
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80"), "\\xff\\xc0\\xaf\\xed\\xa0\\x80");  // no UTF-8, overlong, a surrogate
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");                                        // a control sequence's introducer in one character
  EXPECT_EQ(printable("\xe4\xb8"), "\\xe4\\xb8");                                        // cut off
}

// A report of one property whose parts have these largest errors.
Data with_parts(const std::vector<double>& parts, int64_t cases = 1000) {
  VerifyReport report;
  report.kernel = "host";
  report.seconds = 1;
  PropertyReport& p = report.properties.emplace_back();
  p.name = "matches_reference";
  p.cases = cases;
  p.dispositions[0] = cases;
  for (size_t n = 0; n < parts.size(); ++n) p.errors.worst_by_part[n] = parts[n];
  return data_of(report, {});
}

TEST(diff, an_error_moves_where_the_runs_differ_by_more_than_their_parts_do) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> error(-1, 0.2);
  const auto parts = [&](double factor) {
    std::vector<double> all;
    for (size_t n = 0; n < kParts; ++n) all.push_back(factor * error(random));
    return all;
  };
  int64_t chance = 0, seen = 0;
  constexpr int kRounds = 400;
  for (int n = 0; n < kRounds; ++n) {
    chance += static_cast<int64_t>(diff(with_parts(parts(1)), with_parts(parts(1))).changes.size());
    seen += static_cast<int64_t>(diff(with_parts(parts(1)), with_parts(parts(3))).changes.size());
  }
  EXPECT_LE(chance, 2);  // five standard errors of 14 degrees of freedom: 2e-4 of the comparisons
  EXPECT_GE(seen, kRounds * 99 / 100);
  // Many more cases have a larger largest error by themselves.
  EXPECT_TRUE(diff(with_parts(parts(1), 1000), with_parts(parts(3), 5000)).changes.empty() ||
              diff(with_parts(parts(1), 1000), with_parts(parts(3), 5000)).changes[0].kind == Change::Kind::speed);
}

TEST(diff, each_change_has_its_kind) {
  const auto with_status = [](const std::string& status, int64_t violations) {
    Data data = with_parts(std::vector<double>(kParts, 0.5));
    Data& p = data["runs"][0]["properties"][0];
    p["status"] = status;
    p["violations"] = violations;
    if (violations > 0) p["signatures"]["matches_reference/bound/x"] = violations;
    return data;
  };
  const auto only = [](const Diff& d) { return d.changes.size() == 1 ? std::string(name_of(d.changes[0].kind)) : std::to_string(d.changes.size()) + " changes"; };
  const Data passed = with_status("passed", 0), failed = with_status("failed", 3), few = with_status("inconclusive", 0), uncovered = with_status("not covered", 0);
  EXPECT_EQ(only(diff(passed, failed)), "newly fails");
  EXPECT_EQ(only(diff(few, failed)), "newly fails");
  EXPECT_EQ(only(diff(uncovered, failed)), "newly fails");
  EXPECT_EQ(only(diff(failed, passed)), "newly passes");
  EXPECT_EQ(only(diff(failed, few)), "newly inconclusive");
  EXPECT_EQ(only(diff(passed, few)), "newly inconclusive");
  EXPECT_EQ(only(diff(passed, uncovered)), "no longer judged");
  EXPECT_EQ(only(diff(failed, uncovered)), "no longer judged");
  EXPECT_EQ(only(diff(uncovered, passed)), "newly judged");
  EXPECT_EQ(only(diff(passed, passed)), "0 changes");
  EXPECT_EQ(only(diff(failed, failed)), "0 changes");
  EXPECT_TRUE(diff(passed, failed).newly_fails());
  EXPECT_FALSE(diff(failed, passed).newly_fails());
  Data other = failed;
  other["runs"][0]["properties"][0]["signatures"]["matches_reference/bound/y"] = 1;
  EXPECT_EQ(only(diff(failed, other)), "fails in a new way");
  EXPECT_TRUE(diff(failed, other).newly_fails());
  Data slow = passed;
  slow["runs"][0]["seconds"] = 2;
  EXPECT_EQ(only(diff(passed, slow)), "speed");
  Data fewer = passed;
  fewer["runs"][0]["properties"] = Data::array();
  EXPECT_EQ(only(diff(passed, fewer)), "no longer judged");
  EXPECT_EQ(only(diff(fewer, failed)), "newly fails");
}

}  // namespace
}  // namespace attest::cli

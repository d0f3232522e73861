// The report as JUnit XML: a test suite for each kernel, a test case for each property.
#include <fmt/format.h>

#include <map>

#include "cli/report/html.h"
#include "cli/report/report.h"

namespace attest::cli {

namespace {

// As for the page; attributes keep their breaks and tabs.
std::string xml(const std::string& text) {
  std::string out;
  for (char c : html(text)) out += c == '\n' ? "&#10;" : c == '\t' ? "&#9;" : std::string(1, c);
  return out;
}

std::string signatures_text(const Data& known) {
  std::string text;
  for (const auto& [signature, n] : known.items()) text += fmt::format("{}{} known: {}", text.empty() ? "" : "; ", n.get<int64_t>(), signature);
  return text;
}

std::string text_of(const Data& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

std::string junit_xml(const Data& report) {
  int64_t tests = 0, failures = 0, errors = 0, skipped = 0;
  std::string suites;
  for (const Data& run : report["runs"]) {
    std::map<std::string, std::string> told;  // replay lines and what was seen, by property
    for (const Data& d : run["details"])
      told[d["property"]] += fmt::format("{}\nsignature: {}\nreplay: {}\n", text_of(d["seen"]), text_of(d["signature"]), text_of(d["replay"]));
    std::string cases;
    int64_t suite_tests = 0, suite_failures = 0, suite_errors = 0, suite_skipped = 0;
    for (const Data& p : run["properties"]) {
      const std::string status = p["status"];
      ++suite_tests;
      cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">", xml(run["kernel"]), xml(p["name"]), p["seconds"].get<double>());
      if (status == "failed") {
        ++suite_failures;
        std::string kind;
        for (const auto& [name, n] : p["dispositions"].items())
          if (kind.empty() && name != "passed" && name != "known failure") kind = name;
        cases += fmt::format("\n      <failure type=\"{}\" message=\"{} of {} cases fail: {}\">{}</failure>\n    ", xml(kind), p["violations"].get<int64_t>(), p["cases"].get<int64_t>(),
                             xml(text_of(p["statement"])), xml(told.contains(p["name"]) ? told[p["name"]] : fmt::format("again: {}\n", text_of(run["command"]))));
      } else if (status == "inconclusive") {
        ++suite_errors;
        cases += "\n      <error type=\"inconclusive\" message=\"too few cases of some regime that the property needs\"/>\n    ";
      } else if (status == "not covered" || status == "known") {
        ++suite_skipped;
        cases += fmt::format("\n      <skipped message=\"{}\"/>\n    ", xml(status == "known" ? signatures_text(p["known"]) : "not covered: " + text_of(p["not_covered"])));
      }
      cases += "</testcase>\n";
    }
    suites += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n    <properties>\n", xml(run["kernel"]), suite_tests,
                          suite_failures, suite_errors, suite_skipped, run["seconds"].get<double>());
    suites += fmt::format("      <property name=\"command\" value=\"{}\"/>\n", xml(text_of(run["command"])));
    for (const auto& [name, value] : run["environment"].items()) suites += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml(name), xml(text_of(value)));
    suites += "    </properties>\n" + cases + "  </testsuite>\n";
    tests += suite_tests;
    failures += suite_failures;
    errors += suite_errors;
    skipped += suite_skipped;
  }
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"attest\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n", tests, failures, errors, skipped) + suites + "</testsuites>\n";
}

}  // namespace attest::cli

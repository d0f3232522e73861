// The report as one page: the template with styles, D3, the script and the data put in.
#include <fmt/format.h>

#include "cli/report/assets.h"
#include "cli/report/html.h"
#include "cli/report/report.h"

namespace attest::cli {

namespace {

// JSON that can stand in a <script>: nothing in it ends the element or begins a comment.
std::string in_script(const Data& report) {
  const std::string text = report.dump(-1, ' ', false, Data::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (char c : text) {
    if (c == '<') out += "\\u003c";
    else if (c == '>') out += "\\u003e";
    else if (c == '&') out += "\\u0026";
    else out += c;
  }
  return out;
}

// The gravest of the runs' outcomes, as a word and as the class of its colour.
std::pair<std::string, std::string> outcome(const Data& report) {
  bool failed = false, open = false, known = false, judged = false;
  for (const Data& run : report["runs"]) {
    failed = failed || run["violations"].get<int64_t>() > 0;
    open = open || run["status"]["inconclusive"].get<int64_t>() > 0 || run["stopped"].get<bool>();
    known = known || run["status"]["known"].get<int64_t>() > 0;
    judged = judged || run["cases"].get<int64_t>() > 0;
  }
  if (failed) return {"failed", "failed"};
  if (!judged) return {"nothing judged", "inconclusive"};
  if (open) return {"inconclusive", "inconclusive"};
  if (known) return {"known failures", "known"};
  return {"passed", "passed"};
}

std::string title(const Data& report) {
  const Data& runs = report["runs"];
  if (runs.size() == 1) return runs[0]["kernel"].get<std::string>() + ": " + runs[0]["verdict"].get<std::string>();
  int64_t violations = 0, cases = 0;
  for (const Data& run : runs) {
    violations += run["violations"].get<int64_t>();
    cases += run["cases"].get<int64_t>();
  }
  return fmt::format("{} runs: {} violation{}, {} cases", runs.size(), violations, violations == 1 ? "" : "s", cases);
}

}  // namespace

std::string html(const std::string& text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? std::string("\uFFFD") : std::string(1, c);
    }
  }
  return out;
}

std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string out;
  while (true) {
    const size_t at = text.find('@');
    out += text.substr(0, at);
    if (at == std::string_view::npos) return out;
    const size_t end = text.find('@', at + 1);
    const auto value = end == std::string_view::npos ? values.end() : values.find(std::string(text.substr(at + 1, end - at - 1)));
    out += value == values.end() ? "@" : value->second;
    text.remove_prefix(value == values.end() ? at + 1 : end + 1);
  }
}

std::string report_page(const Data& report) {
  const auto [word, style] = outcome(report);
  return filled(page_template(), {{"TITLE", html(title(report))},
                                  {"OUTCOME", word},
                                  {"BADGE", style},
                                  {"STYLE", std::string(page_style())},
                                  {"D3", std::string(d3_script())},
                                  {"SCRIPT", std::string(page_script())},
                                  {"DATA", in_script(report)}});
}

}  // namespace attest::cli

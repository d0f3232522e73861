#include "corpus/ledger.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>

#include "corpus/case_error.h"

namespace attest {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeading = "versions\tproperty\tsignature\treason\tsince";
constexpr size_t kFields = 5;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (size_t from = 0;;) {
    const size_t end = text.find(at, from);
    parts.emplace_back(text.substr(from, end - from));
    if (end == std::string_view::npos) return parts;
    from = end + 1;
  }
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "2.10rc1" is 2, 10, rc, 1.
std::vector<std::string> parts_of(std::string_view version) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < version.size();) {
    if (std::isalnum(static_cast<unsigned char>(version[at])) == 0) {
      ++at;
      continue;
    }
    size_t end = at + 1;
    while (end < version.size() && std::isalnum(static_cast<unsigned char>(version[end])) != 0 && is_digit(version[end]) == is_digit(version[at])) ++end;
    parts.emplace_back(version.substr(at, end - at));
    at = end;
  }
  return parts;
}

bool is_url(const std::string& reason) { return reason.starts_with("https://") || reason.starts_with("http://"); }

// A relative path that stays below its folder.
bool stays_below(const fs::path& path) {
  return path.is_relative() && std::none_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

LedgerEntry entry_of(const std::string& line, const fs::path& path, const std::string& where) {
  const std::vector<std::string> fields = split(line, '\t');
  if (fields.size() != kFields) fail(path.string(), where, std::to_string(fields.size()) + " fields, expected " + std::to_string(kFields));
  LedgerEntry e;
  const size_t dots = fields[0].find("..");
  if (dots == std::string::npos) fail(path.string(), where, "versions: " + in_quotes(fields[0]) + " is no range, expected FIRST..LAST");
  e.first = fields[0].substr(0, dots);
  e.last = fields[0].substr(dots + 2);
  e.property = fields[1];
  e.signature = fields[2];
  if (e.property.empty() || !e.signature.starts_with(e.property + "/"))
    fail(path.string(), where, "signature: " + in_quotes(e.signature) + " is none of property " + in_quotes(e.property));
  e.reason = fields[3];
  e.since = fields[4];
  if (!std::regex_match(e.since, std::regex("[0-9]{4}-[0-9]{2}-[0-9]{2}"))) fail(path.string(), where, "since: " + in_quotes(e.since) + " is no date like 2025-01-31");
  e.where = path.string() + ": " + where;
  if (is_url(e.reason)) return e;
  if (e.reason.empty() || !stays_below(e.reason)) fail(path.string(), where, "reason: " + in_quotes(e.reason) + " is neither a URL nor a path below the findings");
  e.file = (path.parent_path() / ".." / "findings" / e.reason).lexically_normal().string();
  return e;
}

}  // namespace

bool earlier_version(std::string_view a, std::string_view b) {
  const std::vector<std::string> x = parts_of(a), y = parts_of(b);
  for (size_t n = 0; n < std::min(x.size(), y.size()); ++n) {
    std::string p = x[n], q = y[n];
    if (is_digit(p[0]) && is_digit(q[0])) {
      const size_t width = std::max(p.size(), q.size());
      p.insert(0, width - p.size(), '0');
      q.insert(0, width - q.size(), '0');
    }
    if (p != q) return p < q;
  }
  return x.size() < y.size();
}

bool LedgerEntry::covers(std::string_view version) const {
  return (first.empty() || !earlier_version(version, first)) && (last.empty() || !earlier_version(last, version));
}

std::string ledger_of(const std::string& folder, std::string_view kernel) {
  std::string name(kernel);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  return (fs::path(folder) / (name + ".tsv")).string();
}

std::vector<LedgerEntry> read_ledger(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) fail(path, "", "cannot be read");
  if (line != kHeading) fail(path, "line 1", "the heading is not 'versions property signature reason since', separated by tabs");
  std::vector<LedgerEntry> entries;
  for (int number = 2; std::getline(in, line); ++number)
    if (!line.empty()) entries.push_back(entry_of(line, path, "line " + std::to_string(number)));
  return entries;
}

}  // namespace attest

#include "cli/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"

namespace attest::cli {

namespace {

using nlohmann::json;

json to_json(const Batch& b) { return {{"property", b.property}, {"first", b.first}, {"last", b.last}}; }

}  // namespace

Journal::Journal(const std::string& path, const std::string& command) : path_(path) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) throw Stop(Exit::usage, fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  write(json{{"run", {{"command", command}}}}.dump());
}

Journal::~Journal() {
  if (file_ >= 0) close(file_);
}

void Journal::begins(const Batch& batch) {
  if (file_ >= 0) write(json{{"begins", to_json(batch)}}.dump());
}

void Journal::ends(const Batch& batch, const PropertyReport& report, const Mix&) {
  if (file_ < 0) return;
  json all = to_json(batch);
  all["cases"] = report.cases;
  all["violations"] = report.violations;
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

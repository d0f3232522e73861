#include "cli/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/arguments.h"

namespace attest::cli {

void write_file(const std::string& path, const std::string& text) {
  std::error_code error;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (error || !file) throw Stop(Exit::usage, fmt::format("cannot write '{}': {}", path, error ? error.message() : std::strerror(errno)));
}

void probe_folder(const std::string& option, const std::string& folder) {
  const auto file = std::filesystem::path(folder) / ".attest-probe";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::create_directories(std::filesystem::path(folder) / "failures", error);
  const bool written = !error && static_cast<bool>(std::ofstream(file) << "probe" << std::flush);
  const std::string reason = error ? error.message() : std::strerror(errno);
  std::filesystem::remove(file, error);
  std::filesystem::remove(std::filesystem::path(folder) / "failures", error);  // only where it is empty
  if (!written) throw Stop(Exit::usage, fmt::format("{}: nothing can be written into '{}': {}", option, folder, reason));
}

}  // namespace attest::cli

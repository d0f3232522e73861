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

}  // namespace attest::cli

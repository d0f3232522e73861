#include "cli/environment.h"

#include <sys/utsname.h>

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "cli/terminal.h"

namespace attest::cli {

namespace {

// The first line of a file that begins with `key`, past the first colon; "" if there is none.
std::string field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const auto colon = line.find(':');
    const auto begin = colon == std::string::npos ? std::string::npos : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string cpu() {
  std::string model = field("/proc/cpuinfo", "model name");
  return fmt::format("{}, {} cores", model.empty() ? "unknown processor" : model, std::thread::hardware_concurrency());
}

std::string compiler() {
#if defined(__clang__)
  return std::string("clang ") + __clang_version__;
#else
  return std::string("g++ ") + __VERSION__;
#endif
}

}  // namespace

std::string version() { return ATTEST_VERSION; }

std::vector<std::pair<std::string, std::string>> environment(const Kernel& kernel) {
  std::vector<std::pair<std::string, std::string>> all{{"attest", version()}, {"compiler", compiler()}};
  if (utsname system; uname(&system) == 0) all.emplace_back("system", fmt::format("{} {} {}", system.sysname, system.release, system.machine));
  all.emplace_back("cpu", cpu());
  all.emplace_back("kernel", fmt::format("{} {}", kernel.name(), kernel.table().version));
  all.emplace_back("device", kernel.device());
  if (kernel.table().device != kDLCPU)
    if (const std::string driver = field("/proc/driver/nvidia/version", "NVRM version"); !driver.empty()) all.emplace_back("driver", driver);
  return all;
}

std::string described(const Kernel& kernel) { return printable(fmt::format("{} {} on {}", kernel.name(), kernel.table().version, kernel.device())); }

}  // namespace attest::cli

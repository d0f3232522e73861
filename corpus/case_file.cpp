#include "corpus/case_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "corpus/case_error.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestJson = int64_t{1} << 28;  // 2^26 elements need more only where they are long decimals

enum class Format { json, safetensors };

std::optional<Format> format_of(const fs::path& path) {
  if (path.extension() == ".json") return Format::json;
  if (path.extension() == ".safetensors") return Format::safetensors;
  return std::nullopt;
}

Format known_format(const std::string& path) {
  if (const std::optional<Format> format = format_of(path)) return *format;
  fail(path, "", "ends in neither .json nor .safetensors");
}

[[noreturn]] void fail_with_errno(const std::string& path, const char* what) { fail(path, "", std::string(what) + ": " + std::strerror(errno)); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// A regular file only: a pipe or a device could block or never end.
std::vector<uint8_t> read_bytes(const std::string& path, int64_t most) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail_with_errno(path, "cannot be opened");
  struct stat info {};
  if (fstat(file.get(), &info) != 0) fail_with_errno(path, "cannot be read");
  if (!S_ISREG(info.st_mode)) fail(path, "", "is no regular file");
  if (info.st_size > most) fail(path, "", "has " + std::to_string(info.st_size) + " bytes, more than the " + std::to_string(most) + " allowed for its format");
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::read(file.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(path, "cannot be read");
    if (n == 0) fail(path, "", "became shorter while it was read");
    at += static_cast<size_t>(n);
  }
  return bytes;
}

// Removes the file on the way out unless it was renamed.
struct Temporary {
  std::string path;
  bool renamed = false;
  ~Temporary() {
    if (!renamed) unlink(path.c_str());
  }
};

// Readers see the old file or the whole new one.
void write_bytes(const std::string& path, std::span<const uint8_t> bytes) {
  static std::atomic<uint64_t> counter{0};
  const std::string name = path + "." + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".tmp";
  const Descriptor file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.get() < 0) fail_with_errno(path, "cannot be written");
  Temporary temporary{name};
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(file.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(path, "cannot be written");
    at += static_cast<size_t>(n);
  }
  if (fsync(file.get()) != 0) fail_with_errno(path, "cannot be written");
  if (rename(name.c_str(), path.c_str()) != 0) fail_with_errno(path, "cannot be written");
  temporary.renamed = true;
}

}  // namespace

Case read_case(const std::string& path) {
  const Format format = known_format(path);
  const std::vector<uint8_t> bytes = read_bytes(path, format == Format::json ? kLargestJson : INT64_MAX);
  if (format == Format::safetensors) return parse_safetensors_case(bytes, path);
  return parse_json_case(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path);
}

void write_case(const Case& c, const std::string& path) {
  const Format format = known_format(path);
  std::vector<uint8_t> bytes;
  try {
    if (format == Format::safetensors) {
      bytes = to_safetensors(c);
    } else {
      const std::string text = to_json(c);
      bytes.assign(text.begin(), text.end());
    }
  } catch (const CaseError& e) {
    fail(path, "", e.what());
  }
  write_bytes(path, bytes);
}

std::vector<std::string> find_cases(const std::vector<std::string>& paths) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (error || !fs::exists(status)) fail(path, "", "does not exist or cannot be read");
    if (!fs::is_directory(status)) {
      known_format(path);
      found.push_back(path);
      continue;
    }
    fs::recursive_directory_iterator it(path, error), end;
    for (; !error && it != end; it.increment(error))
      if (format_of(it->path()) && !it->is_directory()) found.push_back(it->path().string());
    if (error) fail(path, "", "cannot be searched: " + error.message());
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace attest

// The main program of a target without a fuzzer: runs it once on every file named, and on every file of the folders
// named. With libFuzzer it is left out.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int n = 1; n < argc; ++n) {
    std::error_code error;
    if (fs::is_directory(argv[n], error)) {
      for (const auto& entry : fs::recursive_directory_iterator(argv[n]))
        if (entry.is_regular_file()) files.push_back(entry.path());
    } else {
      files.push_back(argv[n]);
    }
  }
  if (files.empty()) {
    std::fprintf(stderr, "usage: %s FILE_OR_FOLDER...; there was no file\n", argc > 0 ? argv[0] : "replay");
    return 2;
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s cannot be opened\n", path.c_str());
      return 2;
    }
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    std::fprintf(stderr, "%s\r", path.c_str());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::fprintf(stderr, "\n%zu inputs replayed\n", files.size());
  return 0;
}

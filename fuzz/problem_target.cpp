#include "fuzz/problem_target.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "corpus/case_file.h"
#include "fuzz/mutate.h"

namespace attest::fuzz {

namespace {

std::string program;

[[noreturn]] void stop(const std::string& line) {
  std::fprintf(stderr, "attest: %s\n", line.c_str());
  std::exit(2);
}

// The kernel as Kernel::load takes it: from the environment, else the example beside the program.
std::string kernel_word() {
  if (problem_target.kernel_variable == nullptr) return "host";
  if (const char* given = std::getenv(problem_target.kernel_variable)) return given;
  return (std::filesystem::path(program).parent_path() / "attest_example.so").string();
}

const Kernel& kernel() {
  static const Kernel loaded = [] {
    auto k = Kernel::load(kernel_word());
    if (const auto* error = std::get_if<LoadError>(&k)) {
      const std::string variable = problem_target.kernel_variable ? problem_target.kernel_variable : "";
      stop(error->message + (variable.empty() ? "" : "; " + variable + " names the plug-in"));
    }
    return std::get<Kernel>(std::move(k));
  }();
  return loaded;
}

// One for reading inputs, one for the second parent of a crossover.
ProblemReader& reader(int which = 0) {
  static ProblemReader readers[2] = {ProblemReader(Target::from_table(kernel().table())), ProblemReader(Target::from_table(kernel().table()))};
  return readers[which];
}

const Judging& judging() {
  static const Judging j{kernel_word(), [](const Problem& p) { return problem_target.judge(kernel(), p); }};
  return j;
}

Problem& problem_of(std::span<const uint8_t> bytes) {
  Problem& p = reader().read(bytes);
  if (problem_target.adapt != nullptr) problem_target.adapt(p);
  return p;
}

std::vector<uint8_t> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) stop(path + " cannot be opened");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs the inputs of a folder again and again, from memory and on this thread, and says how many a second.
int tell_speed(const std::string& folder, double seconds) {
  std::vector<std::vector<uint8_t>> inputs;
  if (std::error_code none; std::filesystem::is_directory(folder, none))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.is_regular_file()) inputs.push_back(contents(entry.path().string()));
  if (inputs.empty() || !(seconds > 0)) stop("--speed takes a folder with inputs, and seconds");
  double rows = 0, keys = 0, width = 0;
  for (const auto& bytes : inputs) {
    const Shape& s = problem_of(bytes).shape;
    rows += static_cast<double>(s.rows());
    keys += static_cast<double>(s.nk);
    width += static_cast<double>(s.d);
  }
  using Clock = std::chrono::steady_clock;
  const auto round = [&] { for (const auto& bytes : inputs) run_input(bytes.data(), bytes.size()); };
  round();
  const auto start = Clock::now();
  double executions = 0, passed = 0;
  do {
    round();
    executions += static_cast<double>(inputs.size());
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (passed < seconds);
  const auto count = static_cast<double>(inputs.size());
  std::printf("%.0f executions a second; %zu inputs, in the mean %.1f rows, %.1f keys, D %.1f\n", executions / passed, inputs.size(), rows / count, keys / count, width / count);
  return 0;
}

// The exit code, or -1 where the arguments are no command of ours.
int run_command(int argc, char** argv) {
  if (argc != 4) return -1;
  const std::string command = argv[1], from = argv[2], to = argv[3];
  try {
    if (command == "--to-case") {
      Case c;
      c.problem = problem_of(contents(from));
      c.name = std::filesystem::path(from).filename().string();
      write_case(c, to);
      return 0;
    }
    if (command == "--from-case") {
      const Problem p = read_case(from).problem;
      if (!within_limits(p.shape)) stop(from + " is larger than a fuzz input may be");
      std::vector<uint8_t> image;
      write_image(p, image);
      if (!same(reader().read(image), p)) stop(from + " has a layout that a fuzz input cannot have");
      std::ofstream file(to, std::ios::binary);
      file.write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
      if (!file.flush()) stop(to + " cannot be written");
      return 0;
    }
    if (command == "--speed") return tell_speed(from, std::atof(to.c_str()));
    if (command == "--keep-crash") return keep_crash(problem_of(contents(from)), judging(), to);
  } catch (const std::exception& e) {  // of a case, or of a folder that cannot be made or read
    stop(e.what());
  }
  return -1;
}

// Into libFuzzer's buffer; an image that does not fit leaves what is there.
size_t put(const Problem& p, uint8_t* data, size_t size, size_t most) {
  static std::vector<uint8_t> image;
  write_image(p, image);
  if (image.size() > most) return size;
  std::copy(image.begin(), image.end(), data);
  return image.size();
}

}  // namespace

int run_input(const uint8_t* data, size_t size) {
  const Problem& p = problem_of({data, size});
  const Judged judged = problem_target.judge(kernel(), p);
  if (judged.verdict.disposition == Disposition::not_supported) return -1;
  if (!judged.verdict.ok()) found(p, judged, judging());
  return 0;
}

}  // namespace attest::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace attest::fuzz;
  program = *argc > 0 ? (*argv)[0] : "";
  if (const int code = run_command(*argc, *argv); code >= 0) std::exit(code);
  kernel();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned int seed) {
  using namespace attest::fuzz;
  attest::Choices choices = attest::Choices::seeded(seed);
  attest::Problem& p = reader().read({data, size});
  mutate(p, choices, reader().target());
  return put(p, data, size, most);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* data1, size_t size1, const uint8_t* data2, size_t size2, uint8_t* out,
                                            size_t most, unsigned int seed) {
  using namespace attest::fuzz;
  attest::Choices choices = attest::Choices::seeded(seed);
  attest::Problem& p = reader().read({data1, size1});
  cross(p, reader(1).read({data2, size2}), choices);
  return put(p, out, 0, most);
}

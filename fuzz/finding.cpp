#include "fuzz/finding.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "corpus/case_file.h"
#include "properties/shrink.h"
#include "properties/signature.h"

namespace attest::fuzz {

namespace {

constexpr double kShrinkSeconds = 2;
constexpr double kCrashSeconds = 10;   // a child for every step
constexpr size_t kReadable = 4096;     // elements of inputs up to which a case is written as JSON

std::string slug(const std::string& signature) {
  std::string name;
  for (char c : signature)
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
    else if (!name.empty() && name.back() != '_') name += '_';
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

// The case of this signature, whichever format it is in; "" if there is none.
std::string known_file(const std::string& folder, const std::string& signature) {
  for (const char* extension : {".json", ".safetensors"}) {
    const std::string path = (std::filesystem::path(folder) / (slug(signature) + extension)).string();
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

std::string save(const Problem& problem, std::string_view property, const Judging& judging, const std::string& signature,
                 const std::string& folder) {
  std::filesystem::create_directories(folder);
  const auto elements = [](const Tensor& t) { return t.storage.size() / static_cast<size_t>(size_of(t.type)); };
  const bool readable = elements(problem.q) + elements(problem.k) + elements(problem.v) <= kReadable;
  Case c;
  c.problem = problem;
  c.name = "found by fuzzing " + judging.kernel_word;
  c.property = property;
  c.signature = signature;
  const std::string path = (std::filesystem::path(folder) / (slug(signature) + (readable ? ".json" : ".safetensors"))).string();
  write_case(c, path);
  return path;
}

std::string signature_of(const Problem& problem, const Judged& judged) {
  return signature(judged.property.empty() ? "plain" : judged.property, problem, judged.verdict);
}

void tell(const std::string& verdict, const std::string& signature, const Problem& shrunk, const std::string& file, const Judging& judging) {
  std::fprintf(stderr, "attest: %s\n  signature: %s\n  shrunk case:\n%s\n", verdict.c_str(), signature.c_str(), in_words(shrunk).c_str());
  if (file.empty())
    std::fprintf(stderr, "  not saved: ATTEST_FINDINGS names no folder\n");
  else
    std::fprintf(stderr, "  replay: attest replay %s --kernel %s\n", file.c_str(), judging.kernel_word.c_str());
}

// What a sanitizer calls the fault: "heap-buffer-overflow", or "undefined behaviour".
std::string fault_named_in(std::FILE* report) {
  std::rewind(report);
  char line[512];
  while (std::fgets(line, sizeof line, report) != nullptr) {
    if (std::strstr(line, "runtime error: ") != nullptr) return "undefined behaviour";
    if (const char* at = std::strstr(line, "ERROR: AddressSanitizer: ")) {
      const std::string rest = at + std::strlen("ERROR: AddressSanitizer: ");
      return rest.substr(0, rest.find_first_of(" \n"));
    }
  }
  return "what a sanitizer forbids";
}

// How a child ends that judges the problem: "" if it lives, else the words for its death.
std::string death_of(const Problem& problem, const Judging& judging) {
  struct Closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  const std::unique_ptr<std::FILE, Closer> report(std::tmpfile());
  if (report == nullptr) return "";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(report.get()), 1);
    dup2(fileno(report.get()), 2);
    alarm(5);
    judging.judge(problem);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "";
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGALRM ? "hangs" : std::string("dies of ") + strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "is stopped by " + fault_named_in(report.get());
}

}  // namespace

void found(const Problem& problem, const Judged& judged, const Judging& judging) {
  const char* given = std::getenv("ATTEST_FINDINGS");
  const std::string folder = given == nullptr ? "" : given;
  const std::string wanted = signature_of(problem, judged);
  if (!folder.empty() && !known_file(folder, wanted).empty()) return;
  const auto fails_alike = [&](const Problem& candidate) { return signature_of(candidate, judging.judge(candidate)) == wanted; };
  const Shrunk small = shrink(problem, fails_alike, {.seconds = kShrinkSeconds});
  std::string file;
  try {
    if (!folder.empty()) file = save(small.problem, judged.property, judging, wanted, folder);
  } catch (const std::exception& e) {  // of a case or a folder
    std::fprintf(stderr, "attest: %s\n", e.what());
  }
  tell(judging.judge(small.problem).verdict.detail, wanted, small.problem, file, judging);
  std::abort();
}

int keep_crash(const Problem& problem, const Judging& judging, const std::string& folder) {
  const std::string death = death_of(problem, judging);
  if (death.empty()) return 1;
  const std::string wanted = "crash/the kernel " + death;
  if (const std::string known = known_file(folder, wanted); !known.empty()) {
    std::fprintf(stderr, "attest: known finding %s\n", known.c_str());
    return 0;
  }
  const Shrunk small = shrink(problem, [&](const Problem& p) { return death_of(p, judging) == death; }, {.seconds = kCrashSeconds});
  try {
    const std::string file = save(small.problem, "", judging, wanted, folder);
    tell("the kernel " + death, wanted, small.problem, file, judging);
  } catch (const std::exception& e) {  // of a case or a folder
    std::fprintf(stderr, "attest: %s\n", e.what());
    return 2;
  }
  return 0;
}

}  // namespace attest::fuzz

// arguments.h: reading what was typed. Everything throws Stop with one line that names the culprit.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "kernel/runner/kernel.h"
#include "properties/property.h"

namespace attest::cli {

// Ends the command: one line for stderr, and the exit code.
struct Stop : std::runtime_error {
  Stop(Exit code, const std::string& line) : std::runtime_error(line), code(code) {}
  Exit code;
};

// A whole number of at least `least`: count("--cases", "10000", 1).
int64_t count(const std::string& option, const std::string& text, int64_t least);
uint64_t seed(const std::string& option, const std::string& text);

// Seconds: "30s", "10m", "1.5h"; a plain number is seconds. More than 0.
double duration(const std::string& option, const std::string& text);

// "2/3" is the second of three parts: index 1 of 3.
struct Shard {
  int64_t index = 0, of = 1;
};
Shard shard(const std::string& option, const std::string& text);

Contract contract(const std::string& option, const std::string& text);

// Properties whose name the regular expression is found in, in their order; "" is all. Stops where none is.
std::vector<const Property*> select_properties(const std::string& option, const std::string& expression);

// Which kernel, and where it runs, as it was typed.
struct KernelChoice {
  std::string name;  // --kernel; "" is the best one present, CUDA before the host
  bool isolate = false, no_isolate = false;
  std::string call_limit = "60s", memory_limit = "8G", python = "python3";
};

// Loads it: a plug-in into workers, a built-in kernel into this process, unless the choice says otherwise. Says on stderr
// which kernel was taken where a plug-in holds several and none was named.
Kernel load_kernel(const KernelChoice& choice);

// The options that make this choice again: "--kernel ./mine.so --call-limit 5s".
std::string kernel_words(const KernelChoice& choice, const Kernel& kernel);

// Bytes: "512M", "8G"; at least 1M.
uint64_t bytes(const std::string& option, const std::string& text);

// A word as a shell takes it: quoted only where it must be.
std::string shell_word(const std::string& word);

// What crash.h says is running: the kernel, and the command that does it again.
std::string again(const std::string& command, const std::string& file, const KernelChoice& choice, const Kernel& kernel);

}  // namespace attest::cli
